"""SPIN, on a model that was written by hand, finds the same states, transitions and verdicts as the core."""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from protocol import properties
from protocol.events import Owner
from protocol.policy import named
from protocol.scope import Scope
from protocol.state import initial
from protocol.system import enabled, step
from state_machines.explore import can_reach, explore_model, traps
from state_machines.factor import split
from state_machines.prove import prove
from state_machines.reduce import NONE

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "spin"))
import explore_tables
import model

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs the programs spin and gcc (.ci/run installs both)"
)
BENCHMARKS = Path(explore_tables.__file__).parent
check = partial(model.check, table=18)  # small: it is cleared each time
SYSTEM = frozenset({Owner.SYSTEM})
CLEAN, PAIR = named("sibling_repaired"), Scope(2, 1, 2, 1, 0, 0)
SCOPES = (Scope(1, 1, 2, 1, 1, 1), Scope(1, 2, 2, 0, 1, 1), Scope(1, 2, 2, 1, 0, 0), Scope(1, 2, 2, 1, 1, 1))
POLICIES = ("sibling", "prompt_group_repaired", "prompt_group")
SMALL = [(name, scope) for name in POLICIES for scope in SCOPES if (name, scope) != (POLICIES[1], SCOPES[3])]


def graph_of(policy, scope):
    return explore_model(initial(policy, scope), enabled, step)


def at_rest(system):
    return not enabled(system, SYSTEM)


@pytest.mark.parametrize(("name", "scope"), SMALL, ids=lambda x: x if isinstance(x, str) else str(x.budget()[:2]))
def test_spin_agrees_on_states_transitions_and_states_at_rest_that_are_not_ready(name, scope):
    graph = graph_of(named(name), scope)
    stuck = sum(at_rest(system) and not properties.ready(system) for system in graph.states)
    counted = check(named(name), scope)
    assert (counted.states, counted.transitions, counted.errors) == (len(graph.states), len(graph.targets), stuck)
    recoverable = prove(named(name), scope).decided()["recoverable"]
    assert recoverable == ("violated" if stuck else "holds")


def test_spin_agrees_on_thirty_thousand_states_of_the_repair():
    counted = check(named("prompt_group_repaired"), SCOPES[3])
    assert (counted.states, counted.transitions, counted.errors) == (31_718, 79_675, 0)


def test_spin_agrees_on_two_groups_with_an_exploration_that_forgets_nothing():
    proof, counted = prove(CLEAN, PAIR, on=NONE), check(CLEAN, PAIR)
    assert (proof.states, proof.transitions) == (counted.states, counted.transitions)


@pytest.mark.parametrize("name", ["sibling", "prompt_group"])
def test_recoverable_is_that_every_state_at_rest_is_ready(name):
    """What SPIN asserts is AG EF ready, because every state reaches rest: also from the one cycle, asking again."""
    graph = graph_of(named(name), SCOPES[0])
    assert graph.has_cycle()
    assert not traps(graph, at_rest, properties.rescues)
    ready = can_reach(graph, properties.ready, properties.rescues)
    stuck = {i for i, system in enumerate(graph.states) if at_rest(system) and not properties.ready(system)}
    assert stuck
    assert stuck <= {i for i, yes in enumerate(ready) if not yes}


@pytest.mark.parametrize(("name", "scope"), [("sibling", SCOPES[1]), ("sibling_repaired", PAIR)])
def test_symmetry_by_hand_keeps_the_verdict_and_visits_one_state_of_each_orbit(name, scope):
    folded, every = check(named(name), scope, symmetry=True), graph_of(named(name), scope).states
    assert bool(folded.errors) == (name == "sibling")
    assert folded.states == len({orbit(system) for system in every}) < len(every)


def orbit(system):
    """Return what all systems have in common that differ in the order of siblings and groups only."""
    parts = split(system)
    fence = parts.shared.fence
    replies = [(i, call, [x for x in r.body if x[0] != "selected_boundaries"]) for i, call, r in fence.recorded]
    shared = parts.shared._replace(fence=evolve(fence, recorded=()))  # the field left out names rollouts
    groups = sorted(repr(x._replace(siblings=sorted(map(repr, x.siblings)))) for x in parts.locals)
    return repr((shared, replies, groups))


def test_the_model_refuses_what_it_does_not_describe():
    with pytest.raises(ValueError, match="no gym_restarts"):
        model.defines(named("sibling"), Scope(gym_restarts=1))
    with pytest.raises(ValueError, match="fewer policies"):
        model.defines(named("prompt_group_reconciled"), Scope())


def test_the_tables_of_speed_are_written_from_what_was_measured():
    measured = json.loads((BENCHMARKS / "explore.json").read_text())
    assert (BENCHMARKS / "explore.md").read_text() == explore_tables.markdown(measured)
