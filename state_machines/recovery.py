"""Whether a goal can still be reached, decided exactly: the probe behind every liveness verdict.

`Recovery` works for any pure model: it needs the events that may happen in a state, the state after one of them, and a
predicate. *Yes* comes from a depth-first run that tries events in the given order, so a model that lists what goes
well first is answered in a few steps. *No* comes only after every state that can be reached was looked at. In between
there is `Unknown`, an exception: a bound that was hit is never a verdict.

`SystemRecovery` is the same for the protocol, over the tables of `successors`; a verdict is shared by all systems that
no SYSTEM event can tell apart.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

from protocol import properties
from protocol.events import EVENTS, Deadline, Event, Prepare
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System
from protocol.system import enabled, step
from state_machines import reduce
from state_machines.factor import FactoringError
from state_machines.successors import SYSTEM_ONLY, Code, Successors

S = TypeVar("S", bound=Hashable)
E = TypeVar("E")
LIMIT: Final = 2_000_000


class Unknown(Exception):
    """The question needs more states than the limit allows. Carries `seen`, the number of states looked at."""

    def __init__(self, seen: int) -> None:
        super().__init__(f"undecided after {seen:,} states; a larger limit may decide it")
        self.seen = seen


class Recovery(Generic[S, E]):
    """Decides `EF goal` for the states of a pure model, and remembers every verdict it meets on the way.

    `enabled(state)` gives the events of a continuation, best first; `step(state, event)` the state after one. States
    are hashable values. `limit` bounds the states of one question.
    """

    def __init__(
        self,
        enabled: Callable[[S], Iterable[E]],
        step: Callable[[S, E], S],
        goal: Callable[[S], bool],
        *,
        limit: int | None = LIMIT,
    ) -> None:
        self.enabled, self.step, self.goal, self.limit = enabled, step, goal, limit
        self.verdicts: dict[S, bool] = {}

    def reaches(self, state: S) -> bool:
        """Return whether some continuation of `state` reaches the goal. Raises Unknown at the limit."""
        known = self.verdicts.get(state)
        if known is None:
            known = decide(state, self._successors, self.goal, self.verdicts, self.limit)
        return known

    def _successors(self, state: S) -> list[S]:
        return [self.step(state, event) for event in self.enabled(state)]

    def continuation(self, state: S) -> list[E] | None:
        """Return the shortest list of events from `state` to the goal, or None when there is none."""
        return None if not self.reaches(state) else shortest(state, self.enabled, self.step, self.goal, self.limit)


def decide(
    state: S,
    successors: Callable[[S], list[S]],
    goal: Callable[[S], bool],
    verdicts: dict[S, bool],
    limit: int | None,
    hopeless: Callable[[S], bool] | None = None,
) -> bool:
    """Return whether `state` reaches `goal`; write the verdict of every state that was looked at into `verdicts`.

    Depth first. When the goal is met, the states on the way there are *yes*. A state that was left behind has all its
    successors among those looked at, so it is *yes* exactly when it leads to one on the way, and *no* otherwise.
    `hopeless` may name states that are known not to reach it. Raises Unknown at `limit`, and then remembers nothing.
    """
    if goal(state) or (hopeless is not None and hopeless(state)):
        verdicts[state] = goal(state)
        return verdicts[state]
    tree: dict[S, list[S]] = {state: (first := successors(state))}
    path, stack, found = [state], [iter(first)], False
    while stack and not found:
        for following in stack[-1]:
            if following in tree:
                continue
            known = verdicts.get(following)
            if known is None:
                if goal(following):
                    known = verdicts[following] = True
                elif hopeless is not None and hopeless(following):
                    known = verdicts[following] = False
            if known:
                found = True
                break
            if known is None:
                if limit is not None and len(tree) >= limit:
                    raise Unknown(len(tree))
                tree[following] = successors(following)
                path.append(following)
                stack.append(iter(tree[following]))
                break
        else:
            path.pop()
            stack.pop()
    if not found:
        verdicts.update(dict.fromkeys(tree, False))
        return False
    _settle(tree, path, verdicts)
    return True


def _settle(tree: dict[S, list[S]], path: list[S], verdicts: dict[S, bool]) -> None:
    """Mark everything in `tree` that leads to `path` or to a known *yes* as *yes*, the rest as *no*."""
    leads: dict[S, list[S]] = {}
    good, on_path = list(path), set(path)
    for before, after in tree.items():
        for x in after:
            if x in tree:
                leads.setdefault(x, []).append(before)
            elif verdicts.get(x) and before not in on_path:
                on_path.add(before)
                good.append(before)
    while good:
        for before in leads.get(good.pop(), ()):
            if before not in on_path:
                on_path.add(before)
                good.append(before)
    verdicts.update((x, x in on_path) for x in tree)


def shortest(
    state: S,
    enabled: Callable[[S], Iterable[E]],
    step: Callable[[S, E], S],
    goal: Callable[[S], bool],
    limit: int | None = LIMIT,
) -> list[E] | None:
    """Return the shortest list of events that leads from `state` to `goal`, or None. Raises Unknown at `limit`."""
    came: dict[S, tuple[S, E] | None] = {state: None}
    queue = deque([state])
    while queue:
        at = queue.popleft()
        if goal(at):
            events: list[E] = []
            while (link := came[at]) is not None:
                at = link[0]
                events.append(link[1])
            return events[::-1]
        for event in enabled(at):
            after = step(at, event)
            if after not in came:
                if limit is not None and len(came) >= limit:
                    raise Unknown(len(came))
                came[after] = (at, event)
                queue.append(after)
    return None


GOALS: Final[dict[str, tuple[Callable[[System], bool], Callable[[Event], bool]]]] = {
    "ready": (properties.ready, properties.rescues),
    "committed": (properties.committed, properties.commits_in_time),
    "reopened": (properties.reopened, properties.rescues),
}


def _over_systems(goal: str, limit: int | None) -> Recovery[System, Event]:
    """Return what decides a goal with `enabled` and `step` alone."""
    reached, allowed = GOALS[goal]
    return Recovery(lambda at: filter(allowed, enabled(at, SYSTEM_ONLY)), step, reached, limit=limit)


# The order in which a run to the goal tries events: that of EVENTS, but a snapshot is given up before it is asked for
# again, because a Gym that is resumed gets ready soonest.
RANK: Final = {event.name: 2 * rank for rank, event in enumerate(EVENTS)}
RANK[Deadline.name] = RANK[Prepare.name] - 1
LATE: Final = RANK[Deadline.name]


class SystemRecovery:
    """Decides the goals of `GOALS` for systems, of any policy and scope; one memo for each pair of them."""

    def __init__(self, limit: int | None = LIMIT) -> None:
        self.limit = limit
        self._probes: dict[tuple[Policy, Scope], Probe] = {}
        self._last: tuple[Policy, Scope, Probe] | None = None

    def probe(self, policy: Policy, scope: Scope) -> "Probe":
        """Return the probe of one policy and scope."""
        last = self._last
        if last is not None and last[0] is policy and last[1] is scope:
            return last[2]
        found = self._probes.get((policy, scope))
        if found is None:
            found = self._probes[policy, scope] = Probe(policy, scope, self.limit)
        self._last = (policy, scope, found)
        return found

    def can(self, system: System, goal: str) -> bool:
        """Return whether a continuation of `system` reaches `goal`. Raises Unknown at the limit."""
        return self.probe(system.policy, system.scope).can(system, goal)

    def continuation(self, system: System, goal: str) -> list[Event] | None:
        """Return the shortest continuation that reaches `goal`, or None when there is none.

        Walks the real system; every step is one that the memo knows to lead there, so no bound is needed.
        """
        if not self.can(system, goal):
            return None
        reached, allowed = GOALS[goal]
        probe = self.probe(system.policy, system.scope)

        def promising(at: System) -> list[Event]:
            return [e for e in enabled(at, SYSTEM_ONLY) if allowed(e) and probe.can(step(at, e), goal)]

        return shortest(system, promising, step, reached, self.limit)


class Probe:
    """The verdicts of one policy and scope, by the codes of `successors`.

    When its tables turn out not to describe the policy (FactoringError) it is `refused`: nothing more is read from
    them, and what is asked is decided over real systems.
    """

    def __init__(self, policy: Policy, scope: Scope, limit: int | None = LIMIT) -> None:
        self.limit = limit
        self.successors = Successors(policy, scope, closed=True)
        self.verdicts: dict[str, dict[Code, bool]] = {name: {} for name in GOALS}
        self._codes: dict[System, Code] = {}
        self._at_rest: dict[int, bool] = {}
        self._hopeless_for: dict[str, Callable[[Code], bool] | None] = {
            "ready": self._hopeless,
            "committed": lambda code: self._rests(code[0]) or self._hopeless(code),
            "reopened": None,
        }
        self._kept: dict[int, bool] = {}
        self._rest = self.successors.intern_shared(reduce.REST)
        self.refused = False
        self._plain = {name: _over_systems(name, limit) for name in GOALS}

    def can(self, system: System, goal: str) -> bool:
        """Return whether a continuation of `system` reaches `goal`. Raises Unknown at the limit."""
        if not self.refused:
            try:
                code = self._codes.get(system)
                if code is None:
                    code = self._codes[system] = self.successors.encode(system)
                return self.reaches(code, goal)
            except FactoringError:
                self.refused = True
        return self._plain[goal].reaches(system)

    def reaches(self, code: Code, goal: str) -> bool:
        """Return the same of a code of `self.successors`. Raises FactoringError."""
        verdicts = self.verdicts[goal]
        known = verdicts.get(code)
        if known is None:
            hopeless = self._hopeless_for[goal]
            known = decide(code, self._follow(goal), self._goal(goal), verdicts, self.limit, hopeless)
        return known

    def _hopeless(self, code: Code) -> bool:
        """Whether a group of `code` can never be ready, whatever the others do."""
        for local in code[1:]:
            if self._keeps(local):
                return True
        return self._rests(code[0]) and len(code) > 2 and not all(self._alone(code[0], x) for x in code[1:])

    def _keeps(self, local: int) -> bool:
        """Whether Gym retains a result of this group that nothing releases any more."""
        known = self._kept.get(local)
        if known is None:
            self._kept[local] = False  # a result alone is not asked again about itself
            alone = reduce.retained(self.successors.locals[local])
            known = self._kept[local] = not all(self._alone(self._rest, self.successors.intern(x)) for x in alone)
        return known

    def _alone(self, shared: int, local: int) -> bool:
        return self.reaches((shared, local), "ready")

    def _rests(self, shared: int) -> bool:
        known = self._at_rest.get(shared)
        if known is None:
            known = self._at_rest[shared] = reduce.at_rest(self.successors.shared[shared])
        return known

    def _goal(self, goal: str) -> Callable[[Code], bool]:
        reached, decode = GOALS[goal][0], self.successors.decode
        return lambda code: reached(decode(code))

    def _follow(self, goal: str) -> Callable[[Code], list[Code]]:
        """Successors by the events that the goal allows, best first."""
        of, labels = self.successors.of, self.successors.labels

        def follow(code: Code) -> list[Code]:
            found = sorted((RANK[labels[label].name], after) for label, after in of(code))
            if goal == "committed":
                return [after for rank, after in found if rank != LATE]
            return [after for _, after in found]

        return follow
