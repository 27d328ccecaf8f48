"""`enabled` and `step` are total, pure and deterministic, and they agree; events, policies and scopes survive JSON."""

import json
import pickle
import subprocess
import sys
from functools import cache

import pytest

from protocol import policy as policies
from protocol import scope as scopes
from protocol.events import BY_NAME, EVENTS, EventError, Owner, from_json
from protocol.policy import AXES, NAMED, Policy, PolicyError
from protocol.scope import FAULTS, Fault, Scope, ScopeError
from protocol.system import RULES, IllegalEvent, enabled, owner_of, step
from tests.protocol.histories import every_event, graph, play, start

ALL_FAULTS = ",".join(f"{fault.value}=1" for fault in Fault)
SMALL = [
    ("sibling", "siblings=1,attempts=1,failures=1,lost_replies=1,lost_receipts=1,duplicates=1,null_results=1"),
    ("sibling,lost_reply=fetch_receipt", "siblings=1,lost_requests=1,lost_receipts=1,disconnects=1"),
    ("prompt_group,give_up=retire", "failures=1,lost_retires=1,refusals=1"),
    (
        "sibling",
        "siblings=1,lost_acknowledges=1,drain_deaths=1,lost_prepares=1,lost_commits=1,lost_resumes=1,commit_failures=1",
    ),
    ("prompt_group_reconciled", "failures=1"),
    ("sibling,restart=adopt,lost_reply=same_attempt", "siblings=1,trainer_restarts=1,gym_restarts=1,restarts=1"),
]


@cache
def transitions(policy, scope):
    return list(graph(start(policy, scope)))


@pytest.mark.parametrize(("policy", "scope"), SMALL)
def test_every_enabled_event_steps_and_every_other_one_is_refused_with_its_rule(policy, scope):
    system = start(policy, scope)
    universe = every_event(1, system.scope.siblings + 1, system.scope.attempts + 1)
    states = dict.fromkeys(before for before, _, _ in transitions(policy, scope))
    for state in list(states)[:: max(1, len(states) // 15)]:
        possible = enabled(state)
        assert len(set(possible)) == len(possible)
        assert set(possible) <= {*universe, *possible}
        for event in possible:
            step(state, event)
        for event in set(universe) - set(possible):
            with pytest.raises(IllegalEvent) as caught:
                step(state, event)
            assert caught.value.event == event
            assert caught.value.system == state
            assert caught.value.rule in str(caught.value)
            assert str(event) in str(caught.value)


def test_every_kind_of_event_happens_somewhere_in_the_small_scopes():
    happened = {
        (type(e), getattr(e, "call", None)) for policy, scope in SMALL for _, e, _ in transitions(policy, scope)
    }
    wanted = {key if isinstance(key, tuple) else (key, None) for key in RULES}
    assert wanted == happened


def test_the_universe_of_the_agreement_test_contains_every_enabled_event():
    for policy, scope in SMALL:
        universe = set(every_event(1, 2, 5))
        assert {event for _, event, _ in transitions(policy, scope)} <= universe


def test_enabled_and_step_are_deterministic_also_between_processes():
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from tests.protocol.histories import graph, start\n"
        "import hashlib; h = hashlib.sha256()\n"
        "for a, e, b in graph(start('prompt_group', 'siblings=1,failures=1')): h.update(f'{e} {b}'.encode())\n"
        "print(h.hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_states_are_values():
    system = play(start(), "admit 0 | finish p0_g0/0")
    assert pickle.loads(pickle.dumps(system)) == system
    with pytest.raises(AttributeError):
        system.gym = None


def test_enabled_lists_only_events_of_the_owners_asked_for():
    system = play(start("sibling", ALL_FAULTS), "admit 0 | arrive p0_g0/0")
    for owner in Owner:
        events = enabled(system, frozenset({owner}))
        assert events
        assert {event.owner for event in events} == {owner}
    assert {owner_of(key) for key in RULES} == set(Owner)


def test_every_event_survives_json():
    for event in every_event(2, 2, 2):
        if getattr(event, "group", 0) >= 0:
            assert from_json(json.loads(json.dumps(event.to_json()))) == event
    assert set(BY_NAME.values()) == set(EVENTS)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], '^an event is an object with the key "event"$'),
        ({}, "an object"),
        ({"event": "explode"}, "unknown event 'explode'"),
        ({"event": "finish"}, "lacks the key 'attempt'"),
        ({"event": "finish", "attempt": "p0_g0/0", "why": 1}, "unknown key 'why'"),
        ({"event": "finish", "attempt": "p0_g0"}, "not an attempt"),
        ({"event": "finish", "attempt": "p00_g0/0"}, "not an attempt"),
        ({"event": "finish", "attempt": "p0_g0/-1"}, "not an attempt"),
        ({"event": "finish", "attempt": 7}, "not an attempt"),
        ({"event": "admit", "group": "0"}, "not a group number"),
        ({"event": "admit", "group": True}, "not a group number"),
        ({"event": "admit", "group": -1}, "not a group number"),
        ({"event": "lose_reply", "call": "poke"}, "unknown call 'poke'"),
        ({"event": "lose_reply"}, "lacks the key 'call'"),
    ],
)
def test_an_event_that_cannot_be_read_is_one_sentence(data, said):
    with pytest.raises(EventError, match=said):
        from_json(data)


def test_every_policy_survives_its_spelling():
    for policy, _ in NAMED.values():
        assert policies.parse(policies.spell(policy)) == policy
    for axis in AXES:
        for member in type(getattr(Policy(), axis)):
            for base in ("sibling", "prompt_group"):
                policy = policies.named(base).with_axes({axis: member.value})
                assert policies.parse(policies.spell(policy)) == policy
                assert Policy().with_axes(policy.axes()) == policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        (" , ", "empty"),
        ("fifo", "no policy is called 'fifo'; the named ones are sibling"),
        ("sibling,drain", "'drain' in policy 'sibling,drain' is not axis=value"),
        ("sibling,drains=once", "no policy axis is called 'drains'; the axes are granularity"),
        ("drain=never", "drain=never is not a policy: drain is one of once, reschedule"),
        ("drain=once,drain=once", "axis 'drain' is given twice in policy 'drain=once,drain=once'$"),
        ("drain=once=", "^drain=once= is not a policy"),
    ],
)
def test_a_policy_that_cannot_be_read_says_which_words_there_are(text, said):
    with pytest.raises(PolicyError, match=said):
        policies.parse(text)


def test_a_scope_has_a_budget_for_every_fault():
    assert set(FAULTS) == {fault.value for fault in Fault} <= set(Scope().sizes())
    assert [fault.position for fault in Fault] == list(range(len(Fault)))
    for fault in Fault:
        scope = scopes.parse(f"{fault.value}=4")
        assert scope.budget()[fault.position] == 4
    assert scopes.parse("groups=1", Scope(siblings=2)) == Scope(groups=1, siblings=2)
    assert scopes.parse("") == Scope()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("teams=1", "no bound is called 'teams'; the bounds are groups, siblings, attempts"),
        ("groups=1,,siblings=1", "'groups=1,,siblings=1' has a comma with no bound beside it"),
        ("groups=1, groups=2", "groups is given twice in 'groups=1, groups=2'"),
        ("groups", "'groups' is not bound=number"),
        ("groups=x", "'groups=x' is not bound=number"),
        ("groups=1234567", "'groups=1234567' is not bound=number"),
        ("groups=123456", "groups is 123456; it is a whole number from 1 to 8"),
        ("groups=0", "groups is 0; it is a whole number from 1 to 8"),
        ("siblings=9", "siblings is 9; it is a whole number from 1 to 8"),
        ("failures=-1", "failures is -1; it is a whole number from 0 to 9"),
        ("failures=10", "failures is 10; it is a whole number from 0 to 9"),
    ],
)
def test_a_scope_that_cannot_be_read_says_why(text, said):
    with pytest.raises(ScopeError, match=said):
        scopes.parse(text)


def test_a_bound_is_a_whole_number():
    for wrong in (True, 1.0, "1", None):
        with pytest.raises(ScopeError, match="groups is"):
            Scope(groups=wrong)


def test_bounds_prune_no_system_event():
    """What the pair does by itself does not depend on what is left of any budget."""
    for policy, scope in SMALL[:3]:
        for before, _, after in transitions(policy, scope)[::23]:
            for system in (before, after):
                spent = system.replace(budget=(0,) * len(Fault))
                owners = frozenset({Owner.SYSTEM})
                assert enabled(spent, owners) == enabled(system, owners)
