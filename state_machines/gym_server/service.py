"""The Gym inside the server: the model's, with a future for every call that it keeps open.

Every decision is an operation of `protocol.gym`. This module remembers the Gym that each one leads to, hands out the
answers, and holds what a model needs not hold: the results themselves, and a disk.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import Factory, define

from protocol import gym as g
from protocol.identity import Attempt, Receipt, receipt_for

Operation = Callable[..., g.Outcome]
OPERATIONS: Final[Mapping[str, Operation]] = {
    "acknowledge": g.acknowledge,
    "begin": g.begin,
    "commit": g.commit,
    "commit_boundary": g.commit_boundary,
    "completion_receipt": g.completion_receipt,
    "expire": g.expire,
    "fail": g.fail,
    "finish": g.finish,
    "lose_client": g.lose_client,
    "lose_prepare": g.lose_prepare,
    "park": g.park,
    "prepare": g.prepare,
    "restart": g.restart,
    "restore": g.restore,
    "resume": g.resume,
    "retire": g.retire,
}
LIVE: Final = frozenset({g.State.RUNNING, g.State.PARK_REQUESTED})
Records = tuple[tuple[Attempt, int], ...]
_DEFAULT: Final = object()


@define
class Service:
    """One Gym process. `operations` differ from `protocol.gym` only when a defect is seeded.

    `release` is the policy axis `retire=release`. `disk` maps a checkpoint directory to the id whose manifest it holds
    and its records; it survives a restart, as the model's `manifest` and `saved` do.
    """

    operations: Mapping[str, Operation] = OPERATIONS
    release: bool = False
    gym: g.Gym = g.Gym()
    runs: dict[Attempt, "asyncio.Future[g.RunAnswer]"] = Factory(dict)
    waiting: "asyncio.Future[g.Reply] | None" = None
    results: dict[Attempt, Any] = Factory(dict)
    disk: dict[str, tuple[str, Records]] = Factory(dict)
    failing: set[str] = Factory(set)
    timer: asyncio.TimerHandle | None = None

    def _do(self, name: str, *arguments: Any, **options: Any) -> g.Outcome:
        """Perform an operation and hand out every answer it gives; those of a `begin` are its caller's."""
        outcome = self.operations[name](self.gym, *arguments, **options)
        self.gym = outcome.gym
        for answer in outcome.answers if name != "begin" else ():
            future = self.runs.pop(answer.attempt, None)
            if future is not None and not future.done():
                future.set_result(answer)
        if outcome.prepared is not None and self.waiting is not None:
            self._answer_prepare(outcome.prepared)
        return outcome

    # /run

    def begin(self, attempt: Attempt) -> "g.RunAnswer | asyncio.Future[g.RunAnswer]":
        """Return the answer of a `/run`, or the future of it while the run lasts."""
        outcome = self._do("begin", attempt)
        if outcome.answers:
            return outcome.answers[0]
        overtaken = self.runs.pop(attempt, None)
        if overtaken is not None and not overtaken.done():  # only a defect begins twice
            overtaken.set_result(g.RunAnswer(attempt, 500, g.RUN_FAILED))
        future = self.runs[attempt] = asyncio.get_running_loop().create_future()
        return future

    def lose_client(self, attempt: Attempt, future: "asyncio.Future[g.RunAnswer]") -> None:
        """The connection of that very `/run` is gone."""
        if self.runs.get(attempt) is future:
            del self.runs[attempt]
            self._do("lose_client", attempt)

    # what the agent does

    def live(self, attempt: Attempt) -> bool:
        known = self.gym.find(attempt)
        return known is not None and known.state in LIVE

    def finish(self, attempt: Attempt, result: Any = _DEFAULT) -> None:
        if result is _DEFAULT:
            result = {"id": str(attempt)}
        self.results[attempt] = result
        self._do("finish", attempt, receipt_for(attempt, result))

    def agent(self, name: str, attempt: Attempt) -> None:
        """`fail`, `commit_boundary` or `park`."""
        self._do(name, attempt)

    # the checkpoint routes

    def acknowledge(self, receipts: tuple[Receipt, ...]) -> g.Reply:
        reply = _reply(self._do("acknowledge", receipts))
        for receipt in receipts if reply.ok else ():
            self.results.pop(receipt.attempt, None)
        return reply

    def completion_receipt(self, attempt: Attempt) -> g.Reply:
        return _reply(self._do("completion_receipt", attempt))

    def prepare(self, checkpoint_id: str, deadline_ts: float) -> "g.Reply | asyncio.Future[g.Reply]":
        """Return the answer, or the future of it while runs are on their way to a boundary."""
        before, left = self.gym.fence, deadline_ts - time.time()
        outcome = self._do("prepare", checkpoint_id, expired=left <= 0)
        if outcome.reply is not None:
            return outcome.reply
        if self.waiting is None or self.gym.fence.waiting != before.waiting:
            loop = asyncio.get_running_loop()
            self.waiting = loop.create_future()
            self.timer = loop.call_later(left, self.expire)
        return self.waiting

    def expire(self) -> None:
        """The deadline of the prepare in flight passes."""
        if self.waiting is not None:
            self._do("expire")

    def lose_prepare(self, future: "asyncio.Future[g.Reply]") -> None:
        """The client of that very prepare is gone."""
        if self.waiting is future:
            self._do("lose_prepare")

    def commit(self, checkpoint_id: str, directory: str) -> g.Reply:
        """Commit into `directory`. One that holds another id's manifest is refused (gym.md, "The control fence")."""
        if checkpoint_id in self.failing:
            self.failing.discard(checkpoint_id)
            return g.Reply(409, g.CHECKPOINT_ERROR)
        before = self.gym
        reply = _reply(self._do("commit", checkpoint_id))
        holds = self.disk.get(directory)
        if reply.ok and holds is not None and holds[0] != checkpoint_id and before.fence != self.gym.fence:
            self.gym = before
            return g.Reply(409, g.CHECKPOINT_ERROR)
        if reply.ok and holds is None:
            self.disk[directory] = (checkpoint_id, self.gym.saved)
        return reply

    def restore(self, checkpoint_id: str, directory: str) -> g.Reply:
        """Install the records of `directory`. One without a manifest cannot be restored."""
        if directory not in self.disk:
            return g.Reply(409, g.CHECKPOINT_ERROR, (("detail", "the directory holds no manifest"),))
        return _reply(self._do("restore", checkpoint_id, self.disk[directory][1]))

    def resume(self, checkpoint_id: str) -> g.Reply:
        return _reply(self._do("resume", checkpoint_id))

    def retire(self, checkpoint_id: str, attempt: Attempt) -> g.Reply:
        return _reply(self._do("retire", checkpoint_id, attempt, release=self.release))

    def restart(self, *, keep: bool, release: bool) -> None:
        """The process dies and comes back, with its disk or, for a fresh start, without it."""
        self._do("restart")
        for future in self.runs.values():
            future.cancel()
        if self.waiting is not None:
            self.waiting.cancel()
        self._answer_prepare(None)
        self.release = release
        self.runs.clear()
        self.results.clear()
        self.failing.clear()
        if not keep:
            self.gym = g.Gym()
            self.disk.clear()

    def _answer_prepare(self, reply: g.Reply | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        future, self.waiting, self.timer = self.waiting, None, None
        if future is not None and reply is not None and not future.done():
            future.set_result(reply)


def _reply(outcome: g.Outcome) -> g.Reply:
    assert outcome.reply is not None
    return outcome.reply


def status_json(gym: g.Gym, checkpoint_id: str | None) -> dict[str, Any]:
    """Return the `status` report as Gym writes it, with the fence's phase and active id beside it."""
    report = g.status(gym)
    executions = [_execution(attempt, execution) for attempt, execution in gym.executions]
    blocking = {(a.rollout, a.index) for a in report.blocking_attempts}
    return {
        "checkpoint_id": checkpoint_id,
        "phase": report.phase.value,
        "active_checkpoint_id": report.active,
        "state": report.state,
        "ready_to_commit": report.ready_to_commit,
        "running": report.running,
        "parked": report.parked_with_boundary + report.parked_without_boundary,
        "parked_with_boundary": report.parked_with_boundary,
        "parked_without_boundary": report.parked_without_boundary,
        "completed_unacknowledged": report.completed_unacknowledged,
        "acknowledged_completed": report.acknowledged_completed,
        "active": report.active_count,
        "blocking_attempts": [e for e in executions if (e["rollout_id"], e["attempt_index"]) in blocking],
        "completed_unacknowledged_attempts": [e for e in executions if e["state"] == "completed"],
        "selected_boundaries": [
            {"rollout_id": a.rollout, "attempt_index": a.index, "boundary_index": boundary}
            for a, boundary in report.selected_boundaries
        ],
        "executions": executions,
    }


def _execution(attempt: Attempt, execution: g.Execution) -> dict[str, Any]:
    r = execution.receipt
    return {
        "rollout_id": attempt.rollout,
        "attempt_index": attempt.index,
        "state": execution.state.value,
        "boundary_index": execution.boundary,
        "completion_receipt": None if r is None else receipt_json(r),
    }


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    return {
        "rollout_id": receipt.rollout_id,
        "attempt_index": receipt.attempt_index,
        "execution_generation": receipt.execution_generation,
        "result_identity": receipt.result_identity,
        "result_digest": receipt.result_digest,
        "manifest_capture_key": receipt.manifest_capture_key,
        "terminal_model_call_id": receipt.terminal_model_call_id,
    }
