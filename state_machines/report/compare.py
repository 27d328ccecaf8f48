"""The same history under several policies: where they first differ, what each snapshot does, who is left un-ACKed.

Under another policy an event that cannot happen is left out. Each history then goes on by itself for as long as
something goes well, so that a reader sees what its snapshot comes to.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve, frozen
from rich.text import Text

from protocol.events import Commit, CommitFails, Event, LoseReply, LoseRequest, Publish, Snapshot
from protocol.policy import Policy, spell
from protocol.policy import parse as parse_policy
from protocol.scope import Scope
from protocol.snapshot import Step
from protocol.state import System, initial
from protocol.system import broken, step
from protocol.wire import Call
from state_machines.replay import Replay
from state_machines.report.changes import changes, names
from state_machines.report.onward import extended
from state_machines.report.text import lanes, legend, wrapped
from state_machines.report.view import View, unacked, view
from state_machines.verdict import Judge, Unknown, verdict_of

CONTINUED: Final = "+"


@frozen
class Side:
    """One policy's history. `seen` shows it with its continuation, whose first event is number `own`.

    `labels` number the columns: by the events of the file, then +1, +2 for what happens by itself. `unknown` says that
    a state could not be decided within the judge's limit, so that no verdict here does not mean a clean history.
    """

    name: str
    replay: Replay
    seen: View
    labels: tuple[str, ...]
    left_out: tuple[tuple[int, Event, str], ...]
    snapshots: tuple[str, ...]
    end: str
    unknown: bool = False

    @property
    def own(self) -> int:
        return len(self.replay.events)

    @property
    def broken(self) -> str:
        """The sentence of what broke, and after which event; empty when nothing did."""
        run = self.seen.replay
        if self.unknown:
            return "Unknown: a state could not be decided within the limit."
        if run.verdict is None or run.at is None:
            return ""
        label = self.labels[run.at - 1] if run.at else 0
        return f"{run.verdict.word.upper()} after event {label}: {run.verdict.sentence}."

    @property
    def unacked(self) -> str:
        """Who is left un-ACKed at the end."""
        return names(unacked(self.seen.replay.states[-1]))


@frozen
class Difference:
    """The first event whose effects are not the same everywhere: its label, and what it does on each side."""

    label: str
    effects: tuple[str, ...]


@frozen
class Comparison:
    """A history under several policies. `first` is None when every policy does the same."""

    sides: tuple[Side, ...]
    first: Difference | None


def split_policies(text: str) -> list[str]:
    """Return the policies of a list like `sibling,prompt_group,late=raise`: an axis belongs to the name before it."""
    out: list[str] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if "=" in word and ":" not in word and out:
            out[-1] += f",{word}"
        else:
            out.append(word)
    return out


def compare(
    events: Sequence[Event], scope: Scope, policies: Iterable[tuple[str, Policy]], judge: Judge | None = None
) -> Comparison:
    """Return the history under each of the named policies."""
    judge = judge or Judge()
    sides = tuple(side(name, policy, scope, events, judge) for name, policy in policies)
    return Comparison(sides, first_difference(sides))


def side(name: str, policy: Policy, scope: Scope, events: Sequence[Event], judge: Judge) -> Side:
    """Return what one policy makes of a history."""
    kept, labels, left_out, states = [], [], [], [initial(policy, scope)]
    for number, event in enumerate(events, 1):
        why = broken(states[-1], event)
        if why is None:
            states.append(step(states[-1], event))
            kept.append(event)
            labels.append(str(number))
        else:
            left_out.append((number, event, why))
    longer, own, end = extended(Replay(policy, scope, tuple(kept), tuple(states), None, None))
    longer, unknown = judged(longer, judge)
    at = longer.at if longer.at is not None and longer.at <= own else None
    run = Replay(policy, scope, tuple(kept), tuple(states), None if at is None else longer.verdict, at)
    labels += [f"{CONTINUED}{i}" for i in range(1, len(longer.events) - own + 1)]
    return Side(name, run, view(longer, own), tuple(labels), tuple(left_out), _snapshots(longer), end, unknown)


def judged(run: Replay, judge: Judge) -> tuple[Replay, bool]:
    """Return a history with its verdict, also of its continuation, and whether that was left undecided."""
    try:
        verdict, at = verdict_of(judge, run.states, run.events)
    except Unknown:
        return run, True
    return evolve(run, verdict=verdict, at=at), False


def first_difference(sides: tuple[Side, ...]) -> Difference | None:
    """The first label whose effects differ: of the file's events in their order, then of the continuations."""
    labels = sorted({label for s in sides for label in s.labels}, key=lambda x: (x.startswith(CONTINUED), int(x)))
    for label in labels:
        effects = tuple(_effects(s, label) for s in sides)
        if len(set(effects)) > 1:
            return Difference(label, effects)
    return None


def _effects(one: Side, label: str) -> str:
    """What the event with that label does on one side, as a sentence."""
    if label not in one.labels:
        why = next((why for number, _, why in one.left_out if str(number) == label), "")
        return f"cannot happen: {why}" if why else "nothing is left to happen"
    i = one.labels.index(label)
    run = one.seen.replay
    done = changes(run.states[i], run.events[i], run.states[i + 1])
    what = "; ".join(f"{change.side} {change.sentence}" for change in done) or "nothing changes"
    return f"{run.events[i]}: {what}" if label.startswith(CONTINUED) else what


def _snapshots(run: Replay) -> tuple[str, ...]:
    """What each snapshot of a history comes to, one sentence each."""
    out: list[str] = []
    refused = 0
    for before, event, after in zip(run.states, run.events, run.states[1:], strict=False):
        if isinstance(event, Snapshot):
            out.append(f"snapshot {after.snapshot.checkpoint_id} is still waiting at the end")
            refused = 0
        if not out:
            continue
        name = f"snapshot {after.snapshot.checkpoint_id}"
        if before.snapshot.answer not in (None, "ok") and after.snapshot.answer is None:
            refused += 1
        if before.snapshot.step is Step.COMMIT and after.snapshot.step is Step.CAPTURE:
            out[-1] = f"{name} commits"
        elif isinstance(event, Publish) and after.snapshot.step is Step.RESUME:
            out[-1] = f"{name} commits and is published"
        elif _given_up(before, after):
            out[-1] = f"{name} {_aborted(event, refused)}"
    return tuple(out)


def _given_up(before: System, after: System) -> bool:
    """Whether a snapshot is aborted, or ends before Gym was asked for anything, so that there is nothing to abort."""
    if after.snapshot.step is Step.ABORT:
        return before.snapshot.step is not Step.ABORT
    return before.snapshot.step in (Step.FLUSH, Step.PREPARE) and after.snapshot.step is Step.IDLE


def _aborted(event: Event, refused: int) -> str:
    if event.name == "deadline":
        return "is answered 409 until its deadline, and is given up" if refused else "waits until its deadline"
    if isinstance(event, CommitFails | Commit):
        return "fails: the commit is refused"
    if isinstance(event, LoseReply | LoseRequest) and event.call is not Call.ACKNOWLEDGE:
        return f"fails: the {event.call.value} was lost"
    return "fails: the capture finds an ACK debt" if isinstance(event, Publish) else "fails at its strict flush"


def named_policies(texts: Iterable[str]) -> list[tuple[str, Policy]]:
    """Return policies with the shortest names that say which they are."""
    return [(spell(policy), policy) for policy in map(parse_policy, texts)]


# As text


def text(comparison: Comparison, *, width: int = 80) -> Text:
    """Return the comparison for a console: the first difference, then each policy's timeline and what came of it."""
    out = Text()
    first = comparison.first
    if first is None:
        out.append_text(wrapped("Every policy does the same with this history.", width, "bold"))
    else:
        what = "by itself, " if first.label.startswith(CONTINUED) else ""
        out.append_text(wrapped(f"First difference: event {first.label}, {what}marked ▼ below.", width, "bold"))
        for one, effect in zip(comparison.sides, first.effects, strict=True):
            out.append_text(wrapped(f"{one.name}: {effect}", width, "", indent=2))
    for one in comparison.sides:
        out.append("\n")
        out.append(f"── {one.name} ".ljust(width, "─")[:width] + "\n", style="bold")
        labels = tuple(f"{label}▼" if first and label == first.label else label for label in one.labels)
        out.append_text(lanes(one.seen, width, labels=labels))
        for number, event, why in one.left_out:
            out.append_text(wrapped(f"Left out: {number} {event} ({why}).", width, "dim"))
        out.append_text(_outcome(one, width))
    out.append("\n")
    out.append_text(legend([one.seen for one in comparison.sides], width))
    out.append_text(wrapped("+1, +2 …: what happens next when everything goes well.", width, "dim"))
    return out


def _outcome(one: Side, width: int) -> Text:
    out = Text("\n")
    if not one.broken:
        out.append_text(wrapped("Nothing is broken.", width, "bold green"))
    else:
        out.append_text(wrapped(one.broken, width, "bold red"))
    for sentence in one.snapshots:
        out.append_text(wrapped(f"{sentence[0].upper()}{sentence[1:]}.", width, ""))
    out.append_text(wrapped(f"Left un-ACKed at the end: {one.unacked}.", width, ""))
    return out
