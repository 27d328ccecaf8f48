# ruff: noqa: SLF001 - a mutant replaces what the core keeps to itself
"""Mutants of what a restart loses, and of what it gets back."""

from typing import Any

from attrs import evolve

from protocol import gym as g
from protocol import restart as r
from protocol.events import Event
from protocol.executions import Gym
from protocol.identity import Attempt, locate
from protocol.snapshot import SnapshotState
from protocol.state import System
from protocol.trainer import AttemptStatus, Entry, Group, Published, Seen, Trainer
from state_machines.mutants import mutant

WAITING = Entry(AttemptStatus.DISPATCHED)

mutant(
    "restart-waits-for-what-was-live",
    r._rerun,
    lambda rerun: lambda entries, whole: entries,
    "what was live at the capture is run again as the next attempt",
    "it is waited for",
    "sibling",
    "siblings=1,restarts=1",
)


def _waits_for_acknowledged(fallen_back: Any) -> Any:
    def changed(system: System) -> Trainer:
        trainer: Trainer = fallen_back(system)
        for attempt in [receipt.attempt for receipt in system.gym.acknowledged]:
            if trainer.entry(attempt) == Entry(AttemptStatus.ABANDONED, Seen.RESTARTED):
                g_, s = locate(attempt.rollout)
                group = trainer.groups[g_]
                assert group is not None
                entries = (*group.siblings[s][: attempt.index], WAITING)
                siblings = (*group.siblings[:s], entries, *group.siblings[s + 1 :])
                groups = (*trainer.groups[:g_], Group(group.status, siblings), *trainer.groups[g_ + 1 :])
                trainer = trainer.replace(groups=groups)
        return trainer

    return changed


mutant(
    "restart-waits-for-what-was-acknowledged",
    r._fallen_back,
    _waits_for_acknowledged,
    "what was acknowledged after the published snapshot is run again: its seal was only in memory",
    "it is waited for, though Gym has dropped its result",
    "sibling",
    "siblings=1,trainer_restarts=1",
)
mutant(
    "restart-reruns-the-sealed",
    r._rerun,
    lambda rerun: lambda entries, whole: rerun(entries, whole=True),
    "a sealed sibling is never run again",
    "every sibling is",
    "sibling",
    "restarts=1",
)
mutant(
    "restart-keeps-the-ledger-in-memory",
    r._fallen_back,
    lambda fallen_back: lambda system: system.trainer.replace(snapshot=fallen_back(system).snapshot),
    "a restarted trainer falls back to the published ledger",
    "it goes on with what was in memory",
    "sibling",
    "siblings=1,restarts=1",
)
mutant(
    "restart-keeps-the-debts",
    r._fallen_back,
    lambda fallen_back: lambda system: fallen_back(system).replace(outbox=system.trainer.outbox),
    "a restart drops the debts, which a restarted Gym has forgotten",
    "it keeps them",
    "sibling",
    "siblings=1,restarts=1",
)
mutant(
    "restart-restores-every-record",
    r._awaited,
    lambda awaited: lambda trainer, attempt: True,
    "only the records of unsealed siblings are restored",
    "all are",
    "sibling",
    "siblings=1,failures=1,gym_restarts=1",
)
mutant(
    "restart-counts-snapshots-anew",
    r._fallen_back,
    lambda fallen_back: (
        lambda system: fallen_back(system).replace(snapshot=SnapshotState(published=system.snapshot.published))
    ),
    "checkpoint ids carry a nonce: a restart never uses one again",
    "they are counted from the beginning",
    "sibling",
    "siblings=1,restarts=1",
)
mutant(
    "restart-forgets-what-was-published",
    r.published,
    lambda published: lambda system: Published((None,) * len(system.trainer.groups), ()),
    "publishing makes the ledger durable",
    "a restart finds it empty",
    "sibling",
    "siblings=1,restarts=1",
)
mutant(
    "restart-of-gym-forgets-the-disk",
    g.restart,
    lambda restart: lambda gym: evolve(restart(gym), gym=Gym()),
    "a commit survives the restart of Gym",
    "it is lost, and the snapshot is published without it",
    "sibling",
    "siblings=1,gym_restarts=1",
)
mutant(
    "restart-of-gym-keeps-admission-closed",
    g.restart,
    lambda restart: lambda gym: evolve(out := restart(gym), gym=evolve(out.gym, open=gym.open)),
    "a restarted Gym is open",
    "it stays closed, and no snapshot is there to resume it",
    "sibling,restart=adopt",
    "siblings=1,restarts=1",
)
mutant(
    "restart-of-gym-keeps-the-fence",
    g.restart,
    lambda restart: lambda gym: evolve(out := restart(gym), gym=evolve(out.gym, fence=gym.fence)),
    "a restarted Gym has no active checkpoint",
    "the old one is still active, and refuses every other",
    "sibling",
    "siblings=1,restarts=1,snapshots=2",
)
mutant(
    "restart-of-gym-is-silent",
    g.restart,
    lambda restart: lambda gym: evolve(restart(gym), answers=()),
    "a restart of Gym ends every open connection",
    "the trainer waits on",
    "sibling",
    "siblings=1,gym_restarts=1",
)
mutant(
    "restart-continues-the-same-attempt",
    g.restore,
    lambda restore: (
        lambda gym, c, records: restore(
            gym, c, tuple((Attempt(a.rollout, a.index - 1), boundary) for a, boundary in records)
        )
    ),
    "a continuation belongs to attempt N+1, and N is tombstoned",
    "it belongs to N",
    "sibling",
    "siblings=1,restarts=1",
)
mutant(
    "restart-leaves-gym-restored",
    r.restored,
    lambda restored: (
        lambda system: (
            system.replace(gym=g.restore(system.gym, r.RESTORE, records).gym)
            if (records := r.restorable(system.trainer))
            else system
        )
    ),
    "a restored Gym is resumed",
    "admission stays closed",
    "sibling",
    "siblings=1,restarts=1",
)
mutant(
    "restart-of-the-trainer-keeps-connections",
    g.lose_client,
    lambda lose: lambda gym, a: evolve(lose(gym, a), gym=gym),
    "a restarted trainer's connections are closed, and Gym retires their runs",
    "Gym runs on for nobody",
    "sibling,restart=adopt",
    "siblings=1,trainer_restarts=1",
)
mutant(
    "restart-adopts-with-a-used-id",
    r._unused,
    lambda unused: lambda retired: "adopt0",
    "Gym answers a retired id from its record, without opening: adoption needs a new one",
    "the same id is used each time",
    "sibling,restart=adopt",
    "siblings=1,trainer_restarts=2,snapshots=2",
)
mutant(
    "restart-adopts-nothing",
    r._adopted,
    lambda adopted: lambda system: system,
    "restart=adopt opens a closed Gym and releases what it retains for nobody",
    "it does nothing",
    "sibling,restart=adopt",
    "siblings=1,trainer_restarts=1",
)
mutant(
    "restart-adopts-without-releasing",
    r._unwanted,
    lambda unwanted: lambda trainer, receipt: False,
    "adoption releases the results that the ledger does not want",
    "they stay",
    "sibling,restart=adopt",
    "siblings=1,trainer_restarts=1",
)


def _keeps_debts(restart: Any) -> Any:
    def keep(system: System, event: Event) -> System:
        after: System = restart(system, event)
        return after.replace(trainer=after.trainer.replace(outbox=system.trainer.outbox))

    return keep


mutant(
    "restart-of-gym-leaves-the-debts",
    r.restart_gym,
    _keeps_debts,
    "restart=adopt drops the debts that a restarted Gym has forgotten",
    "it keeps them, and every flush is refused",
    "sibling,restart=adopt",
    "siblings=1,gym_restarts=1",
)
