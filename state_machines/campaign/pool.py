"""The workers of one machine: processes that run shards, are replaced when they die, and never outlive their parent.

The standard library's process pool gives up all of its work when one process is killed; here only that process' shard
is tried again, a bounded number of times, and then reported.
"""

import importlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

from attrs import define, frozen

from state_machines.campaign.shard import Outcome, Shard, outcome_from_json

WORK: Final = "state_machines.campaign.work:run"
Work = Callable[[str, str | None], str]
_SPAWN: Final = multiprocessing.get_context("spawn")


@frozen
class Report:
    """What a runner says about one shard: its outcome, or the error of its last try when every try failed."""

    shard: Shard
    tries: int
    outcome: Outcome | None
    error: str = ""


@define
class _Task:
    shard: Shard
    tries: int = 0


@define(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: _Task | None = None


def local(
    shards: Iterable[Shard], *, workers: int, retries: int, database: str | None = None, work: str = WORK
) -> Iterator[Report]:
    """Run shards on `workers` processes and yield a report for each, as they come.

    A shard that raises, or whose process dies, is tried again `retries` times. `work` names the function that a worker
    runs as `module:function`; it gets a shard's JSON and the database's URL and returns an outcome's JSON. Closing the
    generator ends the processes.
    """
    todo = deque(_Task(shard) for shard in shards)
    team: list[_Worker] = []
    try:
        while todo or any(worker.task for worker in team):
            while todo and len(team) < workers:
                team.append(_start(work, database))
            for worker in team:
                if todo and worker.task is None:
                    _hand_out(worker, todo)
            for worker in _ready(team):
                task, answer = worker.task, _answer(worker)
                if answer is None:
                    team.remove(worker)
                    error = f"its process died ({_how(worker.process)})"
                    _stop([worker])
                elif task is not None and answer[0]:
                    yield Report(task.shard, task.tries, outcome_from_json(answer[1]))
                    continue
                else:
                    error = answer[1]
                if task is None:
                    continue
                if task.tries <= retries:
                    todo.append(task)
                else:
                    yield Report(task.shard, task.tries, None, error)
    finally:
        _stop(team)


def _start(work: str, database: str | None) -> _Worker:
    mine, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, work, database), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, mine)


def _hand_out(worker: _Worker, todo: deque[_Task]) -> None:
    worker.task = todo.popleft()
    worker.task.tries += 1
    with suppress(OSError):  # it died while it was idle: `_answer` sees that
        worker.pipe.send(worker.task.shard.to_json())


def _ready(team: list[_Worker]) -> list[_Worker]:
    pipes = {worker.pipe: worker for worker in team if worker.task is not None}
    return [pipes[pipe] for pipe in wait(list(pipes)) if isinstance(pipe, Connection)]


def _answer(worker: _Worker) -> tuple[bool, str] | None:
    try:
        answer: tuple[bool, str] = worker.pipe.recv()
    except (EOFError, OSError):
        return None
    worker.task = None
    return answer


def _how(process: BaseProcess) -> str:
    process.join(5)
    code = process.exitcode
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"{signal.Signals(-code).name}"
    return f"exit code {code}"


def _stop(team: list[_Worker]) -> None:
    for worker in team:
        worker.process.kill()
    for worker in team:
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


def _serve(pipe: Connection, work: str, database: str | None) -> None:
    """A worker's life: run what comes through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    function = load_work(work)
    while True:
        try:
            text = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, function(text, database))
        except Exception as error:  # noqa: BLE001 - whatever a shard raises is reported, and the worker goes on
            answer = (False, describe(error))
        pipe.send(answer)


def _end_with(sentinel: int) -> None:
    """End this process, even in the middle of a shard, as soon as its parent is gone."""
    wait([sentinel])
    os._exit(1)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_work(work: str) -> Work:
    """Return the function that `module:function` names."""
    module, _, name = work.partition(":")
    function: Any = getattr(importlib.import_module(module), name)
    return function  # type: ignore[no-any-return]


def describe(error: BaseException) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
