"""A matrix decided in several processes, kept in a file while it grows, and continued where it stopped.

Workers never see Ctrl-C, and end themselves when the process that started them is gone, however it ended.
"""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import product
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any, Final

from protocol.events import EventError, from_json
from protocol.policy import NAMED, Policy
from protocol.scope import Scope
from state_machines.matrix import BASE, DEFAULT, DOMAINS, LIMIT, SPLIT, Cell, Matrix, column, cost, cover
from state_machines.prove import Shortest
from state_machines.source import protocol_digest
from state_machines.trace import TraceError, write
from state_machines.verdict import Verdict

Progress = Callable[[int, int, int], None]
Part = tuple[str, dict[str, str]]
INTERRUPTED: Final = "interrupted"
DIED: Final = "a worker process died; with less memory in use, or fewer --jobs, it may not"


def explore(
    columns: Sequence[str] = DEFAULT,
    base: Scope = BASE,
    *,
    jobs: int | None = None,
    limit: int = LIMIT,
    file: Path | None = None,
    progress: Progress | None = None,
) -> Matrix:
    """Decide all combinations in every column. An interruption ends it with what is known.

    With `file`, what is known is written there after every part, and what is there is not decided again. `progress` is
    told how many parts are done, of how many, and how many explorations there are. Raises ScopeError, TraceError.
    """
    for faults in columns:
        column(faults, base)
    cells = list(load(file, base, limit).cells) if file is not None and file.exists() else []
    work = [(faults, fixed) for faults in columns for fixed in parts()]
    stopped, done = None, 0
    pool = ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=get_context("spawn"), initializer=_follow)
    try:
        ensure_running()  # the helper of multiprocessing, whose start lets Ctrl-C through again
        with _no_interrupts():
            waiting = [
                pool.submit(cover, faults, fixed, base, limit, [x for x in cells if x.faults == faults])
                for faults, fixed in sorted(work, key=_weight)
            ]
        for future in as_completed(waiting):
            cells = list(dict.fromkeys([*cells, *future.result()]))  # two parts may meet in a cell
            done += 1
            if file is not None and future.result():
                write(file, dumps(Matrix(base, tuple(dict.fromkeys(x.faults for x in cells)), tuple(cells)), limit))
            if progress is not None:
                progress(done, len(work), len(cells))
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    except BrokenProcessPool:
        stopped = DIED
    finally:
        with _no_interrupts():
            if done < len(work):
                for child in active_children():
                    child.terminate()
            pool.shutdown(cancel_futures=True)
    wanted = [x for x in cells if x.faults in columns]
    return Matrix(base, tuple(columns), tuple(sorted(wanted, key=lambda x: _order(columns, x))), stopped)


def parts() -> Iterator[dict[str, str]]:
    for values in product(*[DOMAINS[name] for name in SPLIT]):
        yield {name: value.value for name, value in zip(SPLIT, values, strict=True)}


def _weight(part: Part) -> tuple[int, bool, str, bool]:
    """Sort key: the quick columns first, so that an interruption leaves whole ones; of each, the long parts first."""
    faults, fixed = part
    return cost(faults), faults != "none", faults, fixed["reconcile"] == "never"


def _order(columns: Sequence[str], cell: Cell) -> tuple[int, list[int]]:
    places = {name: [value.value for value in values] for name, values in DOMAINS.items()}
    return columns.index(cell.faults), [places[name].index(value) for name, value in cell.fixed]


def _follow() -> None:
    """End this worker when its parent ends, even by a signal that nothing can catch."""
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C until the block ends. Processes that start in it never get any."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The file


def as_object(found: Matrix, limit: int = LIMIT, policies: Mapping[str, Policy] | None = None) -> dict[str, Any]:
    """Return the JSON: `matrix` has the `policies` (the named ones), `combinations` every exploration and its axes.

    `histories` has each shortest history once; `findings` of an exploration are positions in it.
    """
    seen: dict[tuple[Any, ...], int] = {}
    shown = policies or {name: policy for name, (policy, _) in NAMED.items()}
    looks = map(found.of, found.columns)
    rows = [(name, look(policy)) for look in looks for name, policy in shown.items()]
    combinations = [
        {
            "faults": c.faults,
            "axes": dict(c.fixed),
            "verdict": c.verdict,
            "findings": [seen.setdefault((x.verdict, x.events), len(seen)) for x in c.findings],
            "states": c.states,
            **({"stopped": c.stopped} if c.stopped else {}),
        }
        for c in found.cells
    ]
    return {
        "scope": {name: size for name, size in found.base.sizes().items() if size},
        "limit": limit,
        "code": protocol_digest(),
        "columns": found.columns,
        "missing": found.missing if found.stopped else (),
        "matrix": [{"policy": n, "faults": c.faults, "verdict": c.verdict, "causes": c.causes} for n, c in rows],
        "combinations": combinations,
        "histories": [
            {"property": verdict.property, "cause": verdict.cause, "events": [event.to_json() for event in events]}
            for verdict, events in seen
        ],
    }


def dumps(found: Matrix, limit: int = LIMIT) -> str:
    """Return the JSON as text, with one line for each exploration and each history."""
    parts = []
    for key, value in as_object(found, limit).items():
        inside = ",\n".join("  " + json.dumps(x) for x in value) if isinstance(value, list) else ""
        parts.append(f' "{key}": ' + (f"[\n{inside}\n ]" if inside else json.dumps(value)))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def loads(text: str) -> Matrix:
    """Return the matrix that `dumps` has written. Raises KeyError, TypeError, ValueError and the like if it has not."""
    data = json.loads(text)
    histories = [
        Shortest(Verdict(x["property"], x["cause"]), tuple(map(from_json, x["events"]))) for x in data["histories"]
    ]
    cells = [
        Cell(
            x["faults"],
            tuple(dict(x["axes"]).items()),
            tuple(histories[i] for i in x["findings"]),
            x["states"],
            x.get("stopped"),
        )
        for x in data["combinations"]
    ]
    sizes: Mapping[str, int] = dict.fromkeys(Scope().sizes(), 0) | data["scope"]
    return Matrix(Scope(**sizes), tuple(data["columns"]), tuple(cells))


def load(file: Path, base: Scope, limit: int) -> Matrix:
    """Return what a file knows of a matrix. Cells at a lower limit are not known. Raises TraceError in one sentence."""
    try:
        text = file.read_text("utf-8")
        data, found = json.loads(text), loads(text)
        mine = (data["code"], found.base) == (protocol_digest(), base)
        kept = tuple(x for x in found.cells if x.stopped is None or data["limit"] >= limit)
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from None
    except (AttributeError, EventError, IndexError, KeyError, TypeError, ValueError):
        raise TraceError(f"{file} is not the file of a matrix: choose another name") from None
    if not mine:
        raise TraceError(f"{file} was begun by other code or in another scope: remove it to start again")
    return Matrix(base, found.columns, kept)
