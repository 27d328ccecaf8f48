"""What may happen next, and what happens: `enabled(system)` and `step(system, event)` over one table of rules.

Both are total, pure and deterministic. A rule is three functions: the events of its kind that might happen, the rule
that forbids one of them (or None), and the system that follows.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from attrs import fields, frozen

from protocol import checkpoint as c
from protocol import debts as d
from protocol import restart as r
from protocol import runs as u
from protocol.events import (
    EVENTS,
    Admit,
    Answer,
    Arrive,
    Boundary,
    Commit,
    CommitFails,
    Deadline,
    Deliver,
    Disconnect,
    DrainDies,
    Duplicate,
    Event,
    Fail,
    Finalize,
    Finish,
    Flush,
    LoseReply,
    LoseRequest,
    NullResult,
    Owner,
    Prepare,
    Publish,
    ReconcileLedger,
    Refuse,
    RestartBoth,
    RestartGym,
    RestartTrainer,
    Resume,
    RetireRun,
    Snapshot,
)
from protocol.scope import Fault
from protocol.state import System, initial
from protocol.wire import Call

__all__ = ["OF_A_GROUP", "OF_NOBODY", "RULES", "IllegalEvent", "Rule", "System", "enabled", "initial", "step"]

OF_ATTEMPT = frozenset({Call.RUN, Call.RECEIPT, Call.RETIRE})
Candidates = Callable[[System], Iterable[Any]]
Guard = Callable[[System, Any], str | None]
Apply = Callable[[System, Any], System]


@frozen
class Rule:
    """One kind of event. `fault` is the budget it needs, if any."""

    candidates: Candidates
    guard: Guard
    apply: Apply
    fault: Fault | None = None


class IllegalEvent(ValueError):
    """An event that cannot happen in the state it met. Carries `event`, `system` and the `rule` it breaks."""

    def __init__(self, event: Event, system: System, rule: str) -> None:
        super().__init__(f"{event} cannot happen here: {rule}")
        self.event, self.system, self.rule = event, system, rule


def _once(event: Event) -> Candidates:
    one = (event,)
    return lambda system: one


def _live(kind: Any) -> Candidates:
    return lambda system: u.live(system, kind)


def _runs(lost: type[LoseRequest] | type[LoseReply], call: Call) -> Candidates:
    """Losing a request or a reply of a call that is about one attempt: every attempt on the wire might be it."""
    return lambda system: [lost(call, m.attempt) for m in system.wire.messages]


def _retires(lost: type[LoseRequest] | type[LoseReply]) -> Candidates:
    return lambda system: [lost(Call.RETIRE, attempt) for attempt in system.trainer.retiring]


RULES: Final[dict[type[Event] | tuple[type[Event], Call], Rule]] = {
    Arrive: Rule(u.arrivals, u.may_arrive, u.arrive),
    Deliver: Rule(u.deliveries, u.may_deliver, u.deliver),
    Finalize: Rule(u.finalizes, u.may_finalize, u.finalize),
    RetireRun: Rule(d.retirements, d.may_retire, d.retire),
    ReconcileLedger: Rule(_once(ReconcileLedger()), d.may_reconcile, d.reconcile),
    Flush: Rule(_once(Flush()), d.may_flush, d.flush),
    Answer: Rule(_once(Answer()), c.may_answer, c.answer),
    Commit: Rule(_once(Commit()), c.may_commit, c.commit),
    Publish: Rule(_once(Publish()), c.may_publish, c.publish),
    Resume: Rule(_once(Resume()), c.may_resume, c.resume),
    Prepare: Rule(_once(Prepare()), c.may_prepare, c.prepare),
    Finish: Rule(_live(Finish), u.may_end, u.finish),
    Boundary: Rule(_live(Boundary), u.may_reach_boundary, u.boundary),
    Deadline: Rule(_once(Deadline()), c.may_expire, c.deadline),
    Admit: Rule(u.admits, u.may_admit, u.admit),
    Snapshot: Rule(_once(Snapshot()), c.may_begin, c.begin),
    Fail: Rule(_live(Fail), u.may_end, u.fail, Fault.FAILURE),
    NullResult: Rule(_live(NullResult), u.may_end, u.null_result, Fault.NULL_RESULT),
    Refuse: Rule(_live(Refuse), u.may_be_refused, u.refuse, Fault.REFUSAL),
    Disconnect: Rule(u.connected, u.may_disconnect, u.disconnect, Fault.DISCONNECT),
    Duplicate: Rule(u.duplicates, u.may_duplicate, u.duplicate, Fault.DUPLICATE),
    (LoseRequest, Call.RUN): Rule(
        _runs(LoseRequest, Call.RUN), u.may_lose_run_request, u.lose_run_request, Fault.LOST_REQUEST
    ),
    (LoseReply, Call.RUN): Rule(_runs(LoseReply, Call.RUN), u.may_lose_run_reply, u.lose_run_reply, Fault.LOST_REPLY),
    (LoseReply, Call.RECEIPT): Rule(
        _runs(LoseReply, Call.RECEIPT), u.may_lose_receipt, u.lose_receipt, Fault.LOST_RECEIPT
    ),
    (LoseRequest, Call.ACKNOWLEDGE): Rule(
        _once(LoseRequest(Call.ACKNOWLEDGE)), d.may_flush, d.lose_flush_request, Fault.LOST_ACKNOWLEDGE
    ),
    (LoseReply, Call.ACKNOWLEDGE): Rule(
        _once(LoseReply(Call.ACKNOWLEDGE)), d.may_flush, d.lose_flush_reply, Fault.LOST_ACKNOWLEDGE
    ),
    (LoseRequest, Call.RETIRE): Rule(_retires(LoseRequest), d.may_retire, d.lose_retire_request, Fault.LOST_RETIRE),
    (LoseReply, Call.RETIRE): Rule(_retires(LoseReply), d.may_retire, d.lose_retire_reply, Fault.LOST_RETIRE),
    (LoseRequest, Call.PREPARE): Rule(
        _once(LoseRequest(Call.PREPARE)), c.may_prepare, c.lose_prepare_request, Fault.LOST_PREPARE
    ),
    (LoseReply, Call.PREPARE): Rule(
        _once(LoseReply(Call.PREPARE)), c.may_lose_prepare_reply, c.lose_prepare_reply, Fault.LOST_PREPARE
    ),
    (LoseRequest, Call.COMMIT): Rule(
        _once(LoseRequest(Call.COMMIT)), c.may_commit, c.lose_commit_request, Fault.LOST_COMMIT
    ),
    (LoseReply, Call.COMMIT): Rule(_once(LoseReply(Call.COMMIT)), c.may_commit, c.lose_commit_reply, Fault.LOST_COMMIT),
    (LoseRequest, Call.RESUME): Rule(
        _once(LoseRequest(Call.RESUME)), c.may_resume, c.lose_resume_request, Fault.LOST_RESUME
    ),
    (LoseReply, Call.RESUME): Rule(_once(LoseReply(Call.RESUME)), c.may_resume, c.lose_resume_reply, Fault.LOST_RESUME),
    DrainDies: Rule(_once(DrainDies()), d.may_drain_die, d.drain_dies, Fault.DRAIN_DEATH),
    CommitFails: Rule(_once(CommitFails()), c.may_commit, c.commit_fails, Fault.COMMIT_FAILURE),
    RestartTrainer: Rule(_once(RestartTrainer()), r.may_restart, r.restart_trainer, Fault.TRAINER_RESTART),
    RestartGym: Rule(_once(RestartGym()), r.may_restart, r.restart_gym, Fault.GYM_RESTART),
    RestartBoth: Rule(_once(RestartBoth()), r.may_restart, r.restart_both, Fault.RESTART),
}
assert {k[0] if isinstance(k, tuple) else k for k in RULES} == set(EVENTS)


RuleKey = type[Event] | tuple[type[Event], Call]


def _of_a_group(rule: RuleKey) -> bool:
    if isinstance(rule, tuple):
        return rule[1] in OF_ATTEMPT
    return not {"attempt", "group"}.isdisjoint(field.name for field in fields(rule))


OF_A_GROUP: Final = frozenset(filter(_of_a_group, RULES))
OF_NOBODY: Final = frozenset(RULES) - OF_A_GROUP


def owner_of(rule: RuleKey) -> Owner:
    return (rule[0] if isinstance(rule, tuple) else rule).owner


@cache
def _keys(owners: frozenset[Owner], kinds: frozenset[RuleKey] | None) -> tuple[RuleKey, ...]:
    return tuple(key for key in RULES if owner_of(key) in owners and (kinds is None or key in kinds))


def enabled(
    system: System, owners: frozenset[Owner] = frozenset(Owner), kinds: frozenset[RuleKey] | None = None
) -> tuple[Event, ...]:
    """Return every event that may happen in `system`, those of the system itself first, always in the same order.

    `owners` limits the answer to the events of these owners, `kinds` to these rules (`OF_NOBODY`, `OF_A_GROUP`).
    """
    return tuple(
        event
        for rule in map(RULES.__getitem__, _keys(owners, kinds))
        if rule.fault is None or system.budget[rule.fault.position]
        for event in rule.candidates(system)
        if rule.guard(system, event) is None
    )


def rule_of(event: Event) -> Rule | None:
    """Return the rule of an event's kind, or None for a loss that has none (a retire lost as a run)."""
    key: Any = type(event)
    if isinstance(event, LoseRequest | LoseReply):
        key = (type(event), event.call)
    return RULES.get(key)


def broken(system: System, event: Event) -> str | None:
    """Return the rule that `event` would break in `system`, or None when it may happen."""
    rule = rule_of(event)
    if rule is None:
        return "losing the request of a GET is losing its reply, and no other call is known"
    if rule.fault is not None and not system.left(rule.fault):
        return f"the scope's budget of {rule.fault.value} is used up"
    if isinstance(event, LoseRequest | LoseReply) and (event.attempt is None) is (event.call in OF_ATTEMPT):
        return f"a {event.call.value} is about {'one attempt' if event.call in OF_ATTEMPT else 'no one attempt'}"
    return rule.guard(system, event)


def step(system: System, event: Event) -> System:
    """Return the system after `event`. Raises IllegalEvent when it cannot happen in `system`."""
    why = broken(system, event)
    if why is not None:
        raise IllegalEvent(event, system, why)
    rule = rule_of(event)
    assert rule is not None
    return rule.apply(system, event)
