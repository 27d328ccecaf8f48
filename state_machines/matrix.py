"""Every combination of policy axes under every set of faults, each decided exactly in a small scope.

Few of the 4,608 combinations behave differently in one scope. Which do is not claimed: an exploration runs under a
policy that notes which of its axes are read (`Watched`). Policies that agree on all axes that were read cannot be told
apart by it, so one exploration decides them all; a `Cell` says which axes it fixes. Two things that reading alone does
not show are folded before (`canonical`), and tested: an error at a late result is the late result ignored, and a guard
against prompt_group means nothing in sibling mode.
"""

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from typing import Any, Final

from attrs import evolve, frozen

from protocol.policy import AXES, Granularity, Guard, Late, Policy
from protocol.scope import Fault, Scope, ScopeError
from state_machines.factor import FactoringError
from state_machines.prove import Bounds, Shortest, prove
from state_machines.recovery import Unknown
from state_machines.search import search

BASE: Final = Scope(groups=1, siblings=2, attempts=2, snapshots=1, failures=0, lost_replies=0)
DEFAULT: Final = (
    "none",
    "failures",
    "lost_acknowledges",
    "lost_resumes",
    "drain_deaths",
    "refusals",
)
EVERY: Final = ("none", *(fault.value for fault in Fault))
WORST: Final = ("unsafe", "stranded", "blocked", "closed")
LIMIT: Final = 300_000
SPLIT: Final = ("granularity", "reconcile")  # read in every exploration, so jobs that differ there share nothing
NAMES: Final = frozenset(AXES)
DOMAINS: Final[dict[str, list[Any]]] = {name: list(type(getattr(Policy(), name)).__members__.values()) for name in AXES}


class Watched(Policy):
    """A policy that notes which of its axes are read. Equal to itself only, so that comparing it reads nothing."""

    __slots__ = ("reads",)
    reads: set[str]

    def __getattribute__(self, name: str) -> Any:
        if name in NAMES:
            object.__getattribute__(self, "reads").add(name)
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def watched(policy: Policy) -> Watched:
    """Return `policy` as one that notes what is read of it from now on."""
    found = object.__new__(Watched)
    object.__setattr__(found, "reads", set())
    Watched.__init__(found, **{name: getattr(policy, name) for name in AXES})
    object.__getattribute__(found, "reads").clear()
    return found


def canonical(policy: Policy) -> Policy:
    """Return the policy that stands for `policy` and those that cannot be told from it in any scope."""
    late = Late.IGNORE if policy.late is Late.RAISE else policy.late
    guard = Guard.NONE if policy.granularity is Granularity.SIBLING else policy.guard
    return evolve(policy, late=late, guard=guard)


def combinations(fixed: Mapping[str, str] | None = None) -> Iterator[Policy]:
    """Yield every combination of axes, canonical or not, that has the values of `fixed`."""
    values = [
        [value for value in DOMAINS[name] if fixed is None or fixed.get(name, value.value) == value.value]
        for name in AXES
    ]
    for chosen in itertools.product(*values):
        yield Policy(*chosen)


def column(faults: str, base: Scope = BASE) -> Scope:
    """Return the scope of a column: `none`, or kinds of faults joined by `+`, one of each. Raises ScopeError."""
    names = [] if faults == "none" else faults.split("+")
    for name in names:
        if name not in EVERY[1:]:
            raise ScopeError(f"no fault is called {name!r}; the faults are {', '.join(EVERY[1:])}, or none")
    return Scope(**{**base.sizes(), **{name: max(1, getattr(base, name)) for name in names}})


@frozen
class Cell:
    """What one exploration decided: the verdict, for every policy that has the axes of `fixed`, under `faults`."""

    faults: str
    fixed: tuple[tuple[str, str], ...]
    findings: tuple[Shortest, ...]
    states: int
    stopped: str | None = None

    @property
    def verdict(self) -> str:
        """Clean, or the worst word of what was found, or unknown."""
        words = {finding.verdict.word for finding in self.findings}
        return next((word for word in WORST if word in words), "unknown" if self.stopped else "clean")

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes, those with the shortest histories first."""
        return tuple(dict.fromkeys(finding.verdict.cause for finding in self.findings))

    @property
    def words(self) -> tuple[str, ...]:
        """Every finding as `word: cause (length)`."""
        return tuple(f"{x.verdict.word}: {x.verdict.cause} ({x.length})" for x in self.findings)

    def covers(self, policy: Policy) -> bool:
        """Return whether the cell is about `policy`, given in its canonical form."""
        return all(getattr(policy, name).value == value for name, value in self.fixed)


def decide(policy: Policy, faults: str, base: Scope = BASE, limit: int = LIMIT) -> Cell:
    """Explore one policy in the scope of a column. The tables refuse some scopes; the reference decides those."""
    scope, under = column(faults, base), watched(policy)
    try:
        proof = prove(under, scope, Bounds(max_states=limit))
        findings, states, stopped = proof.findings, proof.states, proof.stopped
    except FactoringError:
        states, stopped = 0, None
        try:
            findings = tuple(Shortest(x.verdict, x.events) for x in search(under, scope) if x.verdict.word != "unfair")
        except Unknown as unknown:
            findings, stopped = (), str(unknown)
    reads = object.__getattribute__(under, "reads")
    fixed = tuple((name, getattr(policy, name).value) for name in AXES if name in reads)
    return Cell(faults, fixed, findings, states, stopped)


def cover(faults: str, fixed: Mapping[str, str], base: Scope = BASE, limit: int = LIMIT) -> tuple[Cell, ...]:
    """Return cells that are, together, about every combination that has the values of `fixed`."""
    waiting = list(dict.fromkeys(map(canonical, combinations(fixed))))
    cells = []
    while waiting:
        cell = decide(waiting[0], faults, base, limit)
        cells.append(cell)
        waiting = [policy for policy in waiting if not cell.covers(policy)]
    return tuple(cells)


@frozen
class Matrix:
    """The cells of every column. `missing` are the columns of which something was not explored."""

    base: Scope
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    missing: tuple[str, ...] = ()

    def cell(self, policy: Policy, faults: str) -> Cell:
        """Return what is known of a policy in a column."""
        asked = canonical(policy)
        for cell in self.cells:
            if cell.faults == faults and cell.covers(asked):
                return cell
        return Cell(faults, (), (), 0, "not explored")

    def of(self, faults: str) -> Callable[[Policy], Cell]:
        """Return the look-up of one column, quick for many policies."""
        index: dict[tuple[str, ...], dict[tuple[str, ...], Cell]] = {}
        for cell in self.cells:
            if cell.faults == faults:
                names = tuple(name for name, _ in cell.fixed)
                index.setdefault(names, {})[tuple(value for _, value in cell.fixed)] = cell
        unknown = Cell(faults, (), (), 0, "not explored")

        def look(policy: Policy) -> Cell:
            asked = canonical(policy)
            for names, found in index.items():
                cell = found.get(tuple(getattr(asked, name).value for name in names))
                if cell is not None:
                    return cell
            return unknown

        return look

    def count(self, faults: str) -> dict[str, int]:
        """Return how many of all combinations have each verdict in a column."""
        look, counts = self.of(faults), dict.fromkeys(("clean", *WORST, "unknown"), 0)
        for policy in combinations():
            counts[look(policy).verdict] += 1
        return counts

    @property
    def decided(self) -> bool:
        return not self.missing and all(cell.verdict != "unknown" for cell in self.cells)


Progress = Callable[[int, int, int], None]


def explore(
    columns: Sequence[str] = DEFAULT,
    base: Scope = BASE,
    *,
    jobs: int | None = None,
    limit: int = LIMIT,
    progress: Progress | None = None,
) -> Matrix:
    """Decide all combinations in every column, in several processes. An interruption ends it with what is known.

    `progress` is told how many parts are done, of how many, and how many explorations that took.
    """
    for faults in columns:
        column(faults, base)
    parts = [(faults, fixed) for faults in columns for fixed in _parts()]
    found: dict[tuple[str, tuple[str, ...]], tuple[Cell, ...]] = {}
    context = get_context("spawn")
    pool = ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=context, initializer=_deaf)
    try:
        order = sorted(parts, key=_weight)
        waiting = {pool.submit(cover, faults, fixed, base, limit): (faults, fixed) for faults, fixed in order}
        for future in as_completed(waiting):
            faults, fixed = waiting[future]
            found[faults, tuple(fixed.values())] = future.result()
            if progress is not None:
                progress(len(found), len(parts), sum(map(len, found.values())))
    except KeyboardInterrupt:
        for child in active_children():
            child.terminate()
    finally:
        pool.shutdown(cancel_futures=True)
    cells = [cell for faults, fixed in parts for cell in found.get((faults, tuple(fixed.values())), ())]
    missing = tuple(dict.fromkeys(f for f, fixed in parts if (f, tuple(fixed.values())) not in found))
    return Matrix(base, tuple(columns), tuple(cells), missing)


def _parts() -> Iterator[dict[str, str]]:
    for values in itertools.product(*[DOMAINS[name] for name in SPLIT]):
        yield {name: value.value for name, value in zip(SPLIT, values, strict=True)}


def _weight(part: tuple[str, Mapping[str, str]]) -> tuple[bool, bool]:
    """Sort key: the long parts first, so that the last one to end is a short one."""
    faults, fixed = part
    return faults == "none", fixed["granularity"] == Granularity.SIBLING.value


def _deaf() -> None:
    """Leave Ctrl-C to the parent, which ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
