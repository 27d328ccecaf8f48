"""The rules of a snapshot: the trainer's steps in their order, and Gym's fence on the other side (trainer.md)."""

from collections.abc import Callable

from attrs import evolve

from protocol import gym as g
from protocol.events import Answer, Commit, Deadline, Event, LoseReply, Prepare, Publish, Resume, Snapshot
from protocol.policy import ResumeRetry
from protocol.restart import published
from protocol.scope import Fault
from protocol.snapshot import Step
from protocol.state import System, absorb, dispatch

Guard = Callable[[System, Event], str | None]
INCOMPLETE = "agent_prepare_incomplete"


def at_step(step: Step, rule: str) -> Guard:
    def guard(system: System, event: Event) -> str | None:
        return None if system.snapshot.step is step else rule

    return guard


def may_begin(system: System, event: Event) -> str | None:
    snapshot = system.snapshot
    if snapshot.ended:
        return "failed snapshots have ended the run"
    if snapshot.step is not Step.IDLE and not snapshot.stuck:
        return "one snapshot at a time"
    return None if snapshot.number + 1 < system.scope.snapshots else "the scope has no further snapshot"


def begin(system: System, event: Snapshot) -> System:
    """Close local admission. A resume that was never answered is sent again first (trainer.md, step 6).

    While that one is refused, there is no new snapshot.
    """
    if system.snapshot.stuck:
        system, opened = _resumed(system)
        if not opened:
            return system
    return system.at(system.snapshot.begin(owing=bool(system.trainer.outbox)))


may_prepare = at_step(Step.PREPARE, "a prepare is sent after the strict flush, and again after each 409")


def prepare(system: System, event: Prepare) -> System:
    system = system.at(system.snapshot.to(Step.PREPARING))
    outcome = g.prepare(system.gym, system.snapshot.checkpoint_id)
    system = absorb(system, outcome)
    if outcome.reply is not None:
        system = system.at(system.snapshot.to(Step.PREPARING, answer=outcome.reply.code or "ok"))
    return system


def lose_prepare_request(system: System, event: Event) -> System:
    """Any error but a 409 is final (step 2); the participant counts as asked."""
    return system.at(system.snapshot.to(Step.PREPARING).to(Step.ABORT)).spend(Fault.LOST_PREPARE)


def may_lose_prepare_reply(system: System, event: LoseReply) -> str | None:
    return None if system.snapshot.step is Step.PREPARING else "no prepare is in flight"


def lose_prepare_reply(system: System, event: LoseReply) -> System:
    if system.snapshot.answer is None:
        system = absorb(system, g.lose_prepare(system.gym))
    return system.at(system.snapshot.to(Step.ABORT)).spend(Fault.LOST_PREPARE)


def may_answer(system: System, event: Event) -> str | None:
    waiting = system.snapshot.step is Step.PREPARING and system.snapshot.answer is not None
    return None if waiting else "Gym has not answered the prepare"


def answer(system: System, event: Answer) -> System:
    """200: commit next. 409 `agent_prepare_incomplete`: ask again. Anything else is final."""
    code = system.snapshot.answer
    if code == "ok":
        return system.at(system.snapshot.to(Step.COMMIT))
    return system.at(system.snapshot.to(Step.PREPARE if code == INCOMPLETE else Step.ABORT))


def may_expire(system: System, event: Event) -> str | None:
    waiting = system.snapshot.step in (Step.PREPARE, Step.PREPARING)
    return None if waiting else "only a prepare has a deadline that passes here"


def deadline(system: System, event: Deadline) -> System:
    if system.snapshot.step is Step.PREPARING and system.snapshot.answer is None:
        system = absorb(system, g.expire(system.gym))
    return dispatch(system.at(system.snapshot.abort()))


may_commit = at_step(Step.COMMIT, "a commit follows a prepare that was answered 200")


def commit(system: System, event: Commit) -> System:
    outcome = g.commit(system.gym, system.snapshot.checkpoint_id)
    system = absorb(system, outcome)
    done = outcome.reply is not None and outcome.reply.status == 200
    return system.at(system.snapshot.to(Step.CAPTURE if done else Step.ABORT))


def commit_fails(system: System, event: Event) -> System:
    return system.at(system.snapshot.to(Step.ABORT)).spend(Fault.COMMIT_FAILURE)


def lose_commit_request(system: System, event: Event) -> System:
    return system.at(system.snapshot.to(Step.ABORT)).spend(Fault.LOST_COMMIT)


def lose_commit_reply(system: System, event: Event) -> System:
    return lose_commit_request(absorb(system, g.commit(system.gym, system.snapshot.checkpoint_id)), event)


may_publish = at_step(Step.CAPTURE, "the manifest is published after Gym's commit")


def publish(system: System, event: Publish) -> System:
    """The capture raises if any debt is left (step 4). What is published is what a restart gets back."""
    if system.trainer.outbox:
        return system.at(system.snapshot.abort())
    trainer = evolve(system.trainer, snapshot=system.snapshot.publish(), durable=published(system))
    return system.replace(trainer=trainer)


def may_resume(system: System, event: Event) -> str | None:
    snapshot = system.snapshot
    if snapshot.step not in (Step.RESUME, Step.ABORT):
        return "Gym is resumed after a snapshot, or to abort one"
    if snapshot.stuck and system.policy.resume_retry is ResumeRetry.NEXT_SNAPSHOT:
        return "a resume that was not answered is sent again with the next snapshot"
    return None


def resume(system: System, event: Resume) -> System:
    """A resume that Gym refuses, because another id is active there, counts as one that was not answered."""
    system, opened = _resumed(system)
    return dispatch(system.replace(trainer=system.trainer.replace(draining=True))) if opened else system


def _resumed(system: System) -> tuple[System, bool]:
    """Send the resume. Return the system that follows, and whether Gym answered it with success."""
    outcome = g.resume(system.gym, system.snapshot.checkpoint_id)
    if outcome.reply is None or not outcome.reply.ok:
        return system.at(system.snapshot.unanswered()), False
    failed = system.snapshot.step is Step.ABORT
    return absorb(system, outcome).at(system.snapshot.end(failed=failed)), True


def lose_resume_request(system: System, event: Event) -> System:
    return system.at(system.snapshot.unanswered()).spend(Fault.LOST_RESUME)


def lose_resume_reply(system: System, event: Event) -> System:
    return lose_resume_request(absorb(system, g.resume(system.gym, system.snapshot.checkpoint_id)), event)
