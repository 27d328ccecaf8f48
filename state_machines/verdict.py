"""Verdicts: which property a history breaks and by which cause, decided exactly or not at all.

A history ends at its first violation. A verdict is a pair of words, `(property, cause)`; findings with different pairs
are different findings, each with an exception type of its own, because Hypothesis tells failures apart by type.
"""

import builtins
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Protocol

from attrs import frozen

from protocol import properties as p
from protocol.events import Event
from protocol.properties import Cause, Property
from protocol.state import System
from state_machines.recovery import SystemRecovery, Unknown


@frozen(order=True)
class Verdict:
    """A broken property and its cause, as words. The cause of a broken safety property is the property's name."""

    property: str
    cause: str

    @builtins.property
    def word(self) -> str:
        """What the state is called: stranded, blocked, closed, unfair, diverged or unsafe."""
        return WORDS.get(self.property, "unsafe")

    @builtins.property
    def ends(self) -> bool:
        """Whether a history ends here. In an unfair state everything that is possible may still happen."""
        return self.property != Property.FAIR.value

    @builtins.property
    def sentence(self) -> str:
        """The cause in one sentence."""
        if self.property == "diverged":
            return f"the target shows other {self.cause.replace('_', ' ')} than the model"
        try:
            return p.CAUSES[Cause(self.cause)]
        except ValueError:
            return p.PROPERTIES[Property(self.property)] if self.property in _PROPERTIES else self.cause

    def __str__(self) -> str:
        return f"{self.word}: {self.cause}"


_PROPERTIES = frozenset(x.value for x in Property)
WORDS = {
    "recoverable": "stranded",
    "unblocked": "blocked",
    "reopens": "closed",
    "fair": "unfair",
    "diverged": "diverged",
}


class Finding(AssertionError):
    """A history that breaks a property. Every verdict has a subclass of its own (`finding_type`)."""

    def __init__(self, verdict: Verdict, events: tuple[Event, ...]) -> None:
        history = " | ".join(map(str, events)) or "nothing has happened yet"
        super().__init__(f"{verdict} after {len(events)} events: {verdict.sentence}\n{history}")
        self.verdict, self.events = verdict, events


@cache
def finding_type(verdict: Verdict) -> type[Finding]:
    """Return the exception type of `verdict`, named like `StrandedLostReply`."""
    words = f"{verdict.word}_{verdict.cause}".split("_")
    return type("".join(word.capitalize() for word in words), (Finding,), {"__module__": __name__})


class Judging(Protocol):
    """Decides states and steps: a `Judge`, or `search.Decider`, which assumes nothing about the rules."""

    def state(self, system: System) -> Verdict | None: ...

    def step(self, before: System, event: Event, after: System) -> Verdict | None: ...


def verdict_of(judge: Judging, states: Sequence[System], events: Iterable[Event]) -> tuple[Verdict | None, int | None]:
    """Return the verdict of a history and after how many events it is met, or None twice.

    It is the first that ends a history; where there is none, the last unfair one. Raises Unknown.
    """
    found, at = judge.state(states[0]), 0
    for number, (before, event, after) in enumerate(zip(states, events, states[1:], strict=False), 1):
        if found is not None and found.ends:
            break
        verdict = judge.step(before, event, after)
        if verdict is not None:
            found, at = verdict, number
    return found, None if found is None else at


class Judge:
    """Decides states and steps of one policy and scope, and remembers what it decided.

    `state` returns the broken liveness property of a state, or None; `step` looks for a broken safety property first.
    Both raise `recovery.Unknown` when the answer needs more states than `limit`: never a guess. With `fair`
    fairness is decided too, last.
    """

    def __init__(self, limit: int = 2_000_000, *, fair: bool = False) -> None:
        from state_machines.settling import SystemFairness

        self.limit, self.fair = limit, fair
        self.recovery = SystemRecovery(limit)
        self.fairness = SystemFairness(self.recovery)

    def fresh(self) -> "Judge":
        """Return the same judge, which remembers nothing."""
        return Judge(self.limit, fair=self.fair)

    def state(self, system: System) -> Verdict | None:
        """Return the first liveness property that does not hold in `system`: stranded, blocked, closed, unfair."""
        return self._broken(system) or self._unfair(system)

    def _unfair(self, system: System) -> Verdict | None:
        cause = self.fairness.cause(system) if self.fair else None
        return None if cause is None else Verdict(Property.FAIR.value, cause.value)

    def _broken(self, system: System) -> Verdict | None:
        if not self.recovery.can(system, "ready"):
            return Verdict(Property.RECOVERABLE.value, p.cause(system).value)
        if p.preparing(system) and not self.recovery.can(system, "committed"):
            return Verdict(Property.UNBLOCKED.value, p.blocked_by(system).value)
        if not self.recovery.can(system, "reopened"):
            return Verdict(Property.REOPENS.value, p.closed_by(system).value)
        return None

    def step(self, before: System, event: Event, after: System) -> Verdict | None:
        """Return the first property that the step breaks, or None. What was unfair before is not unfair by the step."""
        broken = p.unsafe(before, event, after)
        if broken:
            return Verdict(broken[0].property.value, broken[0].property.value)
        verdict = self.state(after)
        standing = verdict is not None and not verdict.ends and not self.fairness.holds(before)
        return None if standing else verdict


__all__ = ["Finding", "Judge", "Judging", "Unknown", "Verdict", "finding_type", "verdict_of"]
