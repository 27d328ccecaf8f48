"""A history as a Mermaid `sequenceDiagram` with three participants, RL, the wire and Gym. GitHub renders it as it is.

An answer to a `/run` goes to the wire when Gym gives it and from there to RL when it is delivered, so that a loss is an
arrow that ends in a cross. The calls that answer at once go to Gym and back.
"""

from collections.abc import Iterable
from typing import Final

from protocol.events import (
    Admit,
    Answer,
    Arrive,
    Commit,
    CommitFails,
    Deliver,
    Duplicate,
    Event,
    Flush,
    LoseReply,
    LoseRequest,
    Prepare,
    Publish,
    RestartBoth,
    RestartGym,
    RestartTrainer,
    Resume,
    RetireRun,
)
from protocol.policy import spell
from protocol.snapshot import Step
from protocol.state import System
from protocol.wire import Call, Kind
from state_machines.replay import Replay
from state_machines.report.changes import GYM, RL, WIRE, Change, changes, names
from state_machines.report.onward import extended
from state_machines.report.text import left

ANSWERS: Final = {
    Kind.RESULT: "200 {}",
    Kind.NULL: "200 {} null",
    Kind.FAILURE: "500 {}",
    Kind.REFUSED: "409 {}",
    Kind.LOST: "no answer {}",
}
ENTITIES: Final = {"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "&": "#amp;", '"': "#quot;", "\n": " "}
RESTARTS: Final[dict[type[Event], str]] = {
    RestartTrainer: "RL restarts",
    RestartGym: "Gym restarts",
    RestartBoth: "RL and Gym restart",
}


def mermaid(replay: Replay, *, further: bool = True) -> str:
    """Return the history as the text of a Mermaid diagram; with `further` its continuation too, in a box of its own."""
    longer, own, end = extended(replay) if further else (replay, len(replay.events), "")
    lines = ["sequenceDiagram", "    participant RL", "    participant W as wire", "    participant G as Gym"]
    steps = list(zip(longer.states, longer.events, longer.states[1:], strict=False))
    for number, step in enumerate(steps[:own], 1):
        lines += [f"    {line}" for line in _event(*step)]
        if number == replay.at:
            lines.append(f"    Note over RL,G: {_verdict(replay)}")
    if replay.at == 0:
        lines.append(f"    Note over RL,G: {_verdict(replay)}")
    if steps[own:]:
        lines.append("    rect rgba(128, 128, 128, 0.15)")
        lines.append("    Note over RL,G: then, if everything goes well")
        for step in steps[own:]:
            lines += [f"    {line}" for line in _event(*step)]
        lines.append("    end")
    lines.append(f"    Note over RL,G: {escaped(left(replay))}" + (f"<br/>{escaped(end)}" if end else ""))
    return "\n".join(lines) + "\n"


def _verdict(replay: Replay) -> str:
    assert replay.verdict is not None
    words = f"{replay.verdict.word.upper()} under {spell(replay.policy)}: {replay.verdict.sentence}"
    return _broken(words)


def _broken(sentence: str, width: int = 60) -> str:
    """A note's text in lines: Mermaid does not wrap it."""
    lines = [""]
    for word in sentence.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br/>".join(escaped(line) for line in lines)


def escaped(text: str) -> str:
    """Return text that Mermaid shows as it is, whatever it holds: its entity codes, also for `#` and `;`."""
    return "".join(ENTITIES.get(character, character) for character in text)


def _event(before: System, event: Event, after: System) -> Iterable[str]:
    did = changes(before, event, after)
    yield from _arrows(before, event, after)
    for side, place in ((RL, "RL"), (GYM, "G")):
        notes = [c.sentence for c in did if c.side == side and not _said(c, event)]
        if notes:
            yield f"Note over {place}: {'<br/>'.join(map(_broken, notes))}"
    if isinstance(event, LoseReply | LoseRequest | Deliver | Arrive):
        return
    for message in after.wire.messages:
        old = before.wire.find(message.attempt)
        if message.kind is Kind.REQUEST and old is None:
            yield f"RL->>W: /run {message.attempt}"
        elif message.kind is not Kind.REQUEST and (old is None or old.kind is not message.kind):
            cross = "--x" if message.kind is Kind.LOST else "-->>"
            yield f"G{cross}W: {ANSWERS[message.kind].format(message.attempt)}"


def _said(change: Change, event: Event) -> bool:
    """Whether an arrow says it already."""
    sent = change.sentence.startswith(("sends /run", "begins to run", "waits for the answer", "is ready: the prepare"))
    prepared = change.sentence.startswith("answers the prepare")
    return sent or change.side == WIRE or prepared or change.sentence.startswith("may ")


def _arrows(before: System, event: Event, after: System) -> Iterable[str]:
    """The calls and answers that an event is."""
    if type(event) in RESTARTS:
        yield f"Note over RL,G: {RESTARTS[type(event)]}"
    elif isinstance(event, LoseReply | LoseRequest):
        yield from _loss(event)
    elif isinstance(event, Deliver):
        message = before.wire.find(event.attempt)
        kind = Kind.RESULT if message is None else message.kind
        yield f"W-->>RL: {ANSWERS[kind].format(event.attempt)}"
    elif isinstance(event, Arrive):
        yield f"W->>G: /run {event.attempt}"
    elif isinstance(event, Duplicate):
        yield f"Note over W: keeps a copy of the answer of {event.attempt}"
    else:
        yield from _calls(before, event, after)
    begun = [a for a, _ in after.gym.executions if before.gym.find(a) is None]
    if begun and not isinstance(event, Arrive):
        yield f"RL->>G: /run {names(begun)}"
    elif isinstance(event, Admit) and not begun and not after.wire.messages:
        yield f"Note over RL: admits group p{event.group}"


def _calls(before: System, event: Event, after: System) -> Iterable[str]:
    name = after.snapshot.checkpoint_id
    if isinstance(event, Flush):
        yield f"RL->>G: acknowledge {names(r.attempt for r in before.trainer.outbox)}"
        yield f"G-->>RL: {'200' if not after.trainer.outbox else '409'}"
    elif isinstance(event, Prepare):
        yield f"RL->>G: prepare {name}"
    elif isinstance(event, Answer):
        ok = before.snapshot.answer == "ok"
        yield f"G-->>RL: {'200 ready' if ok else f'409 {before.snapshot.answer}'}"
    elif isinstance(event, Commit | CommitFails):
        yield f"RL->>G: commit {before.snapshot.checkpoint_id}"
        yield f"G-->>RL: {'200' if after.snapshot.step is Step.CAPTURE else '409'}"
    elif isinstance(event, Resume):
        yield f"RL->>G: resume {before.snapshot.checkpoint_id}"
        yield "G-->>RL: 200"
    elif isinstance(event, RetireRun):
        yield f"RL->>G: retire {event.attempt}"
        kept = after.gym.find(event.attempt) is not None
        yield f"G-->>RL: 200 {'retired: false, completed_unacknowledged: true' if kept else 'retired'}"
    elif isinstance(event, Publish):
        yield f"Note over RL: publishes {name}" if after.snapshot.step is Step.RESUME else "Note over RL: ACK debt left"
    elif event.name in ("deadline", "reconcile", "disconnect", "refuse", "fail"):
        where = "RL" if event.name in ("deadline", "reconcile") else "G"
        yield f"Note over {where}: {escaped(str(event))}"


def _loss(event: LoseReply | LoseRequest) -> Iterable[str]:
    about = "" if event.attempt is None else f" {event.attempt}"
    name = "/run" if event.call is Call.RUN else event.call.value
    if isinstance(event, LoseRequest):
        if event.call is not Call.RUN:
            yield f"RL->>W: {name}{about}"
        yield f"W--xG: {name}{about} is lost"
        return
    if event.call not in (Call.RUN, Call.RECEIPT, Call.PREPARE):
        yield f"RL->>G: {name}{about}"
    elif event.call is Call.RECEIPT:
        yield f"RL->>G: completion-receipt{about}"
    yield f"W--xRL: the answer to {name}{about} is lost"
