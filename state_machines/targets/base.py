"""What a history can run on besides the model, and how a difference from the model becomes a finding.

    target.reset(policy, scope)                              # a new example
    for each event:
        after = step(before, event)
        divergence = check(target, number, event, before, after)
        if divergence is not None: raise finding_type(divergence.verdict)(divergence.verdict, events)
    target.close()                                           # always: `with closing(target)`

The trainer of a history is always the model's. A target performs the calls on Gym that each step makes (`calls_of`)
and says afterwards what it shows. A target can also stop working: that is a `TargetError`, which is not a finding.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import click
from attrs import asdict, fields, frozen

from protocol import gym as g
from protocol.events import Event
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.snapshot import Step
from protocol.state import System
from protocol.system import initial, step
from protocol.wire import REPLIES, Kind
from state_machines.targets.calls import GymCall, calls_of
from state_machines.verdict import Verdict

DIVERGED: Final = "diverged"


class TargetError(click.ClickException):
    """A target that cannot be used, or no longer: one sentence, exit code 2.

    It is not a finding, and replaying it proves nothing. A hunt must end with it: under Hypothesis raise
    `TargetStopped(error)` from the rule, which Hypothesis lets through at once, and unwrap it outside.
    """


class TargetStopped(BaseException):
    """Carries a `TargetError` through Hypothesis, which would shrink any `Exception`."""

    def __init__(self, error: TargetError) -> None:
        super().__init__(error.message)
        self.error = error


@frozen
class Observation:
    """What a Gym shows after a step. Counts are those of gym.md's `status()`.

    `calls` are the answers to the calls of this step, `answers` the `/run` answers that the trainer has not taken yet,
    `prepare` is the prepare in flight: `open`, or its answer.
    """

    calls: tuple[str, ...]
    answers: tuple[str, ...]
    prepare: str | None
    phase: str
    active: str | None
    state: str
    running: int
    parked_with_boundary: int
    parked_without_boundary: int
    completed_unacknowledged: int
    acknowledged_completed: int
    active_count: int
    ready_to_commit: bool
    blocking_attempts: tuple[str, ...]
    unacknowledged_attempts: tuple[str, ...]
    selected_boundaries: tuple[str, ...]


@frozen
class Difference:
    """One field of an observation on which the model and a target disagree."""

    field: str
    model: Any
    target: Any


@frozen
class Divergence:
    """A step after which a target shows something else than the model. `at` counts events from 1."""

    at: int
    event: Event
    model: Observation
    target: Observation

    @property
    def differences(self) -> tuple[Difference, ...]:
        return differences(self.model, self.target)

    @property
    def verdict(self) -> Verdict:
        """A finding of its own kind. The cause is the first field that differs."""
        return Verdict(DIVERGED, self.differences[0].field)

    def lines(self) -> list[str]:
        """Return both observations side by side, one line a field, those that differ marked with `!`."""
        rows = [("", "field", "model", "target")]
        for f in fields(Observation):
            model, target = getattr(self.model, f.name), getattr(self.target, f.name)
            rows.append(("" if model == target else "!", f.name, show(model), show(target)))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]

    def __str__(self) -> str:
        said = "; ".join(f"{d.field} is {show(d.target)}, the model has {show(d.model)}" for d in self.differences)
        return f"diverged after event {self.at} ({self.event}): {said}"


class Target(Protocol):
    """What a history runs on. Used by one thread, for one history at a time."""

    name: str

    def reset(self, policy: Policy, scope: Scope) -> None:
        """Begin a new history: a Gym that shows nothing of the last one. Raises TargetError."""

    def apply(self, event: Event, before: System, after: System) -> None:
        """Make the step happen over there. Raises TargetError, naming the event, when the target has stopped."""

    def observe(self) -> Observation:
        """Return what the target shows now, once it has settled."""

    def close(self) -> None:
        """Let go of everything: connections, and the process if the target started one. May be called twice."""


class ModelTarget:
    """The model as a target: what it shows is what it is."""

    name = "model"

    def __init__(self) -> None:
        self._observation = observation_of(initial(Policy(), Scope()))

    def reset(self, policy: Policy, scope: Scope) -> None:
        self._observation = observation_of(initial(policy, scope))

    def apply(self, event: Event, before: System, after: System) -> None:
        self._observation = observation_of(after, calls=expected(before, event))

    def observe(self) -> Observation:
        return self._observation

    def close(self) -> None:
        """Nothing to let go of."""


def expected(before: System, event: Event) -> tuple[str, ...]:
    """Return the model's answers to the calls of a step, in the words of `Observation.calls`."""
    return words(calls_of(before, event))


def words(calls: Iterable[GymCall]) -> tuple[str, ...]:
    """Return the model's answers to `calls`, a line each."""
    return tuple(f"{call.subject}: {call.answer}" for call in calls)


KIND_WORDS: Final = {
    Kind.RESULT: "200",
    Kind.NULL: "200 null",
    Kind.FAILURE: "500",
    Kind.REFUSED: "409",
    Kind.LOST: "lost",
}


def observation_of(system: System, calls: tuple[str, ...] = ()) -> Observation:
    """Return what the model shows in `system`, after a step that made these `calls`."""
    report = g.status(system.gym)
    states = {attempt: execution.state.value for attempt, execution in system.gym.executions}
    preparing = system.snapshot.step is Step.PREPARING
    return Observation(
        calls,
        tuple(f"{m.attempt} {KIND_WORDS[m.kind]}" for m in system.wire.messages if m.kind in REPLIES),
        _prepare_word(system.snapshot.answer) if preparing else None,
        report.phase.value,
        report.active,
        report.state,
        report.running,
        report.parked_with_boundary,
        report.parked_without_boundary,
        report.completed_unacknowledged,
        report.acknowledged_completed,
        report.active_count,
        report.ready_to_commit,
        tuple(f"{a} {states[a]}" for a in report.blocking_attempts),
        tuple(str(r.attempt) for r in report.completed_unacknowledged_attempts),
        tuple(f"{a}@{boundary}" for a, boundary in report.selected_boundaries),
    )


def _prepare_word(answer: str | None) -> str:
    return "open" if answer is None else "200" if answer == "ok" else f"409 {answer}"


def differences(model: Observation, target: Observation) -> tuple[Difference, ...]:
    """Return the fields on which two observations disagree, in their order."""
    found = [Difference(f.name, getattr(model, f.name), getattr(target, f.name)) for f in fields(Observation)]
    return tuple(d for d in found if d.model != d.target)


def side_by_side(divergence: Divergence) -> dict[str, Any]:
    """Return both observations as a JSON object, and the fields that differ."""
    return {
        "at": divergence.at,
        "fields": [difference.field for difference in divergence.differences],
        "model": asdict(divergence.model),
        "target": asdict(divergence.target),
    }


def check(target: Target, at: int, event: Event, before: System, after: System) -> Divergence | None:
    """Take one step on `target` and compare. Raises TargetError."""
    target.apply(event, before, after)
    model, seen = observation_of(after, expected(before, event)), target.observe()
    return None if model == seen else Divergence(at, event, model, seen)


def follow(target: Target, policy: Policy, scope: Scope, events: Iterable[Event]) -> Divergence | None:
    """Run a history on `target` and return the first divergence. Raises TargetError, IllegalEvent."""
    target.reset(policy, scope)
    system = initial(policy, scope)
    for number, event in enumerate(events, 1):
        after = step(system, event)
        divergence = check(target, number, event, system, after)
        if divergence is not None:
            return divergence
        system = after
    return None


def show(value: Any) -> str:
    """Return a value of an observation as one line of text."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
