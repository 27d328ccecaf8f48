"""A Gym at the other end of a socket as a target: the calls of each step for real, and what it shows afterwards.

Histories are told apart by fresh ids, and a server that can restarts before each. Waiting is for conditions, never for
a time: for what the model expects to see, or for the server to have settled on something else.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from protocol.events import Event
from protocol.identity import Attempt
from protocol.policy import Policy
from protocol.scope import Fault, Scope
from protocol.state import System, initial
from state_machines.targets.base import Observation, TargetError, observation_of, words
from state_machines.targets.calls import calls_of
from state_machines.targets.client import CAPABILITIES, CHECKPOINT, GymClient
from state_machines.targets.history import History, Puppet, Word, turns
from state_machines.targets.process import ReferenceGym
from state_machines.targets.status import Listed, Report, Unreadable, optional_word, read_report

T = TypeVar("T")
READS: Final = "completion_receipt"
NEEDED: Final = frozenset({"finish", "fail", "boundary"})
NEEDED_BY: Final = {
    Fault.REFUSAL: "park",
    Fault.COMMIT_FAILURE: "fail_commit",
    Fault.GYM_RESTART: "restart",
    Fault.RESTART: "restart",
}


class HttpTarget:
    """A server with Gym's surface and the puppet routes.

    A history ends with its first difference: what follows from one is not another, and is not asked for.

    `settle` is how long an answer or a change that the model expects may take, in seconds; `deadline` that of a prepare
    on a server whose puppet cannot let one pass. `owned` is a server process that ends with the target.
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
        self._puppet: Puppet | None = None
        self._history: History | None = None
        self._number, self._event = 0, ""
        self._after = initial(Policy(), Scope())
        self._calls: list[tuple[str, Word]] = []
        self._expected: tuple[str, ...] = ()
        self._before_all = (0, 0)
        self._last: Report | None = None
        self._diverged = False

    def reset(self, policy: Policy, scope: Scope) -> None:
        """Begin a new history. The last one's leftovers are restarted away, or else released one by one."""
        with self._naming():
            self._reset(policy, scope)

    def _reset(self, policy: Policy, scope: Scope) -> None:
        puppet = self._puppet = self._puppet or self._learn()
        for fault, route in NEEDED_BY.items():
            if scope.budget()[fault.position] and route not in puppet.routes:
                raise TargetError(f"{self.name} has no /puppet/{route}, so the scope cannot have {fault.value}")
        old, self._history = self._history, None
        if old is not None:
            old.let_go()
        self._examples += 1
        prefix = f"x{self._nonce}-{self._examples}-"
        history = History(self._client, self._loop, puppet, policy, prefix)
        if "restart" in puppet.routes:
            history.order("restart", {"keep": False, "retire": policy.retire.value})
        elif old is not None:
            self._tidy(old)
        report = self._report(history)
        if not report.ready_to_commit or report.state != "accepting":
            raise TargetError(f"{self.name} is not idle: a history begins with a Gym that is open and retains nothing")
        self._history, self._before_all, self._last = history, (report.acknowledged_completed, report.active), None
        self._after, self._number, self._event = initial(policy, scope), 0, ""
        self._calls, self._expected, self._diverged = [], (), False

    def apply(self, event: Event, before: System, after: System) -> None:
        """Make every call of the step, in its order."""
        history = self._running()
        self._number += 1
        self._event, self._after = str(event), after
        calls = calls_of(before, event)
        self._expected = words(calls)
        if self._diverged:
            return
        with self._naming():
            history.answers_move(event)
            if any(call.operation != READS for call in calls):
                self._last = None
            self._calls = [(call.subject, history.perform(call)) for call in calls]
            if history.restarted:
                self._before_all, history.restarted = (0, 0), False
            history.drop_lines(after)

    def observe(self) -> Observation:
        """Return what the server shows once it shows what the model does, or once it has settled on something else.

        After a step that only read, or made no call, an immediate server is not asked again. Would reading change it,
        the next step shows that.
        """
        history, model = self._running(), observation_of(self._after, self._expected)
        if self._diverged:
            return model
        with self._naming():
            history.wait_for_answers(self._after)
            end, pause = time.monotonic() + self._settle, 0.001
            while True:
                report = self._last or self._report(history)
                self._last = history.shown = None
                seen = self._observation(history, report)
                settled = history.puppet.immediate and _quiet(history, report)
                if seen == model or settled or time.monotonic() > end:
                    self._last = report if settled else None
                    self._diverged = seen != model
                    return seen
                history.run(asyncio.sleep(pause))
                pause = min(2 * pause, 0.1)

    def close(self) -> None:
        """Close every connection, and end the server if it is ours."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._history is not None:
                self._history.let_go()
            self._loop.run_until_complete(self._client.aclose())
            self._loop.run_until_complete(turns(3))  # connections close in the turn after
            self._loop.close()
            self._client.close()
        finally:
            if self._owned is not None:
                self._owned.close()

    # what the server shows

    def _report(self, history: History) -> Report:
        body = history.shown
        if body is None:
            path = f"{CHECKPOINT}/status"
            answer = self._client.get(path, checkpoint_id=history.id(self._after.snapshot.checkpoint_id))
            if not answer.ok:
                raise TargetError(f"{self.name} answered {path} with {answer.status}")
            body = answer.body
        report = self._readable(read_report, body)
        for listed in report.unacknowledged:
            own = history.own(listed.attempt)
            if own is not None and listed.receipt is not None:
                history.receipts.setdefault(own, listed.receipt)
        return report

    def _observation(self, history: History, report: Report) -> Observation:
        phase, active = report.phase, report.active_id
        if phase is None:  # Gym says it elsewhere
            body = self._client.get(CAPABILITIES).body
            phase, active = self._readable(_fence, body)
        ours = history.prefix
        retained = [x for x in report.unacknowledged if x.receipt is not None]
        return Observation(
            tuple(f"{subject}: {word if isinstance(word, str) else word()}" for subject, word in self._calls),
            tuple(f"{a} {history.run_word(x)}" for a, x in sorted(history.runs.items()) if x.arrived.is_set()),
            history.prepare_word() if history.prepare is not None else None,
            phase or "unknown",
            None if active is None else active.removeprefix(ours),
            report.state,
            report.running,
            report.parked_with_boundary,
            report.parked_without_boundary,
            report.completed_unacknowledged,
            report.acknowledged_completed - self._before_all[0],
            report.active - self._before_all[1],
            report.ready_to_commit,
            _own(history, report.blocking, lambda a, item: f"{a} {item.state}"),
            _own(history, retained, lambda a, item: str(a)),
            _own(history, report.boundaries, lambda a, item: f"{a}@{item.boundary}"),
        )

    def _running(self) -> History:
        if self._history is None:
            raise TargetError(f"{self.name} has no history: reset comes first")
        return self._history

    def _readable(self, read: Callable[[Any], T], body: Any) -> T:
        try:
            return read(body)
        except Unreadable as error:
            raise TargetError(f"{self.name} cannot be read: {error}") from None

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the last event in whatever goes wrong."""
        try:
            yield
        except TargetError as error:
            last = f"the last event was number {self._number}, {self._event}"
            raise TargetError(f"{error.message}; {last if self._number else 'no event had happened yet'}") from None

    # before the first history, and between two

    def _learn(self) -> Puppet:
        """Ask what the server's puppet can do."""
        shown = self._client.get("/puppet").body
        routes = shown.get("routes")
        known = frozenset(r for r in routes if isinstance(r, str)) if isinstance(routes, list) else frozenset()
        if not known >= NEEDED:
            raise TargetError(
                f"{self.name} does not offer the puppet routes {', '.join(sorted(NEEDED))} (docs/live.md)"
            )
        return Puppet(known, shown.get("immediate") is True, self._settle, self._deadline)

    def _tidy(self, old: History) -> None:
        """Leave nothing of the last history on a server that cannot restart: resume, fail what runs, acknowledge."""
        report = self._report(old)
        if report.state != "accepting" or report.active_id is not None:
            old.control("resume", (report.active_id or "tidy").removeprefix(old.prefix))
        end, pause = time.monotonic() + self._settle, 0.001
        while True:
            report = self._report(old)
            for listed in report.blocking:
                own = old.own(listed.attempt)
                if own is not None:
                    old.order("fail", old.name(own))
            owed = [
                x.receipt for x in report.unacknowledged if x.receipt is not None and old.own(x.attempt) is not None
            ]
            if owed:
                self._client.acknowledge(owed)
            if self._report(old).ready_to_commit or time.monotonic() > end:
                return
            old.run(asyncio.sleep(pause))
            pause = min(2 * pause, 0.1)


def _fence(body: dict[str, Any]) -> tuple[str | None, str | None]:
    return optional_word(body, "phase"), optional_word(body, "active_checkpoint_id")


def _own(history: History, items: Iterable[Listed], show: Callable[[Attempt, Listed], str]) -> tuple[str, ...]:
    ours = [(own, item) for item in items if (own := history.own(item.attempt)) is not None]
    return tuple(show(attempt, item) for attempt, item in sorted(ours, key=lambda pair: pair[0]))


def _quiet(history: History, report: Report) -> bool:
    """Whether every call in flight has reached the server: it has answered, or the server shows that it waits."""
    live = {history.own(x.attempt) for x in (*(report.executions or ()), *report.blocking) if x.state != "completed"}
    sent = all(line.arrived.is_set() or attempt in live for attempt, line in history.runs.items())
    prepare = history.prepare
    return sent and (prepare is None or prepare.arrived.is_set() or report.phase == "preparing")
