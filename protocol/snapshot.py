"""The steps of a snapshot, as the trainer counts them (trainer.md, "The snapshot, in order")."""

from enum import Enum
from typing import Final

from attrs import evolve, frozen

MAX_CONSECUTIVE_FAILURES: Final = 3  # trainer.md: three failed snapshots in a row end the run


class Step(Enum):
    """What the trainer does next. Everything but IDLE keeps the registry frozen and local admission closed."""

    IDLE = "idle"
    FLUSH = "flush"  # strict flush of the outbox
    PREPARE = "prepare"  # a prepare is to be sent, for the first time or after a 409
    PREPARING = "preparing"  # a prepare was sent
    COMMIT = "commit"  # Gym is prepared
    CAPTURE = "capture"  # Gym has committed; the trainer captures its side and publishes
    RESUME = "resume"  # published: resume Gym
    ABORT = "abort"  # failed before the manifest: resume Gym


@frozen(cache_hash=True)
class SnapshotState:
    """Where the trainer stands.

    `number` counts snapshots from 0 and is -1 before the first; `answer` is Gym's answer to the prepare, `ok` or a
    refusal code, while it is on its way; `stuck` says that a resume was not answered; `failures` counts snapshots
    failed in a row; `published` are the numbers of the published ones.
    """

    step: Step = Step.IDLE
    number: int = -1
    asked: bool = False
    answer: str | None = None
    stuck: bool = False
    failures: int = 0
    published: tuple[int, ...] = ()

    @property
    def checkpoint_id(self) -> str:
        """The id of the current snapshot. Ids are never used twice (trainer.md): Gym retires every one."""
        return f"c{self.number}"

    @property
    def frozen(self) -> bool:
        """Whether no `/run` is sent: a snapshot is under way, or failed ones have ended the run."""
        return self.step is not Step.IDLE or self.ended

    @property
    def ended(self) -> bool:
        return self.failures >= MAX_CONSECUTIVE_FAILURES

    def to(self, step: Step, *, answer: str | None = None) -> "SnapshotState":
        """Return the state at another step of the same snapshot."""
        asked = self.asked or step is Step.PREPARING
        return SnapshotState(step, self.number, asked, answer, False, self.failures, self.published)

    def begin(self, *, owing: bool) -> "SnapshotState":
        """Return the state of a new snapshot, at its strict flush if anything is owed."""
        step = Step.FLUSH if owing else Step.PREPARE
        return SnapshotState(step, self.number + 1, False, None, False, self.failures, self.published)

    def abort(self) -> "SnapshotState":
        """Return the state of a snapshot that failed: Gym is resumed if it was asked for anything (step 7)."""
        return self.to(Step.ABORT) if self.asked else self.end(failed=True)

    def end(self, *, failed: bool) -> "SnapshotState":
        failures = self.failures + 1 if failed else 0
        return SnapshotState(Step.IDLE, self.number, False, None, False, failures, self.published)

    def publish(self) -> "SnapshotState":
        return evolve(self.to(Step.RESUME), published=(*self.published, self.number))

    def unanswered(self) -> "SnapshotState":
        """Return the state after a resume that was not answered."""
        return evolve(self, stuck=True)
