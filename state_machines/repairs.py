"""The smallest repairs: sets of axis changes that make a policy clean under a set of faults, none of which can go.

Sets are tried by size. A set is a repair when its policy is clean and no proper subset is one; so it is not clean
once any one change is dropped, and the shortest history that shows it comes with it. `guard` is left out: a policy that
refuses to start repairs nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Final

from attrs import frozen

from protocol.policy import AXES, Policy, named, spell
from protocol.scope import Scope
from state_machines.matrix import BASE, DOMAINS, LIMIT, Cell, canonical, decide
from state_machines.prove import Shortest
from state_machines.watched import Kin

Changes = tuple[tuple[str, str], ...]
FREE: Final = tuple(name for name in AXES if name not in ("granularity", "guard"))
MOST: Final = 3


@frozen
class Repair:
    """A smallest repair. `dropped` has, for each change, the shortest history of the policy without it."""

    base: str
    faults: str
    changes: Changes
    dropped: tuple[tuple[str, Shortest], ...]


def repairs(
    base: str | Policy, faults: str, look: Callable[[Policy], Cell], most: int = len(FREE)
) -> tuple[Repair, ...]:
    """Return every smallest repair of `base`, a policy or its name, with at most `most` changes. None: it is clean.

    `look` gives the cell of a policy in the column `faults`: `Matrix.of`, or `asked` where there is no matrix.
    """
    start, found = base if isinstance(base, Policy) else named(base), list[Repair]()
    name = spell(start)
    for size in range(most + 1):
        for changes in _sets(start, size):
            if any(set(x.changes) <= set(changes) for x in found) or _after(start, changes, look).verdict != "clean":
                continue
            without = {f"{n}={v}": _after(start, [x for x in changes if x != (n, v)], look) for n, v in changes}
            shown = tuple((change, x.findings[0]) for change, x in without.items() if x.findings)
            found.append(Repair(name, faults, changes, shown))
    return tuple(found)


def asked(faults: str, scope: Scope = BASE, limit: int = LIMIT) -> Callable[[Policy], Cell]:
    """Return a look-up that explores what it is asked for and does not know yet."""
    cells, kin = list[Cell](), Kin()

    def look(policy: Policy) -> Cell:
        known = next((x for x in cells if x.covers(canonical(policy))), None)
        if known is None:
            known = decide(canonical(policy), faults, scope, limit, kin)
            cells.append(known)
        return known

    return look


def _after(start: Policy, changes: Iterable[tuple[str, str]], look: Callable[[Policy], Cell]) -> Cell:
    return look(start.with_axes(dict(changes)))


def _sets(start: Policy, size: int) -> Iterator[Changes]:
    """Yield the sets of `size` changes. An error at a late result is no change of its own (`matrix.canonical`)."""
    own = start.axes()
    single = [(n, v.value) for n in FREE for v in DOMAINS[n] if v.value not in (own[n], "raise")]
    for chosen in combinations(single, size):
        if len({name for name, _ in chosen}) == size:
            yield chosen
