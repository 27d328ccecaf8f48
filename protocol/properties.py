"""What must hold: when Gym is ready, when everything is settled, and which cause strands it.

`ready`, `settled` and `committed` are the goals of liveness properties; `state_machines.recovery` decides whether they
can be reached. `cause` names the mechanism of a state from which `ready` cannot be reached. Safety is in `safety`.
"""

from enum import IntEnum
from typing import Final

from protocol import gym as g
from protocol.events import Deadline, Event, Owner
from protocol.executions import NOT_READY as INCOMPLETE
from protocol.findings import CAUSES, PROPERTIES, Cause, Property
from protocol.gym import State
from protocol.identity import Attempt, Receipt, locate, model_receipt, rollout_id
from protocol.safety import Violation, unsafe
from protocol.snapshot import Step
from protocol.state import System
from protocol.trainer import GIVEN_UP, HELD, GroupStatus, Seen
from protocol.wire import Kind

__all__ = [
    "CAUSES",
    "PROPERTIES",
    "Blame",
    "Cause",
    "Property",
    "Tier",
    "Violation",
    "blame",
    "blamed",
    "blocked_by",
    "cause",
    "closed_by",
    "commits_in_time",
    "committed",
    "culprits",
    "obstacle",
    "preparing",
    "ready",
    "reopened",
    "rescues",
    "settled",
    "unsafe",
    "unsettled_by",
]


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
    """Return whether a snapshot is on its way to Gym's commit.

    One whose prepare a Gym restart has forgotten is not: it fails at the next answer, without waiting for its deadline.
    """
    snapshot = system.snapshot
    if snapshot.step in (Step.FLUSH, Step.PREPARE):
        return True
    if snapshot.step is Step.COMMIT or (snapshot.step is Step.PREPARING and snapshot.answer == "ok"):
        return system.gym.fence.active == snapshot.checkpoint_id
    return snapshot.step is Step.PREPARING and snapshot.answer in (None, INCOMPLETE)


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


class Tier(IntEnum):
    """How directly an execution, or a debt, keeps Gym from ready or a snapshot from its commit: the lowest counts."""

    BOUNDARY = 0  # of a snapshot alone: parked without a boundary
    OUTBOX = 1  # of a snapshot alone: a debt in the outbox that Gym refuses
    DRAIN = 2  # of a snapshot alone: a debt that nobody pays during this snapshot
    PARTIAL = 3  # of a snapshot alone: a result that waits for its group
    UNPAYABLE = 4  # a debt that Gym refuses, now or at the seal: a flush is all or nothing
    LOST = 5  # an un-ACKed result that nobody owes or waits for
    GIVEN_UP = 6  # a run that was given up, which nobody owes
    DOOMED = 7  # a run of a group whose failure is on its way
    RETAINED = 8  # an un-ACKed result that is still waited for
    ANY = 9  # any other run
    NONE = 10


_RANKS: Final = list(Cause)
Blame = tuple[Tier, int]


def culprits(system: System) -> tuple[Attempt, ...]:
    """Return what keeps a stranded Gym from ready: the executions of the lowest tier there is."""
    tiers = [(_tier(system, attempt), attempt) for attempt, _ in system.gym.executions]
    lowest = min(tiers, default=(Tier.NONE, None))[0]
    return tuple(attempt for tier, attempt in tiers if tier is lowest)


def blame(system: System) -> Blame:
    """Return what is to blame for a stranded state: the lowest tier, and in it the first cause in the order of `Cause`.

    The blame of a system is the least of the blames of its groups: exploration relies on it.
    """
    if any(_unpayable(system, receipt) for receipt in (*system.trainer.outbox, *_debts_to_come(system))):
        return Tier.UNPAYABLE, _RANKS.index(Cause.UNPAYABLE_DEBT)
    found = [(_tier(system, a), _RANKS.index(_why(system, a))) for a, _ in system.gym.executions]
    return min(found, default=(Tier.NONE, _RANKS.index(Cause.OTHER)))


def obstacle(system: System) -> Blame:
    """Return the same for a snapshot that cannot commit; least over the groups as well."""
    owed = {receipt.attempt for receipt in system.trainer.outbox}
    states = dict(system.gym.executions)
    if any(e.state is State.PARKED and e.boundary is None for e in states.values()):
        return Tier.BOUNDARY, _RANKS.index(Cause.PARKED_WITHOUT_BOUNDARY)
    if any(_unpayable(system, receipt) for receipt in system.trainer.outbox):
        return Tier.OUTBOX, _RANKS.index(Cause.UNPAYABLE_DEBT)
    if owed and not system.trainer.draining:
        return Tier.DRAIN, _RANKS.index(Cause.DRAIN_DIED)
    if any(e.state is State.COMPLETED and _current(system, a) for a, e in states.items()):
        return Tier.PARTIAL, _RANKS.index(Cause.PARTIAL_GROUP)
    return blame(system)


def blamed(found: Blame) -> Cause:
    """Return the cause of a blame."""
    return _RANKS[found[1]]


def cause(system: System) -> Cause:
    """Return the mechanism of a stranded state: that of `blame`."""
    return blamed(blame(system))


def blocked_by(system: System) -> Cause:
    """Return what keeps a blocked snapshot from its commit: that of `obstacle`."""
    return blamed(obstacle(system))


def closed_by(system: System) -> Cause:
    """Return why Gym's admission stays closed."""
    return _unanswered(system) if system.snapshot.stuck else Cause.CLOSED_GYM


def unsettled_by(system: System) -> Cause:
    """Return why a fair run never settles, of a state in which it does not move on."""
    if any(_unpayable(system, receipt) for receipt in system.trainer.outbox):
        return Cause.UNPAYABLE_DEBT
    if not reopened(system):
        return closed_by(system)
    return Cause.RUN_ENDED if system.snapshot.ended and ready(system) else cause(system)


def _tier(system: System, attempt: Attempt) -> Tier:
    if any(receipt.attempt == attempt for receipt in system.trainer.outbox):
        return Tier.ANY
    execution = system.gym.find(attempt)
    finished = execution is not None and execution.state is State.COMPLETED
    if finished and not _comes(system, attempt):
        return Tier.LOST
    if _given_up(system, attempt):
        return Tier.GIVEN_UP
    if _doomed(system, attempt):
        return Tier.DOOMED
    return Tier.RETAINED if finished else Tier.ANY


def _why(system: System, attempt: Attempt) -> Cause:
    execution = system.gym.find(attempt)
    entry = system.trainer.entry(attempt)
    message = system.wire.find(attempt)
    kind = None if message is None else message.kind
    finished = execution is not None and execution.state is State.COMPLETED
    if finished and execution is not None and execution.receipt is None:
        return Cause.NULL_RESULT
    if entry is None or entry.seen is Seen.RESTARTED:
        return Cause.FORGOTTEN_RESULT
    if finished and (entry.seen is Seen.LOST or kind is Kind.LOST):
        return Cause.LOST_REPLY
    if finished and entry.seen is Seen.UNFETCHED:
        return Cause.RECEIPT_FETCH_LOST
    if system.snapshot.stuck and _parked_with(system, attempt):
        return _unanswered(system)
    if entry.seen is Seen.RESULT:
        return Cause.ABANDONED_RESULT
    if entry.status in GIVEN_UP:
        return Cause.LATE_RESULT
    return Cause.ABANDONED_RESULT if finished else Cause.LATE_RESULT


def _given_up(system: System, attempt: Attempt) -> bool:
    entry = system.trainer.entry(attempt)
    return entry is None or entry.status in GIVEN_UP


def _doomed(system: System, attempt: Attempt) -> bool:
    """Whether the answer that will cost the attempt's group its attempts is on its way."""
    group = locate(attempt.rollout)[0]
    return any(
        m.kind not in (Kind.REQUEST, Kind.RESULT)
        and locate(m.attempt.rollout)[0] == group
        and _current(system, m.attempt)
        for m in system.wire.messages
    )


def _unanswered(system: System) -> Cause:
    return Cause.ROLLBACK_LOST if system.snapshot.step is Step.ABORT else Cause.RESUME_LOST


def _comes(system: System, attempt: Attempt) -> bool:
    """Whether the ledger waits for `attempt` and holds its result, or has it on its way."""
    entry, message = system.trainer.entry(attempt), system.wire.find(attempt)
    seen = (entry is not None and entry.seen is Seen.RESULT) or (message is not None and message.kind is Kind.RESULT)
    return seen and _current(system, attempt)


def _parked_with(system: System, attempt: Attempt) -> bool:
    """Whether a run of the attempt's group is parked that the ledger waits for: only a resume lets it go on."""
    group = locate(attempt.rollout)[0]
    return any(
        e.state is State.PARKED and locate(a.rollout)[0] == group and _current(system, a)
        for a, e in system.gym.executions
    )


def _current(system: System, attempt: Attempt) -> bool:
    return system.trainer.entry(attempt) is not None and system.trainer.is_current(attempt)


def _debts_to_come(system: System) -> list[Receipt]:
    """The receipts of the results that are held for a seal."""
    return [
        model_receipt(Attempt(rollout_id(i, s), len(entries) - 1))
        for i, group in enumerate(system.trainer.groups)
        if group is not None and group.status is GroupStatus.GENERATING
        for s, entries in enumerate(group.siblings)
        if entries[-1] == HELD
    ]


def _unpayable(system: System, receipt: Receipt) -> bool:
    execution = system.gym.find(receipt.attempt)
    retained = execution is not None and execution.receipt == receipt
    return not retained and receipt not in system.gym.acknowledged
