"""What a worker does with a shard: a hunt, a proof, and the target that they run on."""

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from attrs import evolve

from protocol.events import Event
from state_machines.campaign.shard import HTTP, MODEL, PROVE, Found, Outcome, Shard, from_json, worker_name
from state_machines.database import open_database, silent
from state_machines.hunt import INTERRUPTED, digest, hunt
from state_machines.prove import Bounds, prove_anyhow
from state_machines.targets.base import Target
from state_machines.targets.options import TargetChoice
from state_machines.trace import Trace, found_by
from state_machines.trace import to_json as trace_to_json
from state_machines.verdict import Verdict

ROUND: Final = 200  # examples between two looks at the clock, for shards with a budget in seconds


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
    shortest: dict[Verdict, tuple[tuple[Event, ...], int]] = {}
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
                database=open_database(database, silent),
                target=target,
                certify=False,
            )
            if result.stopped == INTERRUPTED:
                raise KeyboardInterrupt  # a shard that was not run to its end is not done
            rounds += 1
            examples, states, steps = examples + result.examples, states + result.states, steps + result.steps
            unknown |= result.unknown
            for found in result.findings:
                if found.verdict not in shortest or len(found.events) < len(shortest[found.verdict][0]):
                    shortest[found.verdict] = found.events, seed
    findings = tuple(_found(shard, verdict, *shortest[verdict]) for verdict in sorted(shortest))
    return Outcome(shard.key, examples, states, steps, unknown=unknown, findings=findings)


def _found(shard: Shard, verdict: Verdict, events: tuple[Event, ...], seed: int | None) -> Found:
    trace = Trace(shard.policy, shard.scope, events, verdict, found_by(seed, f"campaign, {shard.mode}"))
    return Found(verdict.property, verdict.cause, len(events), json.dumps(trace_to_json(trace)))


@contextmanager
def _target(shard: Shard) -> Iterator[Target | None]:
    """What the shard's histories run on. A Gym at an address is one worker's at a time: others here wait."""
    alone = nullcontext() if shard.target in (MODEL, HTTP) else _alone(shard.target)
    with alone, TargetChoice(shard.target).open() as target:
        yield target


@contextmanager
def _alone(url: str) -> Iterator[None]:
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    with (Path(tempfile.gettempdir()) / f"stranded-{os.getuid()}-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _prove(shard: Shard) -> Outcome:
    """A proof of the scope. What its bounds leave open is unknown."""
    proof = prove_anyhow(shard.policy, shard.scope, Bounds(max_states=shard.states))
    if proof.stopped == INTERRUPTED:
        raise KeyboardInterrupt
    findings = tuple(_found(shard, x.verdict, x.events, None) for x in proof.findings)
    return Outcome(
        shard.key,
        states=proof.states,
        steps=proof.transitions,
        unknown=not proof.exhaustive,
        findings=findings,
        reason=proof.stopped or "",
    )
