"""Liveness for any Hypothesis RuleBasedStateMachine: `always_recoverable` and `eventually`.

Hypothesis checks what is true now. These add what can still become true: they attach an invariant to a machine whose
`state` is a value of a pure model, and ask the exact probe of `recovery` after every step. `docs/for-others.md` has an
example of another protocol.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from state_machines.recovery import LIMIT, Recovery

M = TypeVar("M", bound=type[RuleBasedStateMachine])


class Trapped(AssertionError):
    """No continuation reaches the goal any more. Carries the `state`."""

    def __init__(self, name: str, state: Any) -> None:
        super().__init__(f"{name} can never be reached again from {state!r}")
        self.state = state


def always_recoverable(
    enabled: Callable[[Any], Iterable[Any]],
    step: Callable[[Any, Any], Any],
    goal: Callable[[Any], bool],
    *,
    state: Callable[[Any], Hashable] = lambda machine: machine.state,
    limit: int | None = LIMIT,
) -> Callable[[M], M]:
    """Return a class decorator: after every step some continuation reaches `goal` (AG EF goal), or Trapped is raised.

    `enabled(state)` gives the events that the system does by itself, not those of its environment. Verdicts are shared
    by all examples. Raises `recovery.Unknown` when a state needs more than `limit` states to be decided.
    """
    probe: Recovery[Any, Any] = Recovery(enabled, step, goal, limit=limit)
    name = getattr(goal, "__name__", "the goal")

    def attach(machine: M) -> M:
        def recoverable(self: Any) -> None:
            at = state(self)
            if not probe.reaches(at):
                raise Trapped(name, at)

        setattr(machine, f"always_recoverable_{name.strip('<>')}", invariant()(recoverable))
        return machine

    return attach


def eventually(
    enabled: Callable[[Any], Iterable[Any]],
    step: Callable[[Any, Any], Any],
    goal: Callable[[Any], bool],
    *,
    state: Callable[[Any], Hashable] = lambda machine: machine.state,
    limit: int | None = LIMIT,
) -> Callable[[M], M]:
    """Return a class decorator: after every step each fair run of the system reaches `goal` (AG AF goal, fairly).

    Stronger than `always_recoverable`: it fails also where the goal stays possible and need never happen.
    """
    from state_machines.fairness import Fairness

    fair: Fairness[Any, Any] = Fairness(
        lambda s: [(event, step(s, event)) for event in enabled(s)], goal, limit=LIMIT if limit is None else limit
    )
    name = getattr(goal, "__name__", "the goal")

    def attach(machine: M) -> M:
        def settles(self: Any) -> None:
            at = state(self)
            if fair.bound(at) is None:
                raise Trapped(name, at)

        setattr(machine, f"eventually_{name.strip('<>')}", invariant()(settles))
        return machine

    return attach
