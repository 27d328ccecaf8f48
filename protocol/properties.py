"""What must hold: when Gym is ready, when everything is settled, which cause strands it, and what is never safe.

`ready`, `settled` and `committed` are the goals of liveness properties; `state_machines.recovery` decides whether they
can be reached. `cause` names the mechanism of a state from which `ready` cannot be reached. `unsafe` compares a state
with the one before it.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from attrs import frozen

from protocol import gym as g
from protocol.events import Deadline, Deliver, Event, Owner
from protocol.gym import State
from protocol.identity import Attempt, Receipt
from protocol.policy import Granularity
from protocol.snapshot import Step
from protocol.state import System
from protocol.trainer import GIVEN_UP, AttemptStatus, GroupStatus, Seen
from protocol.wire import Kind


class Property(Enum):
    """The properties, each decided by itself."""

    RECOVERABLE = "recoverable"
    UNBLOCKED = "unblocked"
    REOPENS = "reopens"
    FAIR = "fair"
    NOTHING_LOST = "nothing_lost"
    APPLIED_ONCE = "applied_once"
    ACKNOWLEDGED_OWNED = "acknowledged_owned"
    SEALED_TOGETHER = "sealed_together"
    STALE_HARMLESS = "stale_harmless"
    PUBLISHED_ONCE = "published_once"
    RESTORE_COMES = "restore_comes"


PROPERTIES: Final[dict[Property, str]] = {
    Property.RECOVERABLE: "AG EF ready: from every state some continuation makes Gym ready to commit",
    Property.UNBLOCKED: "while a snapshot is prepared, some continuation commits it without its deadline",
    Property.REOPENS: "AG EF open: from every state some continuation opens Gym's admission and ends the snapshot",
    Property.FAIR: "once faults stop, a fair scheduler settles every group, pays every debt and reaches ready",
    Property.NOTHING_LOST: "a result that Gym has dropped is the trainer's, or was given up on purpose",
    Property.APPLIED_ONCE: "no sibling is sealed a second time, and no finalized group changes",
    Property.ACKNOWLEDGED_OWNED: "nothing is owed that the trainer neither holds, sealed nor gave up",
    Property.SEALED_TOGETHER: "in prompt_group a group is sealed from one attempt only",
    Property.STALE_HARMLESS: "an answer of an attempt given up changes nothing about a newer attempt",
    Property.PUBLISHED_ONCE: "every snapshot is published at most once",
    Property.RESTORE_COMES: "no sealed sibling is run again, and no restored run waits for what cannot come",
}


class Cause(Enum):
    """Which mechanism a finding shows. The value is its name everywhere."""

    LOST_REPLY = "lost_reply"
    RECEIPT_FETCH_LOST = "receipt_fetch_lost"
    NULL_RESULT = "null_result"
    ABANDONED_RESULT = "abandoned_result"
    LATE_RESULT = "late_result"
    FORGOTTEN_RESULT = "forgotten_result"
    PARTIAL_GROUP = "partial_group"
    DRAIN_DIED = "drain_died"
    PARKED_WITHOUT_BOUNDARY = "parked_without_boundary"
    UNPAYABLE_DEBT = "unpayable_debt"
    CLOSED_GYM = "closed_gym"
    RESUME_LOST = "resume_lost"
    OTHER = "other"


CAUSES: Final[dict[Cause, str]] = {
    Cause.LOST_REPLY: "the answer to a /run was lost: Gym retains a result whose receipt the trainer never saw",
    Cause.RECEIPT_FETCH_LOST: "the receipt of a good answer could not be fetched: Gym retains the result",
    Cause.NULL_RESULT: "a null result has no receipt, so nothing can acknowledge it",
    Cause.ABANDONED_RESULT: "a sibling finished, then its group was given up: nobody owes the ACK of its result",
    Cause.LATE_RESULT: "a run finishes after its attempt was given up: its result comes too late for anybody to owe it",
    Cause.FORGOTTEN_RESULT: "the restarted trainer does not know the attempt whose result Gym retains",
    Cause.PARTIAL_GROUP: "Gym waits for an ACK that comes at the seal, and the seal waits for siblings that are parked",
    Cause.DRAIN_DIED: "the debt is in the outbox, but the drain died and nothing wakes it during this snapshot",
    Cause.PARKED_WITHOUT_BOUNDARY: "a run is parked without a boundary: it blocks the commit until it is resumed",
    Cause.UNPAYABLE_DEBT: "the trainer owes receipts that Gym no longer knows: every flush is refused",
    Cause.CLOSED_GYM: "Gym's admission is closed and nobody is left to resume it",
    Cause.RESUME_LOST: "a resume was not answered, and it is not sent again before the next snapshot",
    Cause.OTHER: "none of the known causes",
}


def ready(system: System) -> bool:
    """Return whether Gym is ready to commit: nothing running, parked without a boundary, or un-ACKed (gym.md)."""
    return g.ready(system.gym)


def reopened(system: System) -> bool:
    """Return whether Gym admits runs again and no snapshot is under way."""
    return system.gym.open and system.snapshot.step is Step.IDLE


def settled(system: System) -> bool:
    """Return whether every admitted group is finalized or dropped, every debt is paid, and Gym is open and ready."""
    return (
        ready(system)
        and reopened(system)
        and not system.trainer.outbox
        and all(x is None or x.status in (GroupStatus.FINALIZED, GroupStatus.DROPPED) for x in system.trainer.groups)
    )


def preparing(system: System) -> bool:
    """Return whether a snapshot is on its way to Gym's commit."""
    return system.snapshot.step in (Step.FLUSH, Step.PREPARE, Step.PREPARING, Step.COMMIT)


def committed(system: System) -> bool:
    """Return whether Gym has committed the snapshot that is under way."""
    return system.snapshot.step in (Step.CAPTURE, Step.RESUME)


def rescues(event: Event) -> bool:
    """Return whether `event` may be part of a continuation that recovers: what the pair does by itself."""
    return event.owner is Owner.SYSTEM


def commits_in_time(event: Event) -> bool:
    """Return whether `event` may be part of a continuation that commits a snapshot: SYSTEM, but not its deadline."""
    return event.owner is Owner.SYSTEM and not isinstance(event, Deadline)


# Causes


def culprits(system: System) -> tuple[Attempt, ...]:
    """Return what keeps a stranded Gym from ready: the un-ACKed results that nobody owes, else the given-up runs."""
    owed = {receipt.attempt for receipt in system.trainer.outbox}
    held = [a for a, e in system.gym.executions if e.state is State.COMPLETED and a not in owed]
    if held:
        return tuple(held)
    lost = [a for a, _ in system.gym.executions if _given_up(system, a)]
    return tuple(lost or [a for a, _ in system.gym.executions])


def cause(system: System) -> Cause:
    """Return the mechanism of a stranded state: the first, in the order of `Cause`, that fits one of its culprits."""
    found = {_why(system, attempt) for attempt in culprits(system)}
    if not found:
        return Cause.OTHER
    return min(found, key=list(Cause).index)


def blocked_by(system: System) -> Cause:
    """Return what keeps a blocked snapshot from its commit."""
    owed = {receipt.attempt for receipt in system.trainer.outbox}
    states = dict(system.gym.executions)
    if any(e.state is State.PARKED and e.boundary is None for e in states.values()):
        return Cause.PARKED_WITHOUT_BOUNDARY
    if any(_unpayable(system, receipt) for receipt in system.trainer.outbox):
        return Cause.UNPAYABLE_DEBT
    if owed and not system.trainer.draining:
        return Cause.DRAIN_DIED
    if any(e.state is State.COMPLETED and _current(system, a) for a, e in states.items()):
        return Cause.PARTIAL_GROUP
    return cause(system)


def closed_by(system: System) -> Cause:
    """Return why Gym's admission stays closed."""
    return Cause.RESUME_LOST if system.snapshot.stuck else Cause.CLOSED_GYM


def unsettled_by(system: System) -> Cause:
    """Return why a fair run never settles, of a state in which it does not move on."""
    if any(_unpayable(system, receipt) for receipt in system.trainer.outbox):
        return Cause.UNPAYABLE_DEBT
    if not reopened(system):
        return closed_by(system)
    return cause(system)


def _why(system: System, attempt: Attempt) -> Cause:
    execution = system.gym.find(attempt)
    entry = system.trainer.entry(attempt)
    message = system.wire.find(attempt)
    kind = None if message is None else message.kind
    finished = execution is not None and execution.state is State.COMPLETED
    if finished and execution is not None and execution.receipt is None:
        return Cause.NULL_RESULT
    if entry is None:
        return Cause.FORGOTTEN_RESULT
    if finished and (entry.seen is Seen.LOST or kind is Kind.LOST):
        return Cause.LOST_REPLY
    if finished and entry.seen is Seen.UNFETCHED:
        return Cause.RECEIPT_FETCH_LOST
    if entry.seen is Seen.RESULT:
        return Cause.ABANDONED_RESULT
    if entry.status in GIVEN_UP:
        return Cause.LATE_RESULT
    return Cause.ABANDONED_RESULT if finished else Cause.LATE_RESULT


def _given_up(system: System, attempt: Attempt) -> bool:
    entry = system.trainer.entry(attempt)
    return entry is None or entry.status in GIVEN_UP


def _current(system: System, attempt: Attempt) -> bool:
    return system.trainer.entry(attempt) is not None and system.trainer.is_current(attempt)


def _unpayable(system: System, receipt: Receipt) -> bool:
    execution = system.gym.find(receipt.attempt)
    retained = execution is not None and execution.receipt == receipt
    return not retained and receipt not in system.gym.acknowledged


# Safety


@frozen
class Violation:
    """A safety property that does not hold, and the sentence that says why."""

    property: Property
    why: str


def unsafe(before: System, event: Event, after: System) -> tuple[Violation, ...]:
    """Return the safety properties that the step `before -event-> after` breaks, in the order of `Property`."""
    found = [
        *_lost(after),
        *_applied_twice(before, after),
        *_owed(after),
        *_mixed(after),
        *_stale(before, event, after),
        *_published_twice(after),
        *_restored(after),
    ]
    return tuple(found)


def _lost(system: System) -> Iterable[Violation]:
    for receipt in system.gym.acknowledged:
        entry = system.trainer.entry(receipt.attempt)
        if entry is None:
            continue  # fell back to before this attempt: it will be run again
        owned = entry.seen is Seen.RESULT or entry.status in GIVEN_UP or entry.status is AttemptStatus.RESERVED
        if not owned and not _runs_again(system, receipt.attempt):
            yield Violation(Property.NOTHING_LOST, f"Gym has dropped {receipt.attempt}, which the trainer never had")


def _runs_again(system: System, attempt: Attempt) -> bool:
    """Whether the answer of an attempt that Gym will refuse is on its way, so that the next attempt follows."""
    message = system.wire.find(attempt)
    return message is not None


def _applied_twice(before: System, after: System) -> Iterable[Violation]:
    for old, new in zip(before.trainer.groups, after.trainer.groups, strict=True):
        if old is None or new is None or old.status is not GroupStatus.FINALIZED or old == new:
            continue
        if new.status is not GroupStatus.GENERATING and [s[-1] for s in old.siblings] != [s[-1] for s in new.siblings]:
            yield Violation(Property.APPLIED_ONCE, "a group changed after it was finalized")
    for group in after.trainer.groups:
        for entries in () if group is None else group.siblings:
            if sum(entry.status is AttemptStatus.SEALED for entry in entries) > 1:
                yield Violation(Property.APPLIED_ONCE, "two attempts of one sibling are sealed")


def _owed(system: System) -> Iterable[Violation]:
    for receipt in system.trainer.outbox:
        entry = system.trainer.entry(receipt.attempt)
        if entry is not None and entry.seen is Seen.NOTHING and entry.status not in GIVEN_UP:
            yield Violation(Property.ACKNOWLEDGED_OWNED, f"{receipt.attempt} is owed but its result was never seen")


def _mixed(system: System) -> Iterable[Violation]:
    if system.policy.granularity is not Granularity.PROMPT_GROUP:
        return
    for i, group in enumerate(system.trainer.groups):
        if group is None or group.status not in (GroupStatus.READY_TO_FINALIZE, GroupStatus.FINALIZED):
            continue
        if len({len(entries) for entries in group.siblings}) > 1:
            yield Violation(Property.SEALED_TOGETHER, f"group p{i} is sealed from results of different attempts")


def _stale(before: System, event: Event, after: System) -> Iterable[Violation]:
    if not isinstance(event, Deliver) or before.trainer.is_current(event.attempt):
        return
    for old, new in zip(before.trainer.groups, after.trainer.groups, strict=True):
        if old is not None and new is not None and [s[-1] for s in old.siblings] != [s[-1] for s in new.siblings]:
            current = {len(s) - 1 for s in old.siblings}
            if event.attempt.index not in current or old.status is GroupStatus.GENERATING:
                yield Violation(Property.STALE_HARMLESS, f"the late answer of {event.attempt} changed a newer attempt")


def _published_twice(system: System) -> Iterable[Violation]:
    published = system.snapshot.published
    if len(set(published)) != len(published):
        yield Violation(Property.PUBLISHED_ONCE, "a snapshot was published twice")


def _restored(system: System) -> Iterable[Violation]:
    for attempt, _ in system.gym.continuations:
        entry = system.trainer.entry(attempt)
        if entry is not None and entry.status is AttemptStatus.SEALED:
            yield Violation(Property.RESTORE_COMES, f"{attempt} was restored although its sibling is sealed")
