"""Replaying a history: every state it goes through, and the first verdict it meets."""

from collections.abc import Iterable
from enum import Enum

from attrs import frozen

from protocol.events import Event
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import IllegalEvent, broken, step
from state_machines.trace import Trace, TraceError
from state_machines.verdict import Judge, Judging, Verdict, verdict_of


@frozen
class Replay:
    """What a history does.

    `states[i]` is the system before `events[i]`, so there is one state more than events. `verdict` is the first broken
    property and `at` the number of events after which it was broken; both None when nothing broke.
    """

    policy: Policy
    scope: Scope
    events: tuple[Event, ...]
    states: tuple[System, ...]
    verdict: Verdict | None
    at: int | None


def replay(policy: Policy, scope: Scope, events: Iterable[Event], judge: Judging | None = None) -> Replay:
    """Run `events` from the initial system. Raises TraceError with the event's number for an illegal one.

    All events run, also those after the first violation. Raises `recovery.Unknown` when a state cannot be decided.
    """
    events = tuple(events)
    states = [initial(policy, scope)]
    for number, event in enumerate(events, 1):
        try:
            states.append(step(states[-1], event))
        except IllegalEvent as error:
            raise TraceError(f"event {number}: {error}") from None
    return Replay(policy, scope, events, tuple(states), *verdict_of(judge or Judge(), states, events))


def replay_trace(trace: Trace, policy: Policy | None = None, judge: Judging | None = None) -> Replay:
    """Replay a trace under its own policy or under another one.

    Under another policy an event that cannot happen there is left out: the histories stay comparable. The events of
    the replay are those that happened. A trace of an unfair history is asked for fairness. Raises TraceError with the
    file and the event's number for an illegal one.
    """
    judge = judge or Judge(fair=trace.verdict is not None and not trace.verdict.ends)
    if policy is None or policy == trace.policy:
        try:
            return replay(trace.policy, trace.scope, trace.events, judge)
        except TraceError as error:
            raise TraceError(f"{trace.file}: {error}" if trace.file else str(error)) from None
    return replay(policy, trace.scope, possible(policy, trace.scope, trace.events), judge)


def possible(policy: Policy, scope: Scope, events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events of a history that can happen under `policy`, in order, leaving out the others."""
    system, kept = initial(policy, scope), []
    for event in events:
        if broken(system, event) is None:
            system = step(system, event)
            kept.append(event)
    return tuple(kept)


class Outcome(Enum):
    """What a replay says about the verdict that its file records. The value is the exit code of `stranded replay`."""

    SAME = 0
    OTHER = 1
    CLEAN = 4
    IMPOSSIBLE = 5


def outcome(run: Replay, trace: Trace, verdict: Verdict | None) -> Outcome:
    """Return what came out of the replay of a trace, whose verdict was `verdict`, on a target perhaps."""
    if verdict == trace.verdict:
        return Outcome.SAME
    if verdict is not None:
        return Outcome.OTHER
    return Outcome.CLEAN if len(run.events) == len(trace.events) else Outcome.IMPOSSIBLE


def told(run: Replay, trace: Trace, verdict: Verdict | None) -> str:
    """Return the same as a sentence."""
    recorded = trace.verdict or "no finding"
    match outcome(run, trace, verdict):
        case Outcome.SAME:
            return "reproduced: nothing is broken" if verdict is None else f"reproduced: {verdict}, {verdict.sentence}"
        case Outcome.OTHER:
            return f"another verdict: {verdict}; recorded is {recorded}"
        case Outcome.CLEAN:
            return f"clean: the whole history happens and nothing breaks; recorded is {recorded}"
        case Outcome.IMPOSSIBLE:
            count = len(trace.events) - len(run.events)
            return (
                f"cannot happen any more: {count} of {len(trace.events)} events are impossible here, "
                f"and nothing breaks without them; recorded is {recorded}"
            )
