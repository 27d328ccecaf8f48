"""Everything that can happen, who makes it happen, and how it is written down.

An event is `SYSTEM` when a correct pair does it by itself, `ENVIRONMENT` when it is asked for from outside, and `FAULT`
when something goes wrong. The deadline of a prepare is SYSTEM: time passes by itself, so a snapshot that waits for it
is *blocked*, not stranded. In JSON an event is `{"event": "finish", "attempt": "p0_g1/0"}`.
"""

from enum import Enum
from typing import Any, ClassVar, Final

from attrs import fields, frozen

from protocol.identity import Attempt, locate
from protocol.wire import Call


class Owner(Enum):
    """Who makes an event happen (design.md, "Words")."""

    SYSTEM = "system"
    ENVIRONMENT = "environment"
    FAULT = "fault"


class EventError(ValueError):
    """An event that cannot be read."""


@frozen(cache_hash=True)
class Event:
    """One thing that happens."""

    name: ClassVar[str]
    owner: ClassVar[Owner] = Owner.SYSTEM

    def to_json(self) -> dict[str, Any]:
        """Return the event as its JSON object."""
        out: dict[str, Any] = {"event": self.name}
        for field in fields(type(self)):
            value = getattr(self, field.name)
            if value is not None:
                out[field.name] = (
                    value.value if isinstance(value, Enum) else value if isinstance(value, int) else str(value)
                )
        return out

    def __str__(self) -> str:
        return " ".join(str(value) for value in self.to_json().values())


@frozen(cache_hash=True)
class OfAttempt(Event):
    """An event about one attempt."""

    attempt: Attempt


@frozen(cache_hash=True)
class Admit(Event):
    """The trainer admits a prompt group: every sibling is reserved and its `/run` is sent."""

    name = "admit"
    owner = Owner.ENVIRONMENT
    group: int


@frozen(cache_hash=True)
class Snapshot(Event):
    """The trainer begins a snapshot: local admission closes, the registry freezes (trainer.md, steps 1 and 2)."""

    name = "snapshot"
    owner = Owner.ENVIRONMENT


class Arrive(OfAttempt):
    """A `/run` request reaches Gym. Only in scopes whose requests spend time on the wire."""

    name = "arrive"


class Finish(OfAttempt):
    """The agent finishes the run: the result is retained, the answer is on its way."""

    name = "finish"


class Boundary(OfAttempt):
    """A run that was asked to park reaches the end of a turn: it parks with a boundary."""

    name = "boundary"


class Deliver(OfAttempt):
    """The answer to a `/run` reaches the trainer, which fetches the receipt of a result and acts on it."""

    name = "deliver"


class RetireRun(OfAttempt):
    """The trainer retires an attempt that it gave up."""

    name = "retire"


class Flush(Event):
    """The whole outbox is acknowledged in one call, and cleared when Gym confirms."""

    name = "flush"


class ReconcileLedger(Event):
    """Un-ACKed results of attempts that the trainer gave up become debts, with the receipts of Gym's `status()`."""

    name = "reconcile"


class Prepare(Event):
    """The trainer asks Gym to prepare. Sent again after each 409, until the deadline."""

    name = "prepare"


class Answer(Event):
    """Gym's answer to the prepare reaches the trainer."""

    name = "answer"


class Deadline(Event):
    """The deadline of the prepare passes: the snapshot is given up."""

    name = "deadline"


class Commit(Event):
    """The trainer asks Gym to commit."""

    name = "commit"


class Publish(Event):
    """The trainer captures its own state and publishes the manifest; from here the snapshot is durable."""

    name = "publish"


class Resume(Event):
    """The trainer resumes Gym, after a snapshot or to abort one, and reopens its own admission."""

    name = "resume"


@frozen(cache_hash=True)
class Finalize(Event):
    """A group whose siblings are all sealed is handed to training and leaves the ledger."""

    name = "finalize"
    group: int


class Fail(OfAttempt):
    """The run fails: Gym tombstones it and answers 500."""

    name = "fail"
    owner = Owner.FAULT


class NullResult(OfAttempt):
    """The run completes with a null result, for which there is no receipt."""

    name = "null_result"
    owner = Owner.FAULT


class Refuse(OfAttempt):
    """During a prepare a call downstream is refused: the run parks without a boundary."""

    name = "refuse"
    owner = Owner.FAULT


class Disconnect(OfAttempt):
    """The client of a live `/run` goes away."""

    name = "disconnect"
    owner = Owner.FAULT


class Duplicate(OfAttempt):
    """The network keeps a second copy of an answer to a `/run`."""

    name = "duplicate"
    owner = Owner.FAULT


@frozen(cache_hash=True)
class LoseRequest(Event):
    """A request is lost before Gym sees it: the trainer sees a transport error."""

    name = "lose_request"
    owner = Owner.FAULT
    call: Call
    attempt: Attempt | None = None


@frozen(cache_hash=True)
class LoseReply(Event):
    """A reply is lost after Gym has acted: the trainer sees the same transport error."""

    name = "lose_reply"
    owner = Owner.FAULT
    call: Call
    attempt: Attempt | None = None


class DrainDies(Event):
    """The trainer's drain task dies: nothing flushes the outbox before there is new debt, or the snapshot ends."""

    name = "drain_dies"
    owner = Owner.FAULT


class CommitFails(Event):
    """Gym answers a commit with an error; its phase stays `prepared`."""

    name = "commit_fails"
    owner = Owner.FAULT


class RestartTrainer(Event):
    """The trainer's process restarts and falls back to the last published snapshot. Gym goes on."""

    name = "restart_trainer"
    owner = Owner.FAULT


class RestartGym(Event):
    """Gym's process restarts and gets the boundaries of the last published snapshot back. The trainer goes on."""

    name = "restart_gym"
    owner = Owner.FAULT


class RestartBoth(Event):
    """Both processes restart from the last published snapshot."""

    name = "restart_both"
    owner = Owner.FAULT


# In the order in which a pair for which everything goes well would do them: answers first, then calls, then work.
EVENTS: Final[tuple[type[Event], ...]] = (
    Arrive,
    Deliver,
    Finalize,
    RetireRun,
    ReconcileLedger,
    Flush,
    Answer,
    Commit,
    Publish,
    Resume,
    Prepare,
    Finish,
    Boundary,
    Deadline,
    Admit,
    Snapshot,
    Fail,
    NullResult,
    Refuse,
    Disconnect,
    Duplicate,
    LoseRequest,
    LoseReply,
    DrainDies,
    CommitFails,
    RestartTrainer,
    RestartGym,
    RestartBoth,
)
BY_NAME: Final = {event.name: event for event in EVENTS}


def from_json(data: object) -> Event:
    """Return the event that a JSON object writes. Raises EventError: unknown event, missing, extra or ill-typed key."""
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise EventError('an event is an object with the key "event"')
    kind = BY_NAME.get(data["event"])
    if kind is None:
        raise EventError(f"unknown event {data['event']!r}")
    known = {field.name: field for field in fields(kind)}
    extra = set(data) - set(known) - {"event"}
    if extra:
        raise EventError(f"unknown key {min(map(str, extra))!r} in event {kind.name!r}")
    values: dict[str, Any] = {}
    for name in known:
        if name in data:
            values[name] = _READERS[name](data[name])
        elif not (name == "attempt" and kind in (LoseRequest, LoseReply)):
            raise EventError(f"event {kind.name!r} lacks the key {name!r}")
    return kind(**values)


def read_attempt(text: object) -> Attempt:
    """Return the attempt written as `p0_g1/0`. Raises EventError."""
    if isinstance(text, str) and len(text) <= 64:
        rollout, _, index = text.rpartition("/")
        try:
            locate(rollout)
        except ValueError:
            pass
        else:
            if index.isascii() and index.isdecimal():
                return Attempt(rollout, int(index))
    raise EventError(f"{text!r:.80} is not an attempt of the form p0_g1/0")


def _read_call(text: object) -> Call:
    try:
        return Call(text)
    except ValueError:
        raise EventError(f"unknown call {text!r}") from None


def _read_group(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EventError(f"{value!r} is not a group number")
    return value


_READERS: Final = {"attempt": read_attempt, "call": _read_call, "group": _read_group}
