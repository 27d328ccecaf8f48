"""Gym's side of the hand-over: executions, admission, acknowledgement, checkpoints (gym.md).

Every operation that changes an execution is in this module, and nothing here knows who calls it. Each takes a Gym and
returns an `Outcome`: the next Gym and every answer that this step gives. Nothing waits: a `/run` or a `prepare` that
Gym keeps open is simply not answered yet, and a later step answers it.

An operation for which `TRANSITIONS` has no row, such as a finish that arrives after `retire`, leaves the Gym as it is:
whoever sends it no longer owns the execution. A parked run's task sleeps until `resume`, so it neither finishes, fails
nor commits a boundary.
"""

from typing import Final

from protocol import fence as fences
from protocol.executions import (
    COMPLETED,
    PARK_REQUESTED,
    PARKED,
    RUNNING,
    TRANSITIONS,
    Execution,
    Gym,
    Outcome,
    RunAnswer,
    State,
    Status,
    buried,
    by_attempt,
    by_key,
    not_ready_reply,
    ready,
    ready_reply,
    replaced,
    selected,
    status,
    tombstoned,
    with_,
)
from protocol.fence import Fence, Phase, Reply
from protocol.identity import Attempt, Receipt

__all__ = [
    "TRANSITIONS",
    "Execution",
    "Fence",
    "Gym",
    "Outcome",
    "Phase",
    "Reply",
    "RunAnswer",
    "State",
    "Status",
    "acknowledge",
    "begin",
    "commit",
    "commit_boundary",
    "completion_receipt",
    "expire",
    "fail",
    "finish",
    "lose_client",
    "lose_prepare",
    "park",
    "prepare",
    "ready",
    "restart",
    "restore",
    "resume",
    "retire",
    "status",
]

STALE_ATTEMPT: Final = "stale_attempt"
DUPLICATE: Final = "duplicate_execution"
CLOSED: Final = "agent_admission_closed"
NO_SUCH_RESULT: Final = "completed_execution_acknowledgement_error"
CHECKPOINT_ERROR: Final = "agent_checkpoint_error"
RUN_FAILED: Final = "run_failed"
CANCELLED: Final = "cancelled"
CONNECTION_LOST: Final = "connection_lost"


def begin(gym: Gym, attempt: Attempt) -> Outcome:
    """POST `/run` arrives. The checks, in Gym's order: acknowledged, tombstoned, completed or active, admission."""
    for receipt in gym.acknowledged:
        if receipt.attempt_index == attempt.index and receipt.rollout_id == attempt.rollout:
            return Outcome(gym, None, (RunAnswer(attempt, 409, STALE_ATTEMPT),))
    if attempt in gym.tombstones:
        return Outcome(gym, None, (RunAnswer(attempt, 409, STALE_ATTEMPT),))
    known = gym.find(attempt)
    if known is not None:
        if known.receipt is not None:
            return Outcome(gym, None, (RunAnswer(attempt, 200, None, known.receipt, True),))
        return Outcome(gym, None, (RunAnswer(attempt, 409, DUPLICATE),))  # also a null result: none is retained
    if not gym.open:
        return Outcome(gym, None, (RunAnswer(attempt, 409, CLOSED),))
    executions = tuple(sorted((*gym.executions, (attempt, Execution(RUNNING))), key=by_attempt))
    unclaimed = tuple([c for c in gym.continuations if c[0] != attempt]) if gym.continuations else ()
    return Outcome(with_(gym, executions, continuations=unclaimed))


def finish(gym: Gym, attempt: Attempt, receipt: Receipt | None) -> Outcome:
    """The agent returns a result. `receipt` None: it is null, so Gym keeps nothing and issues no receipt."""
    known = gym.find(attempt)
    if known is None or (known.state, "finish") not in TRANSITIONS:
        return Outcome(gym)
    done = Execution(COMPLETED, known.boundary, False, receipt)
    return _settled(with_(gym, replaced(gym.executions, attempt, done)), RunAnswer(attempt, 200, None, receipt))


def fail(gym: Gym, attempt: Attempt) -> Outcome:
    """The agent raises: retired, tombstoned, removed, and the `/run` answers 500."""
    known = gym.find(attempt)
    if known is None or (known.state, "fail") not in TRANSITIONS:
        return Outcome(gym)
    return _settled(buried(gym, attempt), RunAnswer(attempt, 500, RUN_FAILED))


def lose_client(gym: Gym, attempt: Attempt) -> Outcome:
    """The `/run` connection closes. Parked with a boundary, the run only forgets its client; else it is retired."""
    known = gym.find(attempt)
    if known is None or not known.client:
        return Outcome(gym)
    lost = RunAnswer(attempt, 0, CANCELLED)
    if known.state is PARKED and known.boundary is not None:
        detached = Execution(PARKED, known.boundary, False)
        return _settled(with_(gym, replaced(gym.executions, attempt, detached)), lost)
    return _settled(buried(gym, attempt), lost)


def commit_boundary(gym: Gym, attempt: Attempt, index: int | None = None) -> Outcome:
    """A turn ends. A run asked to park parks here. `index` None: the next one, counted from 0.

    A record is its index in this model. The same index again is the equal record again: a no-op, that parks nothing
    either. A lower one is refused with 409 `agent_checkpoint_error`.
    """
    known = gym.find(attempt)
    rule = None if known is None else TRANSITIONS.get((known.state, "boundary"))
    if known is None or rule is None or rule[0] is None:
        return Outcome(gym)
    newest = -1 if known.boundary is None else known.boundary
    if index is None:
        index = newest + 1
    if index <= newest:
        return Outcome(gym) if index == newest else Outcome(gym, Reply(409, CHECKPOINT_ERROR))
    return _settled(with_(gym, replaced(gym.executions, attempt, Execution(rule[0], index))))


def park(gym: Gym, attempt: Attempt) -> Outcome:
    """A call downstream is refused, so the run stops where it is. Without a boundary it then blocks every commit."""
    known = gym.find(attempt)
    if known is None or (known.state, "park") not in TRANSITIONS:
        return Outcome(gym)
    return _settled(with_(gym, replaced(gym.executions, attempt, Execution(PARKED, known.boundary))))


def prepare(gym: Gym, checkpoint_id: str, expired: bool = False) -> Outcome:
    """Close admission, ask every running run to park, and answer once ready or once nothing runs.

    `expired`: the deadline is already past. Admission closes all the same, and the answer comes at once. A duplicate
    of the prepare in flight waits with it. A prepare that a `resume` overtook and that still waits is given up (409)
    when the next one begins to wait: the model keeps one in flight.
    """
    if fences.in_flight(gym.fence, checkpoint_id):
        return Outcome(gym)
    refusal = fences.answer(gym.fence, fences.PREPARE, checkpoint_id)
    if refusal is not None:
        return Outcome(gym, refusal)
    overtaken = gym.fence.waiting
    asked = tuple((a, Execution(PARK_REQUESTED, e.boundary) if e.state is RUNNING else e) for a, e in gym.executions)
    closed = with_(gym, asked, fence=fences.preparing(gym.fence, checkpoint_id), open_=False)
    after, reply = _settle(closed, expired)
    if overtaken is None:
        return Outcome(after, reply, (), reply)
    if reply is None:
        return Outcome(after, None, (), not_ready_reply(gym))
    f = after.fence
    return Outcome(with_(after, after.executions, Fence(f.phase, f.active, f.retired, f.recorded, overtaken)), reply)


def expire(gym: Gym) -> Outcome:
    """The deadline of the prepare in flight passes: it answers 409, unless it is ready."""
    after, reply = _settle(gym, True)
    return Outcome(after, None, (), reply)


def lose_prepare(gym: Gym) -> Outcome:
    """The client of the prepare in flight goes away: its runs go back to running, admission stays closed."""
    if gym.fence.waiting is None:
        return Outcome(gym)
    return Outcome(_roll_back(gym), None, (), Reply(0, CONNECTION_LOST))


def commit(gym: Gym, checkpoint_id: str) -> Outcome:
    """Write the boundaries of the parked runs. Readiness is checked again, and a regress is refused.

    Each checkpoint id has a directory of its own here. One that already holds this id's manifest answers for it. The
    body has the number of `records`; the digests of files have no place in a model.
    """
    refusal = fences.answer(gym.fence, fences.COMMIT, checkpoint_id)
    if refusal is not None:
        return Outcome(gym, refusal)
    if not ready(gym):
        return Outcome(gym, Reply(409, CHECKPOINT_ERROR))
    saved = gym.saved if gym.manifest == checkpoint_id else selected(gym)
    reply = Reply(200, None, (("records", len(saved)),))
    return Outcome(
        Gym(
            gym.open,
            gym.executions,
            gym.tombstones,
            gym.acknowledged,
            fences.committed(gym.fence, checkpoint_id, reply),
            gym.continuations,
            checkpoint_id,
            saved,
        ),
        reply,
    )


def resume(gym: Gym, checkpoint_id: str) -> Outcome:
    """Open admission and wake what is parked; also the only abort. A run without a client is retired instead.

    In this model a run has woken when `resume` returns. In Gym it stays `parked` until its task has run.
    """
    refusal = fences.answer(gym.fence, fences.RESUME, checkpoint_id)
    if refusal is not None:
        return Outcome(gym, refusal)
    executions: list[tuple[Attempt, Execution]] = []
    orphans: list[Attempt] = []
    released = 0
    for attempt, e in gym.executions:
        if e.state is PARKED and not e.client:
            orphans.append(attempt)
            continue
        rule = TRANSITIONS.get((e.state, "resume"))
        released += e.state is PARKED
        executions.append((attempt, e if rule is None or rule[0] is None else Execution(rule[0], e.boundary)))
    reply = Reply(200, None, (("state", "accepting"), ("released", released)))
    after = with_(gym, tuple(executions), fences.resumed(gym.fence, checkpoint_id, reply), open_=True)
    for attempt in orphans:
        after = with_(after, after.executions, tombstones=tombstoned(after.tombstones, attempt))
    return Outcome(after, reply)


def retire(gym: Gym, checkpoint_id: str, attempt: Attempt, *, release: bool = False) -> Outcome:
    """Cancel and tombstone `attempt`, known or not. A completed one is declined: 200 with `retired: false`.

    `release` is the repair (policy axis `retire`): a completed one is retired like any other, and its result freed.
    """
    refusal = fences.answer(gym.fence, fences.RETIRE, checkpoint_id)
    if refusal is not None:
        return Outcome(gym, refusal)
    known = gym.find(attempt)
    if known is not None and known.state is COMPLETED and not release:
        body = (("retired", False), ("tombstoned", False), ("completed_unacknowledged", True))
        return Outcome(gym, Reply(200, None, body))
    reply = Reply(200, None, (("retired", known is not None), ("tombstoned", True)))
    cancelled = (RunAnswer(attempt, 0, CANCELLED),) if known is not None and known.client else ()
    after, prepared = _settle(buried(gym, attempt))
    return Outcome(after, reply, cancelled, prepared)


def acknowledge(gym: Gym, receipts: tuple[Receipt, ...]) -> Outcome:
    """Release the results of `receipts`, all or none. Every field must match; one released before is a no-op.

    An empty batch, or one that repeats a key, does not validate: 422, without a code (gym.md, "HTTP").
    """
    if not receipts or len({r.attempt for r in receipts}) != len(receipts):
        return Outcome(gym, Reply(422))
    fresh: list[Receipt] = []
    for receipt in receipts:
        released = next((r for r in gym.acknowledged if r.attempt == receipt.attempt), None)
        if released is None:
            known = gym.find(receipt.attempt)
            if known is None or known.state is not COMPLETED or known.receipt != receipt:
                return Outcome(gym, Reply(409, NO_SUCH_RESULT))
            fresh.append(receipt)
        elif released != receipt:
            return Outcome(gym, Reply(409, NO_SUCH_RESULT))
    reply = Reply(200, None, (("acknowledged", receipts),))
    if not fresh:
        return Outcome(gym, reply)
    keys = {r.attempt for r in fresh}
    executions = tuple(pair for pair in gym.executions if pair[0] not in keys)
    acknowledged = tuple(sorted((*gym.acknowledged, *fresh), key=by_key))
    after, prepared = _settle(with_(gym, executions, acknowledged=acknowledged))
    return Outcome(after, reply, (), prepared)


def completion_receipt(gym: Gym, attempt: Attempt) -> Outcome:
    """GET `completion-receipt`: the reply's `receipt`, or 409 when no result of `attempt` is retained."""
    known = gym.find(attempt)
    if known is None or known.receipt is None:
        return Outcome(gym, Reply(409, NO_SUCH_RESULT))
    return Outcome(gym, Reply(200, None, (), known.receipt))


def restore(gym: Gym, checkpoint_id: str, records: tuple[tuple[Attempt, int], ...]) -> Outcome:
    """Install a continuation for attempt N+1 of each record and tombstone N. Admission is closed until `resume`."""
    refusal = fences.answer(gym.fence, fences.RESTORE, checkpoint_id)
    if refusal is not None:
        return Outcome(gym, refusal)
    reply = Reply(200, None, (("records", len(records)),))
    continuations = dict(gym.continuations)
    tombstones = gym.tombstones
    for attempt, boundary in records:
        continuations[Attempt(attempt.rollout, attempt.index + 1)] = boundary
        tombstones = tombstoned(tombstones, attempt)
    fence, installed = fences.restored(gym.fence, checkpoint_id, reply), tuple(sorted(continuations.items()))
    return Outcome(with_(gym, gym.executions, fence, False, tombstones, continuations=installed), reply)


def restart(gym: Gym) -> Outcome:
    """The process dies and comes back: what it had in memory is lost, every open connection ends."""
    lost = tuple(RunAnswer(a, 0, CONNECTION_LOST) for a, e in gym.executions if e.client)
    prepared = None if gym.fence.waiting is None else Reply(0, CONNECTION_LOST)
    return Outcome(Gym(manifest=gym.manifest, saved=gym.saved), None, lost, prepared)


def _settled(gym: Gym, *answers: RunAnswer) -> Outcome:
    """End an agent-side step: nobody waits for a reply, but a prepare may."""
    if gym.fence.waiting is None:
        return Outcome(gym, None, answers)
    after, prepared = _settle(gym)
    return Outcome(after, None, answers, prepared)


def _settle(gym: Gym, expired: bool = False) -> tuple[Gym, Reply | None]:
    """Answer the prepare in flight if it ends here: ready, nothing running, or its deadline past."""
    if gym.fence.waiting is None:
        return gym, None
    if ready(gym):
        reply = ready_reply(gym)
        return with_(gym, gym.executions, fences.prepared(gym.fence, reply)), reply
    if not expired and any(e.state is RUNNING or e.state is PARK_REQUESTED for _, e in gym.executions):
        return gym, None
    return _roll_back(gym), not_ready_reply(gym)


def _roll_back(gym: Gym) -> Gym:
    """End the prepare in flight without success. What is parked stays parked, admission stays closed."""
    executions = tuple(
        (a, Execution(RUNNING, e.boundary) if e.state is PARK_REQUESTED else e) for a, e in gym.executions
    )
    return with_(gym, executions, fences.let_go(gym.fence))
