"""Liveness for anybody's Hypothesis machine: invariants that say what can still happen, not what is.

A RuleBasedStateMachine sees only the states on its way. `always_recoverable` and `eventually` look ahead from each of
them, exhaustively, in a pure model of what may follow: an initial state is not needed, `enabled`, `step` and a
predicate are. Both return an invariant, to be assigned in the body of the machine (`docs/for-others.md`).
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from hypothesis.stateful import invariant

from state_machines.explore import can_reach, explore, explore_model, traps
from state_machines.recovery import LIMIT, Recovery, Unknown

__all__ = [
    "Avoidable",
    "Inevitable",
    "Recovery",
    "Stranded",
    "Unknown",
    "always_recoverable",
    "can_reach",
    "eventually",
    "explore",
    "explore_model",
    "traps",
]

S = TypeVar("S", bound=Hashable)
E = TypeVar("E")


class Stranded(AssertionError):
    """No continuation of a state reaches the goal. Carries `state`."""

    def __init__(self, name: str, state: object) -> None:
        super().__init__(f"{name}: nothing that may follow leads there from {state}")
        self.state = state


class Avoidable(AssertionError):
    """Some continuation never reaches the goal. Carries `state` and `way`, the events to an end or round a cycle."""

    def __init__(self, name: str, state: object, way: list[Any]) -> None:
        then = f"{' -> '.join(map(str, way))} ends or goes in a circle before" if way else "nothing may follow"
        super().__init__(f"{name}: from {state}, {then}")
        self.state, self.way = state, way


class Inevitable(Generic[S, E]):
    """Decides `AF goal`: whether every continuation reaches the goal, however events are chosen.

    It does not when one comes to an end, or into a cycle, before. Leave out of `enabled` what need not happen.
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
        self.sure: set[S] = set()

    def avoids(self, state: S) -> list[E] | None:
        """Return events that lead to an end or back to a state on the way, or None. Raises Unknown at the limit."""
        if state in self.sure or self.goal(state):
            return None
        way: list[E] = []
        path, on_path, seen = [state], {state}, 1
        stack = [iter(self._moves(state))]
        if not self._moves(state):
            return way
        while stack:
            for event, after in stack[-1]:
                if after in self.sure or self.goal(after):
                    continue
                moves = [] if after in on_path else self._moves(after)
                way.append(event)
                if not moves:
                    return way
                seen += 1
                if self.limit is not None and seen > self.limit:
                    raise Unknown(seen)
                path.append(after)
                on_path.add(after)
                stack.append(iter(moves))
                break
            else:
                stack.pop()
                done = path.pop()
                on_path.remove(done)
                self.sure.add(done)
                if way:
                    way.pop()
        return None

    def _moves(self, state: S) -> list[tuple[E, S]]:
        return [(event, self.step(state, event)) for event in self.enabled(state)]


def always_recoverable(
    state: Callable[[Any], S],
    enabled: Callable[[S], Iterable[E]],
    step: Callable[[S, E], S],
    goal: Callable[[S], bool],
    *,
    name: str = "recoverable",
    limit: int | None = LIMIT,
) -> Any:
    """Return an invariant: from every state that the machine meets, some continuation reaches `goal` (AG EF goal).

    `state(machine)` is the machine's state as a hashable value. `enabled` gives what may help: leave out the faults.
    The invariant raises Stranded; or Unknown, when a question needs more than `limit` states.
    """
    recovery = Recovery(enabled, step, goal, limit=limit)

    def holds(self: Any) -> None:
        now = state(self)
        if not recovery.reaches(now):
            raise Stranded(name, now)

    return _named(holds, name)


def eventually(
    state: Callable[[Any], S],
    enabled: Callable[[S], Iterable[E]],
    step: Callable[[S, E], S],
    goal: Callable[[S], bool],
    *,
    name: str = "eventually",
    limit: int | None = LIMIT,
) -> Any:
    """Return an invariant: from every state that the machine meets, every continuation reaches `goal` (AG AF goal).

    As `always_recoverable`, and `enabled` gives what goes on by itself. Raises Avoidable, or Unknown.
    """
    inevitable = Inevitable(enabled, step, goal, limit=limit)

    def holds(self: Any) -> None:
        now = state(self)
        way = inevitable.avoids(now)
        if way is not None:
            raise Avoidable(name, now, way)

    return _named(holds, name)


def _named(holds: Callable[[Any], None], name: str) -> Any:
    holds.__name__ = holds.__qualname__ = name
    return invariant()(holds)
