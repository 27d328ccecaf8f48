"""States as packed rows: one value for each, that numpy can sort, and growing sets of them."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Packed = NDArray[Any]
Numbers = NDArray[np.int32]

WIDTHS: Final = {2: (16, 47), 3: (15, 24), 4: (12, 17)}  # columns: bits of the shared part, bits of each group
STEEP: Final = 8  # a sorted run of names is at least so many times as long as the next


class TooWide(Exception):
    """More different parts, or states, than a packed form can name."""


def pack(rows: Rows) -> Packed:
    """Return one value for each row, equal exactly when the rows are, in an order that numpy can sort.

    Raises TooWide when an id does not fit: nothing is ever cut off.
    """
    columns = rows.shape[1]
    if columns not in WIDTHS:
        if rows.size and int(rows.max()) >= 1 << 16:
            raise TooWide(f"more than {1 << 16:,} different groups")
        return rows.astype(">u2").view(f"S{2 * columns}").ravel()
    head, each = WIDTHS[columns]
    if rows.size and (int(rows[:, 0].max()) >= 1 << head or int(rows[:, 1:].max()) >= 1 << min(each, 31)):
        raise TooWide(f"more than {1 << head:,} shared parts or {1 << min(each, 31):,} different groups")
    packed = rows[:, 0].astype(np.uint64)
    for i in range(1, columns):
        packed = (packed << np.uint64(each)) | rows[:, i].astype(np.uint64)
    return packed


class Names:
    """A set of packed rows that grows, and their numbers, in the order in which they were added.

    It is kept as few sorted runs, each much longer than the next, so that adding some to many is cheap.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Packed, Numbers]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, wanted: Packed) -> Numbers:
        """Return the number of each, -1 for one that is not in the set."""
        found = np.full(len(wanted), -1, np.int32)
        for names, numbers in self._runs:
            at = np.searchsorted(names, wanted)
            at[at == len(names)] = 0
            known = names[at] == wanted
            found[known] = numbers[at[known]]
        return found

    def add(self, new: Packed) -> None:
        """Add names that are not in the set, sorted, without repetitions. Raises TooWide beyond 2^31."""
        if not len(new):
            return
        if self._count + len(new) >= 1 << 31:
            raise TooWide(f"more than {1 << 31:,} states")
        self._runs.append((new, np.arange(self._count, self._count + len(new), dtype=np.int32)))
        self._count += len(new)
        while len(self._runs) > 1 and len(self._runs[-2][0]) < STEEP * len(self._runs[-1][0]):
            self._merge()

    def sorted(self) -> tuple[Packed, Numbers]:
        """Return all names, sorted, and the number of each."""
        while len(self._runs) > 1:
            self._merge()
        return self._runs[0]

    def _merge(self) -> None:
        second, first = self._runs.pop(), self._runs.pop()
        names = np.concatenate([first[0], second[0]])
        order = np.argsort(names, kind="stable")
        self._runs.append((names[order], np.concatenate([first[1], second[1]])[order]))
