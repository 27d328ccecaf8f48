"""Verdicts: which property a history breaks and by which cause, decided exactly or not at all.

A history ends at its first violation. A verdict is a pair of words, `(property, cause)`; findings with different pairs
are different findings, each with an exception type of its own, because Hypothesis tells failures apart by type.
"""

import builtins
from functools import cache

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


class Judge:
    """Decides states and steps of one policy and scope, and remembers what it decided.

    `state` returns the broken liveness property of a state, or None; `step` looks for a broken safety property first.
    Both raise `recovery.Unknown` when the answer needs more states than `limit`: never a guess.
    """

    def __init__(self, limit: int = 2_000_000) -> None:
        self.limit = limit
        self.recovery = SystemRecovery(limit)

    def state(self, system: System) -> Verdict | None:
        """Return the first liveness property that does not hold in `system`: stranded, blocked, closed."""
        if not self.recovery.can(system, "ready"):
            return Verdict(Property.RECOVERABLE.value, p.cause(system).value)
        if p.preparing(system) and not self.recovery.can(system, "committed"):
            return Verdict(Property.UNBLOCKED.value, p.blocked_by(system).value)
        if not self.recovery.can(system, "reopened"):
            return Verdict(Property.REOPENS.value, p.closed_by(system).value)
        return None

    def step(self, before: System, event: Event, after: System) -> Verdict | None:
        """Return the first property that the step breaks, or None."""
        broken = p.unsafe(before, event, after)
        if broken:
            return Verdict(broken[0].property.value, broken[0].property.value)
        return self.state(after)


__all__ = ["Finding", "Judge", "Unknown", "Verdict", "finding_type"]
