"""SPIN, on a model that was written by hand, finds the same states, transitions and verdicts as the core."""

import shutil
import sys
from pathlib import Path

import pytest

from protocol import properties
from protocol.events import Owner
from protocol.policy import named
from protocol.scope import Scope
from protocol.state import initial
from protocol.system import enabled, step
from state_machines.explore import can_reach, explore_model, traps

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "spin"))
import model

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs the programs spin and gcc (.ci/run installs both)"
)
SYSTEM = frozenset({Owner.SYSTEM})
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
    counted = model.check(named(name), scope)
    assert (counted.states, counted.transitions) == (len(graph.states), len(graph.targets))
    stuck = sum(at_rest(system) and not properties.ready(system) for system in graph.states)
    assert model.check(named(name), scope, verdict=True).errors == stuck


def test_spin_agrees_on_thirty_thousand_states_of_the_repair():
    counted = model.check(named("prompt_group_repaired"), SCOPES[3], verdict=True)
    assert (counted.states, counted.transitions, counted.errors) == (31_718, 79_675, 0)


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


def test_symmetry_by_hand_keeps_the_verdict():
    plain, folded = (model.check(named("sibling"), SCOPES[3], verdict=True, symmetry=on) for on in (False, True))
    assert plain.errors
    assert folded.errors
    assert folded.states < plain.states


def test_the_model_refuses_what_it_does_not_describe():
    with pytest.raises(ValueError, match="no gym_restarts"):
        model.defines(named("sibling"), Scope(gym_restarts=1))
    with pytest.raises(ValueError, match="fewer policies"):
        model.defines(named("prompt_group_reconciled"), Scope())
