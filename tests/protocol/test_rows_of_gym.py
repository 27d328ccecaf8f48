"""Each row of gym.md's tables, met by the trainer: what the whole system does with it."""

import pytest

from protocol import gym as g
from protocol.executions import State
from protocol.fence import Phase
from protocol.identity import Attempt, model_receipt
from protocol.properties import ready, reopened, settled
from protocol.snapshot import Step
from protocol.system import IllegalEvent
from protocol.trainer import AttemptStatus, GroupStatus, Seen
from protocol.wire import Kind
from tests.protocol.histories import event, play, start

A, A1, B, B1 = (Attempt(f"p0_g{s}", n) for s in (0, 1) for n in (0, 1))
COMMIT = "snapshot | prepare | boundary p0_g0/0 | boundary p0_g1/0 | answer | commit"


def state(system, attempt):
    execution = system.gym.find(attempt)
    return None if execution is None else execution.state


def answer(system, attempt):
    message = system.wire.find(attempt)
    return None if message is None else message.kind


def test_a_run_begins_when_its_group_is_admitted_and_requests_take_no_time():
    system = play(start(), "admit 0")
    assert (state(system, A), state(system, B)) == (State.RUNNING, State.RUNNING)


def test_a_run_begins_at_its_arrival_where_requests_take_time():
    system = play(start("sibling", "lost_requests=1"), "admit 0")
    assert (state(system, A), answer(system, A)) == (None, Kind.REQUEST)
    assert state(play(system, "arrive p0_g0/0"), A) is State.RUNNING


def test_a_begin_while_admission_is_closed_is_refused_and_the_next_attempt_follows_after_the_snapshot():
    system = play(start("sibling", "lost_requests=1"), "admit 0 | snapshot | prepare | arrive p0_g0/0")
    assert answer(system, A) is Kind.REFUSED
    system = play(system, "deliver p0_g0/0")
    assert system.trainer.entry(A).status is AttemptStatus.FAILED
    assert system.trainer.entry(A1).status is AttemptStatus.RESERVED


def test_a_begin_of_an_acknowledged_key_is_stale():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush | restart_trainer | admit 0"
    system = play(start("sibling", "trainer_restarts=1"), history)
    assert answer(system, A) is Kind.REFUSED
    system = play(system, "deliver p0_g0/0")
    assert state(system, A1) is State.RUNNING


def test_a_begin_of_a_tombstoned_key_is_stale():
    system = play(start("sibling", "trainer_restarts=1"), "admit 0 | restart_trainer | admit 0")
    assert A in system.gym.tombstones
    assert answer(system, A) is Kind.REFUSED


def test_a_begin_of_a_detached_run_is_a_duplicate_and_after_the_resume_it_is_stale():
    scope = "disconnects=1,siblings=1"
    closed = play(start("sibling,lost_reply=same_attempt", scope), "admit 0 | snapshot | prepare | boundary p0_g0/0")
    detached = play(closed, "disconnect p0_g0/0")
    assert g.begin(detached.gym, A).answers[0].code == "duplicate_execution"
    resumed = play(detached, "answer | commit | publish | resume")
    assert (state(resumed, A), A in resumed.gym.tombstones) == (None, True)
    assert g.begin(resumed.gym, A).answers[0].code == "stale_attempt"


def test_a_repeated_run_is_answered_from_the_retained_result_also_while_admission_is_closed():
    history = "admit 0 | finish p0_g0/0 | lose_reply run p0_g0/0 | snapshot | prepare | deliver p0_g0/0"
    system = play(start("sibling,lost_reply=same_attempt", "lost_replies=1"), history)
    assert not system.gym.open
    assert answer(system, A) is Kind.RESULT
    system = play(system, "deliver p0_g0/0")
    assert system.trainer.outbox == (model_receipt(A),)
    assert state(system, A) is State.COMPLETED  # the repeat started no second run


def test_a_result_is_retained_until_it_is_acknowledged():
    system = play(start(), "admit 0 | finish p0_g0/0 | deliver p0_g0/0")
    assert state(system, A) is State.COMPLETED
    system = play(system, "flush")
    assert state(system, A) is None
    assert system.gym.acknowledged == (model_receipt(A),)


def test_a_failed_run_is_tombstoned_and_answers_500():
    system = play(start("sibling", "failures=1"), "admit 0 | fail p0_g0/0")
    assert (state(system, A), A in system.gym.tombstones, answer(system, A)) == (None, True, Kind.FAILURE)


def test_a_client_lost_by_a_running_run_retires_it():
    system = play(start("sibling", "disconnects=1"), "admit 0 | disconnect p0_g0/0")
    assert (state(system, A), A in system.gym.tombstones, answer(system, A)) == (None, True, Kind.LOST)


def test_a_client_lost_by_a_run_parked_without_a_boundary_retires_it():
    history = "admit 0 | snapshot | prepare | refuse p0_g0/0 | disconnect p0_g0/0"
    system = play(start("sibling", "disconnects=1,refusals=1"), history)
    assert (state(system, A), A in system.gym.tombstones) == (None, True)


def test_a_client_lost_by_a_run_parked_with_a_boundary_leaves_it_parked_for_the_commit():
    history = (
        "admit 0 | snapshot | prepare | boundary p0_g0/0 | disconnect p0_g0/0 | boundary p0_g1/0 | answer | commit"
    )
    system = play(start("sibling", "disconnects=1"), history)
    assert dict(system.gym.saved) == {A: 0, B: 0}


def test_a_run_parks_at_a_boundary_only_when_it_was_asked_to():
    system = play(start(), "admit 0")
    with pytest.raises(IllegalEvent, match="only a run that was asked to park"):
        play(system, "boundary p0_g0/0")
    assert state(play(system, "snapshot | prepare | boundary p0_g0/0"), A) is State.PARKED


def test_a_run_parked_without_a_boundary_blocks_the_commit():
    system = play(start("sibling", "refusals=1,siblings=1"), "admit 0 | snapshot | prepare | refuse p0_g0/0")
    assert not ready(system)
    assert system.snapshot.answer == "agent_prepare_incomplete"


def test_prepare_closes_admission_and_asks_every_run_to_park():
    system = play(start(), "admit 0 | snapshot | prepare")
    assert not system.gym.open
    assert {state(system, A), state(system, B)} == {State.PARK_REQUESTED}
    assert system.snapshot.answer is None


def test_prepare_with_nothing_running_answers_at_once():
    system = play(start(), "snapshot | prepare")
    assert (system.snapshot.answer, system.gym.fence.phase) == ("ok", Phase.PREPARED)


def test_prepare_answers_409_at_once_when_only_an_unacknowledged_result_blocks_it():
    history = "admit 0 | finish p0_g0/0 | snapshot | prepare"
    assert play(start("sibling", "siblings=1"), history).snapshot.answer == "agent_prepare_incomplete"


def test_a_waiting_prepare_answers_409_when_the_last_run_finishes():
    system = play(start("sibling", "siblings=1"), "admit 0 | snapshot | prepare | finish p0_g0/0")
    assert system.snapshot.answer == "agent_prepare_incomplete"


def test_an_acknowledgement_can_make_a_waiting_prepare_ready():
    history = "admit 0 | finish p0_g0/0 | snapshot | prepare | deliver p0_g0/0 | flush | boundary p0_g1/0"
    assert play(start(), history).snapshot.answer == "ok"


def test_a_prepare_that_ends_not_ready_leaves_parked_runs_parked_and_admission_closed():
    history = "admit 0 | snapshot | prepare | boundary p0_g0/0 | deadline"
    system = play(start(), history)
    assert (state(system, A), state(system, B)) == (State.PARKED, State.RUNNING)
    assert not system.gym.open
    assert system.gym.fence.active is None
    system = play(system, "resume")
    assert (state(system, A), system.gym.open) == (State.RUNNING, True)


def test_a_lost_prepare_client_rolls_back_and_leaves_admission_closed():
    system = play(start("sibling", "lost_prepares=1"), "admit 0 | snapshot | prepare | lose_reply prepare")
    assert (state(system, A), system.gym.open, system.gym.fence.phase) == (State.RUNNING, False, Phase.IDLE)
    assert system.snapshot.step is Step.ABORT


def test_resume_opens_admission_wakes_what_is_parked_and_retires_the_id():
    system = play(start(), f"admit 0 | {COMMIT} | publish | resume")
    assert reopened(system)
    assert {state(system, A), state(system, B)} == {State.RUNNING}
    assert system.gym.fence.retired == ("c0",)


def test_a_repeated_resume_is_answered_and_opens_nothing_again():
    scope = "lost_resumes=1,snapshots=2"
    system = play(start("sibling,resume_retry=at_once", scope), "snapshot | prepare | deadline | lose_reply resume")
    assert system.gym.open
    assert reopened(play(system, "resume"))
    second = play(start("sibling", scope), "snapshot | prepare | deadline | lose_reply resume | snapshot | prepare")
    assert second.snapshot.number == 1  # the next snapshot began with the same id once more
    assert second.snapshot.answer == "ok"


def test_retire_cancels_a_live_run_and_its_connection():
    system = play(start("prompt_group,give_up=retire", "failures=1"), "admit 0 | fail p0_g0/0 | deliver p0_g0/0")
    assert system.trainer.retiring == (B,)
    system = play(system, "retire p0_g1/0")
    assert (state(system, B), B in system.gym.tombstones, answer(system, B)) == (None, True, None)


def test_retire_of_a_completed_run_is_declined():
    history = "admit 0 | finish p0_g1/0 | fail p0_g0/0 | deliver p0_g0/0 | retire p0_g1/0"
    system = play(start("prompt_group,give_up=retire", "failures=1"), history)
    assert state(system, B) is State.COMPLETED
    assert B not in system.gym.tombstones
    released = play(start("prompt_group,give_up=retire,retire=release", "failures=1"), history)
    assert (state(released, B), B in released.gym.tombstones) == (None, True)


def test_retire_waits_until_the_fence_allows_it():
    history = "admit 0 | snapshot | prepare | boundary p0_g1/0 | fail p0_g0/0 | deliver p0_g0/0 | answer | commit"
    system = play(start("prompt_group,give_up=retire", "failures=1"), history)
    with pytest.raises(IllegalEvent, match="retire is refused while the fence is committed_paused"):
        play(system, "retire p0_g1/0")
    assert B in play(system, "publish | resume | retire p0_g1/0").gym.tombstones


def test_an_acknowledgement_is_all_or_nothing():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | restart_gym | deliver p0_g1/0 | finish p0_g1/1"
    system = play(start("sibling", "gym_restarts=1"), history + " | deliver p0_g1/1 | flush")
    assert system.trainer.outbox == (model_receipt(A), model_receipt(B1))
    assert state(system, B1) is State.COMPLETED


def test_an_acknowledgement_repeated_after_a_lost_reply_is_a_no_op():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | lose_reply acknowledge"
    system = play(start("sibling", "lost_acknowledges=1"), history)
    assert (state(system, A), system.trainer.outbox) == (None, (model_receipt(A),))
    assert play(system, "flush").gym == system.gym
    assert play(system, "flush").trainer.outbox == ()


def test_a_null_result_has_no_receipt_and_nothing_releases_it():
    system = play(start("sibling", "null_results=1"), "admit 0 | null_result p0_g0/0")
    assert answer(system, A) is Kind.NULL
    system = play(system, "deliver p0_g0/0")
    assert system.trainer.entry(A).seen is Seen.UNFETCHED
    assert (state(system, A), system.trainer.outbox) == (State.COMPLETED, ())


def test_commit_writes_the_boundaries_of_the_parked_runs():
    system = play(start(), f"admit 0 | {COMMIT}")
    assert dict(system.gym.saved) == {A: 0, B: 0}
    assert (system.gym.manifest, system.gym.fence.phase) == ("c0", Phase.COMMITTED_PAUSED)


def test_a_failed_commit_leaves_gym_prepared_and_the_snapshot_is_aborted():
    history = f"admit 0 | {COMMIT.removesuffix(' | commit')} | commit_fails"
    system = play(start("sibling", "commit_failures=1"), history)
    assert (system.gym.fence.phase, system.snapshot.step) == (Phase.PREPARED, Step.ABORT)
    assert reopened(play(system, "resume"))


def test_a_lost_commit_reply_is_a_commit_all_the_same_and_is_never_published():
    history = f"admit 0 | {COMMIT.removesuffix(' | commit')} | lose_reply commit"
    system = play(start("sibling", "lost_commits=1"), history)
    assert system.gym.manifest == "c0"
    system = play(system, "resume")
    assert system.snapshot.published == ()
    assert reopened(system)


def test_a_lost_commit_request_wrote_nothing():
    history = f"admit 0 | {COMMIT.removesuffix(' | commit')} | lose_request commit"
    assert play(start("sibling", "lost_commits=1"), history).gym.manifest is None


def test_a_gym_that_restarted_forgets_everything_but_what_was_committed_and_published():
    history = f"admit 0 | {COMMIT} | publish | resume | finish p0_g0/0 | deliver p0_g0/0 | flush | restart_gym"
    system = play(start("sibling", "gym_restarts=1"), history)
    assert system.gym.acknowledged == ()
    assert system.gym.continuations == ((B1, 0),)  # of the unsealed sibling only
    assert system.gym.tombstones == (B,)
    assert system.gym.open


def test_a_commit_that_was_not_published_is_not_restored():
    history = f"admit 0 | {COMMIT} | restart_gym"
    system = play(start("sibling", "gym_restarts=1"), history)
    assert dict(system.gym.saved) == {A: 0, B: 0}
    assert system.gym.continuations == ()


def test_a_continuation_is_claimed_by_the_first_begin_of_the_next_attempt():
    history = f"admit 0 | {COMMIT} | publish | resume | restart_both"
    system = play(start("sibling", "restarts=1"), history)
    assert system.gym.continuations == ()
    assert {state(system, A1), state(system, B1)} == {State.RUNNING}
    assert {A, B} <= set(system.gym.tombstones)


def test_an_unclaimed_continuation_is_invisible_and_left_out_of_the_next_commit():
    history = f"admit 0 | {COMMIT} | publish | resume | restart_gym | snapshot | prepare"
    system = play(start("sibling", "gym_restarts=1,snapshots=2"), history)
    assert system.gym.continuations == ((A1, 0), (B1, 0))
    assert ready(system)
    assert play(system, "answer | commit").gym.saved == ()


def test_a_snapshot_of_a_whole_run_ends_settled():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | finish p0_g1/0 | deliver p0_g1/0 | flush | finalize 0"
    system = play(start(), history + " | snapshot | prepare | answer | commit | publish | resume")
    assert settled(system)
    assert system.trainer.groups[0].status is GroupStatus.FINALIZED
    assert system.snapshot.published == (0,)


def test_events_are_written_as_they_are_read():
    assert str(event("lose_reply run p0_g0/0")) == "lose_reply run p0_g0/0"
