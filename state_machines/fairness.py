"""Fairness: once faults stop, a fair scheduler settles everything. What AG EF cannot see: always possible, never done.

From a state, only SYSTEM events happen, for ever or until none is left. A scheduler is *weakly fair* when an event that
stays possible is taken at some time. Every such run must settle, and stay so: a moment in which everything is settled
but for a request still on the wire is no end. The property fails in exactly two ways, and a finding shows which:

- an end: a state that is not settled and in which no SYSTEM event is possible;
- a *lasso*: a way into a loop through a state that is not settled, which a fair scheduler may follow for ever.

Loops are found as strongly connected components. One in which a state is not settled is a fair loop when every event
is impossible in one of its states, or taken inside it. A smaller loop inside it would only make more events possible
throughout, so the components decide the question.

The *bound* is the length of the longest fair way to where everything stays settled, in events that make progress.
Inside a component that every fair scheduler must leave, such as prepare, 409, prepare until the deadline, events are
repeats: the clock bounds them, not the protocol, and they are not counted.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from protocol import properties as p
from protocol.events import Event, Owner
from protocol.properties import Cause
from protocol.scope import Scope
from protocol.state import System
from protocol.system import enabled, step
from state_machines.recovery import Unknown

S = TypeVar("S", bound=Hashable)
E = TypeVar("E", bound=Hashable)
LIMIT: Final = 2_000_000
SYSTEM_ONLY: Final = frozenset({Owner.SYSTEM})
CAUSES: Final = list(Cause)


@frozen
class Lasso(Generic[S, E]):
    """How a fair scheduler never settles: `prefix`, then `loop` for ever. An empty loop: nothing more is possible.

    `state` is the one after the prefix, where the loop begins and ends.
    """

    prefix: tuple[E, ...]
    loop: tuple[E, ...]
    state: S

    def __str__(self) -> str:
        way = f"after {', '.join(map(str, self.prefix))}, " if self.prefix else ""
        if not self.loop:
            return f"A fair run: {way}nothing is possible any more."
        return f"A fair run: {way}{', '.join(map(str, self.loop))}, for ever."


class Fairness(Generic[S, E]):
    """Decides for the states of a pure model whether every weakly fair run ends in `goal`, and how long that takes.

    `follow(state)` gives the transitions of the system itself, as (event, state after). Of several lassos of one length
    the one is shown whose state has the lowest `prefer`. Raises Unknown at `limit`.
    """

    def __init__(
        self,
        follow: Callable[[S], Iterable[tuple[E, S]]],
        goal: Callable[[S], bool],
        *,
        limit: int = LIMIT,
        prefer: Callable[[S], int] = lambda state: 0,
    ) -> None:
        self.follow, self.goal, self.limit, self.prefer = follow, goal, limit, prefer
        self.component: dict[S, int] = {}  # of every state decided
        self.members: list[list[S]] = []
        self.bounds: list[int | None] = []  # by component; None: some fair run never stays in the goal
        self.trapped: list[bool] = []  # whether a fair run may stay in the component for ever
        self._edges: dict[S, tuple[tuple[E, S], ...]] = {}

    def bound(self, state: S) -> int | None:
        """Return the longest fair way from `state` to where the goal holds for good, in events of progress, or None."""
        if state not in self.component:
            self._decide(state)
        return self.bounds[self.component[state]]

    def holds(self, state: S) -> bool:
        """Return whether every fair run from `state` reaches the goal, and stays there."""
        return self.bound(state) is not None

    def lasso(self, state: S) -> Lasso[S, E] | None:
        """Return the shortest way from `state` to an end or a fair loop, and the loop; None when `holds`."""
        if self.holds(state):
            return None
        prefix, at = nearest(state, self.edges, self.stays, lambda x: not self.holds(x), self.prefer)
        return Lasso(prefix, self._loop(at), at)

    def stays(self, state: S) -> bool:
        """Return whether a fair run may stay here and not settle: at an end, or in a fair loop."""
        return not self.holds(state) and self.trapped[self.component[state]] and not self.goal(state)

    def edges(self, state: S) -> tuple[tuple[E, S], ...]:
        """Return the transitions of `state`."""
        found = self._edges.get(state)
        if found is None:
            if len(self._edges) >= self.limit:
                raise Unknown(len(self._edges))
            found = self._edges[state] = tuple(self.follow(state))
        return found

    def _decide(self, root: S) -> None:
        for members in components(root, self.edges, lambda state: state not in self.component):
            self._close(members)

    def _close(self, members: list[S]) -> None:
        number = len(self.members)
        self.members.append(members)
        for member in members:
            self.component[member] = number
        self.trapped.append(self._traps(members, number))
        bound: int | None = None if self.trapped[-1] else 0
        left = not all(map(self.goal, members))
        for member in members:
            for _, after in self.edges(member):
                if bound is None or self.component[after] == number:
                    continue
                further = self.bounds[self.component[after]]
                bound = None if further is None else max(bound, further + 1 if further or left else 0)
        self.bounds.append(bound)

    def _traps(self, members: list[S], number: int) -> bool:
        """Whether a fair run may stay and not settle: at an end, or no event stays possible that is not taken here."""
        if all(map(self.goal, members)):
            return False
        if len(members) == 1 and not self.edges(members[0]):
            return True
        always: set[E] | None = None
        taken: set[E] = set()
        for member in members:
            possible = {event for event, _ in self.edges(member)}
            always = possible if always is None else always & possible
            taken |= {event for event, after in self.edges(member) if self.component.get(after) == number}
        return bool(taken) and not (always or set()) - taken

    def _loop(self, start: S) -> tuple[E, ...]:
        """Return a fair loop from `start`: no event is possible all along it without being taken in it."""
        number = self.component[start]
        inside = {
            m: [(e, a) for e, a in self.edges(m) if self.component.get(a) == number] for m in self.members[number]
        }
        if not any(inside.values()):
            return ()
        walk: list[tuple[E, S]] = self._way(inside, start, lambda at, event, after: after == start)
        while True:
            states = [start, *(after for _, after in walk)]
            taken = {event for event, _ in walk}
            starved = set.intersection(*({e for e, _ in self.edges(x)} for x in states)) - taken
            if not starved:
                return tuple(event for event, _ in walk)
            event = min(starved, key=str)
            there = self._way(inside, start, self._serves(event))
            at = there[-1][1]
            back = [] if at == start else self._way(inside, at, lambda at, event, after: after == start)
            walk += there + back

    def _serves(self, wanted: E) -> Callable[[S, E, S], bool]:
        """Return whether a step takes `wanted`, or leads to where it is not possible."""
        return lambda at, event, after: event == wanted or all(e != wanted for e, _ in self.edges(after))

    def _way(self, inside: dict[S, list[tuple[E, S]]], start: S, found: Callable[[S, E, S], bool]) -> list[tuple[E, S]]:
        """Return the shortest walk within a component, of at least one step, whose last step is `found`."""
        came: dict[S, tuple[S, E] | None] = {start: None}
        for at in (queue := [start]):
            for event, after in inside[at]:
                if found(at, event, after):
                    walk = [(event, after)]
                    while (link := came[at]) is not None:
                        walk.append((link[1], at))
                        at = link[0]
                    return walk[::-1]
                if after not in came:
                    came[after] = (at, event)
                    queue.append(after)
        raise AssertionError("a component is strongly connected")


def components(
    root: S,
    edges: Callable[[S], Sequence[tuple[Any, S]]],
    enter: Callable[[S], bool],
    open_: list[S] | None = None,
) -> Iterator[list[S]]:
    """Yield the strongly connected components that `root` leads to, each after all those that it leads to.

    Tarjan's algorithm, without recursion. States that `enter` does not want are left out. `open_` are the states
    entered whose component is not known yet: each of them leads to wherever the search is.
    """
    open_ = [] if open_ is None else open_
    index: dict[S, int] = {root: 0}
    low: dict[S, int] = {root: 0}
    open_.append(root)
    on_stack = {root}
    work = [(root, iter(edges(root)))]
    while work:
        state, rest = work[-1]
        for _, after in rest:
            if after in on_stack:
                low[state] = min(low[state], index[after])
            elif after not in index and enter(after):
                index[after] = low[after] = len(index)
                open_.append(after)
                on_stack.add(after)
                work.append((after, iter(edges(after))))
                break
        else:
            work.pop()
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[state])
            if low[state] == index[state]:
                members = []
                while True:
                    member = open_.pop()
                    on_stack.discard(member)
                    members.append(member)
                    if member == state:
                        break
                yield members


def nearest(
    start: S,
    edges: Callable[[S], Iterable[tuple[E, S]]],
    found: Callable[[S], bool],
    through: Callable[[S], bool],
    prefer: Callable[[S], int],
) -> tuple[tuple[E, ...], S]:
    """Return the shortest events from `start` to a state that is `found`, and that state: of several, the preferred."""
    came: dict[S, tuple[S, E] | None] = {start: None}
    level = [start]
    while level:
        ends = [state for state in level if found(state)]
        if ends:
            end = min(ends, key=prefer)
            return history(came, end), end
        following = []
        for at in level:
            for event, after in edges(at):
                if after not in came and through(after):
                    came[after] = (at, event)
                    following.append(after)
        level = following
    raise AssertionError("a state that never settles leads to an end or to a fair loop")


def follow(system: System) -> list[tuple[Event, System]]:
    """Return what the pair may do by itself in `system`."""
    return [(event, step(system, event)) for event in enabled(system, SYSTEM_ONLY)]


def of_system(limit: int = LIMIT, look: Callable[[], None] = lambda: None) -> Fairness[System, Event]:
    """Return the decision procedure for the protocol: `settled` under a weakly fair scheduler.

    `look` is called for every system that it looks at.
    """

    def looked(system: System) -> Iterable[tuple[Event, System]]:
        look()
        return follow(system)

    return Fairness(looked, p.settled, limit=limit, prefer=lambda system: rank(p.unsettled_by(system)))


def rank(cause: Cause) -> int:
    """Return which cause to prefer where ways to several are equally short: the last one in the order of `Cause`.

    The answer depends on no index, so a permuted system has the same cause.
    """
    return 0 if cause is Cause.OTHER else -CAUSES.index(cause)


def history(came: dict[Any, Any], state: Any) -> tuple[Any, ...]:
    """Return the events that lead to `state`, by the links of a breadth-first search."""
    events = []
    while (link := came[state]) is not None:
        state, event = link
        events.append(event)
    return tuple(events[::-1])


def check(lasso: Lasso[S, E], start: S, fairness: Fairness[S, E]) -> bool:
    """Return whether `lasso` is what it says: it can be followed, comes by no goal for good, and starves no event."""
    at, seen = start, [start]
    for event in (*lasso.prefix, *lasso.loop):
        at = dict(fairness.edges(at))[event]
        seen.append(at)
    if fairness.goal(at) or at != lasso.state:
        return False
    if not lasso.loop:
        return not fairness.edges(at)
    around = seen[len(lasso.prefix) :]
    taken = {(event, before) for event, (before, _) in zip(lasso.loop, pairwise(around), strict=True)}
    always = set.intersection(*({event for event, _ in fairness.edges(x)} for x in around))
    return not always - {event for event, _ in taken}


def within(scope: Scope) -> int:
    """Return a bound for every policy that settles: how many events of progress a fair way takes at most in `scope`.

    Each attempt of each sibling finishes, or parks and finishes; is delivered, acknowledged and perhaps retired or
    reconciled; where requests take time it also arrives. Each group is finalized once. A snapshot under way has six
    steps, and each second copy of an answer is delivered. A restart may begin one more attempt of everything.
    """
    attempts = scope.attempts + scope.trainer_restarts + scope.gym_restarts + scope.restarts
    each = 5 + bool(scope.lost_requests)
    return scope.groups * (each * scope.siblings * attempts + 1) + 6 + scope.duplicates
