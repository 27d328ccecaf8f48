"""What keeps a Gym from ready, in plain words: from its `status` report, and the trainer's ledger where there is one.

The report says what Gym retains, not who will release it. With the ledger (docs/doctor.md) that is decided for every
result; without it, what the attempts themselves give away is said, and otherwise that it cannot be told.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from attrs import field, frozen

from protocol.identity import Attempt, Receipt
from protocol.properties import CAUSES, Cause
from state_machines.targets.status import COUNT_LIMIT, Listed, Report, Unreadable, word

LEDGER_FORMAT: Final = "stranded/ledger"
SIBLING: Final = re.compile(r"(?P<group>.+)_g\d+")
PARKED: Final = frozenset({"parked", "external_wait_frozen", "model_wait_frozen"})
PAUSED: Final = frozenset({"prepared", "committing", "committed_paused", "restoring", "restored_paused"})


class Owner(Enum):
    """Who releases what is held, if nobody steps in. The value begins the sentence that says what would."""

    ITSELF = "Goes by itself"
    TRAINER = "The trainer releases it"
    NOBODY = "Nobody will release it. What would"
    UNKNOWN = "Whether anybody will release it cannot be told from here. What would"


@frozen
class Ledger:
    """What the trainer knows: attempts it has sealed, holds until the seal, has given up, or still waits for."""

    sealed: frozenset[Attempt] = frozenset()
    held: frozenset[Attempt] = frozenset()
    given_up: frozenset[Attempt] = frozenset()
    waiting: frozenset[Attempt] = frozenset()


@frozen
class Hold:
    """One thing that keeps Gym from ready: what, since when it is stuck (`cause`), who releases it, what would."""

    what: str
    owner: Owner
    release: str
    cause: Cause | None = None
    receipt: Receipt | None = None


@frozen
class Diagnosis:
    """`ready` is None when the report contradicts itself, which `contradiction` then says."""

    ready: bool | None
    sentence: str
    holds: tuple[Hold, ...] = field(factory=tuple)
    contradiction: str | None = None

    @property
    def exit_code(self) -> int:
        return 3 if self.ready is None else 0 if self.ready else 1

    @property
    def unowned(self) -> tuple[Receipt, ...]:
        """The receipts of results that nobody owns any more."""
        return tuple(h.receipt for h in self.holds if h.receipt is not None and h.owner is Owner.NOBODY)


def diagnose(report: Report, ledger: Ledger | None = None) -> Diagnosis:
    """Return why a Gym with this report is ready, or not."""
    wrong = contradiction(report)
    if wrong is not None:
        return Diagnosis(None, f"It cannot be told whether Gym is ready: {wrong}.", (), wrong)
    blocking = (*_retained(report, ledger), *_parked(report), *_running(report, ledger))
    holds = (*_closed(report), *blocking)
    if not holds:
        under_way = f" A checkpoint is in phase {report.phase}." if report.phase in PAUSED else ""
        return Diagnosis(True, f"Gym is ready to commit: nothing runs and nothing is un-ACKed.{under_way}")
    owners = {hold.owner for hold in blocking}
    if report.ready_to_commit:
        return Diagnosis(False, "Gym could commit, but it admits no runs and no checkpoint is under way.", holds)
    if Owner.NOBODY in owners:
        sentence = "Gym is not ready, and will not be: nobody is left to release what it holds."
    elif Owner.UNKNOWN in owners:
        lacking = "without the trainer's ledger" if ledger is None else "from this report and this ledger"
        sentence = f"Gym is not ready. Whether it can become ready cannot be told {lacking}."
    else:
        sentence = "Gym is not ready. It can become ready: everything it holds is somebody's to release."
    return Diagnosis(False, sentence, holds)


def contradiction(report: Report) -> str | None:
    """Return how a report contradicts itself, or None."""
    counted = report.running + report.parked_without_boundary + report.completed_unacknowledged
    if report.ready_to_commit and counted:
        return "the report says ready, and counts what forbids it"
    if not report.ready_to_commit and not counted:
        return "the report says not ready, and counts nothing that forbids it"
    if len(report.unacknowledged) > report.completed_unacknowledged:
        return "the report lists more un-ACKed results than it counts"
    if len(report.blocking) > report.running:
        return "the report lists more running attempts than it counts"
    attempts = [x.attempt for x in report.unacknowledged]
    if len(set(attempts)) != len(attempts):
        return "the report lists an un-ACKed result twice"
    return None


def _running(report: Report, ledger: Ledger | None) -> Iterable[Hold]:
    ends = "it ends, or parks at its next boundary while a checkpoint prepares"
    late = "its failure, or an acknowledgement of its late result, by the trainer or whoever takes it over"
    for listed in report.blocking:
        why, cause = _unwanted(report, ledger, listed.attempt)
        if cause is None:
            yield Hold(f"{listed.attempt} is running", Owner.ITSELF, ends)
        else:
            yield Hold(f"{listed.attempt} is running: {why}", Owner.UNKNOWN, late, cause)
    unnamed = report.running - len(report.blocking)
    if unnamed > 0:
        yield Hold(f"{_count(unnamed, 'run')} that the report does not name", Owner.ITSELF, ends)


def _unwanted(report: Report, ledger: Ledger | None, attempt: Attempt) -> tuple[str, Cause | None]:
    """Return why nobody may owe the result that a run ends with, and the cause that would fit then; None for others."""
    if ledger is None:
        again = "its group has been tried again, so that its result may come too late for anybody to owe it"
        return (again, Cause.LATE_RESULT) if _tried_again(report, attempt) else ("", None)
    if attempt in ledger.given_up:
        return (
            "the trainer has given it up, so that its result may come too late for anybody to owe it",
            Cause.LATE_RESULT,
        )
    if attempt in ledger.sealed | ledger.held | ledger.waiting:
        return "", None
    return "the trainer's ledger does not know it, so that nobody may owe its result", Cause.FORGOTTEN_RESULT


def _parked(report: Report) -> Iterable[Hold]:
    named = [
        x for x in report.executions or () if x.state in PARKED and x.boundary is None and x not in report.boundaries
    ]
    names = [f"{x.attempt} is" for x in named][: report.parked_without_boundary]
    unnamed = report.parked_without_boundary - len(names)
    names += [f"{_count(unnamed, 'run')} that the report does not name {'is' if unnamed == 1 else 'are'}"] * (
        unnamed > 0
    )
    idle = Owner.NOBODY if report.phase == "idle" else Owner.UNKNOWN  # a saved report may not say the phase
    owner = Owner.TRAINER if report.active_id is not None else idle
    for name in names:
        yield Hold(
            f"{name} parked without a boundary", owner, "a resume, which also ends the checkpoint",
            Cause.PARKED_WITHOUT_BOUNDARY,
        )  # fmt: skip


def _retained(report: Report, ledger: Ledger | None) -> Iterable[Hold]:
    for listed in report.unacknowledged:
        what = f"{listed.attempt} has a result that was not acknowledged"
        if listed.receipt is None:
            yield _null(what)
            continue
        owner, why, cause = _owner(report, ledger, listed)
        yield Hold(f"{what}: {why}", owner, _release(owner), cause, listed.receipt)
    unnamed = report.completed_unacknowledged - len(report.unacknowledged)
    if unnamed > 0:
        yield _null(f"{_count(unnamed, 'result')} that the report counts and does not list")


def _null(what: str) -> Hold:
    why = f"{what}, and there is no receipt for it"
    return Hold(why, Owner.NOBODY, "only a restart of Gym: a null result cannot be acknowledged", Cause.NULL_RESULT)


def _owner(report: Report, ledger: Ledger | None, listed: Listed) -> tuple[Owner, str, Cause | None]:
    attempt = listed.attempt
    preparing = report.state == "preparing"
    if ledger is None:
        if _tried_again(report, attempt):
            why = "its group has been tried again, and a trainer that acknowledges at the seal owes it no more"
            return Owner.UNKNOWN, why, Cause.ABANDONED_RESULT
        if preparing and _siblings_parked(report, attempt):
            why = "siblings of it are parked, so a trainer that acknowledges at the seal cannot seal it"
            return Owner.UNKNOWN, why, Cause.PARTIAL_GROUP
        return Owner.UNKNOWN, "the trainer may owe it, hold it, or never have seen it", None
    if attempt in ledger.sealed:
        cause = Cause.DRAIN_DIED if preparing else None
        return Owner.TRAINER, "the trainer has sealed it and owes its acknowledgement", cause
    if attempt in ledger.held:
        if preparing:
            why = (
                "the trainer holds it until the seal, which waits for siblings that a prepared Gym does not let finish"
            )
            return Owner.TRAINER, why, Cause.PARTIAL_GROUP
        return Owner.TRAINER, "the trainer holds it and will owe it at the seal", None
    if attempt in ledger.given_up:
        cause = Cause.ABANDONED_RESULT if _tried_again(report, attempt) else Cause.LATE_RESULT
        return Owner.NOBODY, "the trainer has given it up, and nobody owes it any more", cause
    if attempt in ledger.waiting:
        why = "the trainer waits for its answer: it takes the result if that is on its way, and never if it was lost"
        return Owner.UNKNOWN, why, Cause.LOST_REPLY
    return Owner.NOBODY, "the trainer's ledger does not know it", Cause.FORGOTTEN_RESULT


def _release(owner: Owner) -> str:
    if owner is Owner.TRAINER:
        return "the trainer's acknowledgement, with this receipt"
    if owner is Owner.NOBODY:
        return "an acknowledgement with this receipt, from whoever takes the result over (doctor --release)"
    return "an acknowledgement with this receipt, once it is known that the trainer will not send it"


def _closed(report: Report) -> Iterable[Hold]:
    if report.state != "preparing" or report.phase not in (None, "idle"):
        return
    if report.phase is None:
        if report.ready_to_commit:
            return  # a saved report of a Gym that is prepared looks the same
        yield Hold("admission is closed", Owner.UNKNOWN, "the checkpoint's resume, if one is under way")
        return
    what = "admission is closed and no checkpoint is under way"
    if not report.ready_to_commit:
        what += ": a trainer is between two prepares that were refused, or nobody is"
    release = "a resume, with the id of the checkpoint that closed it or a new one"
    yield Hold(what, Owner.UNKNOWN, release, Cause.CLOSED_GYM)


def _tried_again(report: Report, attempt: Attempt) -> bool:
    """Whether a later attempt of the attempt's group is known to Gym."""
    return any(_group(x.attempt) == _group(attempt) and x.attempt.index > attempt.index for x in _everything(report))


def _siblings_parked(report: Report, attempt: Attempt) -> bool:
    parked = (*report.boundaries, *(x for x in report.executions or () if x.state in PARKED))
    return any(_group(x.attempt) == _group(attempt) and x.attempt.index == attempt.index for x in parked)


def _everything(report: Report) -> tuple[Listed, ...]:
    return (*(report.executions or ()), *report.blocking, *report.unacknowledged, *report.boundaries)


def _group(attempt: Attempt) -> str:
    match = SIBLING.fullmatch(attempt.rollout)
    return attempt.rollout if match is None else match["group"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def causes(diagnosis: Diagnosis) -> list[Cause]:
    """Return the causes that fit, in the order of `Cause`."""
    found = {hold.cause for hold in diagnosis.holds if hold.cause is not None}
    return [cause for cause in Cause if cause in found]


def sentence_of(cause: Cause) -> str:
    return CAUSES[cause]


def read_ledger(data: object) -> Ledger:
    """Return the ledger that a JSON object writes (docs/doctor.md). Raises Unreadable."""
    if not isinstance(data, dict) or data.get("format") != LEDGER_FORMAT or not _is_one(data.get("version")):
        raise Unreadable(f'not a ledger: "format" is not "{LEDGER_FORMAT}", or "version" is not 1')
    keys = ("sealed", "held", "given_up", "waiting")
    extra = sorted(set(map(str, data)) - {*keys, "format", "version"})
    if extra:
        raise Unreadable(f"unknown key {extra[0]!r:.80} in the ledger")
    lists = {key: _attempts(data.get(key, []), key) for key in keys}
    for i, key in enumerate(keys):
        for other in keys[i + 1 :]:
            both = lists[key] & lists[other]
            if both:
                raise Unreadable(f"{min(both)} is in both {key} and {other}")
    return Ledger(**lists)


def _shown(item: object) -> str:
    """A value as it is shown in a sentence. Python refuses to write an integer of very many digits."""
    try:
        return f"{item!r:.80}"
    except ValueError:
        return "a number of thousands of digits"


def _is_one(version: object) -> bool:
    return version == 1 and isinstance(version, int) and not isinstance(version, bool)


def _attempts(data: object, key: str) -> frozenset[Attempt]:
    if not isinstance(data, list):
        raise Unreadable(f'"{key}" is not a list of attempts')
    return frozenset(_attempt(item, key) for item in data)


def _attempt(item: Any, key: str) -> Attempt:
    """An attempt, as `p7_g0/1` or as an object with rollout_id and attempt_index."""
    if isinstance(item, dict) and set(item) == {"rollout_id", "attempt_index"}:
        rollout, index = item["rollout_id"], item["attempt_index"]
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < COUNT_LIMIT:
            return Attempt(word(rollout, "rollout_id"), index)
    if isinstance(item, str):
        rollout, _, text = item.rpartition("/")
        if rollout and text.isascii() and text.isdecimal() and len(text) <= 9:
            return Attempt(word(rollout, "rollout_id"), int(text))
    raise Unreadable(f'{_shown(item)} in "{key}" is not an attempt: "p7_g0/1", or rollout_id and attempt_index')
