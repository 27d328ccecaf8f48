"""One history on a server: its ids, its open calls, the receipts that it was issued, and how each call is made.

Nothing here knows a rule of the protocol: which calls a step makes is recorded from the model (`calls`), and what they
should answer is compared elsewhere (`base`).
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from attrs import define, field, frozen

from protocol import gym as g
from protocol.events import Answer as TakeAnswer
from protocol.events import Deliver, Event, LoseReply
from protocol.identity import Attempt, Receipt, model_receipt
from protocol.policy import Policy
from protocol.snapshot import Step
from protocol.state import System
from protocol.wire import REPLIES, Call, Kind
from state_machines.targets.base import TargetError
from state_machines.targets.calls import GymCall, Loss, reply_word, spoil
from state_machines.targets.client import CHECKPOINT, Answer, GymClient
from state_machines.targets.network import Line
from state_machines.targets.status import Unreadable, read_receipt

MOMENT: Final = 0.05  # seconds
FAR: Final = 3600.0  # seconds ahead: the deadline of a prepare that only the puppet lets pass
ORDERS: Final = {"fail": "fail", "commit_boundary": "boundary", "park": "park"}
Word = str | Callable[[], str]  # an answer in words; of a call that may stay open, how to tell them later


@frozen
class Puppet:
    """What a server's agent lets itself be driven to do (docs/live.md).

    `immediate`: it answers an order when its status shows the effect, and `settle` bounds what else is waited for.
    `deadline` is that of a prepare, in seconds, where no route lets one pass.
    """

    routes: frozenset[str]
    immediate: bool
    settle: float
    deadline: float


@define(eq=False)
class History:
    """`prefix` makes ids fresh: the model's `p0_g1` is `x3f9a12-7-p0_g1` over there."""

    client: GymClient
    loop: asyncio.AbstractEventLoop
    puppet: Puppet
    policy: Policy
    prefix: str
    runs: dict[Attempt, Line] = field(factory=dict)
    prepare: Line | None = None
    receipts: dict[Attempt, Receipt] = field(factory=dict)
    shown: dict[str, Any] | None = None  # a status report that came with the answer to an order
    restarted: bool = False
    _directories: dict[tuple[tuple[Attempt, int], ...], str] = field(factory=dict)

    def id(self, text: str) -> str:
        return self.prefix + re.sub(r"[^A-Za-z0-9_.:-]", "-", text)

    def name(self, attempt: Attempt) -> dict[str, Any]:
        return {"rollout_id": self.id(attempt.rollout), "attempt_index": attempt.index}

    def own(self, attempt: Attempt) -> Attempt | None:
        """Return the model's attempt that the server calls `attempt`, or None for one of other histories."""
        if not attempt.rollout.startswith(self.prefix):
            return None
        return Attempt(attempt.rollout.removeprefix(self.prefix), attempt.index)

    # calls

    def perform(self, call: GymCall) -> Word:
        """Make a call for real and return its answer."""
        first: Any = call.arguments[0] if call.arguments else None
        self.shown = None
        match call.operation:
            case "begin":
                return self._begin(first, call.loss)
            case "finish":
                return self.order("finish", self.name(first) | ({"result": None} if call.arguments[1] is None else {}))
            case "fail" | "commit_boundary" | "park":
                return self.order(ORDERS[call.operation], self.name(first))
            case "lose_client":
                return self._hang_up(self.runs.get(first), lambda shown: self.name(first) not in shown["attached"])
            case "lose_prepare":
                return self._hang_up(self.prepare, lambda shown: not shown["preparing"])
            case "prepare":
                return self._prepare(first, call.loss)
            case "expire":
                return self._expire()
            case "restart":
                self.restarted = True
                return self.order("restart", {"keep": True, "retire": self.policy.retire.value})
            case "completion_receipt":
                return self._fetch(first, call.loss)
            case "acknowledge":
                return self._acknowledge(call)
            case "commit_fails":
                self.order("fail_commit", {"checkpoint_id": self.id(first)})
                return self.control("commit", first, checkpoint_dir=self.id(first))
            case "commit":
                self._directories[call.outcome.gym.saved] = self.id(first)
                return self.control("commit", first, call.loss, checkpoint_dir=self.id(first))
            case "restore":
                directory = self._directories.get(call.arguments[1], "none")
                return self.control("restore", first, call.loss, checkpoint_dir=directory)
            case "retire":
                return self.control("retire", first, call.loss, **self.name(call.arguments[1]))
        return self.control(call.operation, first, call.loss)

    def control(self, operation: str, checkpoint_id: str, loss: Loss | None = None, **more: Any) -> str:
        """Make a call of the control fence."""
        body = {**self._control_body(checkpoint_id, FAR), **more}
        return word_of(self.client.post(f"{CHECKPOINT}/{operation}", body, loss))

    def order(self, route: str, body: dict[str, Any]) -> str:
        """Tell the server's agent what to do."""
        answer = self.client.post(f"/puppet/{route}", body)
        if not answer.ok:
            return word_of(answer)
        shown = answer.body.get("status")
        self.shown = shown if self.puppet.immediate and isinstance(shown, dict) else None
        return "done"

    def _control_body(self, checkpoint_id: str, seconds: float) -> dict[str, Any]:
        return {"schema_version": 1, "checkpoint_id": self.id(checkpoint_id), "deadline_ts": time.time() + seconds}

    def _begin(self, attempt: Attempt, loss: Loss | None) -> Word:
        body = {"_ng_rollout_id": self.id(attempt.rollout), "_ng_attempt_index": attempt.index}
        line = self.runs[attempt] = self.client.open(self.loop, "/run", body, loss)
        if loss is not None:
            self.wait(line.arrived, self.puppet.settle)
            return loss.value
        return lambda: self.run_word(line, codes=True) if line.arrived.is_set() else "open"

    def _prepare(self, checkpoint_id: str, loss: Loss | None) -> Word:
        seconds = FAR if "expire" in self.puppet.routes else self.puppet.deadline
        line = self.client.open(self.loop, f"{CHECKPOINT}/prepare", self._control_body(checkpoint_id, seconds), loss)
        if loss is not None:
            self.wait(line.arrived, self.puppet.settle)
            return loss.value
        self.prepare = line
        return self.prepare_word

    def _expire(self) -> str:
        """The deadline passes: by order where the server can, else by waiting for the short one it was given."""
        if "expire" in self.puppet.routes:
            self.order("expire", {})
        if self.prepare is not None:
            self.wait(self.prepare.arrived, self.puppet.deadline + self.puppet.settle)
        return self.prepare_word()

    def _fetch(self, attempt: Attempt, loss: Loss | None) -> str:
        answer = self.client.get(f"{CHECKPOINT}/completion-receipt", loss, **self.name(attempt))
        if answer.ok:
            try:
                self.receipts[attempt] = read_receipt(answer.body)
            except Unreadable as error:
                raise TargetError(f"{self.client.url} cannot be read: {error}") from None
        return word_of(answer)

    def _acknowledge(self, call: GymCall) -> str:
        batch = [self._issued(receipt) for receipt in call.arguments[0]]
        if call.probe:
            batch[-1] = spoil(batch[-1])
        answer = self.client.acknowledge(batch, call.loss)
        confirmed = answer.body.get("acknowledged")
        if answer.ok and not (isinstance(confirmed, list) and len(confirmed) == len(batch)):
            return f"200 but not for {len(batch)} receipts"
        if call.probe and len(batch) > 1 and not answer.ok:
            shown = self.client.get(f"{CHECKPOINT}/status", checkpoint_id=self.id("probe")).body
            if shown.get("completed_unacknowledged") != g.status(call.outcome.gym).completed_unacknowledged:
                return f"{word_of(answer)}, and yet it released something"
        return word_of(answer)

    def _issued(self, receipt: Receipt) -> Receipt:
        """The receipt that this server issued for the attempt; if it issued none, one that it can only refuse."""
        known = self.receipts.get(receipt.attempt)
        return known or model_receipt(Attempt(self.id(receipt.rollout_id), receipt.attempt_index))

    def _hang_up(self, line: Line | None, noticed: Callable[[dict[str, Any]], bool]) -> str:
        """Close the connection of an open call, and wait until the server has noticed, where its puppet shows that."""
        if line is None or line.arrived.is_set():
            return "done"
        self.cancel(line)
        end, pause = time.monotonic() + self.puppet.settle, 0.001
        while True:
            shown = self.client.get("/puppet").body
            if not {"attached", "preparing"} <= shown.keys() or noticed(shown):
                return "done"
            if time.monotonic() > end:
                return "not noticed"
            self.run(asyncio.sleep(pause))
            pause = min(2 * pause, 0.1)

    # answers that wait in the network

    def answers_move(self, event: Event) -> None:
        """Let through, or throw away, the answer that the event is about."""
        if isinstance(event, TakeAnswer) and self.prepare is not None:
            self.prepare.decide(deliver=True)
        elif isinstance(event, Deliver) and event.attempt in self.runs:
            self.runs[event.attempt].decide(deliver=True)
        elif isinstance(event, LoseReply) and event.call is Call.RUN and event.attempt in self.runs:
            line = self.runs[event.attempt]
            line.decide(deliver=False)
            line.lost = True
        elif isinstance(event, LoseReply) and event.call is Call.PREPARE and self.prepare is not None:
            self.prepare.decide(deliver=False)

    def drop_lines(self, after: System) -> None:
        """Let go of the calls that the trainer has done with."""
        wanted = {a for a, e in after.gym.executions if e.client}
        wanted |= {m.attempt for m in after.wire.messages if m.kind in REPLIES}
        for attempt in [a for a in self.runs if a not in wanted]:
            self.cancel(self.runs.pop(attempt))
        if after.snapshot.step is not Step.PREPARING and self.prepare is not None:
            self.cancel(self.prepare)
            self.prepare = None

    def wait_for_answers(self, after: System) -> None:
        """Wait until every open call has been sent and, for a moment, for the answers that the model has on the wire.

        A server that does not answer shows whether it still means to: that is for `http` to ask.
        """
        answered = {m.attempt for m in after.wire.messages if m.kind in REPLIES - {Kind.LOST}}
        for attempt, line in self.runs.items():
            self.wait(line.sent, self.puppet.settle)
            if attempt in answered:
                self.wait(line.arrived, MOMENT)
        if self.prepare is not None:
            self.wait(self.prepare.sent, self.puppet.settle)
            if after.snapshot.answer is not None:
                self.wait(self.prepare.arrived, MOMENT)
        if not all(line.arrived.is_set() for line in self.runs.values()):
            self.run(turns(8))  # take what else has come

    def wait(self, happening: asyncio.Event, seconds: float) -> None:
        if not happening.is_set():
            with contextlib.suppress(TimeoutError):
                self.run(asyncio.wait_for(happening.wait(), max(0.0, seconds)))

    def cancel(self, line: Line) -> None:
        """Close the connection of a call. An answer that had come is let go."""
        line.lost = True
        if line.task is not None and not line.task.done():
            self.wait(line.sent, self.puppet.settle)  # a connection that is still being made would be left open
            self.run(_ended(line, line.task))
        line.arrived.set()

    def let_go(self) -> None:
        """Close every call that is still open."""
        for line in (*self.runs.values(), *([self.prepare] if self.prepare else [])):
            self.cancel(line)
        self.runs, self.prepare = {}, None

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let the open calls move until `work` is done."""
        self.loop.run_until_complete(work)

    # words

    def run_word(self, line: Line, *, codes: bool = False) -> str:
        """Return the answer to a `/run` in words."""
        if line.lost or line.response is None:
            return "lost"
        status = line.response.status_code
        if status == 200:
            return "200 null" if self.client.json(line.response, "/run") is None else "200"
        if status == 409 and codes:
            return f"409 {self.client.code(self.client.json(line.response, '/run'), '/run')}"
        if status not in (409, 500):
            self.client.read(line.response, "/run")
        return str(status)

    def prepare_word(self) -> str:
        """Return the answer to the prepare in flight in words."""
        line = self.prepare
        if line is None or not line.arrived.is_set():
            return "open"
        if line.response is None:
            return "lost"
        answer = self.client.read(line.response, f"{CHECKPOINT}/prepare")
        return " ".join(filter(None, (str(answer.status), answer.code)))


def word_of(answer: Answer) -> str:
    return answer.lost.value if answer.lost is not None else reply_word(answer.status, answer.code, answer.body)


async def _ended(line: Line, task: asyncio.Task[None]) -> None:
    if line.scope is not None:
        line.scope.cancel()
    await asyncio.wait({task})


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
