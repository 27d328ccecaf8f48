"""Shards and outcomes: the pieces of a campaign that workers run, and what comes out of one (`work` runs them).

Both cross processes and machines as JSON texts: a worker gets a shard's text and returns an outcome's.
"""

import hashlib
import json
import os
import socket
from typing import Any, Final

from attrs import asdict, frozen

from protocol.policy import Policy, spell
from protocol.scope import Scope

HUNT: Final = "hunt"
PROVE: Final = "prove"
MODEL: Final = "model"
HTTP: Final = "http"  # a reference Gym of the shard's own


@frozen
class Shard:
    """A hunt with its own seed and a budget in examples or in seconds, or a proof of one scope within `states`."""

    number: int
    mode: str
    policy: Policy
    scope: Scope
    target: str
    seed: int
    examples: int | None
    seconds: float | None
    states: int | None = None

    def content(self) -> dict[str, Any]:
        """Return everything that decides what the shard does, as JSON values."""
        return {
            "mode": self.mode,
            "policy": self.policy.axes(),
            "scope": self.scope.sizes(),
            "target": self.target,
            "seed": self.seed,
            "examples": self.examples,
            "seconds": self.seconds,
            "states": self.states,
        }

    @property
    def key(self) -> str:
        """The shard's name in a store: the same for the same content, in every process."""
        return hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()[:20]

    @property
    def title(self) -> str:
        """The shard in a few words, for people and for test ids."""
        words = [self.mode, spell(self.policy), f"#{self.number}"]
        if self.target != MODEL:
            words.insert(2, self.target)
        return " ".join(words)

    def to_json(self) -> str:
        return json.dumps(self.content() | {"number": self.number})


def from_json(text: str) -> Shard:
    """Return the shard that `Shard.to_json` wrote."""
    data = json.loads(text)
    return Shard(**data | {"policy": Policy().with_axes(data["policy"]), "scope": Scope(**data["scope"])})


@frozen
class Found:
    """A finding of a shard: its verdict as words, its length, and its trace as the JSON of a trace file."""

    property: str
    cause: str
    length: int
    trace: str


@frozen
class Outcome:
    """What a shard did. `unknown` when a state could not be decided, `reason` where a proof says why.

    `worker` is host and process.
    """

    key: str
    examples: int = 0
    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    unknown: bool = False
    findings: tuple[Found, ...] = ()
    worker: str = ""
    reason: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def outcome_from_json(text: str) -> Outcome:
    """Return the outcome that `Outcome.to_json` wrote."""
    data = json.loads(text)
    return Outcome(**data | {"findings": tuple(Found(**found) for found in data["findings"])})


def worker_name() -> str:
    """Return host and process, to say who ran a shard."""
    return f"{socket.gethostname()}:{os.getpid()}"
