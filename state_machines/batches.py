"""Successors of many states at once: the tables of `successors`, read by numpy.

A batch is an array of codes, one row a state: the shared part, then one column for each group. A transition is looked
up by a key, a whole column of keys at a time, and only what no table has yet runs the real step, once. The arrays are
copies of what `Successors` has learned; nothing about the protocol is decided here.
"""

from array import array
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from state_machines.facts import FIRST, WAIT_FACTS
from state_machines.names import Ints, Rows
from state_machines.successors import Code, Successors

WIDE: Final = 24  # groups of one system when turns are learned
SAMPLE: Final = 1021  # one state in so many is recomputed with the real step
KEYED: Final = 32  # bits of a local id in a key
FIRST_KEY: Final = 4  # the bit of FIRST in a key of moves, after those of WAIT_FACTS


def spread(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return `(owner, at)`: for each owner, in order, its `counts[owner]` positions from `starts[owner]` on."""
    owner = np.repeat(np.arange(len(counts)), counts)
    ends = np.cumsum(counts)
    return owner, np.arange(len(owner)) + np.repeat(starts - ends + counts, counts)


class Index:
    """Numbers by 64-bit keys, looked up many at a time."""

    def __init__(self) -> None:
        self.keys: Ints = np.empty(0, np.int64)
        self.values: Ints = np.empty(0, np.int64)

    def find(self, wanted: Ints) -> Ints:
        """Return the number of each key, -1 for a key that is not known."""
        if not len(self.keys):
            return np.full(len(wanted), -1)
        at = np.searchsorted(self.keys, wanted)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == wanted, self.values[at], -1)

    def add(self, keys: Iterable[int] | Ints, values: Iterable[int]) -> None:
        """Add keys that are not known."""
        all_keys = np.concatenate([self.keys, np.array(list(keys), np.int64)])
        all_values = np.concatenate([self.values, np.array(list(values), np.int64)])
        order = np.argsort(all_keys, kind="stable")
        self.keys, self.values = all_keys[order], all_values[order]


class Column:
    """An array of facts about interned parts, which grows as they do."""

    def __init__(self, source: list[Any], kind: type[Any] = np.int64) -> None:
        self.source = source
        self.array: NDArray[Any] = np.empty(0, kind)

    def __call__(self) -> NDArray[Any]:
        if len(self.array) < len(self.source):
            more = np.array(self.source[len(self.array) :], self.array.dtype)
            self.array = np.concatenate([self.array, more]) if len(self.array) else more
        return self.array


class Lists:
    """Lists of transitions in compressed rows: three numbers each."""

    def __init__(self) -> None:
        self.index = Index()
        self.starts, self.counts, self.flat = array("q"), array("q"), array("q")
        self.arrays: tuple[Ints, Ints, Ints] = (
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty((0, 3), np.int64),
        )

    def add(self, found: dict[int, tuple[Any, ...]]) -> None:
        """Add the transitions of keys that are not known."""
        first = len(self.starts)
        for transitions in found.values():
            self.starts.append(len(self.flat) // 3)
            self.counts.append(len(transitions))
            for transition in transitions:
                self.flat.extend(transition)
        self.index.add(found, range(first, len(self.starts)))
        self.arrays = np.array(self.starts), np.array(self.counts), np.array(self.flat).reshape(-1, 3)

    def of(self, ids: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return `(owner, first, second, third)` of every transition of each id."""
        starts, counts, flat = self.arrays
        owner, at = spread(starts[ids], counts[ids])
        found = flat[at]
        return owner, found[:, 0], found[:, 1], found[:, 2]


class Edges(NamedTuple):
    """Transitions out of a batch: the row each starts from, in order, its label, and the state after it."""

    sources: Ints
    labels: Ints
    rows: Rows


class Batch:
    """The transitions of many states of one `Successors`."""

    def __init__(self, successors: Successors) -> None:
        self.successors = successors
        self.facts = Column(successors.facts)
        self.absent = Column(successors.absent, np.bool_)
        self.waiting = Column(successors.waiting, np.bool_)
        self._moves, self._turns, self._columns = Lists(), Lists(), Index()
        self._count = 0

    def expand(self, rows: Rows) -> Edges:
        """Return every transition of every row. Raises FactoringError when a table and the real step disagree."""
        found = self._tables(rows) if self.successors.on.tables else self._real(rows)
        for i in range(-self._count % SAMPLE, len(rows), SAMPLE):
            low, high = np.searchsorted(found.sources, [i, i + 1])
            after = [tuple(row) for row in found.rows[low:high].tolist()]
            self.successors.verify(
                tuple(rows[i].tolist()), list(zip(found.labels[low:high].tolist(), after, strict=True))
            )
        self._count += len(rows)
        return found

    def sort(self, rows: Rows) -> Rows:
        """Return the rows with their groups in canonical order."""
        if self.successors.on.groups and rows.shape[1] > 2:
            rows[:, 1:] = -np.sort(-rows[:, 1:], axis=1)
        return rows

    def _real(self, rows: Rows) -> Edges:
        return self._listed([(i, self.successors.real(tuple(row))) for i, row in enumerate(rows.tolist())], rows)

    def _listed(self, found: list[tuple[int, list[tuple[int, Code]]]], rows: Rows) -> Edges:
        flat = [(i, label, after) for i, transitions in found for label, after in transitions]
        after = np.array([x[2] for x in flat], np.int32).reshape(-1, rows.shape[1])
        return Edges(np.array([x[0] for x in flat], np.int64), np.array([x[1] for x in flat], np.int64), after)

    def _tables(self, rows: Rows) -> Edges:
        groups = range(1, rows.shape[1])
        moves, turns = self._known(rows)
        owner, labels, shared, columns = self._turns.of(turns)
        mapped = self._mapped(rows, turns, owner, columns)
        after = np.empty((len(owner), rows.shape[1]), np.int32)
        after[:, 0] = shared
        after[:, 1:] = mapped
        parts = []
        for i in groups:
            mine = np.flatnonzero(moves[:, i - 1] >= 0)
            at, label, into, local = self._moves.of(moves[mine, i - 1])
            moved = rows[mine[at]]
            moved[:, 0], moved[:, i] = into, local
            parts.append(Edges(mine[at], label, moved))
        parts.append(Edges(owner, labels, after))
        if self.successors.unfactored:
            parts.append(
                self._listed([(i, self.successors.whole(tuple(row))) for i, row in enumerate(rows.tolist())], rows)
            )
        sources = np.concatenate([x.sources for x in parts])
        order = np.argsort(sources, kind="stable")
        return Edges(
            sources[order],
            np.concatenate([x.labels for x in parts])[order],
            self.sort(np.concatenate([x.rows for x in parts])[order]),
        )

    def _known(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return the numbers of the lists of moves (a column for each group; -1: no list of its own) and of turns."""
        moves, turns = self._move_keys(rows), self._turn_keys(rows)
        mine = moves >= 0
        lists = np.full(moves.shape, -1)
        lists[mine] = self._moves.index.find(moves[mine])
        of_all = self._turns.index.find(turns)
        missing: dict[int, set[int]] = {}
        for i in range(moves.shape[1]):
            for at in _firsts(moves[:, i], mine[:, i] & (lists[:, i] < 0)):
                missing.setdefault(at, set()).add(i + 1)
        for at in _firsts(turns, of_all < 0):
            missing.setdefault(at, set()).add(0)
        if not missing:
            return lists, of_all
        new_moves, new_turns = {}, {}
        for at, parts in missing.items():
            code = tuple(rows[at].tolist())
            of_groups, of_nobody = self.successors.learn(code, parts)
            new_moves.update({int(moves[at, i - 1]): found for i, found in of_groups.items()})
            if 0 in parts:
                new_turns[int(turns[at])] = of_nobody
        self._moves.add(new_moves)
        self._turns.add(new_turns)
        return self._known(rows)

    def _mapped(self, rows: Rows, turns: Ints, owner: Ints, columns: Ints) -> Ints:
        """Return what each turn makes of each group of its row."""
        keys = (columns[:, None] << KEYED) | rows[owner, 1:]
        found = self._columns.find(keys.ravel()).reshape(keys.shape)
        missing = _firsts(keys.ravel(), found.ravel() < 0)
        if not missing:
            return found
        pairs = [divmod(key, 1 << KEYED) for key in keys.ravel()[missing].tolist()]
        alike: dict[int, list[tuple[int, int]]] = {}  # the unknown: by column, and which row has them
        for x, (column, local) in zip(missing, pairs, strict=True):
            if self.successors.map(column, local) is None:
                alike.setdefault(column, []).append((int(owner[x // keys.shape[1]]), local))
        for column, unknown in alike.items():
            self._learn_turns(rows, column, unknown)
        columns_of = self.successors.columns
        self._columns.add(keys.ravel()[missing], [columns_of[column][local] for column, local in pairs])
        return self._mapped(rows, turns, owner, columns)

    def _learn_turns(self, rows: Rows, column: int, unknown: list[tuple[int, int]]) -> None:
        """Learn what a turn does to groups: many groups at a time, in one system that has them all beside a real row's.

        What can be seen of them all is no more than of the row: the turn sees the same of all the rows.
        """
        successors = self.successors
        while unknown := [(at, local) for at, local in unknown if successors.map(column, local) is None]:
            shared, *groups = rows[unknown[0][0]].tolist()
            missing: set[tuple[int, ...]] = set()
            every = list(groups)
            for _, local in unknown:
                pieces = successors.missing(column, local)
                if not pieces <= missing and len(every) < WIDE:
                    missing |= pieces
                    if local not in groups:
                        every.append(local)
            code = (shared, *sorted(every, reverse=successors.on.groups))
            successors.learn_turns(code, successors.everybody(code))

    def _move_keys(self, rows: Rows) -> Ints:
        """Return what the moves of each group are looked up by; -1 for a group like the one before it."""
        locals_ = rows[:, 1:].astype(np.int64)
        facts, shared = self.facts()[locals_], rows[:, 0].astype(np.int64)
        waiting = self.waiting()[shared]
        absent = self.absent()[locals_]
        keys = np.empty_like(locals_)
        before = np.zeros(len(rows), np.bool_)
        for i in range(locals_.shape[1]):
            others = np.bitwise_or.reduce(np.delete(facts, i, axis=1), axis=1, initial=0) & WAIT_FACTS
            seen = np.where(waiting, others, 0) | np.where(absent[:, i] & ~before, FIRST_KEY, 0)
            keys[:, i] = ((shared << 3 | seen) << KEYED) | locals_[:, i]
            before |= absent[:, i]
        if self.successors.on.groups:
            keys[:, 1:][locals_[:, 1:] == locals_[:, :-1]] = -1
        return keys

    def _turn_keys(self, rows: Rows) -> Ints:
        every = np.bitwise_or.reduce(self.facts()[rows[:, 1:]], axis=1)
        keys: Ints = (rows[:, 0].astype(np.int64) << KEYED) | every
        return keys


def _firsts(keys: Ints, wanted: NDArray[np.bool_]) -> list[int]:
    """Return, for each different key among those wanted, the first position it has."""
    at = np.flatnonzero(wanted)
    found: list[int] = at[np.unique(keys[at], return_index=True)[1]].tolist()
    return found


assert WAIT_FACTS < FIRST_KEY < FIRST
__all__ = ["Batch", "Edges", "Index", "Ints", "Rows", "spread"]
