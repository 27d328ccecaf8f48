"""The whole system at one moment, and what every rule needs to change it: Gym's answers, sending, spending a budget."""

from attrs import frozen

from protocol import gym as g
from protocol import trainer as t
from protocol.identity import Attempt
from protocol.policy import Policy
from protocol.scope import Fault, Scope
from protocol.snapshot import SnapshotState
from protocol.trainer import AttemptStatus, Entry, Trainer
from protocol.wire import Kind, Wire


@frozen(cache_hash=True)
class System:
    """Both sides, the wire between them, and what is left of each fault's budget (in the order of `Fault`)."""

    policy: Policy
    scope: Scope
    gym: g.Gym
    trainer: Trainer
    wire: Wire
    budget: tuple[int, ...]

    def replace(
        self,
        *,
        gym: g.Gym | None = None,
        trainer: Trainer | None = None,
        wire: Wire | None = None,
        budget: tuple[int, ...] | None = None,
    ) -> "System":
        return System(
            self.policy,
            self.scope,
            self.gym if gym is None else gym,
            self.trainer if trainer is None else trainer,
            self.wire if wire is None else wire,
            self.budget if budget is None else budget,
        )

    @property
    def snapshot(self) -> SnapshotState:
        return self.trainer.snapshot

    def at(self, snapshot: SnapshotState) -> "System":
        """Return the system at another step of the snapshot."""
        return self.replace(trainer=self.trainer.replace(snapshot=snapshot))

    def left(self, fault: Fault) -> int:
        """Return how often `fault` may still happen."""
        return self.budget[fault.position]

    def spend(self, fault: Fault) -> "System":
        i = fault.position
        return self.replace(budget=(*self.budget[:i], self.budget[i] - 1, *self.budget[i + 1 :]))


def initial(policy: Policy, scope: Scope) -> System:
    """Return the system before anything has happened."""
    return System(policy, scope, g.Gym(), Trainer((None,) * scope.groups), Wire(), scope.budget())


KINDS = {200: Kind.RESULT, 409: Kind.REFUSED, 500: Kind.FAILURE, 0: Kind.LOST}


def absorb(system: System, outcome: g.Outcome) -> System:
    """Return the system in which Gym has acted: its answers to `/run` calls and to a prepare are on their way."""
    wire = system.wire
    for answer in outcome.answers:
        null = answer.status == 200 and answer.receipt is None
        wire = wire.put(answer.attempt, Kind.NULL if null else KINDS[answer.status])
    system = system.replace(gym=outcome.gym, wire=wire)
    if outcome.prepared is not None:
        code = outcome.prepared.code or "ok"
        system = system.at(system.snapshot.to(system.snapshot.step, answer=code))
    return system


def send(system: System, attempt: Attempt) -> System:
    """Return the system in which `/run` of `attempt` was sent; it arrives at once unless requests take time here."""
    if system.scope.lost_requests:
        return system.replace(wire=system.wire.put(attempt, Kind.REQUEST))
    return absorb(system, g.begin(system.gym, attempt))


def dispatch(system: System) -> System:
    """Return the system in which every reserved attempt was sent, unless the registry is frozen (trainer.md)."""
    if system.snapshot.frozen:
        return system
    for attempt in t.reserved(system.trainer):
        system = system.replace(trainer=t.mark(system.trainer, attempt, Entry(AttemptStatus.DISPATCHED)))
        system = send(system, attempt)
    return system
