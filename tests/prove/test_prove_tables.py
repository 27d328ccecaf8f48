"""The tables of successors: nothing is lost by the cut, and what the cut assumes is checked."""

import random

import numpy as np
import pytest
from naive import FAULTS

from protocol import policy as policies
from protocol import properties
from protocol import scope as scopes
from protocol.events import Finish
from protocol.executions import Gym
from protocol.policy import NAMED
from protocol.state import initial
from protocol.system import enabled, step
from state_machines import batches, happenings, names, successors
from state_machines.factor import COVERED, FactoringError, Local, Parts, Sibling, check_covered, join, split
from state_machines.prove import Explorer
from state_machines.successors import Successors

ALL_FAULTS = ",".join(f"{name}=1" for name in [*FAULTS, "trainer_restarts", "gym_restarts", "restarts"])


def walk(policy, scope, length, rnd):
    system = initial(policy, scope)
    for _ in range(length):
        yield system
        events = enabled(system)
        if not events:
            return
        system = step(system, rnd.choice(events))


@pytest.mark.parametrize("name", NAMED)
def test_a_system_survives_the_cut(name):
    rnd = random.Random(name)
    for _ in range(15):
        for system in walk(policies.named(name), scopes.parse(f"snapshots=3,{ALL_FAULTS}"), 80, rnd):
            assert join(system.policy, system.scope, split(system)) == system


def test_a_field_that_the_cut_does_not_know_is_an_error():
    check_covered()
    with pytest.raises(FactoringError, match="Gym"):
        check_covered({**COVERED, Gym: COVERED[Gym] - {"saved"}})


@pytest.mark.parametrize("name", ["sibling", "prompt_group_repaired", "prompt_group_reconciled", "prompt_group"])
@pytest.mark.parametrize(
    "faults", ["failures=1", "lost_acknowledges=1", "lost_prepares=1,refusals=1", "gym_restarts=1"]
)
def test_the_tables_have_the_real_successors_of_every_state(name, faults):
    none = scopes.parse("groups=2,siblings=1,snapshots=2,failures=0,lost_replies=0")
    tables = Successors(policies.named(name), scopes.parse(faults, none))
    seen = {tables.encode(initial(tables.policy, tables.scope))}
    frontier = list(seen)
    while frontier and len(seen) < 2500:
        code = frontier.pop()
        found = tables.of(code)
        tables.verify(code, found)
        fresh = {after for _, after in found} - seen
        seen |= fresh
        frontier += fresh
    assert tables.real_steps


def test_a_level_at_a_time_has_the_real_successors_of_every_state(monkeypatch):
    monkeypatch.setattr(batches, "SAMPLE", 1)
    scope = scopes.parse("groups=2,siblings=1,failures=1,lost_replies=0")
    explorer = Explorer(policies.named("prompt_group_repaired"), scope)
    explorer.run()
    assert explorer.successors.sampled == explorer.states
    assert explorer.closures.successors.sampled


def test_ids_that_do_not_fit_are_an_error_and_never_cut_off():
    for columns, (head, each) in names.WIDTHS.items():
        row = np.zeros((1, columns), np.int32)
        for at, bits in ((0, head), (1, each)):
            if bits < 31:
                row[0, at] = 1 << bits
                with pytest.raises(names.TooWide):
                    names.pack(row)
            row[0, at] = 0
    with pytest.raises(names.TooWide):
        names.pack(np.full((1, 9), 1 << 16, np.int32))


@pytest.mark.parametrize("name", NAMED)
def test_the_blame_of_a_system_is_the_least_of_its_groups(name):
    policy, scope, rnd = policies.named(name), scopes.parse(f"snapshots=3,{ALL_FAULTS}"), random.Random(name)
    empty = Local(None, None, (Sibling(),) * scope.siblings)
    for _ in range(8):
        for system in walk(policy, scope, 60, rnd):
            parts = split(system)
            alone = [join(policy, scope, Parts(parts.shared, (x, empty))) for x in parts.locals]
            for blamed in (properties.blame, properties.obstacle):
                assert blamed(system) == min(map(blamed, alone))


def test_a_step_that_touches_another_group_is_caught(monkeypatch):
    """The assumption behind the tables, broken on purpose: a finish also takes away the other group's last message."""

    def broken(system, event):
        after = step(system, event)
        if isinstance(event, Finish):
            other = [m for m in after.wire.messages if m.attempt.rollout[:2] != event.attempt.rollout[:2]]
            after = after.replace(wire=after.wire.take(other[-1].attempt)) if other else after
        return after

    monkeypatch.setattr(happenings, "step", broken)
    monkeypatch.setattr(successors, "SAMPLE", 1)
    tables = Successors(policies.named("sibling"), scopes.parse("groups=2,siblings=1,failures=0,lost_replies=0"))
    with pytest.raises(FactoringError):
        explore_all(tables)


def explore_all(tables):
    frontier = [tables.encode(initial(tables.policy, tables.scope))]
    for code in frontier:
        frontier += [after for _, after in tables.of(code)]
        assert len(frontier) < 5000
