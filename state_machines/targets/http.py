"""A Gym at the other end of a socket as a target: the calls of each step for real, and what it shows afterwards.

Attempts and checkpoints get fresh ids in every history: the model's `p0_g1` is `x3f9a-7-p0_g1` over there. The server's
agent is driven over the puppet routes (docs/live.md). Nothing here knows a rule of the protocol: which calls a step
makes is recorded from the model (`calls`), and what they should answer is compared elsewhere (`base`).
"""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from attrs import asdict

from protocol.events import Answer as TakeAnswer
from protocol.events import Deliver, Event, LoseReply
from protocol.identity import Attempt, Receipt, model_receipt
from protocol.policy import Policy
from protocol.scope import Fault, Scope
from protocol.snapshot import Step
from protocol.state import System
from protocol.system import initial
from protocol.wire import REPLIES, Call, Kind
from state_machines.targets.base import Observation, TargetError, expected, observation_of
from state_machines.targets.calls import GymCall, Loss, calls_of, reply_word, spoil
from state_machines.targets.client import CAPABILITIES, CHECKPOINT, Answer, GymClient
from state_machines.targets.network import Line
from state_machines.targets.process import ReferenceGym
from state_machines.targets.status import Listed, Report, Unreadable, optional_word, read_receipt, read_report

FAR: Final = 3600.0  # seconds ahead: the deadline of a prepare that only the puppet lets pass
NEEDED: Final = ("finish", "fail", "boundary")
NEEDED_BY: Final = {
    Fault.REFUSAL: "park",
    Fault.COMMIT_FAILURE: "fail_commit",
    Fault.GYM_RESTART: "restart",
    Fault.RESTART: "restart",
}
PUPPET: Final = {"fail": "fail", "commit_boundary": "boundary", "park": "park"}


class HttpTarget:
    """A server with Gym's surface and the puppet routes.

    `settle` is how long an answer or a change that the model expects may take, in seconds. `deadline` is that of a
    prepare on a server whose puppet cannot let one pass. `owned` is a server process that ends with the target.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        settle: float = 5.0,
        deadline: float = 2.0,
        owned: ReferenceGym | None = None,
    ) -> None:
        self._client = GymClient(url, token)
        self.name = self._client.url
        self._settle, self._deadline, self._owned = settle, deadline, owned
        self._loop = asyncio.new_event_loop()
        self._nonce, self._examples, self._closed = secrets.token_hex(3), 0, False
        self._routes: frozenset[str] | None = None
        self._begin_history(Policy(), Scope())

    def _begin_history(self, policy: Policy, scope: Scope) -> None:
        self._examples += 1
        self._prefix = f"x{self._nonce}-{self._examples}-"
        self._policy, self._number, self._event = policy, 0, ""
        self._before = self._after = initial(policy, scope)
        self._runs: dict[Attempt, Line] = {}
        self._prepare: Line | None = None
        self._receipts: dict[Attempt, Receipt] = {}
        self._directories: dict[tuple[tuple[Attempt, int], ...], str] = {}
        self._calls: list[tuple[str, str | Callable[[], str]]] = []
        self._expected: tuple[str, ...] = ()
        self._baseline = (0, 0)

    # the interface

    def reset(self, policy: Policy, scope: Scope) -> None:
        """Begin a new history. The last one's leftovers are restarted away, or else released one by one."""
        self._let_go()
        if self._routes is None:
            self._learn()
        assert self._routes is not None
        for fault, route in NEEDED_BY.items():
            if scope.budget()[fault.position] and route not in self._routes:
                raise TargetError(f"{self.name} has no /puppet/{route}, so the scope cannot have {fault.value}")
        if "restart" in self._routes:
            self._client.post("/puppet/restart", {"keep": False, "retire": policy.retire.value})
        else:
            self._tidy()
        self._begin_history(policy, scope)
        report = self._report()
        if not (report.ready_to_commit and report.state == "accepting"):
            raise TargetError(f"{self.name} is not idle: a history begins with a Gym that is open and retains nothing")
        self._baseline = (report.acknowledged_completed, report.active)

    def apply(self, event: Event, before: System, after: System) -> None:
        self._number += 1
        self._event, self._before, self._after = str(event), before, after
        self._expected = expected(before, event)
        with self._naming():
            self._answers_move(event)
            self._calls = []
            for call in calls_of(before, event):
                self._calls.append((call.subject, self._perform(call)))
            self._drop_lines()

    def observe(self) -> Observation:
        """Return what the server shows once it shows what the model does, or once it has settled on something else."""
        model = observation_of(self._after, self._expected)
        with self._naming():
            self._wait_for_answers()
            end, pause = time.monotonic() + self._settle, 0.001
            while True:
                report = self._report()
                seen = self._observation(report)
                if seen == model or time.monotonic() > end or (self._immediate and self._quiet(report)):
                    return seen
                self._run(asyncio.sleep(pause))
                pause = min(2 * pause, 0.1)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._let_go()
            self._run(self._client.aclose())
            self._loop.close()
            self._client.close()
        finally:
            if self._owned is not None:
                self._owned.close()

    # the calls of a step

    def _perform(self, call: GymCall) -> "str | Callable[[], str]":
        """Make a call for real and return its answer in words; of one that may stay open, how to tell them later."""
        first: Any = call.arguments[0] if call.arguments else None
        match call.operation:
            case "begin":
                return self._begin(first, call.loss)
            case "finish":
                body = self._of(first) | ({"result": None} if call.arguments[1] is None else {})
                return self._order("finish", body)
            case "fail" | "commit_boundary" | "park":
                return self._order(PUPPET[call.operation], self._of(first))
            case "lose_client":
                return self._hang_up(self._runs.get(first), lambda shown: not self._attached(first, shown))
            case "lose_prepare":
                return self._hang_up(self._prepare, lambda shown: not shown.get("preparing"))
            case "prepare":
                return self._send_prepare(first, call.loss)
            case "expire":
                if "expire" in (self._routes or ()):
                    self._client.post("/puppet/expire", {"checkpoint_id": self._id(first or "")[:128]})
                self._wait(self._prepare, self._deadline + self._settle)
                return self._prepare_word()
            case "restart":
                keep = {"keep": True, "retire": self._policy.retire.value}
                word = self._done(self._client.post("/puppet/restart", keep))
                self._baseline = (0, 0)
                return word
            case "completion_receipt":
                return self._fetch(first, call.loss)
            case "acknowledge":
                return self._acknowledge(call)
            case "commit_fails":
                self._client.post("/puppet/fail_commit", {"checkpoint_id": self._id(first)})
                return self._control("commit", first, checkpoint_dir=self._id(first))
            case "commit":
                self._directories[call.outcome.gym.saved] = self._id(first)
                return self._control("commit", first, call.loss, checkpoint_dir=self._id(first))
            case "restore":
                directory = self._directories.get(call.arguments[1], "none")
                return self._control("restore", first, call.loss, checkpoint_dir=directory)
            case "retire":
                return self._control("retire", first, call.loss, **self._of(call.arguments[1]))
        return self._control(call.operation, first, call.loss)

    def _control(self, operation: str, checkpoint_id: str, loss: Loss | None = None, **more: Any) -> str:
        body = {"schema_version": 1, "checkpoint_id": self._id(checkpoint_id), "deadline_ts": time.time() + FAR, **more}
        return _word(self._client.post(f"{CHECKPOINT}/{operation}", body, loss))

    def _begin(self, attempt: Attempt, loss: Loss | None) -> "str | Callable[[], str]":
        body = {"_ng_rollout_id": self._id(attempt.rollout), "_ng_attempt_index": attempt.index}
        line = self._runs[attempt] = self._client.open(self._loop, "/run", body, loss)
        self._pump()
        if loss is not None:
            self._wait(line, self._settle)
            return loss.value
        return lambda: self._run_word(line, codes=True) if line.arrived.is_set() else "open"

    def _send_prepare(self, checkpoint_id: str, loss: Loss | None) -> "str | Callable[[], str]":
        far = FAR if "expire" in (self._routes or ()) else self._deadline
        body = {"schema_version": 1, "checkpoint_id": self._id(checkpoint_id), "deadline_ts": time.time() + far}
        line = self._client.open(self._loop, f"{CHECKPOINT}/prepare", body, loss)
        self._pump()
        if loss is not None:
            self._wait(line, self._settle)
            return loss.value
        self._prepare = line
        return self._prepare_word

    def _order(self, route: str, body: dict[str, Any]) -> str:
        return self._done(self._client.post(f"/puppet/{route}", body))

    def _fetch(self, attempt: Attempt, loss: Loss | None) -> str:
        query = {"rollout_id": self._id(attempt.rollout), "attempt_index": attempt.index}
        answer = self._client.get(f"{CHECKPOINT}/completion-receipt", loss, **query)
        if answer.ok:
            self._receipts[attempt] = self._readable(read_receipt, answer.body)
        return _word(answer)

    def _acknowledge(self, call: GymCall) -> str:
        batch = [self._real(receipt) for receipt in call.arguments[0]]
        if call.probe:
            batch[-1] = spoil(batch[-1])
        body = {"schema_version": 1, "executions": [asdict(receipt) for receipt in batch]}
        answer = self._client.post(f"{CHECKPOINT}/acknowledge-completed", body, call.loss)
        if answer.ok:
            confirmed = answer.body.get("acknowledged")
            if not isinstance(confirmed, list) or len(confirmed) != len(batch):
                return f"200 but not for {len(batch)} receipts"
        return _word(answer)

    def _real(self, receipt: Receipt) -> Receipt:
        """The receipt that this server issued for the attempt; if it issued none, one that it can only refuse."""
        known = self._receipts.get(receipt.attempt)
        return known or model_receipt(Attempt(self._id(receipt.rollout_id), receipt.attempt_index))

    def _hang_up(self, line: Line | None, noticed: Callable[[dict[str, Any]], bool]) -> str:
        """Close the connection of an open call, and wait until the server has noticed."""
        if line is None or line.arrived.is_set():
            return "done"
        self._cancel(line)
        end, pause = time.monotonic() + self._settle, 0.001
        while self._routes is not None and not noticed(self._client.get("/puppet").body):
            if time.monotonic() > end:
                return "not noticed"
            self._run(asyncio.sleep(pause))
            pause = min(2 * pause, 0.1)
        return "done"

    def _attached(self, attempt: Attempt, shown: dict[str, Any]) -> bool:
        listed = shown.get("attached")
        return isinstance(listed, list) and self._of(attempt) in listed

    # answers that wait in the network

    def _answers_move(self, event: Event) -> None:
        """Let through, or throw away, the answer that the event is about."""
        if isinstance(event, TakeAnswer) and self._prepare is not None:
            self._prepare.decide(deliver=True)
        elif isinstance(event, Deliver) and event.attempt in self._runs:
            self._runs[event.attempt].decide(deliver=True)
        elif isinstance(event, LoseReply) and event.call is Call.RUN and event.attempt in self._runs:
            line = self._runs[event.attempt]
            line.decide(deliver=False)
            line.lost = True
        elif isinstance(event, LoseReply) and event.call is Call.PREPARE and self._prepare is not None:
            self._prepare.decide(deliver=False)

    def _drop_lines(self) -> None:
        """Let go of the calls that the trainer has done with."""
        clients = {a for a, e in self._after.gym.executions if e.client}
        wanted = clients | {m.attempt for m in self._after.wire.messages if m.kind in REPLIES}
        for attempt in [a for a in self._runs if a not in wanted]:
            self._cancel(self._runs.pop(attempt))
        if self._after.snapshot.step is not Step.PREPARING and self._prepare is not None:
            self._cancel(self._prepare)
            self._prepare = None

    def _wait_for_answers(self) -> None:
        """Wait until every answer that the model has on the wire has come here."""
        end = time.monotonic() + self._settle
        answered = self._after.snapshot.step is Step.PREPARING and self._after.snapshot.answer is not None
        lines = [self._runs.get(m.attempt) for m in self._after.wire.messages if m.kind in REPLIES - {Kind.LOST}]
        for line in (*lines, self._prepare if answered else None):
            self._wait(line, end - time.monotonic())
        self._pump()

    def _wait(self, line: Line | None, seconds: float) -> None:
        if line is not None and not line.arrived.is_set():
            with contextlib.suppress(TimeoutError):
                self._run(asyncio.wait_for(line.arrived.wait(), max(0.0, seconds)))

    def _cancel(self, line: Line) -> None:
        """Close the connection of a call. An answer that had come is let go."""
        line.lost = True
        if line.task is not None and not line.task.done():
            line.task.cancel()
            self._run(asyncio.wait({line.task}))
        line.arrived.set()

    def _let_go(self) -> None:
        for line in (*self._runs.values(), *([self._prepare] if self._prepare else [])):
            self._cancel(line)
        self._runs, self._prepare = {}, None

    def _pump(self) -> None:
        """Let the open calls move: send what is to be sent, take what has come."""
        if self._runs or self._prepare is not None:
            self._run(_turns(12))

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    # what the server shows

    def _report(self) -> Report:
        path = f"{CHECKPOINT}/status"
        answer = self._client.get(path, checkpoint_id=self._id(self._after.snapshot.checkpoint_id))
        if not answer.ok:
            raise TargetError(f"{self.name} answered {path} with {answer.status}")
        report = self._readable(read_report, answer.body)
        for listed in report.unacknowledged:
            if listed.receipt is not None and listed.attempt.rollout.startswith(self._prefix):
                self._receipts.setdefault(self._ours(listed), listed.receipt)
        return report

    def _observation(self, report: Report) -> Observation:
        phase, active = report.phase, report.active_id
        if phase is None:
            body = self._client.get(CAPABILITIES).body
            phase = self._readable(lambda data: optional_word(data, "phase"), body)
            active = self._readable(lambda data: optional_word(data, "active_checkpoint_id"), body)
        return Observation(
            tuple(f"{subject}: {word if isinstance(word, str) else word()}" for subject, word in self._calls),
            tuple(f"{a} {self._run_word(line)}" for a, line in sorted(self._runs.items()) if line.arrived.is_set()),
            self._prepare_word() if self._prepare is not None else None,
            phase or "unknown",
            None if active is None else active.removeprefix(self._prefix),
            report.state,
            report.running,
            report.parked_with_boundary,
            report.parked_without_boundary,
            report.completed_unacknowledged,
            report.acknowledged_completed - self._baseline[0],
            report.active - self._baseline[1],
            report.ready_to_commit,
            self._list(report.blocking, lambda a, item: f"{a} {item.state}"),
            self._list([x for x in report.unacknowledged if x.receipt is not None], lambda a, item: str(a)),
            self._list(report.boundaries, lambda a, item: f"{a}@{item.boundary}"),
        )

    def _list(
        self, items: "tuple[Listed, ...] | list[Listed]", show: Callable[[Attempt, Listed], str]
    ) -> tuple[str, ...]:
        ours = [(self._ours(x), x) for x in items if x.attempt.rollout.startswith(self._prefix)]
        return tuple(show(attempt, item) for attempt, item in sorted(ours, key=lambda pair: pair[0]))

    def _quiet(self, report: Report) -> bool:
        """Whether every call in flight has reached the server: it has answered, or the server shows that it waits."""
        listed = {self._ours(x) for x in (*(report.executions or ()), *report.blocking)}
        sent = all(line.arrived.is_set() or attempt in listed for attempt, line in self._runs.items())
        prepare = self._prepare is None or self._prepare.arrived.is_set() or report.phase == "preparing"
        return sent and prepare

    def _run_word(self, line: Line, *, codes: bool = False) -> str:
        if line.lost or line.response is None:
            return "lost"
        status = line.response.status_code
        if status == 200:
            return "200 null" if self._client.json(line.response, "/run") is None else "200"
        if status == 409 and codes:
            return f"409 {self._client.code(self._client.json(line.response, '/run'), '/run')}"
        if status not in (409, 500):
            self._client.read(line.response, "/run")
        return str(status)

    def _prepare_word(self) -> str:
        line = self._prepare
        if line is None or not line.arrived.is_set():
            return "open"
        if line.response is None:
            return "lost"
        answer = self._client.read(line.response, f"{CHECKPOINT}/prepare")
        return " ".join(filter(None, (str(answer.status), answer.code)))

    # ids, errors, cleaning

    def _id(self, text: str) -> str:
        return self._prefix + re.sub(r"[^A-Za-z0-9_.:-]", "-", text)

    def _of(self, attempt: Attempt) -> dict[str, Any]:
        return {"rollout_id": self._id(attempt.rollout), "attempt_index": attempt.index}

    def _ours(self, listed: Listed) -> Attempt:
        return Attempt(listed.attempt.rollout.removeprefix(self._prefix), listed.attempt.index)

    def _done(self, answer: Answer) -> str:
        return "done" if answer.ok else _word(answer)

    def _readable(self, read: Callable[[Any], Any], body: Any) -> Any:
        try:
            return read(body)
        except Unreadable as error:
            raise TargetError(f"{self.name} cannot be read: {error}") from None

    @contextlib.contextmanager
    def _naming(self) -> Any:
        """Name the last event in whatever goes wrong."""
        try:
            yield
        except TargetError as error:
            raise TargetError(f"{error.message}; the last event was number {self._number}: {self._event}") from None

    def _learn(self) -> None:
        """Ask what the server's puppet can do."""
        shown = self._client.get("/puppet").body
        routes = shown.get("routes")
        if not isinstance(routes, list) or not set(NEEDED) <= {r for r in routes if isinstance(r, str)}:
            raise TargetError(f"{self.name} does not offer the puppet routes {', '.join(NEEDED)} (docs/live.md)")
        self._routes = frozenset(r for r in routes if isinstance(r, str))
        self._immediate = shown.get("immediate") is True

    def _tidy(self) -> None:
        """Leave nothing of the last history on a server that cannot restart: resume, fail what runs, acknowledge."""
        for _ in range(2):
            report = self._report()
            if report.active_id is not None or report.state != "accepting":
                self._control("resume", (report.active_id or "tidy").removeprefix(self._prefix))
                report = self._report()
            for listed in report.blocking:
                if listed.attempt.rollout.startswith(self._prefix):
                    self._order("fail", self._of(self._ours(listed)))
            owed = [
                x.receipt for x in report.unacknowledged if x.attempt.rollout.startswith(self._prefix) and x.receipt
            ]
            if owed:
                body = {"schema_version": 1, "executions": [asdict(receipt) for receipt in owed]}
                self._client.post(f"{CHECKPOINT}/acknowledge-completed", body)


def _word(answer: Answer) -> str:
    return answer.lost.value if answer.lost is not None else reply_word(answer.status, answer.code, answer.body)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
