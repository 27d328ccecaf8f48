"""One shard: the piece of a campaign that one worker runs, and what comes out of it.

Both cross processes and machines as JSON texts: a worker gets a shard's text and returns an outcome's.
"""

import fcntl
import hashlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import asdict, evolve, frozen

from protocol.events import Event
from protocol.policy import Policy, spell
from protocol.scope import Scope
from state_machines.database import open_database, silent
from state_machines.hunt import digest, hunt
from state_machines.targets.base import Target
from state_machines.trace import Trace, found_by
from state_machines.trace import to_json as trace_to_json
from state_machines.verdict import Verdict

HUNT: Final = "hunt"
PROVE: Final = "prove"
MODEL: Final = "model"
HTTP: Final = "http"  # a reference Gym of the shard's own
ROUND: Final = 200  # examples between two looks at the clock, for shards with a budget in seconds


@frozen
class Shard:
    """A hunt with its own seed and a budget in examples or in seconds, or a proof of one scope."""

    number: int
    mode: str
    policy: Policy
    scope: Scope
    target: str
    seed: int
    examples: int | None
    seconds: float | None

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
    """What a shard did. `unknown` when a state could not be decided. `worker` is host and process."""

    key: str
    examples: int = 0
    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    unknown: bool = False
    findings: tuple[Found, ...] = ()
    worker: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def outcome_from_json(text: str) -> Outcome:
    """Return the outcome that `Outcome.to_json` wrote."""
    data = json.loads(text)
    return Outcome(**data | {"findings": tuple(Found(**found) for found in data["findings"])})


def worker_name() -> str:
    """Return host and process, to say who ran a shard."""
    return f"{socket.gethostname()}:{os.getpid()}"


def run(text: str, database: str | None) -> str:
    """Run a shard and return its outcome, both as JSON. `database` is the URL of where failures are remembered.

    The parent has warned of a database that cannot be reached; a worker is silent about it.
    """
    shard = from_json(text)
    began = time.perf_counter()
    outcome = _prove(shard) if shard.mode == PROVE else _hunt(shard, database, began)
    return evolve(outcome, seconds=time.perf_counter() - began, worker=worker_name()).to_json()


def _hunt(shard: Shard, database: str | None, began: float) -> Outcome:
    """One hunt, or with a budget in seconds as many of `ROUND` examples as begin in time, each with its own seed."""
    memory, shortest = open_database(database, silent), {}
    examples = states = steps = rounds = 0
    unknown = False
    with _target(shard) as target:
        while not rounds or (shard.seconds is not None and time.perf_counter() - began < shard.seconds):
            seed = shard.seed if shard.seconds is None else digest(shard.seed, rounds)
            result = hunt(
                shard.policy,
                shard.scope,
                seed=seed,
                examples=shard.examples or ROUND,
                database=memory,
                target=target,
                certify=False,
            )
            rounds += 1
            examples, states, steps = examples + result.examples, states + result.states, steps + result.steps
            unknown |= result.unknown
            for found in result.findings:
                if found.verdict not in shortest or len(found.events) < len(shortest[found.verdict][0]):
                    shortest[found.verdict] = found.events, seed
    findings = tuple(_found(shard, verdict, *shortest[verdict]) for verdict in sorted(shortest))
    return Outcome(shard.key, examples, states, steps, unknown=unknown, findings=findings)


def _found(shard: Shard, verdict: Verdict, events: tuple[Event, ...], seed: int) -> Found:
    trace = Trace(shard.policy, shard.scope, events, verdict, found_by(seed, "campaign"))
    return Found(verdict.property, verdict.cause, len(events), json.dumps(trace_to_json(trace)))


@contextmanager
def _target(shard: Shard) -> Iterator[Target | None]:
    """What the shard's histories run on. A Gym at an address is one worker's at a time: the others on the machine wait."""
    if shard.target == MODEL:
        yield None
        return
    from state_machines.targets.http import HttpTarget
    from state_machines.targets.process import TOKEN_ENV, ReferenceGym

    if shard.target == HTTP:
        owned = ReferenceGym()
        with closing(HttpTarget(owned.url, owned.token, owned=owned)) as target:
            yield target
        return
    name = hashlib.sha256(shard.target.encode()).hexdigest()[:16]
    with (Path(tempfile.gettempdir()) / f"stranded-{os.getuid()}-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with closing(HttpTarget(shard.target, os.environ.get(TOKEN_ENV))) as target:
            yield target


def _prove(shard: Shard) -> Outcome:
    raise NotImplementedError
