"""The rules of debts: acknowledging the outbox, the drain, retiring what was given up, reconciling with Gym's status.

As in `runs`: for each event the candidates, the guard, and what it does.
"""

from collections.abc import Iterable

from protocol import gym as g
from protocol import trainer as t
from protocol.events import Event, Flush, LoseReply, LoseRequest, ReconcileLedger, RetireRun
from protocol.fence import LEGAL, RETIRE
from protocol.gym import State
from protocol.identity import Receipt
from protocol.policy import Drain, Reconcile, Retire
from protocol.scope import Fault
from protocol.snapshot import Step
from protocol.state import System, absorb, dispatch
from protocol.trainer import GIVEN_UP

RETIRE_PHASES = LEGAL[RETIRE][0]


def may_flush(system: System, event: Event) -> str | None:
    """Outside a snapshot a dead drain does not stay: the next snapshot begins with a flush (trainer.md, step 1)."""
    if not system.trainer.outbox:
        return "the outbox is empty"
    if not (system.trainer.draining or system.snapshot.step in (Step.IDLE, Step.FLUSH)):
        return "the drain died and does not come back before there is new debt"
    return None


def flush(system: System, event: Flush) -> System:
    outcome = g.acknowledge(system.gym, system.trainer.outbox)
    if outcome.reply is None or outcome.reply.status != 200:
        return flush_fails(system)
    system = absorb(system, outcome)
    system = system.replace(trainer=t.confirmed(system.trainer))
    return system.at(system.snapshot.to(Step.PREPARE)) if system.snapshot.step is Step.FLUSH else system


def flush_fails(system: System) -> System:
    """The debt stays. A strict flush that fails ends its snapshot before Gym was asked for anything."""
    if system.snapshot.step is Step.FLUSH:
        return dispatch(system.at(system.snapshot.abort()))
    return system.replace(trainer=t.flush_failed(system.trainer, system.policy))


def may_drain_die(system: System, event: Event) -> str | None:
    """Only during a snapshot does it matter: outside, `may_flush` stands for the next strict flush."""
    if system.policy.drain is Drain.RESCHEDULE:
        return "the policy's drain comes back"
    if not (system.trainer.outbox and system.trainer.draining):
        return "no drain is at work"
    outside = system.snapshot.step in (Step.IDLE, Step.FLUSH)
    return "outside a snapshot the next strict flush does the drain's work" if outside else None


def drain_dies(system: System, event: Event) -> System:
    return system.replace(trainer=t.flush_failed(system.trainer, system.policy)).spend(Fault.DRAIN_DEATH)


def lose_flush_request(system: System, event: LoseRequest) -> System:
    return flush_fails(system).spend(Fault.LOST_ACKNOWLEDGE)


def lose_flush_reply(system: System, event: LoseReply) -> System:
    return flush_fails(absorb(system, g.acknowledge(system.gym, system.trainer.outbox))).spend(Fault.LOST_ACKNOWLEDGE)


def retirements(system: System) -> Iterable[Event]:
    return [RetireRun(attempt) for attempt in system.trainer.retiring]


def may_retire(system: System, event: RetireRun) -> str | None:
    if event.attempt not in system.trainer.retiring:
        return "the trainer retires what it has just given up"
    if system.gym.fence.phase not in RETIRE_PHASES:
        return f"retire is refused while the fence is {system.gym.fence.phase.value}"
    return None


def retire(system: System, event: RetireRun) -> System:
    release = system.policy.retire is Retire.RELEASE
    checkpoint_id = system.gym.fence.active or f"retire-{event.attempt}"
    outcome = g.retire(system.gym, checkpoint_id, event.attempt, release=release)
    system = retire_unanswered(absorb(system, outcome), event)
    if outcome.gym.find(event.attempt) is None:  # the trainer let go of that connection
        system = system.replace(wire=system.wire.take(event.attempt))
    return system


def retire_unanswered(system: System, event: RetireRun | LoseRequest) -> System:
    left = tuple(a for a in system.trainer.retiring if a != event.attempt)
    return system.replace(trainer=system.trainer.replace(retiring=left))


def lose_retire_request(system: System, event: LoseRequest) -> System:
    return retire_unanswered(system, event).spend(Fault.LOST_RETIRE)


def lose_retire_reply(system: System, event: LoseReply) -> System:
    assert event.attempt is not None
    return retire(system, RetireRun(event.attempt)).spend(Fault.LOST_RETIRE)


def given_up(system: System) -> tuple[Receipt, ...]:
    """Return the receipts of results that Gym retains, the trainer gave up, and nobody owes."""
    found = []
    for attempt, execution in system.gym.executions:
        if execution.state is State.COMPLETED and execution.receipt is not None:
            entry = system.trainer.entry(attempt)
            if entry is not None and entry.status in GIVEN_UP and execution.receipt not in system.trainer.outbox:
                found.append(execution.receipt)
    return tuple(found)


def may_reconcile(system: System, event: ReconcileLedger) -> str | None:
    """Outside a snapshot it stands for what the next one does before it prepares."""
    if system.policy.reconcile is not Reconcile.ACKNOWLEDGE_GIVEN_UP:
        return "the policy does not reconcile"
    return None if given_up(system) else "Gym retains nothing that the trainer gave up"


def reconcile(system: System, event: ReconcileLedger) -> System:
    return system.replace(trainer=t.owe(system.trainer, *given_up(system)))
