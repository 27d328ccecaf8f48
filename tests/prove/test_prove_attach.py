"""The probe attached to a machine of another protocol finds the trap that Hypothesis alone does not see."""

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from state_machines.attach import Trapped, eventually
from state_machines.explore import explore_model, traps

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "leases.py"
QUICK = settings(max_examples=100, deadline=None, database=None, derandomize=True)


@pytest.fixture(scope="module")
def leases():
    spec = importlib.util.spec_from_file_location("leases", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hypothesis_alone_sees_nothing(leases):
    run_state_machine_as_test(leases.Leases, settings=QUICK)


def test_the_attached_probe_finds_the_pinned_lock_of_a_crashed_client(leases):
    with pytest.raises(Trapped) as caught:
        run_state_machine_as_test(leases.RecoverableLeases, settings=QUICK)
    assert caught.value.state.pinned
    assert not any(caught.value.state.knows)
    steps = re.findall(r"state\.(acquire|pin|crash|proceed)\(", "\n".join(caught.value.__notes__))
    assert sorted(steps) == ["acquire", "crash", "pin"]


def test_eventually_fails_where_the_goal_only_stays_possible(leases):
    always = eventually(lambda lock: ["again"], lambda lock, event: lock, leases.free)
    with pytest.raises(Trapped):
        run_state_machine_as_test(always(type("Waiting", (leases.Leases,), {})), settings=QUICK)


def test_exploration_finds_the_trap_of_a_plain_model():
    """Three rooms in a row with a pit behind the last: only the pit has no way back to the first."""
    ways = {0: [1], 1: [0, 2], 2: [1, 3], 3: []}
    graph = explore_model(0, lambda n: ways[n], lambda n, event: event)
    assert [graph.states[i] for i in traps(graph, lambda n: n == 0)] == [3]
    assert graph.path(3) == [1, 2, 3]
    assert graph.has_cycle()


def test_the_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) < 100
