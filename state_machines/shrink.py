"""After Hypothesis' shrink: the shortest history that still shows the same verdict, written in the plainest names.

`shrink` deletes events and renames siblings and groups, greedily, replaying after each change. `plainest` then looks
breadth-first through every history that is not longer, up to symmetry, and returns the first with that verdict.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations
from typing import Any, Final

from attrs import evolve, fields

from protocol.events import Admit, Event
from protocol.identity import Attempt, locate, rollout_id
from protocol.scope import LIMITS
from protocol.state import System
from protocol.system import broken
from state_machines.factor import split
from state_machines.verdict import Verdict
from state_machines.walk import UNKNOWN, Node, Walk

SIBLINGS: Final = LIMITS["siblings"][1]
STATE_LIMIT: Final = 60_000  # states, up to symmetry, that a certificate may look at


def outcome(
    walk: Walk, events: Iterable[Event], wanted: Verdict | None = None
) -> tuple[tuple[Event, ...], Verdict | None]:
    """Return the events of a history that can happen, up to its first violation, and that violation.

    With `wanted` the history goes on where another verdict does not end it.
    """
    node, kept = walk.start, []
    if walk.broken is not None:
        return (), walk.broken
    for event in events:
        possible = _possible(node, event)
        if possible is None:
            continue
        event = possible
        edge = walk.follow(node, event)
        kept.append(event)
        if edge.verdict is not None and (edge.verdict.ends or wanted in (None, edge.verdict)):
            return tuple(kept), edge.verdict
        node = edge.node
    return tuple(kept), None


def _possible(node: Node, event: Event) -> Event | None:
    """The event if it can happen, else the same about another attempt of its rollout, else None."""
    if broken(node.system, event) is None:
        return event
    attempt = getattr(event, "attempt", None)
    if attempt is not None:
        for index in range(node.system.scope.attempts):
            other = _about(event, attempt=Attempt(attempt.rollout, index))
            if broken(node.system, other) is None:
                return other
    return None


def shrink(walk: Walk, verdict: Verdict, events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the shortest history with this verdict that deleting and renaming reach from `events`."""
    best = tuple(events)
    while True:
        for candidate in _simpler(best):
            kept, found = outcome(walk, candidate, verdict)
            if found == verdict and _size(kept) < _size(best):
                best = kept
                break
        else:
            return best


def _size(events: tuple[Event, ...]) -> tuple[int, list[Any]]:
    return len(events), [(str(e), e.name) for e in events]


def _simpler(events: tuple[Event, ...]) -> Iterator[tuple[Event, ...]]:
    for width in (8, 4, 2, 1):
        for start in range(len(events) - width, -1, -1):
            yield events[:start] + events[start + width :]
    for first, second in combinations(range(len(events)), 2):
        yield tuple(e for i, e in enumerate(events) if i not in (first, second))
    attempts = [attempt for e in events if (attempt := getattr(e, "attempt", None)) is not None]
    rollouts = sorted({locate(attempt.rollout) for attempt in attempts})
    for group, sibling in rollouts:
        for other in range(sibling):
            yield tuple(
                _renamed(e, {(group, sibling): (group, other), (group, other): (group, sibling)}) for e in events
            )
    for group in sorted({g for g, _ in rollouts}):
        for other in range(group):
            names = {(a, s): (b, s) for a, b in ((group, other), (other, group)) for s in range(SIBLINGS)}
            yield tuple(_renamed(e, names) for e in events)
            for shift in range(1 + max(sibling for _, sibling in rollouts)):  # two groups become one
                names = {(group, s): (other, s + shift + 1) for s in range(SIBLINGS)}
                yield tuple(_renamed(e, names) for e in events if not isinstance(e, Admit) or e.group != group)
    for i in range(len(events) - 1):
        yield (*events[:i], events[i + 1], events[i], *events[i + 2 :])


def _renamed(event: Event, names: dict[tuple[int, int], tuple[int, int]]) -> Event:
    attempt = getattr(event, "attempt", None)
    if attempt is not None:
        old = locate(attempt.rollout)
        new = rollout_id(*names.get(old, old))
        return _about(event, attempt=Attempt(new, attempt.index))
    group = getattr(event, "group", None)
    if group is None or isinstance(event, Admit) or "group" not in {f.name for f in fields(type(event))}:
        return event
    return _about(event, group=names.get((group, 0), (group, 0))[0])


def _about(event: Event, **changes: Any) -> Event:
    """The same event about another attempt or group."""
    return evolve(event, **changes)


def plainest(walk: Walk, verdict: Verdict, length: int) -> tuple[tuple[Event, ...] | None, bool]:
    """Look at every history of up to `length` events, the shortest first, for the first one with this verdict.

    Returns it, and whether it is certain that no shorter one exists: not when a state could not be decided. With too
    many states it returns `(None, False)`. What it returns depends on nothing but the policy, the scope and the
    verdict: every hunt reports a finding by the same history.
    """
    if walk.broken == verdict:
        return (), True
    level: list[tuple[Node, tuple[Event, ...]]] = [(walk.start, ())]
    met: set[Hashable] = {canonical(walk.start.system)}
    sure = True
    for _ in range(length):
        following = []
        for node, events in level:
            for event in _events(node):
                edge = walk.follow(node, event)
                if edge.verdict == verdict:
                    return (*events, event), sure
                if edge.verdict is not None and edge.verdict.ends:
                    sure = sure and edge.verdict is not UNKNOWN
                    continue
                key = canonical(edge.node.system)
                if key not in met:
                    met.add(key)
                    following.append((edge.node, (*events, event)))
            if len(met) > STATE_LIMIT:
                return None, False
        level = following
    return None, False


def _events(node: Node) -> Iterator[Event]:
    for events in node.families.values():
        yield from events


def canonical(system: System) -> Hashable:
    """Return the system up to the order of siblings in their group, and of groups: no rule looks at an index."""
    shared, groups = split(system)
    found = Counter((g.status, g.published, _multiset(g.siblings)) for g in groups)
    if system.scope.trainer_restarts or system.scope.restarts:  # a ledger that falls back admits the lowest first
        return shared, tuple((g.status, g.published, _multiset(g.siblings)) for g in groups)
    return shared, frozenset(found.items())


def _multiset(items: Iterable[Hashable]) -> Hashable:
    return frozenset(Counter(items).items())
