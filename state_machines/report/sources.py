"""Reading what `stranded report` is given: trace files, folders of them, and a hunt's --json output."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from protocol.policy import PolicyError
from protocol.policy import parse as parse_policy
from state_machines.report.html.data import Source
from state_machines.trace import FORMAT, LIMIT, VERSION, Trace, TraceError, from_data

BIG: Final = 64 * LIMIT  # of a hunt's output, which holds many traces
SQLITE: Final = b"SQLite format 3\0"
DEPTH: Final = 8  # how deep in another program's JSON a trace is looked for


@frozen
class Read:
    """What was found: traces, and files that could not be used, each with its sentence."""

    sources: tuple[Source, ...]
    problems: tuple[tuple[str, str], ...]


def read(paths: Iterable[Path]) -> Read:
    """Return every trace in these files and folders, in the order of their names; one that repeats another is left out.

    In a folder, JSON files that hold no trace at all are passed over. Raises TraceError for a path that is not there.
    """
    sources: list[Source] = []
    problems: list[tuple[str, str]] = []
    seen: set[Trace] = set()
    for path, named in _files(paths):
        try:
            found = list(_traces(path))
        except TraceError as error:
            problems.append((str(path), str(error)))
            continue
        if not found and named:
            problems.append((str(path), "holds no trace"))
        for trace in found:
            if trace not in seen:
                seen.add(trace)
                sources.append(Source(str(path), trace))
    return Read(tuple(sources), tuple(problems))


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Every file, and whether it was named itself."""
    for path in paths:
        if path.is_dir():
            yield from ((found, False) for found in sorted(path.rglob("*.json")) if found.is_file())
        elif path.exists():
            yield path, True
        else:
            raise TraceError(f"{path}: no such file or folder")


def _traces(path: Path) -> Iterator[Trace]:
    try:
        with path.open("rb") as file:
            raw = file.read(BIG + 1)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}") from None
    if raw.startswith(SQLITE):
        raise TraceError("a database; for a campaign's findings give the folder of `stranded campaign --save`")
    if len(raw) > BIG:
        raise TraceError(f"larger than {BIG >> 20} MiB, which no report is")
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise TraceError("not text in UTF-8") from None
    except (ValueError, RecursionError):
        raise TraceError("truncated or not JSON") from None
    for item in _objects(data, 0):
        yield from_data(item)
    if isinstance(data, dict) and "format" not in data and isinstance(data.get("findings"), list):
        yield from (_of_hunt(data, finding) for finding in data["findings"] if isinstance(finding, dict))


def _of_hunt(data: dict[str, Any], finding: dict[str, Any]) -> Trace:
    """A finding of `stranded hunt --json`: its policy is a word, and the scope stands once for all."""
    try:
        policy = parse_policy(str(finding.get("policy")))
    except PolicyError as error:
        raise TraceError(str(error)) from None
    verdict = {key: finding.get(key) for key in ("property", "cause")}
    seed = {"seed": data["seed"]} if isinstance(data.get("seed"), int) else {}
    return from_data(
        {
            "format": FORMAT,
            "version": VERSION,
            "policy": policy.axes(),
            "scope": data.get("scope"),
            "events": finding.get("events"),
            "verdict": verdict,
            "found_by": {"how": "hunt"} | seed,
        }
    )


def _objects(data: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The traces in a JSON value: itself, or what it holds."""
    if depth > DEPTH:
        return
    if isinstance(data, dict):
        if data.get("format") == FORMAT:
            yield data
            return
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            if isinstance(item, dict | list):
                yield from _objects(item, depth + 1)
