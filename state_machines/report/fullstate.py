"""The whole of a state as lines of text: RL, Gym, the wire, and what is left of the scope's faults.

Nothing is left out, so that two states that differ have texts that differ: digests alone are shortened.
"""

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from protocol.identity import Attempt, Receipt, rollout_id
from protocol.scope import Fault
from protocol.state import System
from protocol.trainer import Entry, Group
from protocol.wire import Message
from state_machines.report.changes import status_line

DIGITS: Final = 12  # of a digest


@frozen
class FullState:
    """The lines of each side."""

    rl: tuple[str, ...]
    gym: tuple[str, ...]
    wire: tuple[str, ...]
    budget: tuple[str, ...]


def full(system: System) -> FullState:
    """Return everything that `system` holds, as text."""
    return FullState(tuple(_rl(system)), tuple(_gym(system)), tuple(_wire(system)), tuple(_budget(system)))


def _rl(system: System) -> Iterable[str]:
    trainer, snapshot = system.trainer, system.snapshot
    yield from _groups(trainer.groups)
    yield f"outbox: {_list(_receipt(r) for r in trainer.outbox)}"
    yield f"to retire: {_list(map(str, trainer.retiring))}"
    yield f"drain: {'alive' if trainer.draining else 'dead'}"
    number = "none yet" if snapshot.number < 0 else snapshot.checkpoint_id
    yield f"snapshot: {snapshot.step.value}, {number}"
    yield f"snapshot asked Gym: {_yes(snapshot.asked)}; answer of the prepare: {snapshot.answer or 'none'}"
    yield f"resume unanswered: {_yes(snapshot.stuck)}; failed in a row: {snapshot.failures}"
    yield f"published: {_list(f'c{n}' for n in snapshot.published)}"
    if trainer.durable is not None:
        yield "a restart falls back to:"
        yield from (f"  {line}" for line in _groups(trainer.durable.groups))
        yield f"  boundaries: {_list(f'{a} at {b}' for a, b in trainer.durable.records)}"


def _groups(groups: tuple[Group | None, ...]) -> Iterable[str]:
    for i, group in enumerate(groups):
        yield f"group p{i}: {'not admitted' if group is None else group.status.value}"
        for s, entries in enumerate(() if group is None else group.siblings):
            for n, entry in enumerate(entries):
                yield f"  {Attempt(rollout_id(i, s), n)}: {_entry(entry)}"


def _entry(entry: Entry) -> str:
    return f"{entry.status.value}, seen {entry.seen.value}"


def _gym(system: System) -> Iterable[str]:
    gym, fence = system.gym, system.gym.fence
    yield f"admission: {'open' if gym.open else 'closed'}"
    yield f"fence: {fence.phase.value}, active {fence.active or 'none'}, prepare waiting: {fence.waiting or 'none'}"
    for attempt, e in gym.executions:
        boundary = "no boundary" if e.boundary is None else f"boundary {e.boundary}"
        client = "client waits" if e.client else "no client"
        result = "" if e.receipt is None else f", {_receipt(e.receipt)}"
        yield f"  {attempt}: {e.state.value}, {boundary}, {client}{result}"
    yield f"acknowledged: {_list(_receipt(r) for r in gym.acknowledged)}"
    yield f"tombstones: {_list(map(str, gym.tombstones))}"
    yield f"continuations: {_list(f'{a} from {b}' for a, b in gym.continuations)}"
    yield f"retired ids: {_list(fence.retired)}"
    yield f"recorded answers: {_list(f'{op} {i}: {reply.status}' for i, op, reply in fence.recorded)}"
    yield f"on disk: manifest {gym.manifest or 'none'}, {_list(f'{a} at {b}' for a, b in gym.saved)}"
    yield status_line(system)


def _wire(system: System) -> Iterable[str]:
    if not system.wire.messages:
        yield "nothing in flight"
    yield from map(_message, system.wire.messages)


def _message(message: Message) -> str:
    copies = "" if message.copies == 1 else f", {message.copies} copies"
    return f"{message.attempt}: {message.kind.value}{copies}"


def _budget(system: System) -> Iterable[str]:
    left = [f"{fault.value} {system.left(fault)}" for fault in Fault if system.left(fault)]
    yield f"faults that may still happen: {_list(left)}"


def _receipt(receipt: Receipt) -> str:
    extra = "" if receipt.manifest_capture_key is None else f", {receipt.manifest_capture_key}"
    extra += "" if receipt.terminal_model_call_id is None else f", {receipt.terminal_model_call_id}"
    digest = receipt.result_digest[:DIGITS]
    identity = receipt.result_identity
    generation = receipt.execution_generation
    return f"receipt of {receipt.attempt} (generation {generation}, id {identity}, digest {digest}…{extra})"


def _list(items: Iterable[str]) -> str:
    return ", ".join(items) or "none"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
