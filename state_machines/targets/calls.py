"""Which calls an event makes on Gym: recorded from the model while it takes the step, not written down a second time.

The rules of `protocol` change Gym through the functions of `protocol.gym` and through nothing else. `calls_of` takes
the step with a recorder in the place of these functions; a target then performs the same calls for real. Two things
cannot be recorded, because the model's Gym never sees them: a request that is lost on its way (the call its event would
have made, cut) and the GET of a receipt whose answer is lost.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

from attrs import evolve, frozen

from protocol import gym as g
from protocol.events import (
    Arrive,
    Commit,
    CommitFails,
    Deliver,
    Event,
    Flush,
    LoseReply,
    LoseRequest,
    Prepare,
    Resume,
    RetireRun,
)
from protocol.identity import Attempt, Receipt
from protocol.state import System
from protocol.system import step
from protocol.wire import Call

RECORDED: Final = (
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
    "restart",
    "restore",
    "resume",
    "retire",
)
AGENT: Final = frozenset({"commit_boundary", "fail", "finish", "park", "lose_client", "lose_prepare", "restart"})


class Loss(Enum):
    """What the network does to a call."""

    REQUEST = "not sent"  # cut before it leaves
    REPLY = "lost"  # Gym acts, the answer is thrown away


@frozen
class GymCall:
    """One call on Gym: its operation (a function of `protocol.gym`), its arguments, and what the model's Gym answered.

    `probe` marks a call that the trainer never makes and that a correct Gym refuses without changing anything.
    """

    operation: str
    arguments: tuple[Any, ...]
    outcome: g.Outcome
    loss: Loss | None = None
    probe: bool = False

    @property
    def subject(self) -> str:
        """What the call is about, for people: `begin p0_g1/0`."""
        about = next((str(a) for a in self.arguments if isinstance(a, Attempt)), "")
        return " ".join(filter(None, (self.operation, about, "(one digest spoiled)" if self.probe else "")))

    @property
    def answer(self) -> str:
        """The model's answer in the words that a target uses: `200`, `409 stale_attempt`, `open`, `lost`, `done`."""
        if self.loss is not None:
            return self.loss.value
        if self.operation in AGENT:
            return "done"
        if self.operation == "begin":
            return "open" if not self.outcome.answers else _run_word(self.outcome.answers[0])
        reply = self.outcome.prepared if self.operation == "expire" else self.outcome.reply
        return "open" if reply is None else reply_word(reply.status, reply.code, reply.json())


def reply_word(status: int, code: str | None, body: dict[str, Any]) -> str:
    """Return an answer of a control route in one line. Of a body, what decides the trainer's next step counts."""
    words = [str(status), code or ""]
    if status == 200:
        words += [f"{key}={body[key]}" for key in ("retired", "released", "records") if key in body]
        words += ["completed_unacknowledged"] if body.get("completed_unacknowledged") is True else []
    return " ".join(filter(None, words))


def _run_word(answer: g.RunAnswer) -> str:
    return " ".join(filter(None, (str(answer.status), answer.code if answer.status == 409 else None)))


def calls_of(before: System, event: Event) -> tuple[GymCall, ...]:
    """Return the calls on Gym that the step from `before` by `event` makes, in their order, with the model's answers.

    Each acknowledgement is preceded by a probe: the same batch with the last digest spoiled, which Gym must refuse.
    Raises `protocol.system.IllegalEvent` as `step` does.
    """
    calls = _recorded(before, event)
    if isinstance(event, LoseRequest):
        return tuple(evolve(call, loss=Loss.REQUEST) for call in _would_be(before, event))
    if isinstance(event, CommitFails):
        refused = g.Outcome(before.gym, g.Reply(409, g.CHECKPOINT_ERROR))
        return (GymCall("commit_fails", (before.snapshot.checkpoint_id,), refused),)
    if isinstance(event, LoseReply) and event.call is Call.RECEIPT:
        lost = [c for c in _would_be(before, event) if c.operation == "completion_receipt"]
        calls = [*(evolve(call, loss=Loss.REPLY) for call in lost), *calls]
    elif isinstance(event, LoseReply) and event.call not in (Call.RUN, Call.PREPARE):
        calls = [evolve(call, loss=Loss.REPLY) for call in calls]
    return tuple(probed for call in calls for probed in _with_probe(before, call))


def _would_be(before: System, event: LoseRequest | LoseReply) -> list[GymCall]:
    attempt = event.attempt
    whole: dict[Call, Event] = {
        Call.ACKNOWLEDGE: Flush(),
        Call.PREPARE: Prepare(),
        Call.COMMIT: Commit(),
        Call.RESUME: Resume(),
    }
    if attempt is not None:
        whole |= {Call.RUN: Arrive(attempt), Call.RECEIPT: Deliver(attempt), Call.RETIRE: RetireRun(attempt)}
    return _recorded(before, whole[event.call])


def _with_probe(before: System, call: GymCall) -> Iterator[GymCall]:
    if call.operation == "acknowledge" and call.loss is None:
        receipts: tuple[Receipt, ...] = call.arguments[0]
        spoiled = (*receipts[:-1], spoil(receipts[-1]))
        yield GymCall("acknowledge", (spoiled,), g.acknowledge(before.gym, spoiled), probe=True)
    yield call


def spoil(receipt: Receipt) -> Receipt:
    """Return the receipt with another digest: still well-formed, and not the one that Gym issued."""
    return evolve(receipt, result_digest=receipt.result_digest[::-1])


_LOCK = threading.RLock()


def _recorded(before: System, event: Event) -> list[GymCall]:
    with recording() as calls:
        step(before, event)
    return calls


@contextmanager
def recording() -> Iterator[list[GymCall]]:
    """Collect the calls that this thread makes on `protocol.gym` inside the block."""
    calls: list[GymCall] = []
    thread = threading.get_ident()

    def recorder(name: str, real: Callable[..., g.Outcome]) -> Callable[..., g.Outcome]:
        def call(gym: g.Gym, *arguments: Any, **options: Any) -> g.Outcome:
            outcome = real(gym, *arguments, **options)
            if threading.get_ident() == thread:
                calls.append(GymCall(name, arguments, outcome))
            return outcome

        return call

    with _LOCK:
        originals = {name: getattr(g, name) for name in RECORDED}
        try:
            for name, real in originals.items():
                setattr(g, name, recorder(name, real))
            yield calls
        finally:
            for name, real in originals.items():
                setattr(g, name, real)
