"""What is never safe, exactly: `unsafe` compares a state with the one before it.

Nothing lost, nothing applied twice, nothing acknowledged that the trainer neither has nor gave up, groups sealed from
one attempt, late answers that touch nothing else, snapshots published once, and no waiting for what cannot come.
"""

from collections.abc import Iterable

from attrs import frozen

from protocol.events import Deliver, Event, RestartBoth, RestartGym, RestartTrainer
from protocol.executions import State
from protocol.findings import Property
from protocol.identity import Attempt, locate, rollout_id
from protocol.policy import Granularity
from protocol.state import System
from protocol.trainer import GIVEN_UP, SENT, AttemptStatus, Entry, Group, GroupStatus, Published, Seen


@frozen
class Violation:
    """A safety property that does not hold, and the sentence that says why."""

    property: Property
    why: str


def unsafe(before: System, event: Event, after: System) -> tuple[Violation, ...]:
    """Return the safety properties that the step `before -event-> after` breaks, in the order of `Property`."""
    found = [
        *_lost(after),
        *_dropped(before, event, after),
        *_applied_twice(before, after),
        *_owed(after),
        *_mixed(after),
        *_stale(before, event, after),
        *_published_twice(before, after),
        *_run_again(before, event, after),
        *_waits_for_nothing(after),
        *_restored(event, after),
        *_uncut(before, event, after),
    ]
    return tuple(found)


def _lost(system: System) -> Iterable[Violation]:
    for receipt in system.gym.acknowledged:
        entry = system.trainer.entry(receipt.attempt)
        if entry is None or entry.seen is Seen.RESULT or entry.status in GIVEN_UP:
            continue  # unknown: the ledger fell back to before this attempt, so that it is run again
        if entry.status is AttemptStatus.RESERVED or system.wire.find(receipt.attempt) is not None:
            continue  # to be sent, or answered: Gym refuses the key, so that the next attempt follows
        yield Violation(Property.NOTHING_LOST, f"Gym has dropped {receipt.attempt}, which the trainer never had")


def _dropped(before: System, event: Event, after: System) -> Iterable[Violation]:
    """A retained result leaves Gym by its acknowledgement, by a restart, or because its attempt was given up."""
    if before.gym.executions is after.gym.executions or isinstance(event, RestartGym | RestartBoth):
        return
    for attempt, execution in before.gym.executions:
        receipt = execution.receipt
        if receipt is None or receipt in after.gym.acknowledged or after.gym.find(attempt) == execution:
            continue
        entry = after.trainer.entry(attempt)
        if entry is not None and entry.status not in GIVEN_UP and entry.seen is not Seen.RESULT:
            yield Violation(Property.NOTHING_LOST, f"Gym has dropped the result of {attempt} without an ACK")


def _applied_twice(before: System, after: System) -> Iterable[Violation]:
    if before.trainer.groups is after.trainer.groups:
        return
    for old, new in zip(before.trainer.groups, after.trainer.groups, strict=True):
        if old is new or new is None:
            continue
        done = old is not None and old.status is GroupStatus.FINALIZED and new.status is not GroupStatus.GENERATING
        if old is not None and done and [s[-1] for s in old.siblings] != [s[-1] for s in new.siblings]:
            yield Violation(Property.APPLIED_ONCE, "a group changed after it was finalized")
        for entries in new.siblings:
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
    """An answer of an attempt that the ledger does not wait for touches no other attempt, on either side."""
    if not isinstance(event, Deliver) or before.trainer.is_current(event.attempt):
        return
    debts = {receipt.attempt for receipt in after.trainer.outbox if receipt not in before.trainer.outbox}
    same_ledger = before.trainer.groups is after.trainer.groups
    if debts - {event.attempt} or not (same_ledger or _others(before, event) == _others(after, event)):
        yield Violation(Property.STALE_HARMLESS, f"the late answer of {event.attempt} changed another attempt")
    elif before.gym is not after.gym and before.gym != after.gym:
        yield Violation(Property.STALE_HARMLESS, f"the late answer of {event.attempt} changed something at Gym")


def _others(system: System, event: Deliver) -> list[object]:
    """The statuses of the ledger's groups and every entry but the one that the event is about."""
    return [
        None if group is None else (group.status, {(r, s, i): e for r, s, i, e in _entries(g, group) if (r, i) != key})
        for key in [(event.attempt.rollout, event.attempt.index)]
        for g, group in enumerate(system.trainer.groups)
    ]


def _entries(g: int, group: Group) -> Iterable[tuple[str, int, int, Entry]]:
    for s, entries in enumerate(group.siblings):
        for i, entry in enumerate(entries):
            yield rollout_id(g, s), s, i, entry


def _published_twice(before: System, after: System) -> Iterable[Violation]:
    published = after.snapshot.published
    if published == before.snapshot.published:
        return
    if len(set(published)) != len(published):
        yield Violation(Property.PUBLISHED_ONCE, "a snapshot was published twice")
    if after.gym.manifest != after.snapshot.checkpoint_id:
        yield Violation(Property.PUBLISHED_ONCE, "a snapshot was published that Gym has not committed")


def _run_again(before: System, event: Event, after: System) -> Iterable[Violation]:
    """A seal stays; a restart may undo one only that was not published (trainer.md, "Restart")."""
    if before.trainer.groups is after.trainer.groups:
        return
    sealed = before.trainer.groups
    if isinstance(event, RestartTrainer | RestartBoth):
        sealed = (None,) * len(sealed) if before.trainer.durable is None else before.trainer.durable.groups
    for i, (old, new) in enumerate(zip(sealed, after.trainer.groups, strict=True)):
        if old is None or old is new:
            continue
        for s, entries in enumerate(old.siblings):
            kept = new is not None and len(new.siblings[s]) == len(entries) and new.siblings[s][-1] == entries[-1]
            if entries[-1].status is AttemptStatus.SEALED and not kept:
                yield Violation(Property.RESTORE_COMES, f"{rollout_id(i, s)} is sealed and is run again")


def _waits_for_nothing(system: System) -> Iterable[Violation]:
    """What the ledger waits for is live at Gym with its connection open, or its request or answer is on the wire."""
    for i, group in enumerate(system.trainer.groups):
        if group is None or group.status is not GroupStatus.GENERATING:
            continue
        for s, entries in enumerate(group.siblings):
            if entries[-1] != SENT:
                continue
            attempt = Attempt(rollout_id(i, s), len(entries) - 1)
            if system.wire.find(attempt) is None:
                execution = system.gym.find(attempt)
                if execution is None or not execution.client:
                    yield Violation(Property.RESTORE_COMES, f"the trainer waits for {attempt}, and nothing will come")


def _restored(event: Event, after: System) -> Iterable[Violation]:
    """What a restart restored is asked for by the ledger, now or next."""
    if not isinstance(event, RestartGym | RestartBoth):
        return
    for attempt, _ in after.gym.continuations:
        entry, group = after.trainer.entry(attempt), after.trainer.group_of(attempt)
        if entry is None and group is not None and group.status is GroupStatus.GENERATING:
            asked = attempt.index == len(group.siblings[locate(attempt.rollout)[1]])
        else:
            asked = entry == SENT or (entry is not None and entry.status is AttemptStatus.RESERVED)
        if not asked:
            yield Violation(Property.RESTORE_COMES, f"{attempt} was restored, and nobody will ask for it")


def _uncut(before: System, event: Event, after: System) -> Iterable[Violation]:
    """What Gym commits and what the trainer captures leave nothing between them (trainer.md, step 4)."""
    if after.gym.manifest != before.gym.manifest:
        for attempt, execution in before.gym.executions:
            if execution.state is not State.PARKED or execution.boundary is None:
                yield Violation(Property.CUT_CLEAN, f"Gym has committed while {attempt} is {execution.state.value}")
    if after.snapshot.published == before.snapshot.published:
        return
    if before.trainer.outbox:
        yield Violation(Property.CUT_CLEAN, "a snapshot was published with an ACK still owed")
    durable = after.trainer.durable
    if durable is not None and durable != Published(before.trainer.groups, before.gym.saved):
        yield Violation(Property.CUT_CLEAN, "what was published is not what was captured")
