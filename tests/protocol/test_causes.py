"""What a finding is put down to is looked for in the group that it is about, whichever group and sibling that is."""

import pytest

from protocol import lease
from protocol import policy as policies
from protocol import system as rules
from protocol import trainer as t
from protocol.events import Admit, Deliver, DrainDies, Duplicate, Finalize, Flush, LoseReply, Resume, Snapshot
from protocol.findings import Cause
from protocol.identity import Attempt
from protocol.properties import blocked_by, cause, culprits
from protocol.runs import group_of
from protocol.trainer import AttemptStatus, Entry, Group, GroupStatus, Seen
from protocol.wire import Call
from state_machines.designs import design
from tests.protocol.histories import play, start

GROUP_0_ENDS = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | finish p0_g1/0 | deliver p0_g1/0 | finalize 0 | flush"


@pytest.mark.parametrize(("fails", "runs"), [(0, 1), (1, 0)])
def test_a_failure_on_its_way_dooms_the_runs_of_its_own_group_only(fails, runs):
    system = play(start("prompt_group", "groups=2,failures=1"), f"admit 0 | admit 1 | fail p1_g{fails}/0")
    assert culprits(system) == (Attempt(f"p1_g{runs}", 0),)
    assert cause(system) is Cause.LATE_RESULT


@pytest.mark.parametrize(("parked", "finished"), [(0, 1), (1, 0)])
def test_a_lost_resume_strands_the_group_that_is_partly_parked(parked, finished):
    history = f"admit 1 | finish p1_g{finished}/0 | snapshot | prepare | boundary p1_g{parked}/0 | deadline"
    system = play(start("prompt_group", "groups=2,lost_resumes=1"), f"{GROUP_0_ENDS} | {history} | lose_request resume")
    assert cause(system) is Cause.ROLLBACK_LOST


def test_a_restart_gives_up_for_good_what_had_been_given_up_and_was_not_heard_of():
    history = (
        "admit 0 | fail p0_g0/0 | deliver p0_g0/0 | snapshot | prepare | boundary p0_g0/1 | boundary p0_g1/0"
        " | boundary p0_g1/1 | answer | commit | publish | resume"
    )
    system = play(start("prompt_group", "failures=1,trainer_restarts=1"), history)
    unheard, heard = Attempt("p0_g1", 0), Attempt("p0_g0", 0)
    assert system.trainer.entry(unheard) == Entry(AttemptStatus.ABANDONED, Seen.NOTHING)
    after = play(system, "restart_trainer")
    assert after.trainer.entry(unheard) == Entry(AttemptStatus.ABANDONED, Seen.RESTARTED)
    assert after.trainer.entry(heard) == system.trainer.entry(heard) == Entry(AttemptStatus.FAILED, Seen.FAILURE)


def test_a_late_failure_of_an_attempt_that_was_given_up_is_noted_once_and_changes_nothing_else():
    history = "admit 0 | fail p0_g0/0 | deliver p0_g0/0 | fail p0_g1/0"
    before = play(start("prompt_group", "failures=2"), history)
    after = play(before, "deliver p0_g1/0")
    given_up = Attempt("p0_g1", 0)
    assert before.trainer.entry(given_up) == Entry(AttemptStatus.ABANDONED)
    noted = t.mark(before.trainer, given_up, Entry(AttemptStatus.ABANDONED, Seen.FAILURE))
    assert after.trainer == noted
    assert t.attempt_fails(noted, after.policy, 2, given_up, Seen.LOST) is noted
    assert t.attempt_fails(noted, after.policy, 2, Attempt("p0_g1", 7), Seen.LOST) is noted
    sealed = play(start("sibling"), "admit 0 | finish p0_g0/0 | deliver p0_g0/0").trainer
    assert t.attempt_fails(sealed, policies.parse("sibling"), 2, Attempt("p0_g0", 0), Seen.LOST) is sealed


def test_a_reply_has_one_copy_more_at_most():
    system = play(start("sibling", "siblings=1,duplicates=2"), "admit 0 | finish p0_g0/0 | duplicate p0_g0/0")
    assert rules.broken(system, Duplicate(Attempt("p0_g0", 0))) == "the network already holds a second copy"


THREE_FAIL = " | ".join(["snapshot | prepare | deadline | resume"] * 3)


@pytest.mark.parametrize(
    ("policy", "scope", "history", "refused", "why"),
    [
        ("sibling", "snapshots=4", THREE_FAIL, Snapshot(), "failed snapshots have ended the run"),
        ("sibling,drain=reschedule", "drain_deaths=1", "", DrainDies(), "the policy's drain comes back"),
    ],
)
def test_what_is_refused_is_refused_with_the_rule(policy, scope, history, refused, why):
    assert rules.broken(play(start(policy, scope), history), refused) == why


def test_what_the_lease_refuses_is_refused_with_the_rule():
    with design("lease"):
        system = play(start("sibling", "lost_receipts=1"), "admit 0 | finish p0_g0/0")
        lost = LoseReply(Call.RECEIPT, Attempt("p0_g0", 0))
        assert rules.broken(system, lost) == "there are no receipts in this design"
        assert rules.broken(system, Resume()) == "Gym is resumed after a snapshot, to abort one, or by its lease"


def test_a_snapshot_that_meets_a_forgotten_debt_is_blocked_by_it():
    system = play(
        start("sibling", "siblings=1,gym_restarts=1"), "admit 0 | finish p0_g0/0 | snapshot | deliver p0_g0/0"
    )
    assert blocked_by(play(system, "restart_gym")) is Cause.UNPAYABLE_DEBT


def test_what_a_group_that_has_ended_leaves_at_gym_is_found_by_its_group():
    system = play(start("sibling", "groups=2,siblings=2"), "admit 0 | admit 1")
    ended = Group(GroupStatus.DROPPED, system.trainer.groups[1].siblings)
    system = system.replace(trainer=system.trainer.replace(groups=(system.trainer.groups[0], ended)))
    assert lease.left(system) == (Attempt("p1_g0", 0), Attempt("p1_g1", 0))


def test_the_ledger_does_not_know_a_sibling_or_an_attempt_that_it_does_not_hold():
    trainer = play(start("sibling", "groups=2"), "admit 0").trainer
    for unknown in ("p0_g2/0", "p0_g0/1", "p1_g0/0", "p2_g0/0"):
        rollout, _, index = unknown.partition("/")
        assert trainer.entry(Attempt(rollout, int(index))) is None


@pytest.mark.parametrize(
    ("event", "group"), [(Admit(1), 1), (Finalize(2), 2), (Deliver(Attempt("p1_g0", 0)), 1), (Flush(), None)]
)
def test_an_event_is_about_the_group_that_it_names(event, group):
    assert group_of(event) == group


def test_an_event_of_a_group_names_it_or_an_attempt_and_every_other_one_is_nobodys():
    kinds = {key[0].__name__ if isinstance(key, tuple) else key.__name__ for key in rules.OF_NOBODY}
    assert {"Admit", "Finalize", "Deliver", "RetireRun"}.isdisjoint(kinds)
    assert {"Flush", "Snapshot", "Prepare", "RestartGym"} <= kinds
    assert {key[1] for key in rules.OF_A_GROUP if isinstance(key, tuple)} == {Call.RUN, Call.RECEIPT, Call.RETIRE}
    assert set(rules.RULES) == rules.OF_A_GROUP | rules.OF_NOBODY
    assert not rules.OF_A_GROUP & rules.OF_NOBODY
    system = play(start("prompt_group", "failures=1"), "admit 0 | finish p0_g0/0")
    nobodys, groups = (rules.enabled(system, kinds=kinds) for kinds in (rules.OF_NOBODY, rules.OF_A_GROUP))
    assert nobodys
    assert groups
    assert {*nobodys, *groups} == {*rules.enabled(system)}
    assert not {*nobodys} & {*groups}


def test_a_held_result_that_gym_has_forgotten_is_a_debt_that_cannot_be_paid():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | restart_gym"
    assert cause(play(start("prompt_group", "gym_restarts=1"), history)) is Cause.UNPAYABLE_DEBT
