"""The control fence: which checkpoint id may do what, and when (gym.md, "The control fence").

Gym guards `prepare`, `commit`, `restore`, `resume` and `retire` by the id of a checkpoint and by a phase. This module
decides whether such a call runs, is answered from the record, or is refused; it knows nothing of executions. What the
call does once it may run is in `gym.py`.

    idle --prepare--> preparing --ready--> prepared --commit--> committing --> committed_paused
    idle --restore--> restoring --> restored_paused
    every paused phase, preparing and idle --resume--> idle, and the id is retired for ever

`committing` and `restoring` last as long as a file is written or read. The model does both in one step, so it never
rests there.
"""

from enum import Enum
from typing import Any, Final

from attrs import asdict, frozen

from protocol.identity import Receipt

PREPARE: Final = "prepare"
COMMIT: Final = "commit"
RESTORE: Final = "restore"
RESUME: Final = "resume"
RETIRE: Final = "retire"

STALE: Final = "stale_checkpoint"
CONFLICT: Final = "checkpoint_conflict"
INVALID_PHASE: Final = "invalid_phase"

Body = tuple[tuple[str, Any], ...]  # a JSON object as pairs, so that a reply can be hashed


class Phase(Enum):
    """Where the fence stands. Values are Gym's names."""

    IDLE = "idle"
    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED_PAUSED = "committed_paused"
    RESTORING = "restoring"
    RESTORED_PAUSED = "restored_paused"


LEGAL: Final[dict[str, tuple[frozenset[Phase], str]]] = {
    # operation: (phases, why)
    PREPARE: (frozenset({Phase.IDLE}), "one checkpoint at a time"),
    COMMIT: (frozenset({Phase.PREPARED}), "only a ready participant has something to write"),
    RESTORE: (frozenset({Phase.IDLE}), "a restore would mix with a checkpoint in progress"),
    RESUME: (
        frozenset(
            {Phase.IDLE, Phase.PREPARING, Phase.PREPARED, Phase.COMMITTED_PAUSED, Phase.RESTORED_PAUSED},
        ),
        "it also aborts: there is no other way out of a phase",
    ),
    RETIRE: (
        frozenset({Phase.IDLE, Phase.PREPARING, Phase.PREPARED}),
        "after the commit the records name the attempts that must come back",
    ),
}


@frozen(cache_hash=True)
class Reply:
    """An HTTP answer of the control routes.

    `body` is the JSON object as pairs: values are scalars, receipts, or tuples of these (see `json`). A refusal's body
    holds its `detail` only. `receipt` is what `completion-receipt` returns. Status 0 means that no answer came.
    """

    status: int
    code: str | None = None
    body: Body = ()
    receipt: Receipt | None = None

    @property
    def ok(self) -> bool:
        return self.status == 200

    def json(self) -> dict[str, Any]:
        """Return the body as Gym writes it: the object, or `{"error": {"code", "detail"}}` (gym.md, "HTTP")."""
        if self.receipt is not None:
            return asdict(self.receipt)
        body = {key: _plain(value) for key, value in self.body}
        return body if self.ok else {"error": {"code": self.code, "detail": body.get("detail", "")}}


def _plain(value: Any) -> Any:
    """A tuple of (name, value) pairs is an object, any other tuple a list."""
    if isinstance(value, Receipt):
        return asdict(value)
    if not isinstance(value, tuple):
        return value
    if value and all(isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], str) for v in value):
        return {key: _plain(v) for key, v in value}
    return [_plain(v) for v in value]


@frozen(cache_hash=True)
class Fence:
    """The fence of one Gym process. It lives in memory: a restart forgets it, with every retired id.

    `waiting` is the id of the prepare whose caller has no answer yet. It equals `active` while the phase is
    `preparing`; it outlives the phase when a `resume` arrives meanwhile, because `resume` does not stop a prepare that
    is still waiting. `recorded` keeps the successes that can still be replayed; what the id's retirement or the next
    phase puts out of reach is dropped, so that equal futures are equal values.
    """

    phase: Phase = Phase.IDLE
    active: str | None = None
    retired: tuple[str, ...] = ()
    recorded: tuple[tuple[str, str, Reply], ...] = ()
    waiting: str | None = None


NOT_ENTERED: Final = Fence()

STALE_REPLY: Final = Reply(409, STALE)
CONFLICT_REPLY: Final = Reply(409, CONFLICT)
INVALID_PHASE_REPLY: Final = Reply(409, INVALID_PHASE)


def answer(fence: Fence, operation: str, checkpoint_id: str) -> Reply | None:
    """Return the reply the fence gives by itself, or None when `operation` may run.

    The order is retired id, recorded result, other active id, phase (gym.md). The call in flight is the caller's to
    recognise, with `in_flight`. A repeated `resume` is the exception to the first check: it gets its recorded answer.
    """
    if operation != RESUME and checkpoint_id in fence.retired:
        return STALE_REPLY
    for recorded_id, recorded_operation, reply in fence.recorded:
        if recorded_operation == operation and recorded_id == checkpoint_id:
            return reply
    if fence.active is not None and fence.active != checkpoint_id:
        return CONFLICT_REPLY
    return None if fence.phase in LEGAL[operation][0] else INVALID_PHASE_REPLY


def in_flight(fence: Fence, checkpoint_id: str) -> bool:
    """Return whether a prepare of this id is waiting: a duplicate waits with it and shares its answer."""
    return fence.phase is Phase.PREPARING and fence.active == checkpoint_id


def preparing(fence: Fence, checkpoint_id: str) -> Fence:
    """A prepare has entered: the id is active and the caller waits."""
    return Fence(Phase.PREPARING, checkpoint_id, fence.retired, fence.recorded, checkpoint_id)


def prepared(fence: Fence, reply: Reply) -> Fence:
    """The waiting prepare succeeds. One that a `resume` has overtaken changes nothing here: its id is retired."""
    if fence.phase is not Phase.PREPARING or fence.active is None:
        return Fence(fence.phase, fence.active, fence.retired, fence.recorded)
    return _record(fence, Phase.PREPARED, fence.active, PREPARE, reply)


def let_go(fence: Fence) -> Fence:
    """The waiting prepare fails: it came from `idle`, so the phase goes back there and the id is free again."""
    if fence.phase is not Phase.PREPARING:
        return Fence(fence.phase, fence.active, fence.retired, fence.recorded)
    return Fence(Phase.IDLE, None, fence.retired, fence.recorded)


def committed(fence: Fence, checkpoint_id: str, reply: Reply) -> Fence:
    """The commit is on disk. From here on a repeated prepare of the id is `invalid_phase`, so its record goes."""
    kept = tuple(r for r in fence.recorded if r[0] != checkpoint_id)
    kept_fence = Fence(fence.phase, fence.active, fence.retired, kept, fence.waiting)
    return _record(kept_fence, Phase.COMMITTED_PAUSED, checkpoint_id, COMMIT, reply, fence.waiting)


def restored(fence: Fence, checkpoint_id: str, reply: Reply) -> Fence:
    """The records are installed; admission opens at the `resume` of this id."""
    return _record(fence, Phase.RESTORED_PAUSED, checkpoint_id, RESTORE, reply, fence.waiting)


def resumed(fence: Fence, checkpoint_id: str, reply: Reply) -> Fence:
    """The id is retired for ever, whether or not it was ever used. Only its `resume` is still answered."""
    kept = tuple(r for r in fence.recorded if r[0] != checkpoint_id)
    recorded = tuple(sorted((*kept, (checkpoint_id, RESUME, reply)), key=_by_id))
    return Fence(Phase.IDLE, None, tuple(sorted((*fence.retired, checkpoint_id))), recorded, fence.waiting)


def _record(
    fence: Fence, phase: Phase, checkpoint_id: str, operation: str, reply: Reply, waiting: str | None = None
) -> Fence:
    recorded = tuple(sorted((*fence.recorded, (checkpoint_id, operation, reply)), key=_by_id))
    return Fence(phase, checkpoint_id, fence.retired, recorded, waiting)


def _by_id(record: tuple[str, str, Reply]) -> tuple[str, str]:
    return record[0], record[1]
