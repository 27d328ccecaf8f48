"""Trace files: one finding as JSON that replays anywhere (`docs/trace-format.md`).

A file is read as data and nothing else: no pickle, no eval, nothing is imported because a file says so. Every problem
is one sentence with the file and, where there is one, the number of the event.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import frozen

from protocol.events import Event, EventError, from_json
from protocol.policy import AXES, Policy, PolicyError, spell
from protocol.scope import Scope, ScopeError
from state_machines.verdict import Verdict

if TYPE_CHECKING:
    from cattrs import Converter

FORMAT: Final = "stranded/trace"
VERSION: Final = 1
LIMIT: Final = 1 << 20  # bytes
EVENT_LIMIT: Final = 2_000


class TraceError(ValueError):
    """A file that cannot be used, in one sentence."""


@frozen
class Trace:
    """A history with the policy and scope it was found in, its verdict, and who found it (seed, versions).

    `file` is where it was read from, for messages.
    """

    policy: Policy
    scope: Scope
    events: tuple[Event, ...]
    verdict: Verdict | None
    found_by: dict[str, str | int] = attrs.field(factory=dict, eq=False)
    file: str | None = attrs.field(default=None, eq=False)


def found_by(seed: int | None, how: str) -> dict[str, str | int]:
    """Return who found a trace: how, the seed, and the versions that matter."""
    import platform

    out: dict[str, str | int] = {"how": how}
    if seed is not None:
        out["seed"] = seed
    return out | {
        "stranded": _version("stranded"),
        "hypothesis": _version("hypothesis"),
        "python": platform.python_version(),
    }


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def to_json(trace: Trace) -> dict[str, Any]:
    """Return the trace as its JSON object. `policy_name` is for people; the axes count."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy_name": spell(trace.policy),
        "policy": trace.policy.axes(),
        "scope": trace.scope.sizes(),
        "events": [event.to_json() for event in trace.events],
        "verdict": None if trace.verdict is None else attrs.asdict(trace.verdict),
        "found_by": dict(trace.found_by),
    }


def save(path: Path, trace: Trace) -> Path:
    """Write the trace atomically, into a new folder if need be, and return `path`. Raises TraceError."""
    make_folder_of(path)
    return write(path, json.dumps(to_json(trace), indent=1) + "\n")


def make_folder_of(path: Path) -> None:
    """Make the folder of a file and those above it, where they are missing. Raises TraceError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TraceError(f"{path} cannot be written: {error.strerror or error}") from None


def write(path: Path, text: str) -> Path:
    """Write a file so that no reader ever sees half of it, and return `path`. Its folder exists. Raises TraceError."""
    import tempfile

    if not path.parent.is_dir():
        raise TraceError(f"{path} cannot be written: there is no folder {path.parent}")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink()
            raise
    except OSError as error:
        raise TraceError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def load(path: Path) -> Trace:
    """Return the trace in a file. Raises TraceError for whatever is wrong with it."""
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT + 1)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(raw) > LIMIT:
        raise TraceError(f"{path}: larger than 1 MiB, which no trace is")
    try:
        data = json.loads(
            raw.decode("utf-8-sig"), object_pairs_hook=_no_repeats
        )  # a mark of the order of bytes is noise
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not text in UTF-8") from None
    except (ValueError, RecursionError) as error:
        reason = "truncated or not JSON" if not isinstance(error, _Repeated) else str(error)
        raise TraceError(f"{path}: {reason}") from None
    try:
        return attrs.evolve(from_data(data), file=str(path))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def from_data(data: object) -> Trace:
    """Return the trace that a JSON object writes. Raises TraceError."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TraceError(f'not a trace: the key "format" is not "{FORMAT}"')
    if data.get("version") != VERSION or type(data.get("version")) is not int:
        raise TraceError(f"version {data.get('version')!r} of the format; this is a reader of version {VERSION}")
    known = {"format", "version", "policy_name", "policy", "scope", "events", "verdict", "found_by"}
    _only(data, known, "the trace")
    for key in ("policy", "scope", "events"):
        if key not in data:
            raise TraceError(f'the key "{key}" is missing')
    return Trace(
        _policy(data["policy"]),
        _scope(data["scope"]),
        _events(data["events"]),
        _verdict(data.get("verdict")),
        _found_by(data.get("found_by", {})),
    )


def _policy(data: object) -> Policy:
    if not isinstance(data, dict):
        raise TraceError("policy is not an object of axes")
    _only(data, set(AXES), "the policy")
    try:
        return Policy().with_axes({key: str(value) for key, value in data.items()})
    except PolicyError as error:
        raise TraceError(str(error)) from None


def _scope(data: object) -> Scope:
    if not isinstance(data, dict):
        raise TraceError("scope is not an object of bounds")
    _only(data, set(Scope().sizes()), "the scope")
    try:
        return Scope(**data)
    except ScopeError as error:
        raise TraceError(str(error)) from None


def _events(data: object) -> tuple[Event, ...]:
    if not isinstance(data, list):
        raise TraceError("events is not a list")
    if len(data) > EVENT_LIMIT:
        raise TraceError(f"{len(data)} events; a trace has at most {EVENT_LIMIT}")
    events = []
    for number, item in enumerate(data, 1):
        try:
            events.append(from_json(item))
        except EventError as error:
            raise TraceError(f"event {number}: {error}") from None
    return tuple(events)


def _verdict(data: object) -> Verdict | None:
    if data is None:
        return None
    if not isinstance(data, dict) or not all(isinstance(v, str) for v in data.values()):
        raise TraceError("verdict is not an object with property and cause")
    from cattrs import BaseValidationError
    from cattrs.errors import ForbiddenExtraKeysError

    try:
        return _converter().structure(data, Verdict)
    except (BaseValidationError, ForbiddenExtraKeysError):
        raise TraceError("verdict is not an object with property and cause") from None


@cache
def _converter() -> "Converter":
    from cattrs import Converter

    return Converter(forbid_extra_keys=True)


def _found_by(data: object) -> dict[str, str | int]:
    if not isinstance(data, dict) or not all(type(v) in (str, int) for v in data.values()):
        raise TraceError("found_by is not an object of words and numbers")
    return dict(data)


def _only(data: dict[str, Any], known: set[str], where: str) -> None:
    extra = sorted(set(map(str, data)) - known)
    if extra:
        raise TraceError(f"unknown key {extra[0]!r} in {where}")


class _Repeated(ValueError):
    pass


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _Repeated("a key is given twice")
    return out
