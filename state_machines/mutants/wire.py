# ruff: noqa: SLF001 - a mutant replaces what the core keeps to itself
"""Mutants of what is between the two sides."""

from typing import Any

from attrs import evolve

from protocol import runs as u
from protocol import state as s
from protocol.events import LoseReply
from protocol.state import System
from protocol.wire import Kind
from state_machines.mutants import mutant
from state_machines.mutants.trainer import current_of


def _vanishes(lose: Any) -> Any:
    def vanish(system: System, event: LoseReply) -> System:
        assert event.attempt is not None
        after: System = lose(system, event)
        return after.replace(wire=after.wire.take(event.attempt))

    return vanish


mutant(
    "wire-lost-reply-is-silent",
    u.lose_run_reply,
    _vanishes,
    "a lost reply is a transport error that the trainer sees",
    "nothing arrives at all",
    "sibling",
    "siblings=1,lost_replies=1",
)
mutant(
    "wire-lost-request-is-silent",
    u.lose_run_request,
    _vanishes,
    "a lost request is a transport error that the trainer sees",
    "nothing arrives at all",
    "sibling",
    "siblings=1,lost_requests=1",
)
mutant(
    "wire-disconnect-is-silent",
    u.disconnect,
    _vanishes,
    "a closed connection is a transport error that the trainer sees",
    "nothing arrives at all",
    "sibling",
    "siblings=1,disconnects=1",
)
mutant(
    "wire-error-is-waited-out",
    u.deliver,
    lambda deliver: (
        lambda system, event: (
            system.replace(wire=system.wire.take(event.attempt))
            if system.wire.find(event.attempt).kind is Kind.LOST
            else deliver(system, event)
        )
    ),
    "a /run without an answer costs the attempt",
    "it is waited for",
    "sibling",
    "siblings=1,disconnects=1",
)
mutant(
    "wire-result-read-as-failure",
    u._answered,
    lambda answered: lambda system, a, kind: answered(system, a, Kind.FAILURE if kind is Kind.RESULT else kind),
    "a 200 is a result",
    "it is read as a failure",
    "sibling",
    "siblings=1",
)
mutant(
    "wire-prepare-answer-vanishes",
    s.absorb,
    lambda absorb: lambda system, out: absorb(system, out if out.reply is not None else evolve(out, prepared=None)),
    "the answer of a prepare that waited reaches the trainer",
    "it is lost, and the trainer waits for its deadline",
    "sibling",
    "siblings=1",
)
mutant(
    "wire-answer-reaches-another-attempt",
    u._answered,
    lambda answered: lambda system, a, kind: answered(system, current_of(system.trainer, a), kind),
    "an answer belongs to its attempt",
    "it is read as the answer of the current one",
    "prompt_group_repaired",
    "failures=1",
)
