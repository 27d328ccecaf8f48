"""What a restart loses and what it gets back (gym.md, last row of the table; trainer.md, "Restart").

Durable is only what an event wrote. Gym's `commit` writes the boundaries of its parked runs (`Gym.saved`); the
trainer's `publish` makes that snapshot the one that a restart falls back to (`Trainer.durable`). A commit that was
never published is on Gym's disk, and no restart reads it. Everything else lives in the memory of a process.

A restart is one step: the process comes back, what is to be restored is restored, and Gym is resumed, before anything
else happens. `docs/faults.md` says which facts leave a choice, and what was chosen.
"""

from protocol import gym as g
from protocol.events import Event
from protocol.identity import Attempt, Receipt, locate
from protocol.policy import Granularity, Policy, Restart
from protocol.scope import Fault
from protocol.snapshot import SnapshotState, Step
from protocol.state import System, absorb, dispatch
from protocol.trainer import GIVEN_UP, SENT, AttemptStatus, Entry, Group, GroupStatus, Published, Seen, Trainer
from protocol.wire import Wire

RESTORE = "restore"  # a restarted Gym has no retired ids, so this one is always new to it


def may_restart(system: System, event: Event) -> str | None:
    return None


def restart_gym(system: System, event: Event) -> System:
    """Gym comes back with the published boundaries; every open connection ends; the trainer goes on.

    What Gym retained is gone, so every debt is unpayable. A trainer that adopts drops them.
    """
    system = restored(absorb(system, g.restart(system.gym)).spend(Fault.GYM_RESTART))
    if system.policy.restart is Restart.ADOPT:
        system = system.replace(trainer=system.trainer.replace(outbox=()))
        if system.snapshot.step is Step.FLUSH:  # nothing is left to flush
            system = system.at(system.snapshot.to(Step.PREPARE))
    return system


def restart_trainer(system: System, event: Event) -> System:
    """The trainer's connections close, and its ledger is the one that was last published. Gym goes on."""
    gym = system.gym
    for attempt, _ in gym.executions:
        gym = g.lose_client(gym, attempt).gym
    gym = g.lose_prepare(gym).gym
    system = system.replace(gym=gym, wire=Wire(), trainer=_fallen_back(system)).spend(Fault.TRAINER_RESTART)
    return dispatch(_adopted(system) if system.policy.restart is Restart.ADOPT else system)


def restart_both(system: System, event: Event) -> System:
    """Both come back from the published snapshot."""
    gym, trainer = g.restart(system.gym).gym, _fallen_back(system)
    return dispatch(restored(system.replace(gym=gym, wire=Wire(), trainer=trainer).spend(Fault.RESTART)))


def restored(system: System) -> System:
    """Return the system whose restarted Gym has the published boundaries back, as attempt N+1, and is resumed."""
    records = restorable(system.trainer)
    if not records:
        return system
    system = absorb(system, g.restore(system.gym, RESTORE, records))
    return absorb(system, g.resume(system.gym, RESTORE))


def restorable(trainer: Trainer) -> tuple[tuple[Attempt, int], ...]:
    """Return the published records of N whose attempt N+1 the ledger asks for next; never of a sealed sibling.

    Either it is about to learn that N is gone, or N+1 is reserved and waits to be sent.
    """
    if trainer.durable is None:
        return ()
    return tuple(record for record in trainer.durable.records if _awaited(trainer, record[0]))


def _awaited(trainer: Trainer, attempt: Attempt) -> bool:
    g, s = locate(attempt.rollout)
    group = trainer.groups[g]
    if group is None or group.status is not GroupStatus.GENERATING:
        return False
    entries = group.siblings[s]
    newer = len(entries) - 1 - attempt.index
    return (newer == 0 and entries[-1] == SENT) or (newer == 1 and entries[-1].status is AttemptStatus.RESERVED)


def _fallen_back(system: System) -> Trainer:
    """The ledger of the published snapshot. Checkpoint ids go on: they carry a nonce and are never used twice."""
    old = system.trainer
    groups = (None,) * len(old.groups) if old.durable is None else old.durable.groups
    snapshot = SnapshotState(number=old.snapshot.number, published=old.snapshot.published)
    return Trainer(tuple(_again(group, system.policy) for group in groups), snapshot=snapshot, durable=old.durable)


def _again(group: Group | None, policy: Policy) -> Group | None:
    """Sealed siblings are reused, the rest is run as attempt N+1; in `prompt_group` a generating group is run whole."""
    if group is None:
        return None
    siblings = tuple(tuple(map(_unheard, entries)) for entries in group.siblings)
    if group.status is GroupStatus.GENERATING:
        whole = policy.granularity is Granularity.PROMPT_GROUP
        siblings = tuple(_rerun(entries, whole=whole) for entries in siblings)
    return Group(group.status, siblings)


def _unheard(entry: Entry) -> Entry:
    """The answer of an attempt that was given up before cannot come any more: its connection is closed."""
    unheard = entry.status in GIVEN_UP and entry.seen is Seen.NOTHING
    return Entry(entry.status, Seen.RESTARTED) if unheard else entry


def _rerun(entries: tuple[Entry, ...], *, whole: bool) -> tuple[Entry, ...]:
    """Give up the attempt that was live when the snapshot was captured. One that was not sent yet is sent now."""
    status = entries[-1].status
    if status is AttemptStatus.RESERVED or (status is AttemptStatus.SEALED and not whole):
        return entries
    return (*entries[:-1], Entry(AttemptStatus.ABANDONED, Seen.RESTARTED), Entry(AttemptStatus.RESERVED))


def _adopted(system: System) -> System:
    """Open a Gym that was left closed, and release what it retains for nobody, before anything is sent.

    A retained result of an attempt that the ledger is about to send is left there: the `/run` is answered with it.
    """
    gym = system.gym
    if not gym.open or gym.fence.active is not None:
        system = absorb(system, g.resume(gym, gym.fence.active or _unused(gym.fence.retired)))
    orphans = tuple(
        receipt
        for receipt in g.status(system.gym).completed_unacknowledged_attempts
        if _unwanted(system.trainer, receipt)
    )
    return absorb(system, g.acknowledge(system.gym, orphans)) if orphans else system


def _unwanted(trainer: Trainer, receipt: Receipt) -> bool:
    entry = trainer.entry(receipt.attempt)
    return entry is None or entry.status in GIVEN_UP


def _unused(retired: tuple[str, ...]) -> str:
    """Return a checkpoint id that Gym has not retired: it would answer a retired one without opening again."""
    return next(name for name in (f"adopt{i}" for i in range(len(retired) + 1)) if name not in retired)


def published(system: System) -> Published | None:
    """Return what a restart falls back to, or None in a scope without restarts, where nothing would read it."""
    scope = system.scope
    if not (scope.trainer_restarts or scope.gym_restarts or scope.restarts):
        return None
    return Published(system.trainer.groups, system.gym.saved)
