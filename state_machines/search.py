"""Every property of a small scope, decided with `enabled` and `step` alone: slow, short, the reference for the rest.

Breadth first, so the history of a finding is the shortest. Nothing is remembered between two searches and nothing is
assumed about the rules, so it also decides mutants of them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from attrs import frozen

from protocol import properties as p
from protocol import system as rules
from protocol.events import Event, Owner
from protocol.policy import Policy
from protocol.properties import Cause, Property
from protocol.scope import Scope
from protocol.state import System, initial
from state_machines.explore import Watcher
from state_machines.fairness import Fairness, Lasso, history, nearest, of_system, rank
from state_machines.recovery import Recovery, Unknown
from state_machines.verdict import Verdict

LIMIT: Final = 300_000
OFTEN: Final = 256  # systems looked at between two words to a watcher
SYSTEM_ONLY: Final = frozenset({Owner.SYSTEM})


@frozen
class Finding:
    """A broken property and its cause, with the shortest history that shows it."""

    verdict: Verdict
    events: tuple[Event, ...]

    def __str__(self) -> str:
        return f"{self.verdict} ({len(self.events)})"


class Decider:
    """Decides the properties of systems of one search, or of a hunt under another design: it assumes nothing.

    Without `fair`, fairness is left out. `look` is called for every system that a decision looks at.
    """

    def __init__(self, limit: int = LIMIT, *, fair: bool = True, look: Callable[[], None] = lambda: None) -> None:
        self.limit, self.fair, self.look = limit, fair, look

        def follow(system: System) -> tuple[Event, ...]:
            look()
            return rules.enabled(system, SYSTEM_ONLY)

        def in_time(system: System) -> tuple[Event, ...]:
            return tuple(event for event in follow(system) if p.commits_in_time(event))

        def step(system: System, event: Event) -> System:
            return rules.step(system, event)

        self.ready = Recovery(follow, step, p.ready, limit=limit)
        self.committed = Recovery(in_time, step, p.committed, limit=limit)
        self.reopened = Recovery(follow, step, p.reopened, limit=limit)
        self.fairness: Fairness[System, Event] = of_system(limit, look)

    def fresh(self) -> "Decider":
        """Return the same decider, which remembers nothing."""
        return Decider(self.limit, fair=self.fair, look=self.look)

    def state(self, system: System) -> Verdict | None:
        """Return the first liveness property that does not hold: stranded, blocked, closed, unfair."""
        if not self.ready.reaches(system):
            return Verdict(Property.RECOVERABLE.value, p.cause(system).value)
        if p.preparing(system) and not self.committed.reaches(system):
            return Verdict(Property.UNBLOCKED.value, p.blocked_by(system).value)
        if not self.reopened.reaches(system):
            return Verdict(Property.REOPENS.value, p.closed_by(system).value)
        if not self.fair or self.fairness.holds(system):
            return None
        return Verdict(Property.FAIR.value, self.unfair_by(system).value)

    def unfair_by(self, system: System) -> Cause:
        """Return the cause of the nearest state in which it is decided that an unfair one will not settle."""

        def lost(at: System) -> bool:
            return not (self.ready.reaches(at) and self.reopened.reaches(at)) or self.fairness.stays(at)

        def cause(at: System) -> Cause:
            return p.unsettled_by(at) if self.ready.reaches(at) else p.cause(at)

        edges, fair = self.fairness.edges, self.fairness.holds
        return cause(nearest(system, edges, lost, lambda at: not fair(at), lambda at: rank(cause(at)))[1])

    def step(self, before: System, event: Event, after: System) -> Verdict | None:
        """Return the first property that the step breaks, or None. What was unfair before is not unfair by the step."""
        broken = p.unsafe(before, event, after)
        if broken:
            return Verdict(broken[0].property.value, broken[0].property.value)
        verdict = self.state(after)
        standing = verdict is not None and verdict.word == "unfair" and not self.fairness.holds(before)
        return None if standing else verdict


def search(
    policy: Policy,
    scope: Scope,
    *,
    limit: int = LIMIT,
    every: bool = False,
    fair: bool = True,
    watch: Watcher | None = None,
) -> Iterator[Finding]:
    """Yield the findings of a scope, one for each verdict, or with `every` one for each state; shortest first.

    A history ends at its first finding, but for an unfair one: everything that is possible may still happen there.
    Without `fair`, fairness is left out. `watch` is told how far it is, and at the end. Raises Unknown at `limit`.
    """
    looked = 0

    def look() -> None:
        nonlocal looked
        looked += 1
        if watch is not None and not looked % OFTEN:
            watch(states=len(came), transitions=transitions, depth=depth)

    decider = Decider(limit, fair=fair, look=look)
    start = initial(policy, scope)
    came: dict[System, tuple[System, Event] | None] = {start: None}
    seen: set[Verdict] = set()
    transitions, depth, level_end = 0, 0, 1
    for number, system in enumerate(queue := [start]):
        if number == level_end:
            depth, level_end = depth + 1, len(queue)
        for event in rules.enabled(system):
            transitions += 1
            look()
            after = rules.step(system, event)
            if after in came and not p.unsafe(system, event, after):
                continue
            verdict = decider.step(system, event, after)
            if verdict is not None and (every or verdict not in seen):
                seen.add(verdict)
                yield Finding(verdict, (*history(came, system), event))
            if after in came:
                continue
            if len(came) >= limit:
                raise Unknown(len(came))
            came[after] = (system, event)
            if verdict is None or not verdict.ends:
                queue.append(after)
    if watch is not None:
        watch(states=len(came), transitions=transitions, depth=depth)


def first_verdict(policy: Policy, scope: Scope, events: Iterable[Event]) -> Verdict | None:
    """Return the first verdict that a history meets, or None when there is none, or when it cannot happen."""
    decider, system = Decider(), initial(policy, scope)
    for event in events:
        if rules.broken(system, event) is not None:
            return None
        before, system = system, rules.step(system, event)
        verdict = decider.step(before, event, system)
        if verdict is not None:
            return verdict
    return None


@frozen
class Unfair:
    """A history after which a fair scheduler may never settle, although the other liveness properties hold there."""

    events: tuple[Event, ...]
    lasso: Lasso[System, Event]
    verdict: Verdict


@frozen
class Report:
    """What `fairness_of` found: unfair histories, one for each cause, shortest first; the bound; the states seen."""

    unfair: tuple[Unfair, ...]
    bound: int
    states: int


def fairness_of(policy: Policy, scope: Scope, *, limit: int = LIMIT) -> Report:
    """Decide fairness in a scope: every reachable state whose other properties hold is asked. Breadth first.

    `bound` is the longest fair way to a settled state, from every state from which each one ends. Raises Unknown.
    """
    decider, start = Decider(limit), initial(policy, scope)
    came: dict[System, tuple[System, Event] | None] = {start: None}
    found: dict[Verdict, Unfair] = {}
    longest = 0
    for system in (queue := [start]):
        bound = decider.fairness.bound(system)
        if bound is not None:
            longest = max(longest, bound)
        else:
            verdict = decider.state(system)
            assert verdict is not None
            if verdict.word == "unfair" and verdict not in found:
                lasso = decider.fairness.lasso(system)
                assert lasso is not None
                found[verdict] = Unfair(history(came, system), lasso, verdict)
        for event in rules.enabled(system):
            after = rules.step(system, event)
            if after not in came:
                if len(came) >= limit:
                    raise Unknown(len(came))
                came[after] = (system, event)
                queue.append(after)
    return Report(tuple(sorted(found.values(), key=lambda u: len(u.events))), longest, len(came))
