"""The liveness verdicts of a whole level of an exploration, the same as those of `verdict.Judge` one by one.

Which goals a state can reach is decided on its closed code. What a broken goal is blamed on is the least blame of its
groups (`properties.blame`), so it is looked up for a group and the shared part, and computed by the real function once
for each pair that occurs.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from protocol import properties as p
from protocol.findings import Cause, Property
from protocol.state import System
from state_machines.batches import KEYED, Batch, Column, Index
from state_machines.closures import COMMITTED, READY, REOPENED, Closures, Yes
from state_machines.coding import Group
from state_machines.facts import OWING
from state_machines.names import Ints, Rows
from state_machines.verdict import Verdict

RANKS: Final = len(Cause)
Blamed = Callable[[System], p.Blame]


class Levels:
    """Judges the states of one exploration."""

    def __init__(self, batch: Batch, closures: Closures) -> None:
        self.batch, self.closures = batch, closures
        self.successors = batch.successors
        self._closed_local: list[int] = []
        self._closed_sibling: list[int] = []
        self._closed_shared: list[tuple[int, int]] = []
        self._preparing: list[bool] = []
        self._local, self._shared = Column(self._closed_local), Column(self._closed_shared)
        self._in_preparation = Column(self._preparing, np.bool_)
        self._blames: dict[Blamed, Index] = {p.blame: Index(), p.obstacle: Index()}

    def closed(self, rows: Rows) -> Rows:
        """Return the closed codes of the same states."""
        mine, into = self.successors, self.closures.successors
        for sibling in mine.siblings[len(self._closed_sibling) :]:
            self._closed_sibling.append(into.sibling(sibling))
        for group in mine.groups[len(self._closed_local) :]:
            siblings = tuple([self._closed_sibling[x] for x in group.siblings])
            self._closed_local.append(into.grouped(Group(into.head(mine.heads[group.head]), siblings)))
        for shared in mine.shared[len(self._closed_shared) :]:
            self._closed_shared.append((into.intern_shared(shared), into.intern_shared(shared, owing=True)))
        owing = (self.batch.facts()[rows[:, 1:]] & OWING).any(axis=1)
        closed = np.empty_like(rows)
        closed[:, 0] = self._shared()[rows[:, 0], owing.astype(np.int64)]
        closed[:, 1:] = self._local()[rows[:, 1:]]
        return self.closures.batch.sort(closed)

    def judge(self, rows: Rows) -> tuple[Yes, dict[Verdict, int]]:
        """Return which states break a liveness property, and for each verdict the first that has it."""
        while len(self._preparing) < len(self.successors.shared):
            alone = (len(self._preparing), *[self.successors.empty] * (rows.shape[1] - 1))
            self._preparing.append(p.preparing(self.successors.decode(alone)))
        codes = self.closed(rows)
        can = self.closures.of(codes)
        stranded = can & READY == 0
        blocked = ~stranded & self._in_preparation()[rows[:, 0]] & (can & COMMITTED == 0)
        closed = ~(stranded | blocked) & (can & REOPENED == 0)
        at = np.flatnonzero(closed)
        closed[at] = ~self.closures.reopened(codes[at])
        found: dict[Verdict, int] = {}
        for broken, name, blamed in (
            (stranded, Property.RECOVERABLE, p.blame),
            (blocked, Property.UNBLOCKED, p.obstacle),
        ):
            at = np.flatnonzero(broken)
            causes, where = np.unique(self._blame(rows[at], blamed) % RANKS, return_index=True)
            for cause, first in zip(causes.tolist(), where.tolist(), strict=True):
                found[Verdict(name.value, list(Cause)[cause].value)] = int(at[first])
        at = np.flatnonzero(closed)
        for shared, first in zip(*np.unique(rows[at, 0], return_index=True), strict=True):
            alone = (int(shared), *[self.successors.empty] * (rows.shape[1] - 1))
            cause = p.closed_by(self.successors.decode(alone))
            found.setdefault(Verdict(Property.REOPENS.value, cause.value), int(at[first]))
        return stranded | blocked | closed, found

    def _blame(self, rows: Rows, blamed: Blamed) -> Ints:
        """Return the blame of each row as one number: the least of its groups."""
        keys = (rows[:, :1].astype(np.int64) << KEYED) | rows[:, 1:]
        index, flat = self._blames[blamed], keys.ravel()
        unknown = np.unique(flat[index.find(flat) < 0], return_index=True)[0]
        values = []
        for shared, local in (divmod(key, 1 << KEYED) for key in unknown.tolist()):
            others = [self.successors.empty] * (rows.shape[1] - 2)
            tier, rank = blamed(self.successors.decode((shared, local, *others)))
            values.append(tier * RANKS + rank)
        index.add(unknown, values)
        least: Ints = index.find(flat).reshape(keys.shape).min(axis=1, initial=2**31)
        return least
