"""What a hunt finds, how short, how surely, and when its silence means something."""

import gc
import weakref
from itertools import pairwise

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.internal.reflection import function_digest
from hypothesis.stateful import run_state_machine_as_test

from protocol.events import Admit, Deliver, Fail, Finish, LoseReply
from protocol.identity import Attempt
from protocol.policy import NAMED, named, parse
from protocol.scope import Scope
from protocol.system import enabled, initial, step
from protocol.wire import Call
from state_machines.expected import EXPECTED, expected
from state_machines.hunt import hunt
from state_machines.machine import Session, families, machine, machine_name, with_session
from state_machines.replay import replay
from state_machines.shrink import canonical, outcome, plainest, shrink
from state_machines.targets import ModelTarget
from state_machines.verdict import Judge, Verdict, finding_type
from state_machines.walk import FAMILIES, UNKNOWN, Walk

SMALL = Scope(groups=1, siblings=2)
LOST_REPLY = Verdict("recoverable", "lost_reply")
ABANDONED = Verdict("recoverable", "abandoned_result")
PARTIAL = Verdict("unblocked", "partial_group")
FEW = 80  # examples: enough for each of these seeds; benchmarks/hunt.py measures the default on fifty


@pytest.mark.parametrize("name", NAMED)
def test_a_hunt_finds_exactly_the_known_verdicts_each_with_its_shortest_history(name):
    result = hunt(named(name), Scope(), seed=0, examples=FEW)
    assert {finding.verdict: len(finding.events) for finding in result.findings} == EXPECTED[name]
    assert all(finding.shortest == len(finding.events) for finding in result.findings)
    assert not result.unknown
    assert not result.missing


@pytest.mark.slow
def test_every_seed_reports_the_same_histories():
    policy = named("prompt_group")
    reports = [hunt(policy, Scope(), seed=n, examples=FEW).findings for n in range(1, 5)]
    assert all({(f.verdict, f.events) for f in a} == {(f.verdict, f.events) for f in b} for a, b in pairwise(reports))
    assert {f.verdict: len(f.events) for f in reports[0]} == EXPECTED["prompt_group"]


def test_each_reported_history_breaks_its_property_with_its_last_event_and_no_earlier():
    result = hunt(named("prompt_group"), SMALL, seed=3, examples=100)
    assert result.findings
    for finding in result.findings:
        run = replay(result.policy, result.scope, finding.events)
        assert (run.verdict, run.at) == (finding.verdict, len(finding.events))


def test_sibling_is_clean_without_lost_replies_and_stranded_with_one():
    clean = hunt(named("sibling"), Scope(groups=1, lost_replies=0), seed=1, examples=60)
    assert (clean.findings, clean.unknown, clean.missing) == ((), False, ())
    assert hunt(named("sibling"), Scope(groups=1), seed=1, examples=60).verdicts == {LOST_REPLY}


def test_the_same_seed_does_the_same_whatever_was_remembered_before():
    policy = parse("prompt_group,late=acknowledge")
    first, second = (hunt(policy, SMALL, seed=11, examples=30) for _ in range(2))
    assert first.findings == second.findings
    assert (first.examples, first.steps, first.states) == (second.examples, second.steps, second.states)
    assert first.witnesses == second.witnesses


def test_a_memo_that_is_full_begins_again_and_changes_nothing(monkeypatch):
    policy = parse("prompt_group,late=raise")
    before = hunt(policy, SMALL, seed=11, examples=30)
    monkeypatch.setattr("state_machines.walk.NODE_LIMIT", 20)
    after = hunt(policy, SMALL, seed=11, examples=30)
    assert (before.findings, before.steps, before.witnesses) == (after.findings, after.steps, after.witnesses)


def test_a_derandomized_hunt_takes_its_seed_from_policy_and_scope():
    seeds = {
        hunt(named(n), SMALL, examples=5, derandomize=True).seed for n in ("sibling", "prompt_group") for _ in "12"
    }
    assert len(seeds) == 2


def test_a_state_that_cannot_be_decided_is_unknown_and_never_clean():
    scope = Scope(groups=1, siblings=2, attempts=1)
    walk = machine(named("sibling_repaired"), scope).session.walk
    walk.judge = Judge(limit=2)
    result = hunt(named("sibling_repaired"), scope, seed=1, examples=30)
    assert result.unknown
    assert not result.findings


def test_a_hunt_that_saw_too_little_is_vacuous():
    result = hunt(named("sibling_repaired"), Scope(), seed=1, examples=1)
    assert result.vacuous
    assert "committed snapshot" in result.missing


def test_progress_counts_up():
    seen = []
    result = hunt(named("prompt_group"), SMALL, seed=1, examples=30, progress=seen.append)
    assert all(a.examples < b.examples and a.states <= b.states and a.findings <= b.findings for a, b in pairwise(seen))
    assert (seen[-1].examples, seen[-1].findings) == (result.examples, len(result.findings))


def test_the_model_never_diverges_from_itself():
    result = hunt(named("sibling_repaired"), SMALL, seed=1, examples=20, target=ModelTarget())
    assert not result.findings


# The machine


def test_every_policy_and_scope_has_a_machine_with_a_name_of_its_own():
    policies = [
        *(policy for policy, _ in NAMED.values()),
        parse("sibling,late=raise"),
        parse("sibling,late=acknowledge"),
    ]
    names = {machine_name(policy, scope) for policy in policies for scope in (Scope(), SMALL)}
    assert len(names) == 2 * len(policies)
    assert machine(policies[0], SMALL) is machine(policies[0], SMALL)


def test_every_event_belongs_to_a_rule_and_faults_without_a_budget_to_none():
    kinds = [kind for group in FAMILIES.values() for kind in group]
    assert len(kinds) == len(set(kinds))
    assert "fail" in families(Scope())
    assert not {"fail", "lose", "restart"} & set(families(Scope(failures=0, lost_replies=0)))
    assert "restart" in families(Scope(restarts=1))


def test_every_verdict_fails_with_an_exception_type_of_its_own():
    verdicts = {verdict for known in EXPECTED.values() for verdict in known}
    assert len({finding_type(verdict) for verdict in verdicts}) == len(verdicts)
    assert finding_type(LOST_REPLY).__name__ == "StrandedLostReply"
    assert finding_type(PARTIAL).__name__ == "BlockedPartialGroup"
    assert issubclass(finding_type(LOST_REPLY), AssertionError)


def test_a_known_verdict_is_not_reported_again():
    policy = named("sibling")
    few = settings(machine(policy, SMALL).TestCase.settings, max_examples=50, phases=(Phase.generate,), database=None)
    session = Session(machine(policy, SMALL).session.walk, known={LOST_REPLY})
    run_state_machine_as_test(seed(1)(with_session(policy, SMALL, session)), settings=few)
    assert not session.shortest
    session = Session(session.walk)
    with pytest.raises(finding_type(LOST_REPLY), match=r"stranded: lost_reply after .* events"):
        run_state_machine_as_test(seed(1)(with_session(policy, SMALL, session)), settings=few)
    assert set(session.shortest) == {LOST_REPLY}


def test_a_hunt_leaves_no_machine_behind_and_shares_its_failures_with_the_test_case():
    policy = named("sibling")
    session = Session(Walk(policy, SMALL))
    factory = with_session(policy, SMALL, session)
    assert function_digest(factory) == function_digest(machine(policy, SMALL))
    one = settings(max_examples=1, phases=(Phase.generate,), database=None, deadline=None)
    run_state_machine_as_test(seed(1)(factory), settings=one)
    left = weakref.ref(session)
    del factory, session
    gc.collect()
    assert left() is None, "Hypothesis keeps every class of machines for ever"


# Shrinking


def test_a_history_full_of_detours_shrinks_to_the_shortest_in_the_plainest_names():
    walk = Walk(named("prompt_group"), Scope())
    detours = (
        Admit(0),
        Finish(Attempt("p0_g2", 0)),
        Deliver(Attempt("p0_g2", 0)),
        Admit(1),
        Finish(Attempt("p1_g1", 0)),
        Deliver(Attempt("p1_g1", 0)),
        Fail(Attempt("p1_g2", 0)),
    )
    assert shrink(walk, ABANDONED, detours) == (Admit(0), Finish(Attempt("p0_g0", 0)), Fail(Attempt("p0_g1", 0)))


def test_a_later_attempt_shrinks_to_the_first():
    walk = Walk(named("sibling"), Scope())
    again = Attempt("p0_g1", 1)
    detour = (
        Admit(0),
        Fail(Attempt("p0_g1", 0)),
        Deliver(Attempt("p0_g1", 0)),
        Finish(again),
        LoseReply(Call.RUN, again),
    )
    first = Attempt("p0_g0", 0)
    assert outcome(walk, detour)[1] == LOST_REPLY
    assert shrink(walk, LOST_REPLY, detour) == (Admit(0), Finish(first), LoseReply(Call.RUN, first))


@pytest.mark.parametrize("name", ["sibling", "prompt_group", "prompt_group_ack_on_arrival"])
def test_no_shorter_history_exists_by_a_search_that_knows_no_symmetry(name):
    """Every history of fewer events, one by one, from the rules alone."""
    policy, judge = named(name), Judge()
    lengths, level, met = {}, [initial(policy, Scope())], set()
    for length in range(1, max(EXPECTED[name].values()) + 1):
        following = []
        for before in level:
            for event in enabled(before):
                after = step(before, event)
                verdict = judge.step(before, event, after)
                if verdict is not None:
                    lengths.setdefault(verdict, length)
                elif after not in met:
                    met.add(after)
                    following.append(after)
        level = following
    assert lengths == EXPECTED[name]


def test_a_certificate_says_when_there_is_too_much_to_look_at(monkeypatch):
    walk = Walk(named("prompt_group"), Scope())
    assert plainest(walk, PARTIAL, 5)[1] is True
    monkeypatch.setattr("state_machines.shrink.STATE_LIMIT", 3)
    assert plainest(walk, PARTIAL, 5) == (None, False)


def test_a_certificate_is_not_sure_past_a_state_that_was_not_decided():
    walk = Walk(named("prompt_group"), SMALL, Judge(limit=4))
    found, sure = plainest(walk, UNKNOWN, 5)
    assert found is not None
    assert plainest(walk, Verdict("recoverable", "no such"), 5) == (None, False)
    assert sure in (True, False)


def test_systems_that_differ_in_names_alone_are_one_for_a_certificate():
    start = step(initial(named("sibling"), Scope()), Admit(0))
    a, b = (step(start, Finish(Attempt(f"p0_g{i}", 0))) for i in (0, 2))
    assert a != b
    assert canonical(a) == canonical(b)
    assert canonical(a) != canonical(start)


def test_verdicts_are_known_only_for_named_policies_in_the_default_scope():
    assert set(EXPECTED) == set(NAMED)
    assert expected(named("sibling"), Scope()) == {LOST_REPLY: 3}
    assert expected(named("sibling"), SMALL) is None
    assert expected(parse("sibling,late=raise"), Scope()) is None
