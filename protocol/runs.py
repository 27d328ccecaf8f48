"""The rules of runs: admitting groups, what agents do, how requests and answers travel.

For each event there are three functions: which ones might happen (`candidates`), what forbids one (`guard`: the rule it
breaks, or None), and what it does (`apply`). `system.RULES` is the table of them.
"""

from collections.abc import Iterable

from protocol import gym as g
from protocol import trainer as t
from protocol.events import (
    Admit,
    Arrive,
    Boundary,
    Deliver,
    Disconnect,
    Duplicate,
    Event,
    Fail,
    Finalize,
    Finish,
    LoseReply,
    LoseRequest,
    NullResult,
    Refuse,
)
from protocol.gym import State
from protocol.identity import Attempt, Receipt, locate, model_receipt
from protocol.policy import Granularity, Guard, Late, LostReply
from protocol.scope import Fault
from protocol.state import System, absorb, dispatch, send
from protocol.trainer import GIVEN_UP, GroupStatus, Seen
from protocol.wire import REPLIES, Kind

LIVE = frozenset({State.RUNNING, State.PARK_REQUESTED})


# Admission and the end of a group


def admits(system: System) -> Iterable[Event]:
    waiting = [i for i, group in enumerate(system.trainer.groups) if group is None]
    return [Admit(waiting[0])] if waiting else []


def may_admit(system: System, event: Admit) -> str | None:
    if system.policy.guard is Guard.REFUSE_PROMPT_GROUP and system.policy.granularity is Granularity.PROMPT_GROUP:
        return "the guard refuses prompt_group while Gym retains results"
    if not 0 <= event.group < len(system.trainer.groups):
        return f"the scope has {len(system.trainer.groups)} groups"
    if system.trainer.groups[event.group] is not None:
        return "the group was admitted before"
    if None in system.trainer.groups[: event.group]:
        return "groups are admitted in order"
    if system.snapshot.frozen:
        return "local admission is closed during a snapshot"
    return None


def admit(system: System, event: Admit) -> System:
    return dispatch(system.replace(trainer=t.admit(system.trainer, event.group, system.scope.siblings)))


def finalizes(system: System) -> Iterable[Event]:
    return [
        Finalize(i)
        for i, group in enumerate(system.trainer.groups)
        if group is not None and group.status is GroupStatus.READY_TO_FINALIZE
    ]


def may_finalize(system: System, event: Finalize) -> str | None:
    known = 0 <= event.group < len(system.trainer.groups)
    group = system.trainer.groups[event.group] if known else None
    ready = group is not None and group.status is GroupStatus.READY_TO_FINALIZE
    return None if ready else "a group is finalized once, when all its siblings are sealed"


def finalize(system: System, event: Finalize) -> System:
    return system.replace(trainer=t.finalize(system.trainer, event.group))


# What agents do


def live(system: System, kind: type[Finish] | type[Fail] | type[Boundary]) -> Iterable[Event]:
    return [kind(attempt) for attempt, execution in system.gym.executions if execution.state in LIVE]


def may_end(system: System, event: Finish) -> str | None:
    execution = system.gym.find(event.attempt)
    return None if execution is not None and execution.state in LIVE else "only a run that is not parked can do this"


def finish(system: System, event: Finish) -> System:
    return absorb(system, g.finish(system.gym, event.attempt, model_receipt(event.attempt)))


def may_reach_boundary(system: System, event: Boundary) -> str | None:
    execution = system.gym.find(event.attempt)
    asked = execution is not None and execution.state is State.PARK_REQUESTED
    return None if asked else "only a run that was asked to park parks at its boundary"


def boundary(system: System, event: Boundary) -> System:
    return absorb(system, g.commit_boundary(system.gym, event.attempt))


def fail(system: System, event: Fail) -> System:
    return absorb(system, g.fail(system.gym, event.attempt)).spend(Fault.FAILURE)


def null_result(system: System, event: NullResult) -> System:
    return absorb(system, g.finish(system.gym, event.attempt, None)).spend(Fault.NULL_RESULT)


def may_be_refused(system: System, event: Refuse) -> str | None:
    if system.gym.open:
        return "calls downstream are refused only during a checkpoint"
    return may_end(system, Finish(event.attempt))


def refuse(system: System, event: Refuse) -> System:
    return absorb(system, g.park(system.gym, event.attempt)).spend(Fault.REFUSAL)


def connected(system: System) -> Iterable[Event]:
    return [Disconnect(attempt) for attempt, _ in system.gym.executions]


def may_disconnect(system: System, event: Disconnect) -> str | None:
    execution = system.gym.find(event.attempt)
    attached = execution is not None and execution.state is not State.COMPLETED and execution.client
    return None if attached else "only a live run has a client to lose"


def disconnect(system: System, event: Disconnect) -> System:
    system = absorb(system, g.lose_client(system.gym, event.attempt))
    return system.replace(wire=system.wire.put(event.attempt, Kind.LOST)).spend(Fault.DISCONNECT)


# How a request arrives and an answer is delivered


def arrivals(system: System) -> Iterable[Event]:
    return [Arrive(m.attempt) for m in system.wire.messages if m.kind is Kind.REQUEST]


def may_arrive(system: System, event: Arrive) -> str | None:
    message = system.wire.find(event.attempt)
    return None if message is not None and message.kind is Kind.REQUEST else "no such request is on the wire"


def arrive(system: System, event: Arrive) -> System:
    return absorb(system.replace(wire=system.wire.take(event.attempt)), g.begin(system.gym, event.attempt))


def deliveries(system: System) -> Iterable[Event]:
    return [Deliver(m.attempt) for m in system.wire.messages if m.kind in REPLIES]


def may_deliver(system: System, event: Deliver | Duplicate) -> str | None:
    message = system.wire.find(event.attempt)
    return None if message is not None and message.kind in REPLIES else "no answer to that /run is on the wire"


def deliver(system: System, event: Deliver) -> System:
    """Hand the answer to the trainer; reserve and send what its ledger then asks for."""
    message = system.wire.find(event.attempt)
    assert message is not None
    system = system.replace(wire=system.wire.take(event.attempt))
    return dispatch(_answered(system, event.attempt, message.kind))


def _answered(system: System, attempt: Attempt, kind: Kind) -> System:
    trainer, policy, bound = system.trainer, system.policy, system.scope.attempts
    if kind in (Kind.RESULT, Kind.NULL):
        if not _fetches(system, attempt):
            return system.replace(trainer=t.result_arrives(trainer, policy, attempt, model_receipt(attempt)))
        receipt = _fetched(system, attempt)
        if receipt is not None:
            return system.replace(trainer=t.result_arrives(trainer, policy, attempt, receipt))
        return system.replace(trainer=t.attempt_fails(trainer, policy, bound, attempt, Seen.UNFETCHED))
    if kind is Kind.LOST and policy.lost_reply is LostReply.SAME_ATTEMPT and trainer.is_current(attempt):
        return send(system, attempt)
    if kind is Kind.LOST and policy.lost_reply is LostReply.FETCH_RECEIPT and _fetches(system, attempt):
        receipt = _fetched(system, attempt)
        if receipt is not None:
            trainer = t.owe(trainer, receipt)
    seen = Seen.FAILURE if kind is Kind.FAILURE else Seen.LOST
    return system.replace(trainer=t.attempt_fails(trainer, policy, bound, attempt, seen))


def _fetches(system: System, attempt: Attempt) -> bool:
    """Whether the trainer asks for the receipt: of a result it wants, or of one it will acknowledge though late."""
    entry = system.trainer.entry(attempt)
    if entry is None:
        return False
    if system.trainer.is_current(attempt):
        return entry.seen is not Seen.RESULT
    return entry.status in GIVEN_UP and system.policy.late is Late.ACKNOWLEDGE


def _fetched(system: System, attempt: Attempt) -> Receipt | None:
    reply = g.completion_receipt(system.gym, attempt).reply
    return None if reply is None else reply.receipt


def duplicates(system: System) -> Iterable[Event]:
    return [Duplicate(m.attempt) for m in system.wire.messages if m.kind in REPLIES]


def may_duplicate(system: System, event: Duplicate) -> str | None:
    message = system.wire.find(event.attempt)
    if message is None or message.kind in (Kind.REQUEST, Kind.LOST):
        return "no answer to that /run is on the wire"
    return "the network already holds a second copy" if message.copies > 1 else None


def duplicate(system: System, event: Duplicate) -> System:
    message = system.wire.find(event.attempt)
    assert message is not None
    return system.replace(wire=system.wire.put(event.attempt, message.kind, 2)).spend(Fault.DUPLICATE)


def may_lose_run_request(system: System, event: LoseRequest) -> str | None:
    assert event.attempt is not None
    return may_arrive(system, Arrive(event.attempt))


def lose_run_request(system: System, event: LoseRequest) -> System:
    assert event.attempt is not None
    return system.replace(wire=system.wire.put(event.attempt, Kind.LOST)).spend(Fault.LOST_REQUEST)


def may_lose_run_reply(system: System, event: LoseReply) -> str | None:
    assert event.attempt is not None
    message = system.wire.find(event.attempt)
    if message is None or message.kind in (Kind.REQUEST, Kind.LOST):
        return "no answer to that /run is on the wire"
    return None


def lose_run_reply(system: System, event: LoseReply) -> System:
    assert event.attempt is not None
    return system.replace(wire=system.wire.put(event.attempt, Kind.LOST)).spend(Fault.LOST_REPLY)


def may_lose_receipt(system: System, event: LoseReply) -> str | None:
    assert event.attempt is not None
    message = system.wire.find(event.attempt)
    kinds = [Kind.RESULT, Kind.NULL]
    if system.policy.lost_reply is LostReply.FETCH_RECEIPT:
        kinds.append(Kind.LOST)
    if message is None or message.kind not in kinds or not _fetches(system, event.attempt):
        return "the trainer is not about to fetch that receipt"
    return None


def lose_receipt(system: System, event: LoseReply) -> System:
    """The GET fails. A policy that asks again still has the answer in hand; otherwise the attempt has failed."""
    assert event.attempt is not None
    system = system.spend(Fault.LOST_RECEIPT)
    if system.policy.lost_reply is not LostReply.NEXT_ATTEMPT:
        return system
    trainer, policy, bound = system.trainer, system.policy, system.scope.attempts
    trainer = t.attempt_fails(trainer, policy, bound, event.attempt, Seen.UNFETCHED)
    return dispatch(system.replace(wire=system.wire.take(event.attempt), trainer=trainer))


def group_of(event: Event) -> int | None:
    """Return the group that an event is about, or None for an event about the whole system."""
    attempt = getattr(event, "attempt", None)
    if attempt is not None:
        return locate(attempt.rollout)[0]
    return event.group if isinstance(event, Admit | Finalize) else None
