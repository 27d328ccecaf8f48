"""Each safety property is broken by exactly what it names, and the violation says so in one sentence."""

import pytest
from attrs import evolve

from protocol.events import Deliver, Flush, Publish, RestartGym, RestartTrainer
from protocol.executions import PARKED, RUNNING, Execution
from protocol.findings import Property
from protocol.identity import Attempt, model_receipt
from protocol.safety import Violation, unsafe
from protocol.trainer import AttemptStatus, Entry, Group, GroupStatus, Published, Seen
from protocol.wire import Wire
from state_machines.designs import design
from tests.protocol.histories import play, start

A, A1, B, B1 = (Attempt(f"p0_g{s}", n) for s in (0, 1) for n in (0, 1))
SEALED = Entry(AttemptStatus.SEALED, Seen.RESULT)
FAILED = Entry(AttemptStatus.FAILED, Seen.FAILURE)
LATE = "admit 0 | fail p0_g0/0 | deliver p0_g0/0"  # in prompt_group p0_g1/0 is given up, and runs on
SAVED = "admit 0 | snapshot | prepare | boundary p0_g0/0 | boundary p0_g1/0"


def ledger(system, *siblings, status=GroupStatus.GENERATING):
    """The system whose group 0 holds these entries."""
    return system.replace(trainer=system.trainer.replace(groups=(Group(status, siblings),)))


def gym(system, **changes):
    return system.replace(gym=evolve(system.gym, **changes))


def snapshot(system, **changes):
    return system.at(evolve(system.snapshot, **changes))


def acknowledged(policy="sibling"):
    """A result whose ACK debt was paid: Gym has dropped it."""
    return play(start(policy, "siblings=1"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush")


def never_had():
    system = play(start("sibling", "siblings=1"), "admit 0 | finish p0_g0/0")
    before = system.replace(wire=Wire())
    return before, Flush(), gym(before, executions=(), acknowledged=(model_receipt(A),))


def without_ack():
    before = play(start("sibling", "siblings=1"), "admit 0 | finish p0_g0/0")
    return before, Flush(), gym(before, executions=())


def one_of_two_without_ack():
    before = play(start("prompt_group"), "admit 0 | finish p0_g0/0 | finish p0_g1/0")
    return before, Flush(), gym(before, executions=before.gym.executions[:1])


def changed_after_the_end():
    before = play(acknowledged(), "finalize 0")
    return before, Flush(), ledger(before, (FAILED,), status=GroupStatus.DROPPED)


def sealed_twice():
    before = acknowledged()
    return before, Flush(), ledger(before, (SEALED, SEALED), status=GroupStatus.FINALIZED)


def owed_unseen():
    before = play(start("sibling", "siblings=1"), "admit 0")
    return before, Flush(), before.replace(trainer=before.trainer.replace(outbox=(model_receipt(A),)))


def mixed():
    before = play(start("prompt_group", "failures=1"), LATE)
    return before, Flush(), ledger(before, (FAILED, SEALED), (SEALED,), status=GroupStatus.READY_TO_FINALIZE)


def stale_answer():
    before = play(start("prompt_group", "failures=1"), f"{LATE} | finish p0_g1/0")
    return before, Deliver(B), play(before, "deliver p0_g1/0")


def stale_fails_newer():
    before, event, after = stale_answer()
    siblings = after.trainer.groups[0].siblings
    return before, event, ledger(after, siblings[0], (siblings[1][0], FAILED))


def stale_owes_newer():
    before, event, after = stale_answer()
    return before, event, after.replace(trainer=after.trainer.replace(outbox=(model_receipt(A1),)))


def stale_acts_at_gym():
    before, event, after = stale_answer()
    return before, event, gym(after, tombstones=(A, B))


def committed():
    return play(start("sibling", "trainer_restarts=1"), f"{SAVED} | answer | commit")


def published_twice():
    before = snapshot(committed(), published=(0,))
    after = play(before, "publish")
    return before, Publish(), snapshot(after, published=(0, 0))


def published_uncommitted():
    before = gym(committed(), manifest=None)
    return before, Publish(), play(before, "publish")


def sealed_again():
    before = play(start("sibling", ""), "admit 0 | finish p0_g0/0 | deliver p0_g0/0")
    old = before.trainer.groups[0].siblings
    return before, Flush(), ledger(before, (*old[0], Entry(AttemptStatus.RESERVED)), old[1])


def published_seal_again():
    before = play(
        start("sibling", "trainer_restarts=1"),
        "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush | snapshot | prepare | boundary p0_g1/0"
        " | answer | commit | publish | resume",
    )
    after = play(before, "restart_trainer")
    old = after.trainer.groups[0].siblings
    return before, RestartTrainer(), ledger(after, (*old[0], Entry(AttemptStatus.RESERVED)), old[1])


def nothing_comes():
    before = play(start("sibling", "siblings=1"), "admit 0")
    return before, Flush(), gym(before, executions=())


def nothing_comes_for_the_second():
    before = play(start("sibling"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush")
    return before, Flush(), gym(before, executions=())


def never_had_beside_one_to_run_again():
    """The ledger does not know p0_g0/0, which is run again; p1_g0/0 it waits for."""
    before = play(start("sibling", "groups=2,siblings=1"), "admit 0 | admit 1")
    before = before.replace(trainer=before.trainer.replace(groups=(None, before.trainer.groups[1])))
    other = Attempt("p1_g0", 0)
    return before, Flush(), gym(before, acknowledged=(model_receipt(A), model_receipt(other)))


def nobody_reads():
    before = play(start("sibling", "siblings=1"), "admit 0")
    return before, Flush(), gym(before, executions=((A, Execution(RUNNING, None, False)),))


def restored_for_nobody():
    before = play(start("sibling", "gym_restarts=1"), f"{SAVED} | answer | commit | publish | resume")
    after = play(before, "restart_gym")
    return before, RestartGym(), gym(after, continuations=((Attempt("p0_g0", 3), 1),))


def committed_while_running():
    before = play(start("sibling", "siblings=1"), "admit 0")
    return before, Flush(), gym(before, manifest="c0")


def committed_unacknowledged():
    before = play(start("prompt_group", ""), "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | snapshot | prepare")
    before = play(before, "boundary p0_g1/0")
    return before, Flush(), gym(before, manifest="c0")


def published_owing():
    before = committed()
    after = play(before, "publish")
    return before.replace(trainer=before.trainer.replace(outbox=(model_receipt(A),))), Publish(), after


def published_otherwise():
    before = committed()
    after = play(before, "publish")
    trainer = evolve(after.trainer, durable=Published(after.trainer.groups, ((A, 7),)))
    return before, Publish(), after.replace(trainer=trainer)


BROKEN = {
    never_had: (Property.NOTHING_LOST, "Gym has dropped p0_g0/0, which the trainer never had"),
    without_ack: (Property.NOTHING_LOST, "Gym has dropped the result of p0_g0/0 without an ACK"),
    one_of_two_without_ack: (Property.NOTHING_LOST, "Gym has dropped the result of p0_g1/0 without an ACK"),
    changed_after_the_end: (Property.APPLIED_ONCE, "a group changed after it was finalized"),
    sealed_twice: (Property.APPLIED_ONCE, "two attempts of one sibling are sealed"),
    owed_unseen: (Property.ACKNOWLEDGED_OWNED, "p0_g0/0 is owed but its result was never seen"),
    mixed: (Property.SEALED_TOGETHER, "group p0 is sealed from results of different attempts"),
    stale_fails_newer: (Property.STALE_HARMLESS, "the late answer of p0_g1/0 changed another attempt"),
    stale_owes_newer: (Property.STALE_HARMLESS, "the late answer of p0_g1/0 changed another attempt"),
    stale_acts_at_gym: (Property.STALE_HARMLESS, "the late answer of p0_g1/0 changed something at Gym"),
    published_twice: (Property.PUBLISHED_ONCE, "a snapshot was published twice"),
    published_uncommitted: (Property.PUBLISHED_ONCE, "a snapshot was published that Gym has not committed"),
    sealed_again: (Property.RESTORE_COMES, "p0_g0 is sealed and is run again"),
    published_seal_again: (Property.RESTORE_COMES, "p0_g0 is sealed and is run again"),
    nothing_comes: (Property.RESTORE_COMES, "the trainer waits for p0_g0/0, and nothing will come"),
    nothing_comes_for_the_second: (
        Property.RESTORE_COMES,
        "the trainer waits for p0_g1/0, and nothing will come",
    ),
    never_had_beside_one_to_run_again: (
        Property.NOTHING_LOST,
        "Gym has dropped p1_g0/0, which the trainer never had",
    ),
    nobody_reads: (Property.RESTORE_COMES, "the trainer waits for p0_g0/0, and nothing will come"),
    restored_for_nobody: (Property.RESTORE_COMES, "p0_g0/3 was restored, and nobody will ask for it"),
    committed_while_running: (Property.CUT_CLEAN, "Gym has committed while p0_g0/0 is running"),
    committed_unacknowledged: (Property.CUT_CLEAN, "Gym has committed while p0_g0/0 is completed"),
    published_owing: (Property.CUT_CLEAN, "a snapshot was published with an ACK still owed"),
    published_otherwise: (Property.CUT_CLEAN, "what was published is not what was captured"),
}


RUN_AGAIN = (Property.RESTORE_COMES, "p0_g0 is sealed and is run again")
ALSO = {  # what else is broken there, of necessity
    never_had: [BROKEN[nothing_comes]],
    changed_after_the_end: [RUN_AGAIN],
    sealed_twice: [RUN_AGAIN],
    stale_owes_newer: [(Property.ACKNOWLEDGED_OWNED, "p0_g0/1 is owed but its result was never seen")],
}


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.__name__)
def test_a_broken_property_is_named_with_the_sentence_that_says_why(case):
    found = [(violation.property, violation.why) for violation in unsafe(*case())]
    assert sorted(found, key=str) == sorted([BROKEN[case], *ALSO.get(case, [])], key=str)


@pytest.mark.parametrize("case", [mixed, sealed_twice, sealed_again], ids=lambda case: case.__name__)
def test_it_is_named_too_when_groups_before_it_are_as_they_should_be(case):
    before, event, after = case()
    fine = Group(GroupStatus.GENERATING, before.trainer.groups[0].siblings)
    before, after = (
        system.replace(trainer=system.trainer.replace(groups=(fine, None, *system.trainer.groups)))
        for system in (before, after)
    )
    prop, why = BROKEN[case]
    assert Violation(prop, why.replace("p0", "p2")) in unsafe(before, event, after)


def test_a_gym_that_stays_equal_is_not_changed_by_a_late_answer():
    before, event, after = stale_answer()
    assert unsafe(before, event, gym(after)) == ()


def test_under_the_lease_a_commit_may_leave_what_has_finished_and_nothing_else():
    bare = gym(play(start("sibling", "siblings=1"), "admit 0"), executions=((A, Execution(PARKED)),))
    with design("lease"):
        assert unsafe(*committed_unacknowledged()) == ()
        for before, state in ((committed_while_running()[0], "running"), (bare, "parked")):
            found = unsafe(before, Flush(), gym(before, manifest="c0"))
            assert found == (Violation(Property.CUT_CLEAN, f"Gym has committed while p0_g0/0 is {state}"),)


def test_every_safety_property_has_a_case():
    liveness = {Property.RECOVERABLE, Property.UNBLOCKED, Property.REOPENS, Property.FAIR}
    assert {prop for prop, _ in BROKEN.values()} == set(Property) - liveness
