"""What Gym holds: executions, their transitions, and the report that says whether a commit could be taken (gym.md).

The table below is the whole life of an execution. The operations that walk it are in `gym.py`, which is the module to
import from.
"""

from enum import Enum
from typing import Final

from attrs import frozen

from protocol.fence import NOT_ENTERED, Fence, Phase, Reply
from protocol.identity import Attempt, Receipt

NOT_READY: Final = "agent_prepare_incomplete"


class State(Enum):
    """Of an execution. A retired one is removed and leaves a tombstone, so `retired` is never stored."""

    RUNNING = "running"
    PARK_REQUESTED = "park_requested"
    PARKED = "parked"
    COMPLETED = "completed"


RUNNING, PARK_REQUESTED, PARKED, COMPLETED = State
GONE: Final = None  # removed: a tombstone, or an acknowledgement, refuses the key from now on

TRANSITIONS: Final[dict[tuple[State, str], tuple[State | None, str]]] = {
    # (state, operation): (becomes, because). No row: the operation has no effect on that state.
    (RUNNING, "finish"): (COMPLETED, "the result is retained until it is acknowledged"),
    (PARK_REQUESTED, "finish"): (COMPLETED, "a run may end before the boundary it was asked to park at"),
    (RUNNING, "fail"): (GONE, "a failed run is retired: its key never runs again"),
    (PARK_REQUESTED, "fail"): (GONE, "as above"),
    (RUNNING, "lose_client"): (GONE, "nobody would receive the result"),
    (PARK_REQUESTED, "lose_client"): (GONE, "as above"),
    (PARKED, "lose_client"): (GONE, "no boundary to continue from"),
    (PARKED, "detach"): (PARKED, "its boundary is worth a commit, though its client is gone"),
    (RUNNING, "boundary"): (RUNNING, "the newest boundary is kept"),
    (PARK_REQUESTED, "boundary"): (PARKED, "the place it was asked to stop at"),
    (RUNNING, "park"): (PARKED, "a refused call downstream parks a running run too, until a resume"),
    (PARK_REQUESTED, "park"): (PARKED, "it stops where it is, with or without a boundary"),
    (RUNNING, "prepare"): (PARK_REQUESTED, "asked to stop at its next boundary"),
    (PARK_REQUESTED, "roll_back"): (RUNNING, "the prepare that asked ended not ready"),
    (PARK_REQUESTED, "resume"): (RUNNING, "no longer asked"),
    (PARKED, "resume"): (RUNNING, "its client still waits for it"),
    (PARKED, "resume_detached"): (GONE, "its client is gone"),
    (RUNNING, "retire"): (GONE, "cancelled"),
    (PARK_REQUESTED, "retire"): (GONE, "cancelled"),
    (PARKED, "retire"): (GONE, "cancelled"),
    (COMPLETED, "retire"): (COMPLETED, "refused: only an acknowledgement releases a result"),
    (COMPLETED, "acknowledge"): (GONE, "the trainer owns the result"),
}


@frozen(cache_hash=True)
class Execution:
    """One run of an attempt. `client`: its `/run` connection is open. `receipt`: of the retained result.

    `receipt` is None until the run completes, and stays None for a null result, which nothing can release.
    """

    state: State
    boundary: int | None = None
    client: bool = True
    receipt: Receipt | None = None


Executions = tuple[tuple[Attempt, Execution], ...]


@frozen(cache_hash=True)
class Gym:
    """The participant. `manifest` and `saved` (attempt, boundary) are on disk; the rest is lost by a restart.

    `open` is admission, `continuations` what a restore installed and no `/run` has claimed. Every tuple is sorted.
    """

    open: bool = True
    executions: Executions = ()
    tombstones: tuple[Attempt, ...] = ()
    acknowledged: tuple[Receipt, ...] = ()
    fence: Fence = NOT_ENTERED
    continuations: tuple[tuple[Attempt, int], ...] = ()
    manifest: str | None = None
    saved: tuple[tuple[Attempt, int], ...] = ()

    def find(self, attempt: Attempt) -> Execution | None:
        """Return the execution of `attempt`, None when it never ran here or was removed."""
        for key, execution in self.executions:
            if key == attempt:
                return execution
        return None


@frozen
class RunAnswer:
    """The end of a `/run`: 200 with the receipt, 409 or 500 with a code, or 0 when its connection just ended."""

    attempt: Attempt
    status: int
    code: str | None = None
    receipt: Receipt | None = None
    replay: bool = False


@frozen
class Outcome:
    """What a step leads to.

    `reply` answers the caller of this operation: None for agent-side operations, and for a `prepare` or a `/run` that
    stays in flight. `answers` are the `/run` calls that ended. `prepared` is the answer of the prepare that was in
    flight, when this step ended it; also of this very call. It is not set when the fence refuses a prepare.
    """

    gym: Gym
    reply: Reply | None = None
    answers: tuple[RunAnswer, ...] = ()
    prepared: Reply | None = None


@frozen
class Status:
    """Gym's `status` report, with the phase and the active id of the fence.

    `state` is admission, "preparing" when closed whatever the phase. A null result is counted, but has no receipt to
    list in `completed_unacknowledged_attempts`.
    """

    phase: Phase
    active: str | None
    state: str
    running: int
    parked_with_boundary: int
    parked_without_boundary: int
    completed_unacknowledged: int
    acknowledged_completed: int
    active_count: int
    blocking_attempts: tuple[Attempt, ...]
    completed_unacknowledged_attempts: tuple[Receipt, ...]
    selected_boundaries: tuple[tuple[Attempt, int], ...]
    ready_to_commit: bool


def status(gym: Gym) -> Status:
    """Return the report of `gym` (gym.md, "status()")."""
    running = tuple(a for a, e in gym.executions if e.state is RUNNING or e.state is PARK_REQUESTED)
    completed = [e for _, e in gym.executions if e.state is COMPLETED]
    chosen = selected(gym)
    without = sum(e.state is PARKED and e.boundary is None for _, e in gym.executions)
    return Status(
        phase=gym.fence.phase,
        active=gym.fence.active,
        state="accepting" if gym.open else "preparing",
        running=len(running),
        parked_with_boundary=len(chosen),
        parked_without_boundary=without,
        completed_unacknowledged=len(completed),
        acknowledged_completed=len(gym.acknowledged),
        active_count=len(gym.executions) - len(completed),
        blocking_attempts=running,
        completed_unacknowledged_attempts=tuple(e.receipt for e in completed if e.receipt is not None),
        selected_boundaries=chosen,
        ready_to_commit=not running and not without and not completed,
    )


def ready(gym: Gym) -> bool:
    """Return whether a commit could be taken: nothing running, parked without a boundary, or unacknowledged."""
    for _, e in gym.executions:
        if e.state is not PARKED or e.boundary is None:
            return False
    return True


def selected(gym: Gym) -> tuple[tuple[Attempt, int], ...]:
    """Return the boundaries that a commit would write: those of the parked runs."""
    return tuple((a, e.boundary) for a, e in gym.executions if e.state is PARKED and e.boundary is not None)


def ready_reply(gym: Gym) -> Reply:
    """Return the 200 of a prepare: the status report of a Gym that is ready."""
    report = status(gym)
    boundaries = tuple(
        (("rollout_id", a.rollout), ("attempt_index", a.index), ("boundary_index", boundary))
        for a, boundary in report.selected_boundaries
    )
    return Reply(
        200,
        None,
        (
            ("state", report.state),
            ("ready_to_commit", True),
            ("running", 0),
            ("parked_with_boundary", report.parked_with_boundary),
            ("parked_without_boundary", 0),
            ("completed_unacknowledged", 0),
            ("acknowledged_completed", report.acknowledged_completed),
            ("active", report.active_count),
            ("selected_boundaries", boundaries),
        ),
    )


def not_ready_reply(gym: Gym) -> Reply:
    """The 409 of a prepare: the three counts are in its `detail`, and there are no lists."""
    report = status(gym)
    detail = (
        f"running={report.running}, parked_without_boundary={report.parked_without_boundary}, "
        f"completed_unacknowledged={report.completed_unacknowledged}"
    )
    return Reply(409, NOT_READY, (("detail", detail),))


def with_(
    gym: Gym,
    executions: Executions,
    fence: Fence | None = None,
    open_: bool | None = None,
    tombstones: tuple[Attempt, ...] | None = None,
    acknowledged: tuple[Receipt, ...] | None = None,
    continuations: tuple[tuple[Attempt, int], ...] | None = None,
) -> Gym:
    """`attrs.evolve` for the hot path: direct construction is several times faster."""
    return Gym(
        gym.open if open_ is None else open_,
        executions,
        gym.tombstones if tombstones is None else tombstones,
        gym.acknowledged if acknowledged is None else acknowledged,
        gym.fence if fence is None else fence,
        gym.continuations if continuations is None else continuations,
        gym.manifest,
        gym.saved,
    )


def replaced(executions: Executions, attempt: Attempt, new: Execution) -> Executions:
    return tuple([(a, new) if a == attempt else (a, e) for a, e in executions])


def buried(gym: Gym, attempt: Attempt) -> Gym:
    """Retire `attempt`: remove its execution and any continuation for it, and refuse the key from now on."""
    executions = tuple([pair for pair in gym.executions if pair[0] != attempt])
    continuations = tuple([pair for pair in gym.continuations if pair[0] != attempt]) if gym.continuations else ()
    return with_(gym, executions, tombstones=tombstoned(gym.tombstones, attempt), continuations=continuations)


def tombstoned(tombstones: tuple[Attempt, ...], attempt: Attempt) -> tuple[Attempt, ...]:
    return tombstones if attempt in tombstones else tuple(sorted((*tombstones, attempt)))


def by_attempt(pair: tuple[Attempt, Execution]) -> tuple[str, int]:
    return pair[0].rollout, pair[0].index


def by_key(receipt: Receipt) -> tuple[str, int]:
    return receipt.rollout_id, receipt.attempt_index
