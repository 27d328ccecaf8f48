"""Fairness: once faults stop, a fair scheduler settles everything. What AG EF cannot see: always possible, never done.

From a state, only SYSTEM events happen, for ever or until none is left. A scheduler is *weakly fair* when an event that
stays possible is taken at some time. The property fails in exactly two ways, and a finding shows which:

- an end: a state that is not settled and in which no SYSTEM event is possible;
- a *lasso*: a way into a loop that never settles and that a fair scheduler may follow for ever.

Loops are found as strongly connected components of the states that are not settled. A component is a fair loop when
every event is impossible in one of its states, or taken inside it. A smaller loop inside it would only make more events
possible throughout, so the components decide the question.

The *bound* is the length of the longest fair way to a settled state, in events that make progress. Inside a component
that every fair scheduler must leave, such as prepare, 409, prepare until the deadline, events are repeats: the clock
bounds them, not the protocol, and they are not counted.
"""

from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from protocol import properties as p
from protocol.events import Event, Owner
from protocol.policy import Policy
from protocol.properties import Property
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import enabled, step
from state_machines.recovery import Unknown
from state_machines.verdict import Judge, Verdict

S = TypeVar("S", bound=Hashable)
E = TypeVar("E", bound=Hashable)
LIMIT: Final = 2_000_000
SYSTEM_ONLY: Final = frozenset({Owner.SYSTEM})


@frozen
class Lasso(Generic[S, E]):
    """How a fair scheduler never settles: `prefix`, then `loop` for ever. An empty loop: nothing more is possible.

    `state` is the one after the prefix, where the loop begins and ends.
    """

    prefix: tuple[E, ...]
    loop: tuple[E, ...]
    state: S


class Fairness(Generic[S, E]):
    """Decides for the states of a pure model whether every weakly fair run reaches `goal`, and how long that takes.

    `follow(state)` gives the transitions of the system itself, as (event, state after). Raises Unknown at `limit`.
    """

    def __init__(
        self, follow: Callable[[S], Iterable[tuple[E, S]]], goal: Callable[[S], bool], *, limit: int = LIMIT
    ) -> None:
        self.follow, self.goal, self.limit = follow, goal, limit
        self.component: dict[S, int] = {}  # of every state decided, settled ones apart
        self.members: list[list[S]] = []
        self.bounds: list[int | None] = []  # by component; None: some fair run never reaches the goal
        self.trapped: list[bool] = []  # whether a fair run may stay in the component for ever
        self._edges: dict[S, tuple[tuple[E, S], ...]] = {}

    def bound(self, state: S) -> int | None:
        """Return the longest fair way from `state` to the goal, in events of progress, or None when one never ends."""
        if self.goal(state):
            return 0
        if state not in self.component:
            self._decide(state)
        return self.bounds[self.component[state]]

    def holds(self, state: S) -> bool:
        """Return whether every fair run from `state` reaches the goal."""
        return self.bound(state) is not None

    def lasso(self, state: S) -> Lasso[S, E] | None:
        """Return the shortest way from `state` to an end or a fair loop, and the loop; None when `holds`."""
        if self.holds(state):
            return None
        prefix, at = self._path(state, lambda x: self.trapped[self.component[x]], lambda x: not self.holds(x))
        return Lasso(prefix, self._loop(at), at)

    def edges(self, state: S) -> tuple[tuple[E, S], ...]:
        """Return the transitions of `state`."""
        found = self._edges.get(state)
        if found is None:
            if len(self._edges) >= self.limit:
                raise Unknown(len(self._edges))
            found = self._edges[state] = tuple(self.follow(state))
        return found

    def _decide(self, root: S) -> None:
        """Tarjan's algorithm from `root`, without recursion. Components are closed in an order in which every one
        that can be reached from another is closed before it."""
        index: dict[S, int] = {root: 0}
        low: dict[S, int] = {root: 0}
        open_, on_stack = [root], {root}
        work = [(root, iter(self.edges(root)))]
        while work:
            state, rest = work[-1]
            for _, after in rest:
                if after in on_stack:
                    low[state] = min(low[state], index[after])
                elif after not in index and after not in self.component and not self.goal(after):
                    index[after] = low[after] = len(index)
                    open_.append(after)
                    on_stack.add(after)
                    work.append((after, iter(self.edges(after))))
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
                    self._close(members)

    def _close(self, members: list[S]) -> None:
        number = len(self.members)
        self.members.append(members)
        for member in members:
            self.component[member] = number
        self.trapped.append(self._traps(members, number))
        bound: int | None = None if self.trapped[-1] else 0
        for member in members:
            for _, after in self.edges(member):
                if bound is None or self.component.get(after) == number:
                    continue
                further = 0 if self.goal(after) else self.bounds[self.component[after]]
                bound = None if further is None else max(bound, further + 1)
        self.bounds.append(bound)

    def _traps(self, members: list[S], number: int) -> bool:
        """Whether a fair run may stay: it is at an end, or no event stays possible here without being taken here."""
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

    def _path(self, start: S, found: Callable[[S], bool], through: Callable[[S], bool]) -> tuple[tuple[E, ...], S]:
        came: dict[S, tuple[S, E] | None] = {start: None}
        for at in (queue := [start]):
            if found(at):
                events, end = [], at
                while (link := came[at]) is not None:
                    events.append(link[1])
                    at = link[0]
                return tuple(events[::-1]), end
            for event, after in self.edges(at):
                if after not in came and not self.goal(after) and through(after):
                    came[after] = (at, event)
                    queue.append(after)
        raise AssertionError("a state that never settles leads to an end or to a fair loop")


def follow(system: System) -> list[tuple[Event, System]]:
    """Return what the pair may do by itself in `system`."""
    return [(event, step(system, event)) for event in enabled(system, SYSTEM_ONLY)]


def of_system(limit: int = LIMIT) -> Fairness[System, Event]:
    """Return the decision procedure for the protocol: `settled` under a weakly fair scheduler."""
    return Fairness(follow, p.settled, limit=limit)


@frozen
class Unfair:
    """A history after which a fair scheduler may never settle, although the other liveness properties hold there."""

    events: tuple[Event, ...]
    lasso: Lasso[System, Event]
    verdict: Verdict


@frozen
class Report:
    """What `decide` found: unfair histories, one for each cause, shortest first; the bound; the states looked at."""

    unfair: tuple[Unfair, ...]
    bound: int
    states: int


def decide(policy: Policy, scope: Scope, *, limit: int = LIMIT) -> Report:
    """Decide fairness in a scope: every reachable state whose other properties hold is asked. Breadth first.

    `bound` is the longest fair way to a settled state, from every state from which each one ends. Raises Unknown.
    """
    fairness, judge = of_system(limit), Judge(limit)
    start = initial(policy, scope)
    came: dict[System, tuple[System, Event] | None] = {start: None}
    found: dict[Verdict, Unfair] = {}
    longest = 0
    for system in (queue := [start]):
        bound = fairness.bound(system)
        if bound is not None:
            longest = max(longest, bound)
        elif judge.state(system) is None:
            lasso = fairness.lasso(system)
            assert lasso is not None
            verdict = Verdict(Property.FAIR.value, p.unsettled_by(lasso.state).value)
            if verdict not in found:
                found[verdict] = Unfair(history(came, system), lasso, verdict)
        for event in enabled(system):
            after = step(system, event)
            if after not in came:
                if len(came) >= limit:
                    raise Unknown(len(came))
                came[after] = (system, event)
                queue.append(after)
    return Report(tuple(sorted(found.values(), key=lambda u: len(u.events))), longest, len(came))


def history(came: dict[Any, Any], state: Any) -> tuple[Any, ...]:
    """Return the events that lead to `state`, by the links of a breadth-first search."""
    events = []
    while (link := came[state]) is not None:
        state, event = link
        events.append(event)
    return tuple(events[::-1])


def check(lasso: Lasso[S, E], start: S, fairness: Fairness[S, E]) -> bool:
    """Return whether `lasso` is what it says: it can be followed, never meets the goal, and starves no event."""
    at, seen = start, [start]
    for event in (*lasso.prefix, *lasso.loop):
        at = dict(fairness.edges(at))[event]
        seen.append(at)
    if any(map(fairness.goal, seen)) or at != lasso.state:
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
