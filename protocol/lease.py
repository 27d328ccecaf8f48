"""Gym's later design, as a variant: no acknowledgements, a `retire` that frees, marks, `forget`, a lease (gym.md, end).

Only what differs is here. Each function takes the place of one of the core's (`CHANGES`); the events, the trainer's
ledger, the snapshot and the properties stay the same, so that the same machines decide both designs.

- A finished run blocks nothing: `ready` asks for running runs and bare parks only. Its result stays until it is freed.
- `retire` frees an attempt, finished or not, refuses it and every earlier one from then on, and is legal only in `idle`
  and `restored`. A mark lasts until `forget`. When it finalizes a group, or as soon as the fence allows it, the trainer
  retires what is left of the group and lets Gym forget its marks.
- There are no receipts and no debts: the outbox stays empty, and a result is the trainer's when its answer arrives.
- When the controller stops calling, the lease runs out and Gym resumes by itself. In the model this is the `resume`
  event of a trainer that is not in a snapshot (it restarted) or whose resume was not answered. It opens Gym only: the
  trainer's own admission stays as it was.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from protocol import checkpoint as c
from protocol import debts as d
from protocol import executions as x
from protocol import gym as g
from protocol import runs as u
from protocol import safety
from protocol import trainer as t
from protocol.events import Event, Finalize, LoseReply, Resume, RetireRun
from protocol.executions import COMPLETED, PARKED, Gym, Outcome, RunAnswer
from protocol.fence import Phase, Reply
from protocol.findings import Property
from protocol.identity import Attempt, Receipt, locate, model_receipt
from protocol.policy import ResumeRetry
from protocol.safety import Violation
from protocol.snapshot import Step
from protocol.state import System, absorb
from protocol.trainer import Trainer

RETIRE_PHASES: Final = frozenset({Phase.IDLE, Phase.RESTORED_PAUSED})
LEASE: Final = "lease"
FINALIZED: Final = t.GroupStatus.FINALIZED


def ready(gym: Gym) -> bool:
    """Nothing runs and nothing is parked without a boundary. What has finished blocks no checkpoint."""
    return all(e.state is COMPLETED or (e.state is PARKED and e.boundary is not None) for _, e in gym.executions)


def retire(gym: Gym, checkpoint_id: str, attempt: Attempt, *, release: bool = False) -> Outcome:
    """Free `attempt` and refuse it and every earlier one. The mark stays also when nothing was there to free."""
    after, cancelled = gym, []
    for index in range(attempt.index + 1):
        key = Attempt(attempt.rollout, index)
        known = after.find(key)
        if known is not None and known.client:
            cancelled.append(RunAnswer(key, 0, g.CANCELLED))
        after = x.buried(after, key)
    return Outcome(after, Reply(200), tuple(cancelled))


def forget(system: System) -> System:
    """Free what finalized groups left behind, and their marks, when the fence allows it."""
    gym = system.gym
    if gym.fence.phase not in RETIRE_PHASES:
        return system
    ended = {i for i, group in enumerate(system.trainer.groups) if group is not None and group.status is FINALIZED}
    kept = tuple(pair for pair in gym.executions if locate(pair[0].rollout)[0] not in ended)
    marks = tuple(attempt for attempt in gym.tombstones if locate(attempt.rollout)[0] not in ended)
    return system.replace(gym=x.with_(gym, kept, tombstones=marks))


def owe(trainer: Trainer, *receipts: Receipt) -> Trainer:
    """There are no debts."""
    return trainer


def fetched(system: System, attempt: Attempt) -> Receipt:
    """The answer is the result: nothing is fetched after it."""
    return model_receipt(attempt)


def may_lose_receipt(system: System, event: LoseReply) -> str | None:
    return "there are no receipts in this design"


def may_retire(system: System, event: RetireRun) -> str | None:
    if event.attempt not in system.trainer.retiring:
        return "the trainer retires what it has just given up"
    if system.gym.fence.phase not in RETIRE_PHASES:
        return f"retire is refused while the fence is {system.gym.fence.phase.value}"
    return None


def finalize(system: System, event: Finalize) -> System:
    """The group is handed to training, and Gym forgets it."""
    return forget(system.replace(trainer=t.finalize(system.trainer, event.group)))


def _abandoned(system: System) -> bool:
    """Whether Gym is closed and no controller is calling: it restarted, or it gave up on an unanswered resume."""
    return not system.gym.open and (system.snapshot.step is Step.IDLE or system.snapshot.stuck)


def may_resume(system: System, event: Event) -> str | None:
    waits = system.snapshot.stuck and system.policy.resume_retry is ResumeRetry.NEXT_SNAPSHOT
    if _abandoned(system) or (system.snapshot.step in (Step.RESUME, Step.ABORT) and not waits):
        return None
    return "Gym is resumed after a snapshot, to abort one, or by its lease"


def resume(system: System, event: Resume) -> System:
    """The trainer's resume, or the end of the lease."""
    if not _abandoned(system):
        return forget(c.resume(system, event))
    gym = system.gym
    return forget(absorb(system, g.resume(gym, gym.fence.active or f"{LEASE}{len(gym.fence.retired)}")))


def uncut(before: System, event: Event, after: System) -> Iterable[Violation]:
    """A commit leaves nothing running. A finished run may be left: it was sealed, or a restart runs it again."""
    if after.gym.manifest == before.gym.manifest:
        return
    for attempt, execution in before.gym.executions:
        bare = execution.state is PARKED and execution.boundary is None
        if bare or execution.state not in (PARKED, COMPLETED):
            yield Violation(Property.CUT_CLEAN, f"Gym has committed while {attempt} is {execution.state.value}")


# (of the core, what takes its place)
CHANGES: Final[tuple[tuple[Callable[..., Any], Callable[..., Any]], ...]] = (
    (x.ready, ready),
    (g.retire, retire),
    (t.owe, owe),
    (u._fetched, fetched),  # noqa: SLF001
    (u.may_lose_receipt, may_lose_receipt),
    (d.may_retire, may_retire),
    (u.finalize, finalize),
    (c.may_resume, may_resume),
    (safety._uncut, uncut),  # noqa: SLF001
)


def left(system: System) -> tuple[Attempt, ...]:
    """Return the runs of groups that have ended that Gym still keeps: in this design they leak, and strand nothing."""
    ended = {
        i
        for i, group in enumerate(system.trainer.groups)
        if group is not None and group.status in (FINALIZED, t.GroupStatus.DROPPED)
    }
    return tuple(a for a, _ in system.gym.executions if locate(a.rollout)[0] in ended)
