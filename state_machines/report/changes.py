"""What one event changed, in words: a sentence for people and, where a lane has room for one, a short word.

Everything is read off the two states, so what is said happened is what did happen, under every policy.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from attrs import frozen

from protocol import gym as g
from protocol.events import Event
from protocol.gym import State
from protocol.identity import Attempt, rollout_id
from protocol.snapshot import Step
from protocol.state import System
from protocol.trainer import AttemptStatus, Entry, Group, GroupStatus, Seen
from protocol.wire import Kind, Message

RL: Final = "RL"
GYM: Final = "Gym"
WIRE: Final = "wire"


@frozen
class Change:
    """One effect. `side` is RL, Gym or wire; `attempts` are those it is about; `word` is for a lane, or empty."""

    side: str
    sentence: str
    attempts: tuple[Attempt, ...] = ()
    word: str = ""


@lru_cache(maxsize=8192)
def changes(before: System, event: Event, after: System) -> tuple[Change, ...]:
    """Return what the step `before -event-> after` did, the trainer's side first."""
    return (*_trainer(before, after), *_snapshot(before, after), *_gym(before, after), *_wire(before, after))


def names(attempts: Iterable[Attempt]) -> str:
    """Return attempts as people list them."""
    words = [str(attempt) for attempt in attempts]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def status_line(system: System) -> str:
    """Return Gym's readiness in one line: the counts of gym.md's `ready_to_commit`."""
    report = g.status(system.gym)
    counts = (
        f"running={report.running}, parked_without_boundary={report.parked_without_boundary}, "
        f"completed_unacknowledged={report.completed_unacknowledged}"
    )
    return f"Gym is {'ready' if report.ready_to_commit else 'not ready'}: {counts}"


# The trainer


def _trainer(before: System, after: System) -> Iterable[Change]:
    for i, (old, new) in enumerate(zip(before.trainer.groups, after.trainer.groups, strict=True)):
        if old != new:
            yield from _group(i, old, new)
    old_box, new_box = set(before.trainer.outbox), set(after.trainer.outbox)
    owed = tuple(sorted(r.attempt for r in new_box - old_box))
    paid = tuple(sorted(r.attempt for r in old_box - new_box))
    if owed:
        yield Change(RL, f"owes the ACK of {names(owed)}", owed, "owe")
    if paid:
        yield Change(RL, f"no longer owes the ACK of {names(paid)}", paid)
    if before.trainer.draining and not after.trainer.draining:
        yield Change(RL, "the drain dies: nothing sends the outbox before there is new debt", (), "drain dies")
    if after.trainer.draining and not before.trainer.draining:
        yield Change(RL, "the drain runs again")
    later = tuple(a for a in after.trainer.retiring if a not in before.trainer.retiring)
    if later:
        yield Change(RL, f"will retire {names(later)}", later)


def _group(number: int, old: Group | None, new: Group | None) -> Iterable[Change]:
    if new is None:
        yield Change(RL, f"falls back to before group p{number}: its ledger does not know it", (), "forget")
        return
    if old is None:
        yield Change(RL, f"admits group p{number} with {len(new.siblings)} siblings", (), f"admit p{number}")
    by_what: dict[str, list[Attempt]] = {}
    for s, entries in enumerate(new.siblings):
        known = () if old is None else old.siblings[s]
        for i, entry in enumerate(entries):
            was = known[i] if i < len(known) else None
            if entry != was:
                what = _entry(was, entry, i)
                if what:
                    by_what.setdefault(what, []).append(Attempt(rollout_id(number, s), i))
        for i in range(len(entries), len(known)):
            by_what.setdefault("forget", []).append(Attempt(rollout_id(number, s), i))
    for what, attempts in sorted(by_what.items(), key=lambda item: list(ENTRY_SENTENCES).index(item[0])):
        word = what if what in LANE_WORDS else ""
        yield Change(RL, ENTRY_SENTENCES[what].format(names(attempts)), tuple(attempts), word)
    status = None if old is None else old.status
    if new.status is not status and new.status in GROUP_SENTENCES:
        sentence, word = GROUP_SENTENCES[new.status]
        yield Change(RL, sentence.format(f"p{number}"), (), word)


ENTRY_SENTENCES: Final = {
    "seal": "seals {}",
    "hold": "holds the result of {} in memory until the group is complete",
    "failed": "gives up {}: no result came",
    "abandon": "abandons {}",
    "clear": "abandons {} and clears the result it held",
    "ignore": "ignores the late result of {}",
    "raise": "raises an error about the late result of {}",
    "late": "sees the late result of {}",
    "seen": "notes the end of {}, which was given up before",
    "send": "sends /run of {}",
    "wait": "will send {} when the registry is no longer frozen",
    "forget": "forgets {}",
    "again": "falls back to an older entry of {}",
}
LANE_WORDS: Final = frozenset({"seal", "hold", "ignore", "raise", "forget"})
GROUP_SENTENCES: Final = {
    GroupStatus.READY_TO_FINALIZE: ("has every result of group {}", "complete"),
    GroupStatus.FINALIZED: ("hands group {} to training", "train"),
    GroupStatus.DROPPED: ("drops group {}: its attempts are used up", "drop"),
}


def _entry(was: Entry | None, entry: Entry, index: int) -> str:
    status, seen = entry.status, entry.seen
    if was is None or was.status is AttemptStatus.RESERVED:
        if status is AttemptStatus.DISPATCHED:
            return "send"
        if status is AttemptStatus.RESERVED:
            return "wait"
    if was is not None and was.status is status:
        late = {Seen.LATE: "late", Seen.RAISED: "raise"}
        return "hold" if status is AttemptStatus.DISPATCHED else late.get(seen, "seen")
    if status is AttemptStatus.SEALED:
        return "seal"
    if status is AttemptStatus.FAILED:
        return "failed"
    if status is AttemptStatus.ABANDONED:
        return "clear" if was is not None and was.seen is Seen.RESULT else "abandon"
    return "again"


# The snapshot, as the trainer counts it

STEP_SENTENCES: Final = {
    Step.FLUSH: "begins snapshot {}: the outbox is flushed first",
    Step.PREPARE: "may ask Gym to prepare {}",
    Step.PREPARING: "waits for the answer to prepare {}",
    Step.COMMIT: "may commit {}: Gym is prepared",
    Step.CAPTURE: "captures its own side of {}",
    Step.RESUME: "has published {}; Gym is to be resumed",
    Step.ABORT: "gives snapshot {} up; Gym is to be resumed",
}


def _snapshot(before: System, after: System) -> Iterable[Change]:
    old, new = before.snapshot, after.snapshot
    if new.number > old.number:
        yield Change(RL, f"begins snapshot {new.checkpoint_id}: no /run is sent and no group admitted until it ends")
    elif new.step is not old.step:
        if new.step is Step.IDLE:
            failed = "failed" if new.failures > old.failures else "is over"
            yield Change(RL, f"snapshot {new.checkpoint_id} {failed}; the trainer admits and sends again")
        else:
            yield Change(RL, STEP_SENTENCES[new.step].format(new.checkpoint_id))
    if new.stuck and not old.stuck:
        yield Change(RL, f"has no answer to the resume of {new.checkpoint_id}")
    if new.ended and not old.ended:
        yield Change(RL, f"{new.failures} failed snapshots in a row have ended the run")


# Gym


def _gym(before: System, after: System) -> Iterable[Change]:
    old, new = dict(before.gym.executions), dict(after.gym.executions)
    by_what: dict[str, list[Attempt]] = {}
    for attempt in sorted({*old, *new}):
        was, now = old.get(attempt), new.get(attempt)
        if was is None or now is None or was.state is not now.state:
            what = _execution(before, after, attempt, was.state if was else None, now.state if now else None)
            by_what.setdefault(what, []).append(attempt)
        elif was.client and not now.client:
            by_what.setdefault("loses the client of {}, which stays parked", []).append(attempt)
    for what, attempts in by_what.items():
        yield Change(GYM, what.format(names(attempts)), tuple(attempts))
    if before.gym.open and not after.gym.open:
        yield Change(GYM, "closes admission", (), "closes")
    if after.gym.open and not before.gym.open:
        yield Change(GYM, "opens admission", (), "opens")
    if after.snapshot.answer is not None and before.snapshot.answer is None:
        ok = after.snapshot.answer == "ok"
        what = "is ready: the prepare is answered 200" if ok else f"answers the prepare 409 {after.snapshot.answer}"
        yield Change(GYM, what, (), "ready" if ok else "not ready")
    if after.gym.manifest != before.gym.manifest:
        yield Change(GYM, f"writes the manifest of {after.gym.manifest}", (), "writes")
    buried = [a for a in after.gym.tombstones if a not in before.gym.tombstones and a not in old]
    if buried:
        yield Change(GYM, f"will refuse {names(buried)} from now on", tuple(buried))


def _execution(before: System, after: System, attempt: Attempt, was: State | None, now: State | None) -> str:
    if now is None:
        if any(r.attempt == attempt for r in after.gym.acknowledged):
            return "releases the result of {}: it is acknowledged"
        return "removes {}" if attempt in after.gym.tombstones else "forgets {}: its memory is lost"
    if was is None:
        return "begins to run {}"
    if now is State.COMPLETED:
        null = dict(after.gym.executions)[attempt].receipt is None
        return "keeps the null result of {}, for which there is no receipt" if null else "keeps the result of {}"
    if now is State.PARKED:
        bare = dict(after.gym.executions)[attempt].boundary is None
        return "parks {} without a boundary" if bare else "parks {} at a boundary"
    return "asks {} to park" if now is State.PARK_REQUESTED else "lets {} run on"


# The wire

MESSAGE_SENTENCES: Final = {
    Kind.REQUEST: "carries the /run of {} to Gym",
    Kind.RESULT: "carries the 200 of {} to RL",
    Kind.NULL: "carries the 200 with a null result of {} to RL",
    Kind.FAILURE: "carries the 500 of {} to RL",
    Kind.REFUSED: "carries the 409 of {} to RL",
    Kind.LOST: "loses the /run of {}: RL will see a transport error",
}


def _wire(before: System, after: System) -> Iterable[Change]:
    old: set[Message] = set(before.wire.messages)
    for message in after.wire.messages:
        if message in old:
            continue
        if message.copies > 1:
            yield Change(WIRE, f"keeps a second copy of the answer of {message.attempt}", (message.attempt,))
        elif not any(m.attempt == message.attempt and m.kind is message.kind for m in old):
            yield Change(WIRE, MESSAGE_SENTENCES[message.kind].format(message.attempt), (message.attempt,))
