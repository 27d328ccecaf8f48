"""What events do to single siblings and attempts: transitions that are put together are the real ones, or an error."""

import random

import attrs
import pytest
from naive import FAULTS, Naive

from protocol import policy as policies
from protocol import scope as scopes
from protocol.events import Deliver, Fail, Finish, Flush
from protocol.executions import State
from protocol.policy import AXES, NAMED, Policy
from protocol.scope import Fault
from protocol.state import initial
from protocol.system import enabled, step
from protocol.trainer import AttemptStatus, Entry, Seen
from protocol.wire import Kind
from state_machines import effects, happenings
from state_machines.factor import FactoringError
from state_machines.matrix import DOMAINS
from state_machines.prove import Bounds, Explorer, prove, prove_anyhow
from state_machines.reduce import ALL
from state_machines.successors import Successors
from state_machines.verdict import Judge

SEALED = Entry(AttemptStatus.SEALED, Seen.RESULT)
ONE = scopes.parse("groups=1,siblings=2,lost_replies=0")


def explored(policy, scope, most=3000):
    """Look at up to so many states of the tables, one by one, and return them."""
    tables = Successors(policy, scope)
    states = [tables.encode(initial(policy, scope))]
    seen = set(states)
    for code in states:
        fresh = {after for _, after in tables.of(code)} - seen
        seen |= fresh
        states += sorted(fresh)
        if len(states) > most:
            break
    return tables


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(
    "faults", ["failures=1,lost_replies=1", "duplicates=1,lost_retires=1", "lost_receipts=1", "restarts=1"]
)
def test_every_list_of_moves_is_the_real_one(monkeypatch, name, faults):
    monkeypatch.setattr(effects, "SAMPLE", 1)
    none = scopes.parse("groups=2,siblings=3,failures=0,lost_replies=0")
    tables = explored(policies.named(name), scopes.parse(faults, none), most=250)
    assert tables.verified == tables.derived > 20 or name == "prompt_group_refused"


def other(system, attempt):
    """Return the attempts that belong to other siblings of the same group."""
    return [a for a, _ in system.gym.executions if a.rollout != attempt.rollout]


def touches(system, event):
    """A finish takes away the last message of another sibling."""
    after = step(system, event)
    for attempt in other(system, event.attempt) if isinstance(event, Finish) else ():
        after = after.replace(wire=after.wire.take(attempt))
    return after


def reads(system, event):
    """A finish is lost when another sibling has a result."""
    after = step(system, event)
    finished = [a for a, e in system.gym.executions if e.state is State.COMPLETED and a != getattr(event, "attempt", a)]
    if isinstance(event, Finish) and finished:
        after = after.replace(wire=after.wire.put(event.attempt, Kind.LOST))
    return after


def tells_apart(system, event):
    """A flush forgets the connection of the first sibling's attempts, and of no other's."""
    after = step(system, event)
    if isinstance(event, Flush):
        for attempt, _ in after.gym.executions:
            if attempt.rollout.endswith("g0"):
                after = after.replace(wire=after.wire.take(attempt))
    return after


def spends(system, event):
    """A failure also uses up a lost reply."""
    after = step(system, event)
    return after.spend(Fault.LOST_REPLY) if isinstance(event, Fail) and after.left(Fault.LOST_REPLY) else after


def gives_up(system, event):
    """An answer takes away the messages of the other siblings when one of them is sealed."""
    after = step(system, event)
    sealed = [s for group in system.trainer.groups for s in (group.siblings if group else ()) if s[-1] == SEALED]
    if isinstance(event, Deliver) and sealed:
        for attempt in other(system, event.attempt):
            after = after.replace(wire=after.wire.take(attempt))
    return after


@pytest.mark.parametrize("broken", [touches, reads, tells_apart, spends, gives_up])
def test_a_step_that_does_what_is_not_foreseen_is_caught(monkeypatch, broken):
    monkeypatch.setattr(happenings, "step", broken)
    monkeypatch.setattr(effects, "SAMPLE", 1)
    scope = scopes.parse("groups=1,siblings=3,lost_replies=1")
    with pytest.raises(FactoringError):
        explored(policies.named("sibling"), scope)


def test_what_the_tables_refuse_is_decided_over_real_systems(monkeypatch):
    expected = prove(policies.named("sibling"), ONE)
    monkeypatch.setattr(happenings, "step", touches)
    found = prove_anyhow(policies.named("sibling"), ONE, Bounds())
    assert found.exhaustive
    assert {x.verdict: x.length for x in found.findings} == {x.verdict: x.length for x in expected.findings}


def test_what_the_tables_refuse_a_hunt_decides_over_real_systems(monkeypatch):
    """Also what is asked after the error: what the tables had learned by then is not read again."""
    scope = scopes.parse("groups=1,siblings=2,failures=1,lost_replies=0")
    systems, rnd = [], random.Random(3)
    for _ in range(12):
        system = initial(policies.named("prompt_group"), scope)
        while (events := enabled(system)) and len(systems) % 20 != 19:
            systems.append(system)
            system = step(system, rnd.choice(events))
        systems.append(system)
    expected = [Judge(fair=True).state(system) for system in systems]
    assert {None if x is None else x.word for x in expected} >= {None, "stranded", "unfair"}
    monkeypatch.setattr(happenings, "step", touches)
    judge = Judge(fair=True)
    assert [judge.state(system) for system in systems] == expected
    assert judge.recovery.probe(systems[0].policy, scope).refused


def test_more_siblings_need_hardly_more_real_steps():
    steps, states = {}, {}
    for siblings in (2, 3, 4):
        explorer = Explorer(policies.named("sibling_repaired"), attrs.evolve(ONE, siblings=siblings))
        explorer.run()
        steps[siblings], states[siblings] = explorer.successors.real_steps, explorer.states
    assert states[4] > 4 * states[2]
    assert steps[4] < 2 * steps[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_a_random_policy_in_a_random_scope_is_decided_as_the_definition_does(seed):
    rnd = random.Random(seed)
    policy = Policy().with_axes({name: rnd.choice(DOMAINS[name]).value for name in AXES if name in DOMAINS})
    size = rnd.choice(["groups=1,siblings=2", "groups=1,siblings=3,attempts=1", "groups=2,siblings=1,attempts=1"])
    faults = dict.fromkeys(rnd.sample(FAULTS, rnd.choice([1, 1, 2])), 1)
    scope = scopes.parse(f"{size},failures=0,lost_replies=0")
    scope = attrs.evolve(scope, **faults)
    definition = Naive(policy, scope, most=60_000)
    if not definition.whole:
        pytest.skip("too many states for the definition")
    proof = prove(policy, scope)
    assert {x.verdict: x.length for x in proof.findings} == definition.findings()
    assert proof.states == prove(policy, scope, on=attrs.evolve(ALL, tables=False)).states
