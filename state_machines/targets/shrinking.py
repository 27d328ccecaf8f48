"""The shortest history that still shows a divergence: the target itself says whether it does.

Hypothesis does not shrink hunts, and the model cannot say where a target differs. So events are deleted greedily, many
at a time and then one by one, and each candidate runs on the target.
"""

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from protocol.events import Event
from protocol.policy import Policy
from protocol.scope import Scope
from state_machines.replay import possible
from state_machines.targets.base import Divergence, Target, follow
from state_machines.verdict import Verdict

RUNS: Final = 300  # of candidates, at most


@frozen
class Shrunk:
    """A history, and the divergence at its end; None when the target did not show it again."""

    events: tuple[Event, ...]
    divergence: Divergence | None


def shrink_on(target: Target, policy: Policy, scope: Scope, verdict: Verdict, events: tuple[Event, ...]) -> Shrunk:
    """Return the shortest history with this verdict that deleting events reaches. Raises TargetError."""
    best = _run(target, policy, scope, events)
    if best.divergence is None or best.divergence.verdict != verdict:
        return Shrunk(events, None)
    runs, seen = 0, {best.events}
    while runs < RUNS:
        for candidate in _shorter(best.events):
            kept = possible(policy, scope, candidate)
            if kept in seen:
                continue
            seen.add(kept)
            runs += 1
            found = _run(target, policy, scope, kept)
            if found.divergence is not None and found.divergence.verdict == verdict:
                best = found
                break
            if runs == RUNS:
                break
        else:
            return best
    return best


def _run(target: Target, policy: Policy, scope: Scope, events: tuple[Event, ...]) -> Shrunk:
    found = follow(target, policy, scope, events)
    return Shrunk(events if found is None else events[: found.at], found)


def _shorter(events: tuple[Event, ...]) -> Iterator[tuple[Event, ...]]:
    for width in (8, 4, 2, 1):
        for start in range(len(events) - width, -1, -1):
            yield events[:start] + events[start + width :]
