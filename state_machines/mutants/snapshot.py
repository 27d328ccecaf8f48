# ruff: noqa: SLF001 - a mutant replaces what the core keeps to itself
"""Mutants of the steps of a snapshot."""

from typing import Any

from attrs import evolve

from protocol import checkpoint as c
from protocol import gym as g
from protocol.events import Event
from protocol.snapshot import SnapshotState, Step
from protocol.state import System, absorb
from state_machines.mutants import mutant


def _instead(system: System, step: Step, other: Step) -> System:
    return system.at(system.snapshot.to(other)) if system.snapshot.step is step else system


mutant(
    "snapshot-skips-the-strict-flush",
    SnapshotState.begin,
    lambda begin: lambda snapshot, owing: begin(snapshot, owing=False),
    "a snapshot begins with a strict flush, which also does a dead drain's work",
    "it prepares at once",
    "sibling",
    "siblings=1,lost_acknowledges=1",
)
mutant(
    "snapshot-captures-with-debts",
    c.publish,
    lambda publish: (
        lambda system, event: evolve(
            out := publish(system.replace(trainer=system.trainer.replace(outbox=())), event),
            trainer=out.trainer.replace(outbox=system.trainer.outbox),
        )
    ),
    "the capture raises while any ACK debt is left",
    "it captures all the same",
    "sibling",
    "siblings=1,lost_acknowledges=1",
)
mutant(
    "snapshot-publishes-before-the-commit",
    c.answer,
    lambda answer: (
        lambda system, event: (
            out
            if (out := answer(system, event)).snapshot.step is not Step.COMMIT
            else out.at(out.snapshot.to(Step.CAPTURE))
        )
    ),
    "the manifest is published after Gym's commit",
    "it is published after the prepare",
    "sibling",
    "siblings=1",
)
mutant(
    "snapshot-publishes-a-lost-commit",
    c.lose_commit_request,
    lambda lose: (
        lambda system, event: evolve(
            out := lose(system, event), trainer=out.trainer.replace(snapshot=system.snapshot.to(Step.CAPTURE))
        )
    ),
    "a commit without an answer aborts the snapshot: nobody knows whether it was written",
    "it is taken for written",
    "sibling",
    "siblings=1,lost_commits=1",
)
mutant(
    "snapshot-publishes-a-failed-commit",
    c.commit_fails,
    lambda fails: (
        lambda system, event: evolve(
            out := fails(system, event), trainer=out.trainer.replace(snapshot=system.snapshot.to(Step.CAPTURE))
        )
    ),
    "a commit that Gym answers with an error aborts the snapshot",
    "it is taken for written",
    "sibling",
    "siblings=1,commit_failures=1",
)
mutant(
    "snapshot-aborts-without-resume",
    SnapshotState.abort,
    lambda abort: lambda snapshot: snapshot.end(failed=True),
    "an abort resumes every participant that was asked",
    "it only ends the snapshot",
    "sibling",
    "siblings=1",
)
mutant(
    "snapshot-409-is-final",
    c.answer,
    lambda answer: (
        lambda system, event: (
            out
            if (out := answer(system, event)).snapshot.step is not Step.PREPARE
            else out.at(out.snapshot.to(Step.ABORT))
        )
    ),
    "a 409 is asked again until the deadline",
    "it is final",
    "sibling",
    "siblings=1",
)
mutant(
    "snapshot-reuses-its-id",
    SnapshotState.checkpoint_id.fget,  # type: ignore[attr-defined]
    lambda checkpoint_id: lambda snapshot: "c0",
    "checkpoint ids are never used twice",
    "every snapshot has the same id, which Gym has retired",
    "sibling",
    "siblings=1,snapshots=2",
)


def _forgets(lose: Any) -> Any:
    def forget(system: System, event: Event) -> System:
        after: System = lose(system, event)
        return after.at(after.snapshot.end(failed=False))

    return forget


mutant(
    "snapshot-forgets-a-lost-resume",
    c.lose_resume_request,
    _forgets,
    "a resume without an answer is sent again",
    "it is taken for answered",
    "sibling,resume_retry=at_once",
    "siblings=1,lost_resumes=1",
)
mutant(
    "snapshot-new-id-before-the-old-resume",
    c.begin,
    lambda begin: (
        lambda system, event: (
            begin(system, event)
            if not system.snapshot.stuck
            else system.at(system.snapshot.begin(owing=bool(system.trainer.outbox)))
        )
    ),
    "a resume that was not answered is sent again, with the same id, before anything else",
    "the next snapshot begins with its own id",
    "sibling,resume_retry=at_once",
    "siblings=1,lost_resumes=1,snapshots=2",
)
mutant(
    "snapshot-resume-never-sent-again",
    c.may_resume,
    lambda may: lambda system, event: "never again" if system.snapshot.stuck else may(system, event),
    "resume_retry=at_once sends an unanswered resume again",
    "it is not sent again",
    "sibling,resume_retry=at_once",
    "siblings=1,lost_resumes=1",
)
mutant(
    "snapshot-never-unfreezes",
    SnapshotState.end,
    lambda end: lambda snapshot, failed: evolve(end(snapshot, failed=failed), failures=3),
    "a snapshot that ends lets runs be sent again",
    "the registry stays frozen",
    "sibling",
    "siblings=1,failures=1",
)
mutant(
    "snapshot-has-no-deadline",
    c.may_expire,
    lambda may: lambda system, event: "there is no deadline",
    "a prepare that is never ready is given up at its deadline",
    "it is asked for ever",
    "prompt_group",
)
mutant(
    "snapshot-resumes-another-id",
    c._resumed,
    lambda resumed: (
        lambda system: (
            absorb(system, g.resume(system.gym, "other")).at(system.snapshot.end(failed=False)),
            True,
        )
    ),
    "a resume carries the id of its snapshot",
    "it carries another one, which a paused Gym refuses",
    "sibling",
    "siblings=1",
)
