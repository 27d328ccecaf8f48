"""What a campaign says of each policy, scope, target and mode: what was found, what is clean, what is not known.

A clean hunt and a clean proof are different answers: the proof looked at every state of its scope.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import fields, frozen

from protocol.policy import spell
from protocol.scope import Scope
from state_machines.campaign.plan import Plan
from state_machines.campaign.rows import BadRow
from state_machines.campaign.shard import HUNT, MODEL, PROVE
from state_machines.verdict import Verdict

CLEAN: Final = "nothing found"
PROVED: Final = "proved clean"
FINDINGS: Final = "findings"
UNKNOWN: Final = "unknown"
NOT_FINISHED: Final = "not finished"

Key = tuple[str, str, str, str]  # mode, policy, scope, target


@frozen
class FoundHere:
    """One cause in a cell: its shortest history there, and how many of the cell's shards found it."""

    property: str
    cause: str
    length: int
    shards: int

    def __str__(self) -> str:
        among = f", {self.shards} shards" if self.shards > 1 else ""
        return f"{Verdict(self.property, self.cause)} ({counted(self.length, 'event')}{among})"


@frozen
class Cell:
    """A policy in a scope on a target, hunted or proved. `unknown` is how many of its shards were not decided."""

    mode: str
    policy: str
    scope: str
    target: str
    shards: int
    done: int = 0
    unknown: int = 0
    examples: int = 0
    states: int = 0
    reason: str = ""
    found: tuple[FoundHere, ...] = ()

    @property
    def result(self) -> str:
        """The one word for the cell: the worst that is known of it."""
        if self.found:
            return FINDINGS
        if self.unknown:
            return UNKNOWN
        if self.done < self.shards:
            return NOT_FINISHED
        return PROVED if self.mode == PROVE else CLEAN

    def lines(self) -> list[str]:
        """Return the cell's answer for people: each finding, and whatever keeps the cell from being decided."""
        lines = [str(found) for found in self.found]
        if self.unknown and self.mode == PROVE:
            lines.append(undecided(self.mode, self.reason))
        elif self.unknown:
            lines.append(f"{undecided(self.mode, self.reason)}, in {counted(self.unknown, 'shard')}")
        if self.done < self.shards:
            lines.append(f"not finished: {self.done:,} of {counted(self.shards, 'shard')} done")
        return lines or [self.result]

    def effort(self) -> str:
        """What was looked at: a hunt counts histories, a proof states."""
        return counted(self.states, "state") if self.mode == PROVE else counted(self.examples, "example")

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "scope": self.scope,
            "mode": self.mode,
            "target": self.target,
            "result": self.result,
            "shards": self.shards,
            "done": self.done,
            "unknown": self.unknown,
            "reason": self.reason or None,
            "examples": self.examples,
            "states": self.states,
            "findings": [
                {"property": f.property, "cause": f.cause, "length": f.length, "shards": f.shards} for f in self.found
            ],
        }


def cells(plan: Plan, done: Iterable[tuple[Any, ...]], found: Mapping[Key, tuple[FoundHere, ...]]) -> tuple[Cell, ...]:
    """Return every cell of a plan, in its order.

    `done` has a row for each cell with a shard done: its key, then shards, unknown ones, examples, states, reason.
    """
    rows = {row[:4]: row[4:] for row in done}
    asked = _asked(plan)
    if not asked.keys() >= rows.keys() or not rows.keys() >= found.keys():
        raise BadRow("a cell that the plan does not have, or a finding where nothing was looked at")
    out = []
    for key, shards in asked.items():
        *sums, reason = rows.get(key, (0, 0, 0, 0, ""))
        reported, unknown, examples, states = map(int, sums)
        out.append(Cell(*key, shards, reported, unknown, examples, states, reason, found.get(key, ())))
    return tuple(out)


def _asked(plan: Plan) -> dict[Key, int]:
    """Every cell's key with how many shards it is cut into."""
    asked: dict[Key, int] = {}
    for policy in map(spell, plan.policies):
        for scope in map(spell_scope, plan.scopes):
            if HUNT in plan.modes:
                asked |= {(HUNT, policy, scope, target): plan.shards_per_hunt() for target in plan.targets}
            if PROVE in plan.modes:
                asked[PROVE, policy, scope, MODEL] = 1
    return asked


def undecided(mode: str, reason: str) -> str:
    """Return what is unknown of a shard in one line; `reason` is the proof's own."""
    if mode == PROVE:
        return f"unknown: the proof was cut short{reason and ': '}{reason}"
    return "unknown: a state was not decided"


def spell_scope(scope: Scope) -> str:
    """Return a scope as its bounds that differ from the default's, as plans write it; `default` for none."""
    default = Scope()
    names = [field.name for field in fields(Scope)]
    given = [f"{name}={getattr(scope, name)}" for name in names if getattr(scope, name) != getattr(default, name)]
    return ",".join(given) or "default"


def counted(number: int, noun: str) -> str:
    """Return `1 shard`, `2 shards`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
