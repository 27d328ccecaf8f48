"""Who is who: rollouts, attempts and completion receipts (gym.md, "Identity").

A logical rollout is one sibling of a prompt group (`p7_g0`). One physical run of it is an attempt,
`(rollout_id, attempt_index)`, counted from 0. A finished attempt has a completion receipt; an acknowledgement is that
receipt, exactly: every field takes part in the comparison.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

IDENTITY_LIMIT: Final = 512  # characters of a result identity (gym.md, "A completion receipt")


@frozen(order=True, cache_hash=True)
class Attempt:
    """One physical run of a logical rollout. Shown as `p7_g0/1`: rollout `p7_g0`, attempt 1."""

    rollout: str
    index: int

    def __str__(self) -> str:
        return f"{self.rollout}/{self.index}"

    @property
    def capture_key(self) -> str:
        """The rollout id for attempt 0 and `<rollout_id>-a<N>` for attempt N >= 1 (gym.md, "Identity")."""
        return self.rollout if self.index == 0 else f"{self.rollout}-a{self.index}"


@frozen(order=True, cache_hash=True)
class Receipt:
    """What Gym issues for a finished attempt and what the trainer must return, unchanged, to release it."""

    rollout_id: str
    attempt_index: int
    execution_generation: int
    result_identity: str
    result_digest: str
    manifest_capture_key: str | None = None
    terminal_model_call_id: str | None = None

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.rollout_id, self.attempt_index)


def rollout_id(group: int, sibling: int) -> str:
    """Return the logical id of a sibling by NeMo-RL's convention, `p<group>_g<generation index>`."""
    return f"p{group}_g{sibling}"


@lru_cache(maxsize=4096)
def locate(rollout: str) -> tuple[int, int]:
    """Return `(group, sibling)` of a logical id made by `rollout_id`. Raises ValueError for any other text."""
    group, separator, sibling = rollout.removeprefix("p").partition("_g")
    if not (rollout.startswith("p") and separator and _number(group) and _number(sibling)):
        raise ValueError(f"{rollout!r} is not a rollout id of the form p<group>_g<sibling>")
    return int(group), int(sibling)


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and text == str(int(text))


def digest(result: object) -> str:
    """Return the SHA-256 of `result` as JSON with sorted keys, compact separators, ASCII (gym.md).

    Raises TypeError or ValueError when `result` cannot be written as JSON.
    """
    text = json.dumps(result, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def receipt_for(attempt: Attempt, result: object, generation: int = 1) -> Receipt | None:
    """Return the receipt of `result`, or None when it has none: a null result, or one that is not JSON (gym.md)."""
    if result is None:
        return None
    try:
        sha = digest(result)
    except (TypeError, ValueError):
        return None
    return Receipt(attempt.rollout, attempt.index, generation, _identity(result, sha), sha)


def _identity(result: Any, sha: str) -> str:
    """The result's `id`, else its `response.id`, else the digest; 1 to 512 characters."""
    candidates: list[Any] = [sha]
    if isinstance(result, Mapping):
        response = result.get("response")
        nested = response.get("id") if isinstance(response, Mapping) else None
        candidates = [result.get("id"), nested, sha]
    return next((c for c in candidates if isinstance(c, str) and 1 <= len(c) <= IDENTITY_LIMIT), sha)


@lru_cache(maxsize=4096)
def model_receipt(attempt: Attempt) -> Receipt:
    """Return the receipt that the model's agent earns for `attempt`: its result is `{"id": "p7_g0/1"}`."""
    receipt = receipt_for(attempt, {"id": str(attempt)})
    assert receipt is not None
    return receipt
