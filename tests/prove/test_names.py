"""Growing sets of packed rows: what was added is found by its number, and nothing else."""

import random
from itertools import pairwise

import numpy as np
import pytest

from state_machines.names import STEEP, Names, TooWide, pack


@pytest.mark.parametrize("columns", [2, 3, 4, 9])
def test_names_are_numbered_in_the_order_in_which_they_are_added(columns):
    rnd = random.Random(columns)
    names, expected = Names(), {}
    for _ in range(40):
        rows = np.array([[rnd.randrange(50) for _ in range(columns)] for _ in range(rnd.choice([1, 3, 200]))], np.int32)
        packed = np.unique(pack(rows), return_index=True)[0]
        assert names.find(packed).tolist() == [expected.get(x, -1) for x in packed.tolist()]
        new = packed[names.find(packed) < 0]
        expected |= {x: len(expected) + i for i, x in enumerate(new.tolist())}
        names.add(new)
        assert len(names) == len(expected)
    found, numbers = names.sorted()
    assert found.tolist() == sorted(expected)
    assert numbers.tolist() == [expected[x] for x in found.tolist()]


def test_a_set_of_many_names_is_few_runs():
    names = Names()
    for i in range(3000):
        names.add(pack(np.array([[0, i]], np.int32)))
    runs = [len(run) for run, _ in names._runs]
    assert sum(runs) == 3000
    assert all(first >= STEEP * second for first, second in pairwise(runs))
    assert len(runs) <= 5


def test_more_states_than_have_numbers_are_an_error(monkeypatch):
    names = Names()
    names.add(pack(np.array([[0, 1]], np.int32)))
    names._count = (1 << 31) - 2
    with pytest.raises(TooWide):
        names.add(pack(np.array([[0, 2], [0, 3]], np.int32)))
