"""Gym's `status` report as a value, read from an answer or from a saved document, whoever wrote it.

The document is data from elsewhere: whatever is wrong with it is one sentence, `Unreadable`. Keys that newer versions
add are ignored.
"""

from collections.abc import Iterable
from typing import Any, Final

from attrs import frozen

from protocol.identity import IDENTITY_LIMIT, Attempt, Receipt

COUNT_LIMIT: Final = 1 << 53
COUNTS: Final = (
    "running",
    "parked_with_boundary",
    "parked_without_boundary",
    "completed_unacknowledged",
)


class Unreadable(ValueError):
    """A document that is not what it should be, in one sentence."""


@frozen
class Listed:
    """An attempt in one of the lists of a report. What the list does not say is None."""

    attempt: Attempt
    state: str | None = None
    boundary: int | None = None
    receipt: Receipt | None = None


@frozen
class Report:
    """A `status` report. `executions` is None where the version of Gym does not list them."""

    state: str
    ready_to_commit: bool
    running: int
    parked_with_boundary: int
    parked_without_boundary: int
    completed_unacknowledged: int
    acknowledged_completed: int
    active: int
    blocking: tuple[Listed, ...]
    unacknowledged: tuple[Listed, ...]
    boundaries: tuple[Listed, ...]
    executions: tuple[Listed, ...] | None
    phase: str | None
    active_id: str | None


def read_report(data: object) -> Report:
    """Return the report that a JSON object writes. Raises Unreadable."""
    if not isinstance(data, dict):
        raise Unreadable("the status report is not a JSON object")
    counts = {key: count(data, key) for key in COUNTS}
    ready = data.get("ready_to_commit")
    if not isinstance(ready, bool):
        raise Unreadable('the status report has no "ready_to_commit" that is true or false')
    if data.get("state") not in ("accepting", "preparing"):
        raise Unreadable('the "state" of the status report is neither "accepting" nor "preparing"')
    executions = _listed(data, "executions") if "executions" in data else None
    return Report(
        state=data["state"],
        ready_to_commit=ready,
        **counts,
        acknowledged_completed=count(data, "acknowledged_completed", 0),
        active=count(data, "active", counts["running"] + counts["parked_with_boundary"]),
        blocking=_listed(data, "blocking_attempts"),
        unacknowledged=_listed(data, "completed_unacknowledged_attempts"),
        boundaries=_listed(data, "selected_boundaries"),
        executions=executions,
        phase=optional_word(data, "phase"),
        active_id=optional_word(data, "active_checkpoint_id"),
    )


def count(data: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return a count of a document. Raises Unreadable."""
    value = data.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < COUNT_LIMIT:
        raise Unreadable(f'"{key}" is not a count')
    return value


def optional_word(data: dict[str, Any], key: str) -> str | None:
    """Return a text of a document, or None. Raises Unreadable."""
    value = data.get(key)
    return None if value is None else word(value, key)


def word(value: object, key: str) -> str:
    """Return a text that may be shown: printable and not long. Raises Unreadable."""
    if not isinstance(value, str) or not 1 <= len(value) <= IDENTITY_LIMIT or not value.isprintable():
        raise Unreadable(f'"{key}" is not a printable text of 1 to {IDENTITY_LIMIT} characters')
    return value


def _listed(data: dict[str, Any], key: str) -> tuple[Listed, ...]:
    items = data.get(key)
    if not isinstance(items, list):
        raise Unreadable(f'"{key}" is not a list')
    return tuple(_items(items, key))


def _items(items: Iterable[object], key: str) -> Iterable[Listed]:
    for number, item in enumerate(items, 1):
        where = f'entry {number} of "{key}"'
        try:
            if not isinstance(item, dict):
                raise Unreadable("it is not an object")
            receipt = item.get("completion_receipt")
            if receipt is None and "result_digest" in item:
                receipt = item
            yield Listed(
                read_attempt(item),
                optional_word(item, "state"),
                None if item.get("boundary_index") is None else count(item, "boundary_index"),
                None if receipt is None else read_receipt(receipt),
            )
        except Unreadable as error:
            raise Unreadable(f"{where}: {error}") from None


def read_attempt(data: dict[str, Any]) -> Attempt:
    """Return the attempt that an object names. Raises Unreadable."""
    return Attempt(word(data.get("rollout_id"), "rollout_id"), count(data, "attempt_index"))


def read_receipt(data: object) -> Receipt:
    """Return the completion receipt that a JSON object writes. Raises Unreadable."""
    if not isinstance(data, dict):
        raise Unreadable("a completion receipt is not an object")
    attempt = read_attempt(data)
    digest = data.get("result_digest")
    if not isinstance(digest, str) or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Unreadable('"result_digest" is not the SHA-256 of a result')
    return Receipt(
        attempt.rollout,
        attempt.index,
        count(data, "execution_generation"),
        word(data.get("result_identity"), "result_identity"),
        digest,
        optional_word(data, "manifest_capture_key"),
        optional_word(data, "terminal_model_call_id"),
    )
