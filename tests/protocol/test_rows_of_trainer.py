"""Each row of trainer.md's tables at the level of the whole system: ledger, debts, `/run`, snapshot, restart."""

import pytest

from protocol.identity import Attempt, model_receipt
from protocol.properties import ready, reopened
from protocol.snapshot import Step
from protocol.state import System
from protocol.system import IllegalEvent
from protocol.trainer import AttemptStatus, GroupStatus, Seen
from protocol.wire import Kind
from tests.protocol.histories import play, start

A, A1, B, B1 = (Attempt(f"p0_g{s}", n) for s in (0, 1) for n in (0, 1))
COMMIT = "snapshot | prepare | boundary p0_g0/0 | boundary p0_g1/0 | answer | commit"
BOTH_FINISH = "finish p0_g0/0 | finish p0_g1/0 | deliver p0_g0/0 | deliver p0_g1/0"


def entry(system: System, attempt: Attempt) -> tuple[AttemptStatus, Seen]:
    found = system.trainer.entry(attempt)
    return (found.status, found.seen)


def status(system: System) -> GroupStatus:
    return system.trainer.groups[0].status


def owed(system: System) -> list[str]:
    return [str(receipt.attempt) for receipt in system.trainer.outbox]


def test_sibling_seals_a_result_and_records_its_debt_when_it_arrives():
    system = play(start("sibling"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0")
    assert entry(system, A) == (AttemptStatus.SEALED, Seen.RESULT)
    assert owed(system) == ["p0_g0/0"]


def test_prompt_group_holds_a_result_without_debt_until_the_group_is_complete():
    system = play(start("prompt_group"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0")
    assert entry(system, A) == (AttemptStatus.DISPATCHED, Seen.RESULT)
    assert owed(system) == []
    system = play(system, "finish p0_g1/0 | deliver p0_g1/0")
    assert (status(system), owed(system)) == (GroupStatus.READY_TO_FINALIZE, ["p0_g0/0", "p0_g1/0"])


def test_acknowledge_on_arrival_records_the_debt_before_the_seal():
    system = play(start("prompt_group_ack_on_arrival"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0")
    assert entry(system, A) == (AttemptStatus.DISPATCHED, Seen.RESULT)
    assert owed(system) == ["p0_g0/0"]


@pytest.mark.parametrize("policy", ["sibling", "prompt_group", "prompt_group_ack_on_arrival"])
def test_the_same_result_again_is_a_no_op(policy):
    history = "admit 0 | finish p0_g0/0 | duplicate p0_g0/0 | deliver p0_g0/0"
    once = play(start(policy, "duplicates=1"), history)
    assert play(once, "deliver p0_g0/0").trainer == once.trainer
    flushed = play(once, "flush") if once.trainer.outbox else once
    assert play(flushed, "deliver p0_g0/0").trainer == flushed.trainer


def test_sibling_retries_only_the_failed_sibling():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | fail p0_g1/0 | deliver p0_g1/0"
    system = play(start("sibling", "failures=1"), history)
    assert entry(system, A)[0] is AttemptStatus.SEALED
    assert entry(system, B) == (AttemptStatus.FAILED, Seen.FAILURE)
    assert entry(system, B1)[0] is AttemptStatus.DISPATCHED


def test_prompt_group_abandons_the_entire_group_and_retries_every_sibling():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | fail p0_g1/0 | deliver p0_g1/0"
    system = play(start("prompt_group", "failures=1"), history)
    assert entry(system, A) == (AttemptStatus.ABANDONED, Seen.RESULT)
    assert {entry(system, A1)[0], entry(system, B1)[0]} == {AttemptStatus.DISPATCHED}
    assert owed(system) == []


@pytest.mark.parametrize("policy", ["sibling", "prompt_group"])
def test_a_group_is_dropped_when_its_attempts_are_used_up(policy):
    system = play(start(policy, "failures=1,attempts=1"), "admit 0 | fail p0_g0/0 | deliver p0_g0/0")
    assert status(system) is GroupStatus.DROPPED
    assert entry(system, B) == (AttemptStatus.ABANDONED, Seen.NOTHING)


def test_a_debt_survives_the_drop_of_its_group():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | fail p0_g1/0 | deliver p0_g1/0"
    system = play(start("sibling", "failures=1,attempts=1"), history)
    assert status(system) is GroupStatus.DROPPED
    assert owed(system) == ["p0_g0/0"]
    assert ready(play(system, "flush"))


@pytest.mark.parametrize(
    ("late", "seen", "debts"),
    [("ignore", Seen.LATE, []), ("raise", Seen.RAISED, []), ("acknowledge", Seen.LATE, ["p0_g1/0"])],
)
def test_a_result_that_arrives_for_an_attempt_given_up(late, seen, debts):
    history = "admit 0 | fail p0_g0/0 | deliver p0_g0/0 | finish p0_g1/0 | deliver p0_g1/0"
    system = play(start(f"prompt_group,late={late}", "failures=1"), history)
    assert entry(system, B) == (AttemptStatus.ABANDONED, seen)
    assert owed(system) == debts
    assert entry(system, B1)[0] is AttemptStatus.DISPATCHED


def test_a_run_whose_reply_was_lost_is_followed_by_the_next_attempt():
    history = "admit 0 | finish p0_g0/0 | lose_reply run p0_g0/0 | deliver p0_g0/0"
    system = play(start("sibling", "lost_replies=1"), history)
    assert entry(system, A) == (AttemptStatus.FAILED, Seen.LOST)
    assert system.gym.find(A1) is not None


def test_the_trainer_cannot_tell_a_lost_request_from_a_lost_reply():
    scope = "lost_requests=1,lost_replies=1"
    request = play(start("sibling", scope), "admit 0 | lose_request run p0_g0/0")
    reply = play(start("sibling", scope), "admit 0 | arrive p0_g0/0 | finish p0_g0/0 | lose_reply run p0_g0/0")
    assert request.wire.find(A) == reply.wire.find(A)
    assert play(request, "deliver p0_g0/0").trainer == play(reply, "deliver p0_g0/0").trainer


def test_fetch_receipt_owes_the_result_whose_reply_was_lost():
    history = "admit 0 | finish p0_g0/0 | lose_reply run p0_g0/0 | deliver p0_g0/0"
    system = play(start("sibling_repaired", "lost_replies=1"), history)
    assert owed(system) == ["p0_g0/0"]
    assert entry(system, A1)[0] is AttemptStatus.DISPATCHED


def test_a_receipt_that_cannot_be_fetched_costs_the_attempt():
    system = play(start("sibling", "lost_receipts=1"), "admit 0 | finish p0_g0/0 | lose_reply receipt p0_g0/0")
    assert entry(system, A) == (AttemptStatus.FAILED, Seen.UNFETCHED)
    again = play(start("sibling_repaired", "lost_receipts=1"), "admit 0 | finish p0_g0/0 | lose_reply receipt p0_g0/0")
    assert again.wire.find(A).kind is Kind.RESULT


def test_answers_of_different_runs_arrive_in_any_order():
    one = play(start("prompt_group"), "admit 0 | finish p0_g0/0 | finish p0_g1/0 | deliver p0_g1/0 | deliver p0_g0/0")
    other = play(start("prompt_group"), "admit 0 | finish p0_g1/0 | finish p0_g0/0 | deliver p0_g0/0 | deliver p0_g1/0")
    assert one == other


def test_a_flush_sends_the_whole_outbox_in_one_call():
    system = play(start("sibling"), f"admit 0 | {BOTH_FINISH} | flush")
    assert system.gym.acknowledged == (model_receipt(A), model_receipt(B))
    assert owed(system) == []


def test_the_drain_dies_with_a_flush_that_fails_and_new_debt_wakes_it():
    history = "admit 0 | finish p0_g0/0 | finish p0_g1/0 | snapshot | prepare | deliver p0_g0/0"
    system = play(start("sibling", "lost_acknowledges=1"), history + " | lose_request acknowledge")
    with pytest.raises(IllegalEvent, match="the drain died"):
        play(system, "flush")
    assert owed(play(system, "deliver p0_g1/0 | flush")) == []
    comes_back = play(start("sibling,drain=reschedule", "lost_acknowledges=1"), history + " | lose_request acknowledge")
    assert owed(play(comes_back, "flush")) == []


def test_the_drain_task_can_die_by_itself():
    history = "admit 0 | finish p0_g0/0 | snapshot | prepare | deliver p0_g0/0"
    system = play(start("sibling", "drain_deaths=1"), f"{history} | drain_dies")
    with pytest.raises(IllegalEvent, match="the drain died"):
        play(system, "flush")
    assert owed(play(system, "deadline | resume | flush")) == []
    with pytest.raises(IllegalEvent, match="comes back"):
        play(start("sibling,drain=reschedule", "drain_deaths=1"), f"{history} | drain_dies")
    with pytest.raises(IllegalEvent, match="no drain is at work"):
        play(start("sibling", "drain_deaths=1"), "admit 0 | snapshot | prepare | drain_dies")
    with pytest.raises(IllegalEvent, match="outside a snapshot"):
        play(start("sibling", "drain_deaths=1"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | drain_dies")


def test_a_snapshot_begins_with_a_strict_flush_of_what_is_owed():
    system = play(start("sibling"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | snapshot")
    assert system.snapshot.step is Step.FLUSH
    with pytest.raises(IllegalEvent, match="after the strict flush"):
        play(system, "prepare")
    assert play(system, "flush").snapshot.step is Step.PREPARE


def test_a_strict_flush_that_fails_ends_the_snapshot_before_gym_was_asked():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | snapshot | lose_reply acknowledge"
    system = play(start("sibling", "lost_acknowledges=1"), history)
    assert (system.snapshot.step, system.snapshot.failures, system.gym.open) == (Step.IDLE, 1, True)


def test_nothing_is_sent_while_the_registry_is_frozen():
    history = "admit 0 | snapshot | prepare | fail p0_g0/0 | deliver p0_g0/0"
    system = play(start("sibling", "failures=1"), history)
    assert entry(system, A1)[0] is AttemptStatus.RESERVED
    assert system.gym.find(A1) is None
    with pytest.raises(IllegalEvent, match="local admission is closed during a snapshot"):
        play(start("sibling", "groups=2"), "admit 0 | snapshot | admit 1")
    assert entry(play(system, "deadline | resume"), A1)[0] is AttemptStatus.DISPATCHED


def test_a_409_is_asked_again_until_the_deadline():
    system = play(start("sibling", "siblings=1"), "admit 0 | finish p0_g0/0 | snapshot | prepare | answer")
    assert system.snapshot.step is Step.PREPARE
    assert play(system, "prepare | answer") == system
    assert play(system, "deliver p0_g0/0 | flush | prepare").snapshot.answer == "ok"
    assert play(system, "deadline").snapshot.step is Step.ABORT


def test_an_error_other_than_a_409_is_final():
    system = play(start("sibling", "lost_prepares=1"), "snapshot | lose_request prepare")
    assert system.snapshot.step is Step.ABORT
    system = play(start("sibling", "gym_restarts=1"), "admit 0 | snapshot | prepare | restart_gym | answer")
    assert system.snapshot.step is Step.ABORT


def test_the_capture_raises_while_any_debt_is_left():
    history = "admit 0 | finish p0_g0/0 | snapshot | prepare | deliver p0_g0/0 | lose_reply acknowledge | prepare"
    system = play(
        start("sibling", "siblings=1,lost_acknowledges=1"), history.replace(" | prepare | deliver", " | deliver")
    )
    assert owed(system) == ["p0_g0/0"]
    system = play(system, "answer | commit | publish")
    assert (system.snapshot.step, system.snapshot.published) == (Step.ABORT, ())


def test_the_manifest_is_published_after_gyms_commit_and_before_the_resume():
    system = play(start("sibling"), f"admit 0 | {COMMIT}")
    assert system.snapshot.step is Step.CAPTURE
    assert play(system, "publish").snapshot.published == (0,)
    assert play(system, "publish").snapshot.step is Step.RESUME


def test_a_resume_without_an_answer_keeps_admission_closed_and_is_sent_first_thing_next_time():
    scope = "lost_resumes=1,snapshots=2,groups=2"
    system = play(start("sibling", scope), "snapshot | prepare | answer | commit | publish | lose_request resume")
    assert not system.gym.open
    for wrong in ("resume", "admit 0"):
        with pytest.raises(IllegalEvent):
            play(system, wrong)
    system = play(system, "snapshot")
    assert (system.gym.open, system.gym.fence.retired, system.snapshot.number) == (True, ("c0",), 1)


def test_a_resume_at_once_needs_no_next_snapshot():
    scope = "lost_resumes=1"
    history = "snapshot | prepare | answer | commit | publish | lose_request resume | resume"
    assert reopened(play(start("sibling,resume_retry=at_once", scope), history))


def test_a_resume_that_gym_refuses_counts_as_one_without_an_answer():
    """A trainer that restarted meets the fence of its former life: another id is active."""
    scope = "trainer_restarts=1,snapshots=2"
    history = "snapshot | prepare | restart_trainer | snapshot | prepare | answer | resume"
    system = play(start("sibling", scope), history)
    assert system.snapshot.stuck
    assert not system.gym.open


def test_three_failed_snapshots_in_a_row_end_the_run():
    history = " | ".join(["snapshot | deadline"] * 3)
    system = play(start("sibling", "snapshots=4"), history)
    assert system.snapshot.ended
    for wrong in ("snapshot", "admit 0"):
        with pytest.raises(IllegalEvent):
            play(system, wrong)


def test_a_snapshot_that_succeeds_starts_the_count_of_failures_anew():
    good = "snapshot | prepare | answer | commit | publish | resume"
    system = play(start("sibling", "snapshots=4"), f"snapshot | deadline | snapshot | deadline | {good}")
    assert system.snapshot.failures == 0


# Restart


def test_a_restarted_trainer_without_a_published_snapshot_starts_from_nothing():
    system = play(start("sibling", "restarts=1"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | restart_both")
    assert system.trainer.groups == (None,)
    assert owed(system) == []


def test_sealed_stays_sealed_and_the_rest_is_run_as_the_next_attempt():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush | snapshot | prepare | boundary p0_g1/0"
    system = play(start("sibling", "restarts=1"), history + " | answer | commit | publish | resume | restart_both")
    assert entry(system, A) == (AttemptStatus.SEALED, Seen.RESULT)
    assert entry(system, B) == (AttemptStatus.ABANDONED, Seen.RESTARTED)
    assert entry(system, B1)[0] is AttemptStatus.DISPATCHED
    assert system.gym.find(A1) is None


def test_everything_acknowledged_after_the_snapshot_is_run_again():
    history = f"admit 0 | {COMMIT} | publish | resume | finish p0_g0/0 | deliver p0_g0/0 | flush | restart_both"
    system = play(start("sibling", "restarts=1"), history)
    assert entry(system, A) == (AttemptStatus.ABANDONED, Seen.RESTARTED)
    assert entry(system, A1)[0] is AttemptStatus.DISPATCHED


def test_prompt_group_runs_a_generating_group_again_as_a_whole():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush | snapshot | prepare | boundary p0_g1/0"
    policy = "prompt_group_ack_on_arrival"
    system = play(start(policy, "restarts=1"), history + " | answer | commit | publish | resume | restart_both")
    assert {entry(system, A)[0], entry(system, B)[0]} == {AttemptStatus.ABANDONED}
    assert {entry(system, A1)[0], entry(system, B1)[0]} == {AttemptStatus.DISPATCHED}


def test_a_group_ready_to_finalize_is_finalized_from_its_saved_receipts():
    history = (
        f"admit 0 | {BOTH_FINISH} | snapshot | flush | prepare | answer | commit | publish | resume | restart_both"
    )
    system = play(start("prompt_group", "restarts=1"), history)
    assert status(system) is GroupStatus.READY_TO_FINALIZE
    assert status(play(system, "finalize 0")) is GroupStatus.FINALIZED


def test_an_attempt_that_was_reserved_at_the_capture_is_sent_now():
    history = (
        "admit 0 | snapshot | prepare | fail p0_g0/0 | deliver p0_g0/0 | boundary p0_g1/0 | answer | commit | publish"
    )
    system = play(start("sibling", "restarts=1,failures=1"), history + " | restart_both")
    assert entry(system, A1)[0] is AttemptStatus.DISPATCHED
    assert entry(system, A) == (AttemptStatus.FAILED, Seen.FAILURE)


def test_a_restart_closes_the_connections_of_the_trainer():
    history = "admit 0 | snapshot | prepare | boundary p0_g0/0 | restart_trainer"
    system = play(start("sibling", "trainer_restarts=1"), history)
    assert system.gym.find(A).client is False
    assert B in system.gym.tombstones
    assert system.gym.fence.waiting is None


def test_a_trainer_that_adopts_opens_gym_and_releases_what_it_retains_for_nobody():
    history = "admit 0 | finish p0_g0/0 | snapshot | prepare | boundary p0_g1/0 | restart_trainer"
    forgets = play(start("sibling", "trainer_restarts=1"), history)
    assert (forgets.gym.open, ready(forgets)) == (False, False)
    adopts = play(start("sibling,restart=adopt", "trainer_restarts=1"), history)
    assert (adopts.gym.open, ready(adopts)) == (True, True)


def test_a_trainer_that_adopts_twice_opens_gym_twice():
    scope = "trainer_restarts=2,snapshots=2"
    history = "snapshot | prepare | deadline | restart_trainer | snapshot | prepare | deadline | restart_trainer"
    system = play(start("sibling,restart=adopt", scope), history)
    assert reopened(system)


def test_a_trainer_that_adopts_is_answered_from_a_result_it_is_about_to_ask_for():
    history = (
        "admit 0 | snapshot | prepare | fail p0_g0/0 | deliver p0_g0/0 | boundary p0_g1/0 | answer | commit | publish"
        " | resume | finish p0_g0/1 | restart_trainer"
    )
    system = play(start("sibling,restart=adopt", "trainer_restarts=1,failures=1"), history)
    assert system.wire.find(A1).kind is Kind.RESULT
    assert owed(play(system, "deliver p0_g0/1")) == ["p0_g0/1"]


def test_a_trainer_that_adopts_drops_the_debts_that_a_restarted_gym_has_forgotten():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | snapshot | restart_gym"
    system = play(start("sibling", "gym_restarts=1"), history)
    assert owed(play(system, "flush")) == ["p0_g0/0"]
    system = play(start("sibling,restart=adopt", "gym_restarts=1"), history)
    assert (owed(system), system.snapshot.step) == ([], Step.PREPARE)


def test_checkpoint_ids_are_never_used_twice_also_after_a_restart():
    good = "snapshot | prepare | answer | commit | publish | resume"
    system = play(start("sibling", "restarts=1,snapshots=2"), f"{good} | restart_both | {good}")
    assert system.snapshot.published == (0, 1)
    assert system.snapshot.checkpoint_id == "c1"


def test_the_guard_refuses_prompt_group_before_the_first_group():
    with pytest.raises(IllegalEvent, match="the guard refuses prompt_group"):
        play(start("prompt_group_refused"), "admit 0")


def test_reconciliation_acknowledges_what_was_given_up():
    history = "admit 0 | fail p0_g0/0 | deliver p0_g0/0 | finish p0_g1/0 | deliver p0_g1/0"
    system = play(start("prompt_group_reconciled", "failures=1"), history)
    assert owed(system) == []
    assert owed(play(system, "reconcile")) == ["p0_g1/0"]
