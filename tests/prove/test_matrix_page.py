"""docs/matrix.json, from which docs/matrix.md is made: it has every column, and small cells come out again."""

from pathlib import Path

import pytest

from protocol.policy import NAMED, Policy
from state_machines import matrix as m
from state_machines.matrix_run import loads

FOUND = loads((Path(__file__).parents[2] / "docs" / "matrix.json").read_text("utf-8"))
EACH = 2  # cells of every column that are decided again


def test_the_page_has_the_columns_that_it_says_in_the_scope_that_it_says():
    assert sorted(FOUND.columns) == sorted(m.PAGE)
    assert FOUND.base == m.BASE


def test_every_combination_is_decided_in_the_default_columns_and_every_named_policy_in_all():
    assert not set(FOUND.missing) & set(m.DEFAULT)
    assert not [cell for cell in FOUND.cells if cell.stopped]
    assert not [f for f in m.PAGE for policy, _ in NAMED.values() if FOUND.of(f)(policy).verdict == "unknown"]


def test_the_slow_columns_are_those_with_many_states_the_fewest_first():
    states = {f: sum(x.states for x in FOUND.cells if x.faults == f) for f in m.PAGE}
    assert list(m.SLOW) == sorted((f for f in m.PAGE if states[f] >= 50_000), key=states.__getitem__)
    assert [m.cost(f) for f in ("none", *m.SLOW, "failures+duplicates")] == [*range(len(m.SLOW) + 1), len(m.SLOW) + 2]


@pytest.mark.parametrize("faults", m.PAGE)
def test_small_cells_of_the_page_are_decided_as_recorded(faults):
    cells = sorted((x for x in FOUND.cells if x.faults == faults and x.states > 20), key=lambda x: x.states)
    assert len(cells) >= EACH
    for cell in cells[:EACH]:
        again = m.decide(Policy().with_axes(dict(cell.fixed)), faults)
        assert (again.words, again.states) == (cell.words, cell.states)
