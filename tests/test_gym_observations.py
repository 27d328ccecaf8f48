"""The model of Gym agrees with what the real participant was seen to do (tests/data/gym.jsonl.gz).

The file holds 250 random sequences of 40 operations. The other tests are the claims of gym.md that no sequence
exercises: restore, null results, a lost prepare, a resume during a prepare, the fields of a receipt.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from protocol import gym as g
from protocol.gym import Execution, Fence, Gym, Outcome, Phase, Reply, RunAnswer, State
from protocol.identity import Attempt, Receipt, receipt_for

DATA = Path(__file__).parent / "data" / "gym.jsonl.gz"
A = Attempt("p7_g0", 0)
B = Attempt("p7_g1", 0)


def receipt(attempt: Attempt) -> Receipt:
    made = receipt_for(attempt, {"id": str(attempt)})
    assert made is not None
    return made


def attempt_of(text: str) -> Attempt:
    rollout, index = text.rsplit("/", 1)
    return Attempt(rollout, int(index))


def batch(step: dict[str, Any]) -> tuple[Receipt, ...]:
    receipts = [receipt(attempt_of(text)) for text in step["receipts"]]
    if step.get("spoiled") == "wrong_digest":
        receipts[0] = attrs.evolve(receipts[0], result_digest="0" * 64)
    elif step.get("spoiled") == "unknown":
        receipts.append(receipt(Attempt("p99_g0", 0)))
    return tuple(receipts)


def perform(gym: Gym, step: dict[str, Any]) -> Outcome:
    attempt = Attempt(step["rollout_id"], step["attempt_index"]) if "rollout_id" in step else A
    checkpoint = step.get("checkpoint_id", "")
    match step["op"]:
        case "run":
            return g.begin(gym, attempt)
        case "finish":
            return g.finish(gym, attempt, receipt(attempt))
        case "fail":
            return g.fail(gym, attempt)
        case "boundary":
            return g.commit_boundary(gym, attempt)
        case "park":
            return g.park(gym, attempt)
        case "lose_client":
            return g.lose_client(gym, attempt)
        case "ack":
            return g.acknowledge(gym, batch(step))
        case "receipt":
            return g.completion_receipt(gym, attempt)
        case "retire":
            return g.retire(gym, checkpoint, attempt)
        case "prepare":
            return g.prepare(gym, checkpoint)
        case "prepare_expired":
            return g.prepare(gym, checkpoint, expired=True)
        case "commit":
            return g.commit(gym, checkpoint)
        case "resume":
            return g.resume(gym, checkpoint)
        case other:
            raise AssertionError(f"the observations have an unknown operation: {other}")


def shown(execution: Execution) -> str:
    return execution.state.value + ("" if execution.boundary is None else f"@{execution.boundary}")


def after(gym: Gym) -> dict[str, Any]:
    report = g.status(gym)
    assert report.ready_to_commit == g.ready(gym)
    return {
        "phase": report.phase.value,
        "checkpoint": report.active,
        "state": report.state,
        "ready_to_commit": report.ready_to_commit,
        "running": report.running,
        "parked_with_boundary": report.parked_with_boundary,
        "parked_without_boundary": report.parked_without_boundary,
        "completed_unacknowledged": report.completed_unacknowledged,
        "executions": {str(a): shown(e) for a, e in gym.executions},
        "tombstones": [str(a) for a in gym.tombstones],
        "acknowledged": [str(r.attempt) for r in gym.acknowledged],
    }


def without_nulls(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def told(reply: Reply | None) -> dict[str, Any] | None:
    return None if reply is None else without_nulls(status=reply.status, code=reply.code)


def observed(step: dict[str, Any], outcome: Outcome, calls: dict[Attempt, int]) -> dict[str, Any]:
    """What the real Gym would have shown of `outcome`, in the words of the data. Updates `calls` (attempt: call)."""
    op = step["op"]
    runs = []
    for answer in outcome.answers:
        call = step["call"] if op == "run" else calls.pop(answer.attempt)  # of a run: refused, or a replay
        ended = answer.status or "cancelled"
        runs.append(without_nulls(call=call, status=ended, code=answer.code if answer.status == 409 else None))
    if op == "run" and not outcome.answers:
        calls[Attempt(step["rollout_id"], step["attempt_index"])] = step["call"]
    reply, prepared = outcome.reply, outcome.prepared
    if op == "prepare":  # the data reports even its refusals as `prepare_answered`
        reply, prepared = None, outcome.reply
    elif op == "prepare_expired":
        prepared = None
    return without_nulls(
        **(told(reply) or {}),
        reply=reply.json() if reply is not None and reply.ok and op in ("retire", "resume") else None,
        runs_answered=runs or None,
        prepare_answered=told(prepared),
        after=after(outcome.gym),
    )


ASKED = {"op", "call", "rollout_id", "attempt_index", "receipts", "spoiled", "checkpoint_id"}


def test_the_model_agrees_with_all_ten_thousand_observations_of_the_real_participant() -> None:
    steps = 0
    with gzip.open(DATA, "rt", encoding="ascii") as lines:
        for line in lines:
            record = json.loads(line)
            gym, calls = Gym(), dict[Attempt, int]()
            for number, step in enumerate(record["steps"]):
                outcome = perform(gym, step)
                expected = {key: value for key, value in step.items() if key not in ASKED}
                where = f"sequence {record['sequence']}, step {number}: {step['op']}"
                assert observed(step, outcome, calls) == expected, where
                gym = outcome.gym
                steps += 1
    assert steps == 10_000


def history(*operations: Any) -> Gym:
    """Apply `(function, *arguments)` one after the other."""
    gym = Gym()
    for function, *arguments in operations:
        gym = function(gym, *arguments).gym
    return gym


def code(outcome: Outcome) -> str | None:
    assert outcome.reply is not None
    return outcome.reply.code


def finished() -> Gym:
    return history((g.begin, A), (g.finish, A, receipt(A)))


def committed() -> Gym:
    """A is parked at boundary 1, saved in c0."""
    return history(
        (g.begin, A),
        (g.commit_boundary, A),
        (g.prepare, "c0"),
        (g.commit_boundary, A),
        (g.commit, "c0"),
    )


def test_a_repeated_run_of_a_completed_key_is_a_replay_even_while_admission_is_closed() -> None:
    closed = g.prepare(finished(), "c0").gym
    assert not closed.open
    outcome = g.begin(closed, A)
    assert outcome.gym == closed
    assert outcome.answers == (RunAnswer(A, 200, None, receipt(A), replay=True),)


def test_a_null_result_has_no_receipt_and_nothing_can_release_it() -> None:
    gym = history((g.begin, A), (g.finish, A, None))
    refused = "completed_execution_acknowledgement_error"
    assert code(g.completion_receipt(gym, A)) == refused
    assert code(g.acknowledge(gym, (receipt(A),))) == refused
    assert g.retire(gym, "c0", A).reply == g.retire(finished(), "c0", A).reply
    assert g.begin(gym, A).answers[0].code == "duplicate_execution"
    assert not g.ready(gym)
    assert g.status(gym).completed_unacknowledged == 1


CHANGED: dict[str, Any] = {
    "rollout_id": "p7_g9",
    "attempt_index": 4,
    "execution_generation": 2,
    "result_identity": "another",
    "result_digest": "0" * 64,
    "manifest_capture_key": "key",
    "terminal_model_call_id": "call",
}


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(Receipt)])
@pytest.mark.parametrize("released", [False, True])
def test_every_field_of_a_receipt_takes_part_in_its_acknowledgement(field: str, released: bool) -> None:
    gym = finished()
    if released:
        gym = g.acknowledge(gym, (receipt(A),)).gym
    outcome = g.acknowledge(gym, (attrs.evolve(receipt(A), **{field: CHANGED[field]}),))
    assert code(outcome) == "completed_execution_acknowledgement_error"
    assert outcome.gym == gym


def test_one_wrong_receipt_refuses_the_whole_batch() -> None:
    gym = history((g.begin, A), (g.begin, B), (g.finish, A, receipt(A)))
    outcome = g.acknowledge(gym, (receipt(A), receipt(B)))
    assert code(outcome) == "completed_execution_acknowledgement_error"
    assert outcome.gym == gym


@pytest.mark.parametrize("receipts", [(), (receipt(A), receipt(A))], ids=["empty", "repeated"])
def test_a_batch_that_is_empty_or_repeats_a_key_does_not_validate(receipts: tuple[Receipt, ...]) -> None:
    outcome = g.acknowledge(finished(), receipts)
    assert outcome == Outcome(finished(), Reply(422))


def test_an_acknowledgement_may_be_repeated_and_its_key_stays_refused() -> None:
    once = g.acknowledge(finished(), (receipt(A),))
    again = g.acknowledge(once.gym, (receipt(A),))
    assert again == once
    assert g.begin(once.gym, A).answers[0].code == "stale_attempt"


def test_an_acknowledgement_that_arrives_while_something_runs_lets_the_prepare_succeed() -> None:
    gym = history((g.begin, A), (g.begin, B), (g.commit_boundary, B), (g.finish, A, receipt(A)), (g.prepare, "c0"))
    gym = g.acknowledge(gym, (receipt(A),)).gym
    outcome = g.commit_boundary(gym, B)
    assert outcome.prepared is not None
    assert outcome.prepared.json()["selected_boundaries"] == [
        {"rollout_id": "p7_g1", "attempt_index": 0, "boundary_index": 1}
    ]
    assert outcome.gym.fence.phase is Phase.PREPARED


def test_the_409_of_a_prepare_tells_the_three_counts() -> None:
    gym = history((g.begin, A), (g.begin, B), (g.finish, A, receipt(A)), (g.park, B))
    outcome = g.prepare(gym, "c0")
    assert outcome.reply is not None
    assert outcome.reply == outcome.prepared
    assert outcome.reply.json() == {
        "error": {
            "code": "agent_prepare_incomplete",
            "detail": "running=0, parked_without_boundary=1, completed_unacknowledged=1",
        }
    }


def test_a_deadline_rolls_back_only_what_is_still_asked_and_leaves_admission_closed() -> None:
    gym = history((g.begin, A), (g.begin, B), (g.prepare, "c0"), (g.commit_boundary, A))
    outcome = g.expire(gym)
    assert outcome.prepared is not None
    assert outcome.prepared.code == "agent_prepare_incomplete"
    assert outcome.gym.find(A) == Execution(State.PARKED, 0)
    assert outcome.gym.find(B) == Execution(State.RUNNING)
    assert not outcome.gym.open
    assert outcome.gym.fence == Fence()


def test_a_lost_prepare_puts_its_runs_back_and_frees_the_id() -> None:
    gym = history((g.begin, A), (g.prepare, "c0"))
    outcome = g.lose_prepare(gym)
    assert outcome.prepared == Reply(0, "connection_lost")
    assert outcome.gym == attrs.evolve(history((g.begin, A)), open=False)
    assert g.lose_prepare(outcome.gym).gym == outcome.gym


def test_a_duplicate_prepare_waits_with_the_first_and_another_id_is_a_conflict() -> None:
    gym = history((g.begin, A), (g.prepare, "c0"))
    assert g.prepare(gym, "c0") == g.prepare(gym, "c0", expired=True) == Outcome(gym)
    assert g.prepare(gym, "c1") == Outcome(gym, Reply(409, "checkpoint_conflict"))


def test_resume_does_not_stop_a_prepare_that_is_still_waiting() -> None:
    gym = history((g.begin, A), (g.commit_boundary, A), (g.prepare, "c0"), (g.resume, "c0"))
    assert gym.find(A) == Execution(State.RUNNING, 0)
    assert (gym.open, gym.fence.phase, gym.fence.waiting) == (True, Phase.IDLE, "c0")
    outcome = g.park(gym, A)
    assert outcome.prepared is not None
    assert outcome.prepared.ok
    assert outcome.gym.fence.phase is Phase.IDLE


def test_a_resumed_prepare_is_given_up_when_the_next_one_waits() -> None:
    gym = history((g.begin, A), (g.prepare, "c0"), (g.resume, "c0"))
    outcome = g.prepare(gym, "c1")
    assert outcome.reply is None
    assert outcome.prepared is not None
    assert outcome.prepared.code == "agent_prepare_incomplete"
    assert outcome.gym.fence.waiting == "c1"
    late = g.prepare(gym, "c1", expired=True)
    assert late.prepared is None
    assert late.gym.fence.waiting == "c0"


def test_a_prepare_repeated_after_the_commit_is_an_invalid_phase() -> None:
    prepared = history((g.prepare, "c0"))
    assert g.prepare(prepared, "c0").reply == g.prepare(Gym(), "c0").reply
    assert code(g.prepare(g.commit(prepared, "c0").gym, "c0")) == "invalid_phase"


def test_a_commit_that_has_regressed_is_refused_and_the_phase_stays_prepared() -> None:
    prepared = history((g.prepare, "c0"))
    regressed = attrs.evolve(prepared, executions=((A, Execution(State.RUNNING)),))
    assert g.commit(regressed, "c0") == Outcome(regressed, Reply(409, "agent_checkpoint_error"))


def test_a_repeated_commit_gets_its_recorded_answer_also_after_a_restart() -> None:
    gym = committed()
    assert g.commit(gym, "c0") == Outcome(gym, Reply(200, None, (("records", 1),)))
    again = g.prepare(g.restart(gym).gym, "c0").gym
    outcome = g.commit(again, "c0")
    assert outcome.reply is not None
    assert outcome.reply.json() == {"records": 1}
    assert outcome.gym.saved == ((A, 1),)


def test_a_restart_keeps_only_what_is_on_disk() -> None:
    outcome = g.restart(history((g.begin, A), (g.begin, B), (g.finish, B, receipt(B)), (g.prepare, "c0")))
    assert outcome.gym == Gym()
    assert outcome.answers == (RunAnswer(A, 0, "connection_lost"),)
    assert outcome.prepared == Reply(0, "connection_lost")
    assert g.restart(committed()).gym == Gym(manifest="c0", saved=((A, 1),))


def test_restore_continues_as_the_next_attempt_and_bars_the_saved_one() -> None:
    gym = g.restart(committed()).gym
    gym = g.restore(gym, "c1", gym.saved).gym
    after_a = Attempt(A.rollout, 1)
    assert gym.continuations == ((after_a, 1),)
    assert g.begin(gym, A).answers[0].code == "stale_attempt"
    assert g.begin(gym, after_a).answers[0].code == "agent_admission_closed"
    assert g.status(gym).active_count == 0
    gym = g.resume(gym, "c1").gym
    gym = g.begin(gym, after_a).gym
    assert gym.continuations == ()
    assert gym.find(after_a) == Execution(State.RUNNING)


def test_an_unclaimed_continuation_is_left_out_of_the_next_commit() -> None:
    gym = g.restart(committed()).gym
    gym = g.resume(g.restore(gym, "c1", gym.saved).gym, "c1").gym
    gym = g.commit(g.prepare(gym, "c2").gym, "c2").gym
    assert gym.continuations
    assert gym.saved == ()


def test_restore_needs_an_idle_fence_and_leaves_live_runs_alone() -> None:
    gym = history((g.begin, A))
    restored = g.restore(gym, "c0", ((A, 0),)).gym
    assert restored.find(A) == Execution(State.RUNNING)
    assert g.restore(restored, "c0", ()).gym == restored
    assert code(g.restore(history((g.prepare, "c0")), "c0", ())) == "invalid_phase"


def test_a_detached_run_is_never_attached_again() -> None:
    gym = g.lose_client(committed(), A).gym
    assert gym.find(A) == Execution(State.PARKED, 1, client=False)
    assert g.begin(gym, A).answers[0].code == "duplicate_execution"
    gym = g.resume(gym, "c0").gym
    assert gym.executions == ()
    assert g.begin(gym, A).answers[0].code == "stale_attempt"


def test_a_boundary_must_grow_and_an_equal_one_neither_advances_nor_parks() -> None:
    gym = history((g.begin, A), (g.commit_boundary, A, 3), (g.prepare, "c0"))
    assert g.commit_boundary(gym, A, 3) == Outcome(gym)
    assert g.commit_boundary(gym, A, 2) == Outcome(gym, Reply(409, "agent_checkpoint_error"))
    assert g.commit_boundary(gym, A).gym.find(A) == Execution(State.PARKED, 4)


@pytest.mark.parametrize(
    "operation", [g.fail, g.lose_client, g.commit_boundary, g.park, lambda gym, a: g.finish(gym, a, receipt(a))]
)
def test_an_agent_that_no_longer_owns_its_execution_changes_nothing(operation: Any) -> None:
    gym = history((g.begin, A), (g.retire, "c0", A))
    assert operation(gym, A) == Outcome(gym)
    assert operation(finished(), A) == Outcome(finished())


def test_attempts_are_independent() -> None:
    next_a = Attempt(A.rollout, 1)
    gym = history((g.begin, next_a), (g.begin, A), (g.retire, "c0", next_a))
    assert [a for a, _ in gym.executions] == [A]
    assert g.begin(gym, next_a).answers[0].code == "stale_attempt"


OPERATIONS: dict[str, Any] = {
    "finish": lambda gym: g.finish(gym, A, receipt(A)),
    "fail": lambda gym: g.fail(gym, A),
    "lose_client": lambda gym: g.lose_client(gym, A),
    "boundary": lambda gym: g.commit_boundary(gym, A),
    "park": lambda gym: g.park(gym, A),
    "prepare": lambda gym: g.prepare(attrs.evolve(gym, fence=Fence()), "c1"),
    "roll_back": g.lose_prepare,
    "resume": lambda gym: g.resume(gym, "c0"),
    "retire": lambda gym: g.retire(gym, "c0", A),
    "acknowledge": lambda gym: g.acknowledge(gym, (receipt(A),)),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_functions_do_what_the_table_of_transitions_says(state: State, operation: str) -> None:
    completed = state is State.COMPLETED
    before = Execution(state, None, not completed, receipt(A) if completed else None)
    running = (B, Execution(State.PARK_REQUESTED))  # keeps the prepare waiting
    gym = Gym(False, ((A, before), running), fence=Fence(Phase.PREPARING, "c0", waiting="c0"))
    becomes = g.TRANSITIONS.get((state, operation), (state, ""))[0]
    found = OPERATIONS[operation](gym).gym.find(A)
    assert (None if found is None else found.state) is becomes


def test_a_parked_run_with_a_boundary_outlives_its_client_until_the_resume() -> None:
    gym = g.lose_client(committed(), A).gym
    assert gym.executions[0][1].state is g.TRANSITIONS[State.PARKED, "detach"][0]
    assert g.TRANSITIONS[State.PARKED, "resume_detached"][0] is None
    assert g.resume(gym, "c0").gym.find(A) is None


def test_every_state_has_a_row_in_the_table_and_every_row_a_reason() -> None:
    assert {state for state, _ in g.TRANSITIONS} == set(State)
    assert all(because for _, because in g.TRANSITIONS.values())
