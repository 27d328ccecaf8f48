"""What a restart loses and what it gets back (gym.md, last row of the table; trainer.md, "Restart").

Durable is only what an event wrote: Gym's commit writes the boundaries of its parked runs, the trainer's publish makes
that snapshot the one that a restart falls back to. Everything else lives in the memory of a process.
"""

from protocol import gym as g
from protocol.events import Event
from protocol.policy import Granularity, Policy, Restart
from protocol.scope import Fault
from protocol.snapshot import SnapshotState
from protocol.state import System, absorb, dispatch
from protocol.trainer import AttemptStatus, Entry, Group, GroupStatus, Published, Trainer
from protocol.wire import Wire


def may_restart(system: System, event: Event) -> str | None:
    return None


def restart_gym(system: System, event: Event) -> System:
    """Gym comes back empty; every open connection ends. A trainer that adopts drops debts that Gym has forgotten."""
    system = absorb(system, g.restart(system.gym)).spend(Fault.GYM_RESTART)
    if system.policy.restart is Restart.ADOPT:
        system = system.replace(trainer=system.trainer.replace(outbox=()))
    return system


def restart_trainer(system: System, event: Event) -> System:
    """The trainer's connections close, and its ledger is the one that was last published."""
    gym = system.gym
    for attempt, _ in gym.executions:
        gym = g.lose_client(gym, attempt).gym
    gym = g.lose_prepare(gym).gym
    system = system.replace(gym=gym, wire=Wire(), trainer=_fallen_back(system)).spend(Fault.TRAINER_RESTART)
    return dispatch(_adopted(system) if system.policy.restart is Restart.ADOPT else system)


def restart_both(system: System, event: Event) -> System:
    """Both come back from the published snapshot: Gym restores its boundaries as attempt N+1 and is resumed."""
    trainer = _fallen_back(system)
    system = system.replace(gym=g.restart(system.gym).gym, wire=Wire(), trainer=trainer).spend(Fault.RESTART)
    if trainer.durable is not None and trainer.durable.records:
        system = absorb(system, g.restore(system.gym, "restore", trainer.durable.records))
        system = absorb(system, g.resume(system.gym, "restore"))
    return dispatch(system)


def _fallen_back(system: System) -> Trainer:
    """The ledger of the published snapshot. Checkpoint ids go on: they carry a nonce and are never used twice."""
    old = system.trainer
    groups = (None,) * len(old.groups) if old.durable is None else old.durable.groups
    snapshot = SnapshotState(number=old.snapshot.number, published=old.snapshot.published)
    return Trainer(tuple(_again(group, system.policy) for group in groups), snapshot=snapshot, durable=old.durable)


def _again(group: Group | None, policy: Policy) -> Group | None:
    """Sealed siblings are reused, the rest is run as attempt N+1; in `prompt_group` a generating group is run whole."""
    if group is None or group.status is not GroupStatus.GENERATING:
        return group
    whole = policy.granularity is Granularity.PROMPT_GROUP
    siblings = tuple(
        entries if entries[-1].status is AttemptStatus.SEALED and not whole else _rerun(entries)
        for entries in group.siblings
    )
    return Group(group.status, siblings)


def _rerun(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    last = entries[-1]
    if last.status is AttemptStatus.RESERVED:
        return entries  # it was never sent
    return (*entries[:-1], Entry(AttemptStatus.ABANDONED, last.seen), Entry(AttemptStatus.RESERVED))


def _adopted(system: System) -> System:
    """Open a Gym that was left closed, and take over what it retains: the old ledger's results are given up here."""
    gym = system.gym
    if not gym.open or gym.fence.active is not None:
        system = absorb(system, g.resume(gym, gym.fence.active or "adopt"))
    debts = tuple(sorted(g.status(system.gym).completed_unacknowledged_attempts))
    return system.replace(trainer=system.trainer.replace(outbox=debts))


def published(system: System) -> Published | None:
    """Return what a restart falls back to, or None in a scope without restarts, where nothing would read it."""
    if not (system.scope.trainer_restarts or system.scope.restarts):
        return None
    return Published(system.trainer.groups, system.gym.saved)
