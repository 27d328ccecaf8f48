"""Deliberate defects: each replaces an operation of the reference Gym by a wrong one. The hunt must find every one.

A defect names a policy and a scope whose histories meet it, because some mistakes show only to a trainer that sends a
`/run` twice or retires what it gives up.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from protocol import gym as g
from protocol.executions import ready_reply
from protocol.identity import Attempt, Receipt
from state_machines.gym_server.service import LIVE, OPERATIONS, Operation

PARK_REQUESTED, PARKED, COMPLETED = g.State.PARK_REQUESTED, g.State.PARKED, g.State.COMPLETED


@frozen
class Defect:
    """A mistake in one or two operations, and where it shows."""

    name: str
    about: str
    operations: Mapping[str, Operation] = field(repr=False)
    policy: str = "prompt_group_repaired"
    scope: str = "groups=1,siblings=2"

    def seeded(self) -> dict[str, Operation]:
        """Return every operation of a Gym with this defect."""
        return {**OPERATIONS, **self.operations}


def _with(outcome: g.Outcome, **changes: Any) -> g.Outcome:
    return evolve(outcome, gym=evolve(outcome.gym, **changes))


def _put(gym: g.Gym, attempt: Attempt, execution: g.Execution) -> tuple[tuple[Attempt, g.Execution], ...]:
    """The executions with this one in the place of any other of the same attempt."""
    kept = {**dict(gym.executions), attempt: execution}
    return tuple(sorted(kept.items()))


def half_batch(gym: g.Gym, receipts: tuple[Receipt, ...]) -> g.Outcome:
    whole = g.acknowledge(gym, receipts)
    if len(receipts) < 2 or whole.reply is None or not whole.reply.ok:
        return whole
    return evolve(g.acknowledge(gym, receipts[: len(receipts) // 2]), reply=whole.reply)


def acknowledge_first_good(gym: g.Gym, receipts: tuple[Receipt, ...]) -> g.Outcome:
    """Release the good ones of a batch that is refused."""
    whole = g.acknowledge(gym, receipts)
    if whole.reply is None or whole.reply.ok:
        return whole
    for receipt in receipts:
        gym = g.acknowledge(gym, (receipt,)).gym
    return g.Outcome(gym, whole.reply)


def digest_unchecked(gym: g.Gym, receipts: tuple[Receipt, ...]) -> g.Outcome:
    known = {e.receipt.attempt: e.receipt for _, e in gym.executions if e.receipt is not None}
    known |= {r.attempt: r for r in gym.acknowledged}
    real = tuple(evolve(r, result_digest=known[r.attempt].result_digest) if r.attempt in known else r for r in receipts)
    return g.acknowledge(gym, real)


def acknowledge_once(gym: g.Gym, receipts: tuple[Receipt, ...]) -> g.Outcome:
    released = {r.attempt for r in gym.acknowledged}
    if any(r.attempt in released for r in receipts):
        return g.Outcome(gym, g.Reply(409, g.NO_SUCH_RESULT))
    return g.acknowledge(gym, receipts)


def replay_runs_twice(gym: g.Gym, attempt: Attempt) -> g.Outcome:
    known = gym.find(attempt)
    if known is None or known.state is not COMPLETED:
        return g.begin(gym, attempt)
    return g.Outcome(evolve(gym, executions=_put(gym, attempt, g.Execution(g.State.RUNNING))))


def begin_while_closed(gym: g.Gym, attempt: Attempt) -> g.Outcome:
    return _with(g.begin(evolve(gym, open=True), attempt), open=gym.open)


def retire_releases(gym: g.Gym, checkpoint_id: str, attempt: Attempt, *, release: bool = False) -> g.Outcome:
    return g.retire(gym, checkpoint_id, attempt, release=True)


def open_after_prepare(gym: g.Gym, checkpoint_id: str, expired: bool = False) -> g.Outcome:
    return _with(g.prepare(gym, checkpoint_id, expired), open=gym.open)


def unacknowledged_is_ready(gym: g.Gym, checkpoint_id: str, expired: bool = False) -> g.Outcome:
    """Answer 200 though results are un-ACKed."""
    kept = tuple((a, e) for a, e in gym.executions if e.state is COMPLETED)
    others = tuple((a, e) for a, e in gym.executions if e.state is not COMPLETED)
    outcome = g.prepare(evolve(gym, executions=others), checkpoint_id, expired)
    return _with(outcome, executions=tuple(sorted((*outcome.gym.executions, *kept))))


def waits_for_acknowledgements(gym: g.Gym, checkpoint_id: str, expired: bool = False) -> g.Outcome:
    """Wait, where Gym answers 409 at once because nothing runs."""
    outcome = g.prepare(gym, checkpoint_id, expired)
    if expired or outcome.reply is None or outcome.reply.code != "agent_prepare_incomplete":
        return outcome
    fence = evolve(gym.fence, phase=g.Phase.PREPARING, active=checkpoint_id, waiting=checkpoint_id)
    return g.Outcome(evolve(outcome.gym, fence=fence))


def keeps_asking(gym: g.Gym) -> g.Outcome:
    asked = {a for a, e in gym.executions if e.state is PARK_REQUESTED}
    outcome = g.expire(gym)
    executions = tuple((a, evolve(e, state=PARK_REQUESTED) if a in asked else e) for a, e in outcome.gym.executions)
    return _with(outcome, executions=executions)


def reopens_when_lost(gym: g.Gym) -> g.Outcome:
    return _with(g.lose_prepare(gym), open=True)


def forgets_parked(gym: g.Gym, checkpoint_id: str) -> g.Outcome:
    parked = {a: e for a, e in gym.executions if e.state is PARKED}
    outcome = g.resume(gym, checkpoint_id)
    return _with(outcome, executions=tuple((a, parked.get(a, e)) for a, e in outcome.gym.executions))


def stays_closed(gym: g.Gym, checkpoint_id: str) -> g.Outcome:
    return _with(g.resume(gym, checkpoint_id), open=gym.open)


def commit_resumes(gym: g.Gym, checkpoint_id: str) -> g.Outcome:
    outcome = g.commit(gym, checkpoint_id)
    return _with(outcome, open=gym.open or (outcome.reply is not None and outcome.reply.ok))


def failed_run_stays(gym: g.Gym, attempt: Attempt) -> g.Outcome:
    return evolve(g.fail(gym, attempt), gym=gym)


def late_finish_lost(gym: g.Gym, attempt: Attempt, receipt: Receipt | None) -> g.Outcome:
    """Drop the result of a run that was asked to park."""
    known = gym.find(attempt)
    outcome = g.finish(gym, attempt, receipt)
    if known is None or known.state is not PARK_REQUESTED:
        return outcome
    return _with(outcome, executions=tuple(p for p in outcome.gym.executions if p[0] != attempt))


def lost_client_runs_on(gym: g.Gym, attempt: Attempt) -> g.Outcome:
    known = gym.find(attempt)
    return g.Outcome(gym) if known is not None and known.state in LIVE else g.lose_client(gym, attempt)


def never_parks(gym: g.Gym, attempt: Attempt, index: int | None = None) -> g.Outcome:
    known = gym.find(attempt)
    if known is None or known.state is not PARK_REQUESTED:
        return g.commit_boundary(gym, attempt, index)
    newest = -1 if known.boundary is None else known.boundary
    return g.Outcome(evolve(gym, executions=_put(gym, attempt, evolve(known, boundary=newest + 1))))


def parked_is_enough(gym: g.Gym, attempt: Attempt) -> g.Outcome:
    """Count a run that is parked without a boundary as one with the boundary 0."""
    outcome = g.park(gym, attempt)
    known = outcome.gym.find(attempt)
    if known is None or known.state is not PARKED or known.boundary is not None:
        return outcome
    gym = evolve(gym, executions=_put(gym, attempt, evolve(known, boundary=0)))
    if gym.fence.waiting is None or not g.ready(gym):
        return g.Outcome(gym)
    return g.Outcome(gym, prepared=ready_reply(gym))


def restart_remembers(gym: g.Gym) -> g.Outcome:
    """Bring results back that only memory held."""
    kept = tuple((a, e) for a, e in gym.executions if e.state is COMPLETED)
    return _with(g.restart(gym), executions=kept)


def wrong_receipt(gym: g.Gym, attempt: Attempt) -> g.Outcome:
    outcome = g.completion_receipt(gym, attempt)
    if outcome.reply is None or outcome.reply.receipt is None:
        return outcome
    receipt = evolve(outcome.reply.receipt, result_digest="0" * 64)
    return evolve(outcome, reply=evolve(outcome.reply, receipt=receipt))


_REPEATS: Final = "sibling,lost_reply=same_attempt"
_RETIRES: Final = "sibling_repaired,give_up=retire"

DEFECTS: Final[dict[str, Defect]] = {
    d.name: d
    for d in (
        Defect("half_batch", "an ACK releases half of its batch and says all", {"acknowledge": half_batch}),
        Defect("partial_batch", "a refused ACK releases the good half", {"acknowledge": acknowledge_first_good}),
        Defect("digest_unchecked", "an ACK with a wrong digest releases the result", {"acknowledge": digest_unchecked}),
        Defect(
            "acknowledge_once",
            "an ACK sent again is refused, not a no-op",
            {"acknowledge": acknowledge_once},
            "sibling_repaired",
            "groups=1,siblings=2,lost_acknowledges=1",
        ),
        Defect("retire_releases", "retire releases a completed result", {"retire": retire_releases}, _RETIRES),
        Defect("replay_runs_twice", "a repeated /run runs again", {"begin": replay_runs_twice}, _REPEATS),
        Defect(
            "begin_while_closed",
            "a /run begins while admission is closed",
            {"begin": begin_while_closed},
            "sibling_repaired",
            "groups=1,siblings=2,lost_requests=1",
        ),
        Defect("open_after_prepare", "admission stays open after a prepare", {"prepare": open_after_prepare}),
        Defect("unacknowledged_is_ready", "prepare ignores un-ACKed results", {"prepare": unacknowledged_is_ready}),
        Defect(
            "waits_for_acknowledgements",
            "prepare waits when nothing runs, instead of its 409",
            {"prepare": waits_for_acknowledgements},
        ),
        Defect(
            "keeps_asking", "a prepare whose deadline passes leaves its runs asked to park", {"expire": keeps_asking}
        ),
        Defect(
            "reopens_when_lost",
            "a lost prepare opens admission",
            {"lose_prepare": reopens_when_lost},
            "prompt_group_repaired",
            "groups=1,siblings=2,lost_prepares=1",
        ),
        Defect("forgets_parked", "resume forgets parked runs", {"resume": forgets_parked}),
        Defect("stays_closed", "resume does not open admission", {"resume": stays_closed}),
        Defect("commit_resumes", "a commit opens admission", {"commit": commit_resumes}, "sibling_repaired"),
        Defect("failed_run_stays", "a failed run goes on running", {"fail": failed_run_stays}),
        Defect("late_finish_lost", "a result that comes during a prepare is dropped", {"finish": late_finish_lost}),
        Defect(
            "lost_client_runs_on",
            "a run whose client went away runs on",
            {"lose_client": lost_client_runs_on},
            "prompt_group_repaired",
            "groups=1,siblings=2,disconnects=1",
        ),
        Defect("never_parks", "a run asked to park passes its boundary", {"commit_boundary": never_parks}),
        Defect(
            "parked_is_enough",
            "a run parked without a boundary counts as parked with one",
            {"park": parked_is_enough},
            "prompt_group_repaired",
            "groups=1,siblings=2,refusals=1",
        ),
        Defect(
            "restart_remembers",
            "results come back after a restart",
            {"restart": restart_remembers},
            "prompt_group_repaired",
            "groups=1,siblings=2,gym_restarts=1",
        ),
        Defect("wrong_receipt", "the receipt handed out is not the one kept", {"completion_receipt": wrong_receipt}),
    )
}
