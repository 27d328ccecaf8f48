"""Every combination of policy axes under every set of faults, each decided exactly in a small scope.

Few of the 4,608 combinations behave differently in one scope. Which do is not claimed: an exploration runs under a
policy that notes which of its axes are read (`Watched`). Policies that agree on all axes that were read cannot be told
apart by it, so one exploration decides them all; a `Cell` says which axes it fixes. Two things that reading alone does
not show are folded before (`canonical`), and tested: an error at a late result is the late result ignored, and a guard
against prompt_group means nothing in sibling mode.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Final

from attrs import evolve, frozen

from protocol.policy import AXES, Granularity, Guard, Late, Policy
from protocol.scope import Fault, Scope, ScopeError
from state_machines.prove import Bounds, Shortest, prove_anyhow
from state_machines.watched import Kin, watched

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
PAIRS: Final = (
    "failures+lost_replies",
    "failures+lost_retires",
    "failures+drain_deaths",
    "failures+restarts",
    "lost_acknowledges+lost_resumes",
    "lost_prepares+lost_resumes",
)  # one fault makes room for the other
PAGE: Final = (*EVERY, *PAIRS)  # the columns of docs/matrix.md
SLOW: Final = (
    "failures",
    "null_results",
    "failures+lost_retires",
    "failures+drain_deaths",
    "lost_receipts",
    "trainer_restarts",
    "lost_replies",
    "disconnects",
    "failures+restarts",
    "lost_requests",
    "failures+lost_replies",
    "gym_restarts",
)  # of these all combinations have 50,000 states and more, up to 2.7 million: the fewest first
WORST: Final = ("unsafe", "stranded", "blocked", "closed")
LIMIT: Final = 300_000
SPLIT: Final = ("granularity", "reconcile")  # read in every exploration, so jobs that differ there share nothing
DOMAINS: Final[dict[str, list[Any]]] = {name: list(type(getattr(Policy(), name)).__members__.values()) for name in AXES}


@cache
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


@cache
def points() -> dict[Policy, int]:
    """Return every canonical policy, with the number of combinations that it stands for."""
    return Counter(map(canonical, combinations()))


def column(faults: str, base: Scope = BASE) -> Scope:
    """Return the scope of a column: `none`, or kinds of faults joined by `+`, one of each. Raises ScopeError."""
    names = [] if faults == "none" else faults.split("+")
    for name in names:
        if name not in EVERY[1:]:
            raise ScopeError(f"no fault is called {name!r}; the faults are {', '.join(EVERY[1:])}, or none")
        if names.count(name) > 1:
            raise ScopeError(f"{faults!r:.80} has {name} twice; a column has one of each of its kinds")
    return Scope(**{**base.sizes(), **{name: max(1, getattr(base, name)) for name in names}})


def cost(faults: str) -> int:
    """Return a sort key of columns: those that take the least time first, those that nobody has measured last."""
    if faults in SLOW:
        return 1 + SLOW.index(faults)
    return 0 if faults in PAGE else len(SLOW) + len(faults.split("+"))


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
        """Clean, or the worst word of what was found; unknown when something was left, for it might be worse."""
        if self.stopped:
            return "unknown"
        words = {finding.verdict.word for finding in self.findings}
        return next((word for word in WORST if word in words), "clean")

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes, those with the shortest histories first."""
        return tuple(dict.fromkeys(finding.verdict.cause for finding in self.findings))

    @property
    def words(self) -> str:
        """Every finding as `cause (length)`, after the word of its property; or clean; and unknown, what was left."""
        by_word = {word: [x for x in self.findings if x.verdict.word == word] for word in WORST}
        said = [f"{w}: {', '.join(f'{x.verdict.cause} ({x.length})' for x in xs)}" for w, xs in by_word.items() if xs]
        return "; ".join([*said, *["unknown"] * bool(self.stopped)]) or "clean"

    def covers(self, policy: Policy) -> bool:
        """Return whether the cell is about `policy`, given in its canonical form."""
        return all(getattr(policy, name).value == value for name, value in self.fixed)


def decide(policy: Policy, faults: str, base: Scope = BASE, limit: int = LIMIT, kin: Kin | None = None) -> Cell:
    """Explore one policy in the scope of a column. The tables refuse some scopes; the reference decides those.

    What explorations with the same `kin` learn is shared.
    """
    scope, under = column(faults, base), watched(policy, kin)
    proof = prove_anyhow(under, scope, Bounds(max_states=limit))
    if proof.stopped == "interrupted":
        raise KeyboardInterrupt
    fixed = tuple((name, getattr(policy, name).value) for name in AXES if name in under.reads)
    return Cell(faults, fixed, proof.findings, proof.states, proof.stopped)


def cover(
    faults: str, fixed: Mapping[str, str], base: Scope = BASE, limit: int = LIMIT, known: Sequence[Cell] = ()
) -> tuple[Cell, ...]:
    """Return cells that are, together and with those `known`, about every combination that has the axes of `fixed`."""
    covers = looked_up(faults, known)
    waiting = [x for x in dict.fromkeys(map(canonical, combinations(fixed))) if covers(x) is None]
    cells, kin = [], Kin()
    while waiting:
        cell = decide(waiting[0], faults, base, limit, kin)
        cells.append(cell)
        waiting = [policy for policy in waiting if not cell.covers(policy)]
    return tuple(cells)


def looked_up(faults: str, cells: Sequence[Cell]) -> Callable[[Policy], Cell | None]:
    """Return the look-up of one column in `cells`, quick for many policies; None is what no cell is about."""
    index: dict[tuple[str, ...], dict[tuple[str, ...], Cell]] = {}
    for cell in cells:
        if cell.faults == faults:
            names = tuple(name for name, _ in cell.fixed)
            index.setdefault(names, {})[tuple(value for _, value in cell.fixed)] = cell

    def look(policy: Policy) -> Cell | None:
        asked = canonical(policy)
        for names, found in index.items():
            cell = found.get(tuple(getattr(asked, name).value for name in names))
            if cell is not None:
                return cell
        return None

    return look


@frozen
class Matrix:
    """The cells of every column. `stopped` says why something was not explored."""

    base: Scope
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    stopped: str | None = None

    def of(self, faults: str) -> Callable[[Policy], Cell]:
        """Return the look-up of one column. What was not explored is unknown."""
        look = looked_up(faults, self.cells)
        unknown = Cell(faults, (), (), 0, "not explored")
        return lambda policy: look(policy) or unknown

    def count(self, faults: str) -> dict[str, int]:
        """Return how many of all combinations have each verdict in a column."""
        look, counts = self.of(faults), dict.fromkeys(("clean", *WORST, "unknown"), 0)
        for policy, n in points().items():
            counts[look(policy).verdict] += n
        return counts

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns of which something was not decided."""
        return tuple(faults for faults in self.columns if self.count(faults)["unknown"])

    @property
    def begun(self) -> tuple[str, ...]:
        """The columns of which something was decided."""
        known = {cell.faults for cell in self.cells}
        return tuple(faults for faults in self.columns if faults in known)

    def rows(self, faults: str) -> list[tuple[str, str, int]]:
        """Return a column as a decision tree: of each leaf the axes that lead there, the findings, how many policies.

        The first node asks for the granularity, each further one for the axis that leaves the fewest different findings
        together.
        """
        leaves: list[tuple[str, str, int]] = []

        def grow(rest: list[Node], path: dict[str, str]) -> None:
            if len({words for _, words in rest}) > 1:
                axis = min((name for name in AXES if name not in path), key=lambda name: _mixed(rest, name))
                axis = axis if path else "granularity"
                for value, part in _branches(rest, axis).items():
                    grow(part, {**path, axis: value})
            elif rest:
                leaves.append((", ".join(f"{n}={v}" for n, v in path.items()) or "any", rest[0][1], size(path)))

        look = looked_up(faults, self.cells)
        left = [x for x in points() if look(x) is None]
        nodes = [(dict(cell.fixed), cell.words) for cell in self.cells if cell.faults == faults]
        grow(nodes + [({name: getattr(x, name).value for name in AXES}, "unknown") for x in left], {})
        return leaves


Node = tuple[dict[str, str], str]


def size(fixed: Mapping[str, str]) -> int:
    """Return how many combinations have the canonical values of `fixed`, with those that `canonical` folds on them."""
    folded = 1 << ((fixed.get("late") == "ignore") + (fixed.get("granularity") == "sibling" and "guard" in fixed))
    free: int = prod(len(DOMAINS[name]) for name in AXES if name not in fixed)
    return folded * free


def _branches(rest: list[Node], axis: str) -> dict[str, list[Node]]:
    parts = {x.value: [node for node in rest if node[0].get(axis, x.value) == x.value] for x in DOMAINS[axis]}
    if axis == "late":
        del parts["raise"]
    return {value: part for value, part in parts.items() if part}


def _mixed(rest: list[Node], axis: str) -> tuple[bool, int]:
    """Sort key of the next axis to ask for: one that tells nothing apart comes last."""
    parts = _branches(rest, axis).values()
    return all(len(part) == len(rest) for part in parts), sum(len({words for _, words in part}) for part in parts)
