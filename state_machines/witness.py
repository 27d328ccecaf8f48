"""What a hunt must have seen before its silence means anything: the "sometimes" witnesses.

A hunt that never saw a snapshot commit says nothing about snapshots. Which witnesses are expected follows from the
policy and the scope alone; one that is missing makes the hunt *vacuous*.
"""

from typing import Final

from protocol.events import Answer, Deadline, Event, Fail, LoseReply, LoseRequest, Publish
from protocol.executions import NOT_READY, State
from protocol.policy import Granularity, Guard, LostReply, Policy
from protocol.properties import ready
from protocol.scope import Scope
from protocol.snapshot import Step
from protocol.state import System
from protocol.trainer import GIVEN_UP, GroupStatus
from protocol.wire import Call

WITNESSES: Final[dict[str, str]] = {
    "ready again": "Gym was ready to commit again after a run had finished",
    "finalized group": "a group was sealed and handed to training",
    "committed snapshot": "a snapshot was committed and published",
    "409": "Gym answered a prepare with 409, not ready",
    "missed deadline": "the deadline of a prepare passed while Gym was not ready",
    "failed run": "a run failed",
    "lost reply": "the reply to a /run was lost",
    "given-up attempt": "the trainer gave up an attempt and reserved another, or dropped its group",
    "abandoned group": "a prompt group was abandoned: every sibling's attempt was given up at once",
}


def expected(policy: Policy, scope: Scope, design: str = "acknowledge") -> frozenset[str]:
    """Return the witnesses that every sound hunt of this policy and scope sees, under a design of Gym.

    With a lease what has finished blocks nothing, so nothing but a bare park answers 409: what holds a commit up is
    seen when the prepare misses its deadline.
    """
    if policy.guard is Guard.REFUSE_PROMPT_GROUP and policy.granularity is Granularity.PROMPT_GROUP:
        return frozenset({"committed snapshot"} if scope.snapshots else ())
    found = {"ready again", "finalized group"}
    if scope.snapshots:
        found |= {"committed snapshot", "missed deadline" if design == "lease" else "409"}
    if scope.failures:
        found |= {"failed run"}
    if scope.lost_replies:
        found |= {"lost reply"}
    if scope.failures or (scope.lost_replies and policy.lost_reply is not LostReply.SAME_ATTEMPT):
        found |= {"given-up attempt"}
        if policy.granularity is Granularity.PROMPT_GROUP:
            found |= {"abandoned group"}
    return frozenset(found)


def witnesses(before: System, event: Event, after: System) -> frozenset[str]:
    """Return what the step `before -event-> after` is a witness of."""
    found = set()
    if (after.gym.acknowledged or any(e.state is State.COMPLETED for _, e in after.gym.executions)) and ready(after):
        found.add("ready again")
    if isinstance(event, Publish) and after.snapshot.published != before.snapshot.published:
        found.add("committed snapshot")
    elif isinstance(event, Answer) and before.snapshot.answer == NOT_READY:
        found.add("409")
    elif isinstance(event, Deadline) and before.snapshot.step is Step.PREPARING and before.snapshot.answer is None:
        found.add("missed deadline")
    elif isinstance(event, Fail):
        found.add("failed run")
    elif isinstance(event, LoseReply | LoseRequest) and event.call is Call.RUN:
        found.add("lost reply")
    if before.trainer.groups is not after.trainer.groups:
        for old, new in zip(before.trainer.groups, after.trainer.groups, strict=True):
            if new is None or old is new:
                continue
            if new.status is GroupStatus.FINALIZED:
                found.add("finalized group")
            if old is not None:
                given = [_given_up(b) > _given_up(a) for a, b in zip(old.siblings, new.siblings, strict=True)]
                if any(given):
                    found.add("given-up attempt")
                if all(given):
                    found.add("abandoned group")
    return frozenset(found)


def _given_up(entries: tuple[object, ...]) -> int:
    return sum(getattr(entry, "status", None) in GIVEN_UP for entry in entries)
