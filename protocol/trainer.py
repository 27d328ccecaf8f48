"""The trainer's side of the hand-over: the ledger of groups, held results, ACK debts (trainer.md).

What a result or a failure does to the ledger is in this module and nowhere else. Nothing here talks to Gym: the
functions return the trainer that follows, and `system` sends what that trainer wants sent.
"""

from enum import Enum

from attrs import frozen

from protocol.identity import Attempt, Receipt, locate, model_receipt, rollout_id
from protocol.policy import Acknowledge, Drain, GiveUp, Granularity, Late, Policy
from protocol.snapshot import SnapshotState


class GroupStatus(Enum):
    """A prompt group's status. DROPPED and FINALIZED groups have left NeMo-RL's ledger; here they are remembered.

    NeMo-RL's `FINALIZING` and `FINALIZATION_UNKNOWN` are moments inside one step of this model (`events.Finalize`).
    """

    GENERATING = "generating"
    READY_TO_FINALIZE = "ready_to_finalize"
    FINALIZED = "finalized"
    DROPPED = "dropped"


class AttemptStatus(Enum):
    """An attempt's status in the ledger."""

    RESERVED = "reserved"  # to be sent; waits while the registry is frozen
    DISPATCHED = "dispatched"
    SEALED = "sealed"
    FAILED = "failed"
    ABANDONED = "abandoned"


class Seen(Enum):
    """What the trainer has seen of an attempt's answer. It names the cause when the attempt strands."""

    NOTHING = "nothing"
    RESULT = "result"  # DISPATCHED: held in pending_group_results. ABANDONED: it was held, and was cleared
    FAILURE = "failure"
    LOST = "lost"  # a transport error
    UNFETCHED = "unfetched"  # a good answer whose receipt could not be fetched
    LATE = "late"  # a result that came after the attempt was given up, and was ignored
    RAISED = "raised"  # the same, and the ledger raised
    RESTARTED = "restarted"  # a restart gave the attempt up, whatever had been seen of it


GIVEN_UP = frozenset({AttemptStatus.FAILED, AttemptStatus.ABANDONED})


@frozen(cache_hash=True)
class Entry:
    """One attempt in the ledger."""

    status: AttemptStatus
    seen: Seen = Seen.NOTHING


SENT = Entry(AttemptStatus.DISPATCHED)
HELD = Entry(AttemptStatus.DISPATCHED, Seen.RESULT)


@frozen(cache_hash=True)
class Group:
    """A prompt group: its status and, for each sibling, the entries of its attempts by index. The last is current."""

    status: GroupStatus
    siblings: tuple[tuple[Entry, ...], ...]


@frozen(cache_hash=True)
class Published:
    """What a restart gets back: the ledger as it was captured, and the boundaries that Gym had committed."""

    groups: tuple[Group | None, ...]
    records: tuple[tuple[Attempt, int], ...]


@frozen(cache_hash=True)
class Trainer:
    """The whole of RL's side.

    `groups` holds None for a group not yet admitted. `outbox` are the receipts owed, in order; it lives apart from the
    groups, so it survives a dropped group. `retiring` are attempts given up that are still to be retired at Gym.
    `draining` is False after a failed flush whose drain did not come back.
    """

    groups: tuple[Group | None, ...]
    outbox: tuple[Receipt, ...] = ()
    retiring: tuple[Attempt, ...] = ()
    draining: bool = True
    snapshot: SnapshotState = SnapshotState()
    durable: Published | None = None

    def group_of(self, attempt: Attempt) -> Group | None:
        return self.groups[locate(attempt.rollout)[0]]

    def entry(self, attempt: Attempt) -> Entry | None:
        """Return the ledger's entry of `attempt`, or None when the ledger does not know it."""
        group, sibling = locate(attempt.rollout)
        found = self.groups[group] if group < len(self.groups) else None
        if found is None or sibling >= len(found.siblings) or attempt.index >= len(found.siblings[sibling]):
            return None
        return found.siblings[sibling][attempt.index]

    def is_current(self, attempt: Attempt) -> bool:
        """Whether the ledger waits for this very attempt."""
        group, sibling = locate(attempt.rollout)
        found = self.groups[group]
        return (
            found is not None
            and found.status is GroupStatus.GENERATING
            and attempt.index == len(found.siblings[sibling]) - 1
            and found.siblings[sibling][-1].status is AttemptStatus.DISPATCHED
        )

    def replace(
        self,
        *,
        groups: tuple[Group | None, ...] | None = None,
        outbox: tuple[Receipt, ...] | None = None,
        retiring: tuple[Attempt, ...] | None = None,
        draining: bool | None = None,
        snapshot: SnapshotState | None = None,
    ) -> "Trainer":
        """Return a copy with some fields changed (`attrs.evolve` takes twice the time)."""
        return Trainer(
            self.groups if groups is None else groups,
            self.outbox if outbox is None else outbox,
            self.retiring if retiring is None else retiring,
            self.draining if draining is None else draining,
            self.snapshot if snapshot is None else snapshot,
            self.durable,
        )


def admit(trainer: Trainer, group: int, siblings: int) -> Trainer:
    """Return the trainer that has reserved attempt 0 of every sibling of `group`."""
    entry = Entry(AttemptStatus.RESERVED)
    return _with_group(trainer, group, Group(GroupStatus.GENERATING, ((entry,),) * siblings))


def reserved(trainer: Trainer) -> list[Attempt]:
    """Return the attempts that wait to be sent, in order."""
    return [
        Attempt(rollout_id(g, s), len(entries) - 1)
        for g, group in enumerate(trainer.groups)
        if group is not None and group.status is GroupStatus.GENERATING
        for s, entries in enumerate(group.siblings)
        if entries[-1].status is AttemptStatus.RESERVED
    ]


def mark(trainer: Trainer, attempt: Attempt, entry: Entry) -> Trainer:
    """Return the trainer whose ledger holds `entry` for `attempt`."""
    g, s = locate(attempt.rollout)
    group = trainer.groups[g]
    assert group is not None
    entries = group.siblings[s]
    entries = (*entries[: attempt.index], entry, *entries[attempt.index + 1 :])
    return _with_group(trainer, g, Group(group.status, (*group.siblings[:s], entries, *group.siblings[s + 1 :])))


def owe(trainer: Trainer, *receipts: Receipt) -> Trainer:
    """Return the trainer with these debts recorded; recording one wakes the drain (trainer.md, "ACK debt")."""
    return trainer.replace(outbox=tuple(sorted({*trainer.outbox, *receipts})), draining=True)


def confirmed(trainer: Trainer) -> Trainer:
    """Return the trainer after Gym has confirmed the whole outbox."""
    return trainer.replace(outbox=(), draining=True)


def flush_failed(trainer: Trainer, policy: Policy) -> Trainer:
    """Return the trainer after a flush that saw an error: the debt stays; the drain may not come back."""
    return trainer if policy.drain is Drain.RESCHEDULE else trainer.replace(draining=False)


def result_arrives(trainer: Trainer, policy: Policy, attempt: Attempt, receipt: Receipt) -> Trainer:
    """Return the trainer after a result and its receipt have arrived (trainer.md, "The ledger", rows 1 to 3)."""
    if trainer.is_current(attempt):
        entry = trainer.entry(attempt)
        if entry is not None and entry.seen is Seen.RESULT:
            return trainer  # the same result again is a no-op
        if policy.granularity is Granularity.SIBLING:
            sealed = mark(trainer, attempt, Entry(AttemptStatus.SEALED, Seen.RESULT))
            return owe(_ready_when_sealed(sealed, attempt), receipt)
        held = mark(trainer, attempt, HELD)
        if policy.acknowledge is Acknowledge.ON_ARRIVAL:
            held = owe(held, receipt)
        return _seal_when_complete(held, policy, attempt)
    entry = trainer.entry(attempt)
    if entry is None or entry.status not in GIVEN_UP:
        return trainer  # already sealed: a no-op; unknown to a restarted ledger: nobody's
    return late_result(trainer, policy, attempt, receipt)


def late_result(trainer: Trainer, policy: Policy, attempt: Attempt, receipt: Receipt) -> Trainer:
    """Return the trainer after the result of an attempt that was already given up has arrived."""
    status = _status(trainer, attempt)
    if policy.late is Late.ACKNOWLEDGE:
        return owe(mark(trainer, attempt, Entry(status, Seen.LATE)), receipt)
    return mark(trainer, attempt, Entry(status, Seen.RAISED if policy.late is Late.RAISE else Seen.LATE))


def attempt_fails(trainer: Trainer, policy: Policy, bound: int, attempt: Attempt, seen: Seen) -> Trainer:
    """Return the trainer after it has seen no result for `attempt`, but a failure or an error.

    The failure of the current attempt costs the sibling, or in `prompt_group` the whole group, one attempt; with
    `bound` attempts used up the group is dropped. Of an attempt already given up, only what was seen is noted.
    """
    if not trainer.is_current(attempt):
        entry = trainer.entry(attempt)
        if entry is None or entry.status not in GIVEN_UP or entry.seen is not Seen.NOTHING:
            return trainer
        return mark(trainer, attempt, Entry(entry.status, seen))
    g, s = locate(attempt.rollout)
    trainer = mark(trainer, attempt, Entry(AttemptStatus.FAILED, seen))
    group = trainer.groups[g]
    assert group is not None
    dropped = attempt.index + 1 >= bound
    whole = dropped or policy.granularity is Granularity.PROMPT_GROUP
    touched = range(len(group.siblings)) if whole else (s,)
    siblings = list(group.siblings)
    for i in touched:
        siblings[i] = _give_up(siblings[i], retry=not dropped)
    before = {
        i: len(group.siblings[i]) - 1 for i in touched if group.siblings[i][-1].status is not AttemptStatus.SEALED
    }
    status = GroupStatus.DROPPED if dropped else GroupStatus.GENERATING
    trainer = _with_group(trainer, g, Group(status, tuple(siblings)))
    return _retire_later(trainer, policy, [Attempt(rollout_id(g, i), index) for i, index in before.items()])


def finalize(trainer: Trainer, group: int) -> Trainer:
    """Return the trainer that has handed a sealed group on."""
    found = trainer.groups[group]
    assert found is not None
    return _with_group(trainer, group, Group(GroupStatus.FINALIZED, found.siblings))


def _give_up(entries: tuple[Entry, ...], *, retry: bool) -> tuple[Entry, ...]:
    last = entries[-1]
    if last.status is AttemptStatus.SEALED:
        return entries  # a sealed sibling keeps its seal, also when its group is dropped
    if last.status is not AttemptStatus.FAILED:
        last = Entry(AttemptStatus.ABANDONED, last.seen)  # held results and receipts are cleared
    return (*entries[:-1], last, Entry(AttemptStatus.RESERVED)) if retry else (*entries[:-1], last)


def _retire_later(trainer: Trainer, policy: Policy, attempts: list[Attempt]) -> Trainer:
    if policy.give_up is GiveUp.LEAVE:
        return trainer
    known = {attempt for attempt in attempts if _seen(trainer, attempt) is not Seen.FAILURE}
    return trainer.replace(retiring=tuple(sorted({*trainer.retiring, *known})))


def _ready_when_sealed(trainer: Trainer, attempt: Attempt) -> Trainer:
    g, _ = locate(attempt.rollout)
    group = trainer.groups[g]
    assert group is not None
    if any(entries[-1].status is not AttemptStatus.SEALED for entries in group.siblings):
        return trainer
    return _with_group(trainer, g, Group(GroupStatus.READY_TO_FINALIZE, group.siblings))


def _seal_when_complete(trainer: Trainer, policy: Policy, attempt: Attempt) -> Trainer:
    """Seal the whole group in one cut, and record its debts unless arrival did, once every result is held."""
    g, _ = locate(attempt.rollout)
    group = trainer.groups[g]
    assert group is not None
    if any(entries[-1] != HELD for entries in group.siblings):
        return trainer
    sealed = tuple((*entries[:-1], Entry(AttemptStatus.SEALED, Seen.RESULT)) for entries in group.siblings)
    trainer = _with_group(trainer, g, Group(GroupStatus.READY_TO_FINALIZE, sealed))
    if policy.acknowledge is Acknowledge.ON_ARRIVAL:
        return trainer
    attempts = [Attempt(rollout_id(g, s), len(entries) - 1) for s, entries in enumerate(sealed)]
    return owe(trainer, *map(model_receipt, attempts))


def _with_group(trainer: Trainer, index: int, group: Group) -> Trainer:
    return trainer.replace(groups=(*trainer.groups[:index], group, *trainer.groups[index + 1 :]))


def _status(trainer: Trainer, attempt: Attempt) -> AttemptStatus:
    entry = trainer.entry(attempt)
    assert entry is not None
    return entry.status


def _seen(trainer: Trainer, attempt: Attempt) -> Seen:
    entry = trainer.entry(attempt)
    assert entry is not None
    return entry.seen
