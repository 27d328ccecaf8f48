"""One neutral view of a history, from which every picture is made: lanes, what each event does in them, what is left.

A lane is RL, Gym, the snapshot, or one attempt of a rollout; the attempts of a rollout stand together. A cell is one
event in one lane: the word of what happened there, and the state that holds after it.
"""

from enum import Enum
from typing import Final

from attrs import frozen

from protocol.events import (
    Admit,
    Answer,
    Arrive,
    Boundary,
    Commit,
    CommitFails,
    Deadline,
    Deliver,
    Disconnect,
    Duplicate,
    Event,
    Fail,
    Finish,
    Flush,
    LoseReply,
    LoseRequest,
    NullResult,
    Prepare,
    Publish,
    ReconcileLedger,
    Refuse,
    RestartBoth,
    RestartGym,
    RestartTrainer,
    Resume,
    RetireRun,
    Snapshot,
)
from protocol.gym import State
from protocol.identity import Attempt, locate, rollout_id
from protocol.properties import culprits
from protocol.snapshot import Step
from protocol.state import System
from protocol.trainer import AttemptStatus
from protocol.wire import Call, Kind
from state_machines.replay import Replay
from state_machines.report.changes import GYM, RL, Change, changes

LOST: Final = "✗"


class Mark(Enum):
    """What an attempt is, as far as a picture tells states apart. The value is for style sheets."""

    WAITING = "waiting"  # reserved, or its request is on the wire
    RUNNING = "running"
    PARKED = "parked"
    BARE = "bare"  # parked without a boundary
    UNACKED = "unacked"
    ACKED = "acked"
    CLOSED = "closed"  # of Gym: admission is closed
    BUSY = "busy"  # of the snapshot: one is under way


MARKS: Final[dict[Mark, str]] = {
    Mark.RUNNING: "running",
    Mark.UNACKED: "finished, not ACKed",
    Mark.ACKED: "finished, ACKed",
    Mark.PARKED: "parked",
    Mark.BARE: "parked without a boundary",
    Mark.WAITING: "not begun",
    Mark.CLOSED: "admission closed",
    Mark.BUSY: "snapshot under way",
}


@frozen
class Cell:
    """One event in one lane. `lost` says that `word` is about something the wire or a process lost."""

    word: str = ""
    mark: Mark | None = None
    lost: bool = False


@frozen
class Lane:
    """A row of a picture. `attempt` is None for RL, Gym and the snapshot; `first` begins a rollout's attempts.

    `note` is what to remember of it at the end, for a broken history."""

    name: str
    cells: tuple[Cell, ...]
    attempt: Attempt | None = None
    first: bool = True
    note: str = ""


@frozen
class View:
    """A history as lanes: one cell in each lane for every event. `left` are the un-ACKed results at its end."""

    replay: Replay
    lanes: tuple[Lane, ...]
    changes: tuple[tuple[Change, ...], ...]
    left: tuple[Attempt, ...]
    own: int


GYM_NOTES: Final = {
    "stranded": "never ready",
    "blocked": "waits for the deadline",
    "closed": "stays closed",
    "unfair": "never settles",
}


def view(replay: Replay, own: int | None = None) -> View:
    """Return the view of a history. Its events after the first `own` are a continuation (`onward.extended`)."""
    steps = tuple(zip(replay.states, replay.events, replay.states[1:], strict=False))
    done = tuple(changes(*step) for step in steps)
    left = unacked(replay.states[-1])
    word = None if replay.verdict is None else replay.verdict.word
    stuck = {"stranded": culprits(replay.states[-1]), "blocked": left}.get(word or "", ())

    def note(attempt: Attempt) -> str:
        return "" if attempt not in stuck else "un-ACKed" if attempt in left else "too late"

    attempts = _attempts(replay.states)
    lanes = [Lane(RL, tuple(_rl(*step, did) for step, did in zip(steps, done, strict=True)))]
    rollout = None
    for attempt in attempts:
        cells = tuple(_attempt(attempt, *step) for step in steps)
        lanes.append(Lane(str(attempt), cells, attempt, attempt.rollout != rollout, note(attempt)))
        rollout = attempt.rollout
    gym = tuple(_gym(*step, did) for step, did in zip(steps, done, strict=True))
    over = word == "blocked" and own is not None and own < len(replay.events)
    lanes.append(Lane(GYM, gym, note="" if over else GYM_NOTES.get(word or "", "")))
    snapshots = tuple(_snapshot(*step) for step in steps)
    if any(cell != Cell() for cell in snapshots):
        lanes.append(Lane("snapshot", snapshots))
    return View(replay, tuple(lanes), done, left, len(replay.events) if own is None else own)


def unacked(system: System) -> tuple[Attempt, ...]:
    """Return the attempts whose finished results Gym still retains."""
    return tuple(a for a, e in system.gym.executions if e.state is State.COMPLETED)


def mark(system: System, attempt: Attempt) -> Mark | None:
    """Return what `attempt` is in `system`; None when it is unknown, or gone without a result."""
    execution = system.gym.find(attempt)
    if execution is not None:
        if execution.state is State.PARKED:
            return Mark.BARE if execution.boundary is None else Mark.PARKED
        return Mark.UNACKED if execution.state is State.COMPLETED else Mark.RUNNING
    if any(receipt.attempt == attempt for receipt in system.gym.acknowledged):
        return Mark.ACKED
    message, entry = system.wire.find(attempt), system.trainer.entry(attempt)
    waiting = (message is not None and message.kind is Kind.REQUEST) or (
        entry is not None and entry.status is AttemptStatus.RESERVED
    )
    return Mark.WAITING if waiting else None


def _attempts(states: tuple[System, ...]) -> list[Attempt]:
    """Every attempt that a state knows, those of one rollout together."""
    found: set[Attempt] = set()
    for system in states:
        found.update(a for a, _ in system.gym.executions)
        for i, group in enumerate(system.trainer.groups):
            for s, entries in enumerate(() if group is None else group.siblings):
                found.update(Attempt(rollout_id(i, s), n) for n in range(len(entries)))
    return sorted(found, key=lambda a: (locate(a.rollout), a.index))


OWN_WORDS: Final[dict[type[Event], str]] = {
    Arrive: "begin",
    Finish: "finish",
    Boundary: "park",
    Deliver: "→RL",
    RetireRun: "retire",
    Fail: f"fail{LOST}",
    NullResult: "null",
    Refuse: "refused",
    Disconnect: f"client{LOST}",
    Duplicate: "copied",
}
LOST_WORDS: Final = {Call.RUN: "reply", Call.RECEIPT: "receipt", Call.RETIRE: "retire"}


def _attempt(attempt: Attempt, before: System, event: Event, after: System) -> Cell:
    old, new = mark(before, attempt), mark(after, attempt)
    if getattr(event, "attempt", None) == attempt:
        if isinstance(event, LoseReply | LoseRequest):
            word = "/run" if isinstance(event, LoseRequest) and event.call is Call.RUN else LOST_WORDS[event.call]
            return Cell(f"{word}{LOST}", new, lost=True)
        word = OWN_WORDS[type(event)]
        if isinstance(event, Deliver):
            message = before.wire.find(attempt)
            word = {Kind.LOST: f"error{LOST}", Kind.FAILURE: "500→RL", Kind.REFUSED: "409→RL"}.get(
                message.kind if message else Kind.RESULT, word
            )
        if isinstance(event, RetireRun) and after.gym.find(attempt) is not None:
            word = "kept"
        return Cell(word, new, lost=word.endswith(LOST))
    if old is new:
        return Cell("", new)
    if new is None:
        return Cell(f"gone{LOST}", None, lost=True)
    sent = old is None or old is Mark.WAITING
    words = {Mark.RUNNING: "run" if sent else "go on", Mark.WAITING: "wait", Mark.ACKED: "ACK"}
    return Cell(words.get(new, ""), new)


def _rl(before: System, event: Event, after: System, did: tuple[Change, ...]) -> Cell:
    """RL's lane: what the event made of the ledger and the outbox, the gravest first."""
    if isinstance(event, RestartTrainer | RestartBoth):
        return Cell(f"restart{LOST}", lost=True)
    if isinstance(event, LoseReply | LoseRequest) and event.call is Call.ACKNOWLEDGE:
        return Cell(f"ACK{LOST}", lost=True)
    if isinstance(event, Flush):
        return Cell("flush" if len(after.trainer.outbox) < len(before.trainer.outbox) else f"flush 409{LOST}")
    if isinstance(event, ReconcileLedger):
        return Cell("reconcile")
    gone = {locate(a.rollout)[0] for c in did if c.side == RL and c.sentence.startswith("abandons") for a in c.attempts}
    words = [change.word for change in did if change.side == RL and change.word]
    if "drop" in words:
        return Cell("drop group")
    if gone:
        return Cell(f"abandon p{min(gone)}")
    if any(c.side == RL and c.sentence.startswith("gives up p") for c in did):
        return Cell("retry")
    if isinstance(event, Admit):
        return Cell(words[0] if words else "admit")
    return Cell(words[0] if words else "")


def _gym(before: System, event: Event, after: System, did: tuple[Change, ...]) -> Cell:
    fill = None if after.gym.open else Mark.CLOSED
    if isinstance(event, RestartGym | RestartBoth):
        return Cell(f"restart{LOST}", fill, lost=True)
    words = [change.word for change in did if change.side == GYM and change.word]
    if "not ready" in words:
        return Cell("not ready", fill)
    return Cell(words[-1] if words else "", fill)


SNAPSHOT_WORDS: Final[dict[type[Event], str]] = {
    Snapshot: "begin",
    Prepare: "prepare",
    Deadline: "deadline",
    Commit: "commit",
    CommitFails: f"commit{LOST}",
    Publish: "publish",
    Resume: "resume",
}


def _snapshot(before: System, event: Event, after: System) -> Cell:
    fill = None if after.snapshot.step is Step.IDLE else Mark.BUSY
    if isinstance(event, Answer):
        return Cell("200" if before.snapshot.answer == "ok" else "409", fill)
    if isinstance(event, LoseReply | LoseRequest) and event.call in (Call.PREPARE, Call.COMMIT, Call.RESUME):
        return Cell(f"{event.call.value}{LOST}", fill, lost=True)
    if isinstance(event, Publish) and after.snapshot.step is not Step.RESUME:
        return Cell("debt left", fill)
    if before.snapshot.step is not Step.IDLE and after.snapshot.step is Step.IDLE and not isinstance(event, Resume):
        return Cell("given up" if not isinstance(event, Deadline) else "deadline", fill)
    return Cell(SNAPSHOT_WORDS.get(type(event), ""), fill)
