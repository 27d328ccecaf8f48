"""What the page shows, as data: every state of every finding, under its own policy and under the named ones.

Findings of one hunt share most of their states, lines and cells. Each is stored once, in a table, and named by its
place: a page of 200 findings stays a few megabytes.
"""

import shlex
from collections.abc import Hashable, Sequence
from typing import Any, Final

import attrs
from attrs import frozen

from protocol.events import Event
from protocol.policy import NAMED, Policy, spell
from protocol.scope import Scope
from protocol.state import System
from protocol.system import enabled
from state_machines.report.changes import GYM, RL, WIRE
from state_machines.report.compare import Side, first_difference, side
from state_machines.report.fullstate import full
from state_machines.report.listing import why
from state_machines.report.mermaid import mermaid
from state_machines.report.text import left, timeline
from state_machines.report.view import MARKS, Mark
from state_machines.trace import Trace
from state_machines.verdict import Judge

SIDES: Final = (RL, WIRE, GYM)
MARK_NUMBERS: Final = {mark: number for number, mark in enumerate(MARKS)}


@frozen
class Source:
    """A trace and where it came from. `command` replays it; by default `stranded replay NAME`."""

    name: str
    trace: Trace
    command: str = ""


@frozen
class Step:
    """One event for the list of a finding: its label, its owner, and each thing it changed."""

    label: str
    event: str
    owner: str
    effects: tuple[str, ...]


@frozen
class Finding:
    """What stands in the page itself for one finding, also without a script."""

    number: int
    name: str
    policy: str
    title: str
    word: str
    sentence: str
    left: str
    command: str
    compare: str
    found_by: tuple[tuple[str, str], ...]
    scope: str
    steps: tuple[Step, ...]
    onward: tuple[Step, ...]
    end: str
    why: tuple[str, ...]
    picture: str
    mermaid: str


class Table:
    """Values by number, each once."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.items: list[Any] = []

    def __call__(self, key: Hashable, value: Any = None) -> int:
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.items)
            self.items.append(key if value is None else value)
        return number


def collect(sources: Sequence[Source], judge: Judge) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings for the page's own text, and the data of its script."""
    tables = Tables()
    findings, data, runs = [], [], Table()
    known: dict[tuple[Policy, Scope, tuple[Event, ...]], Side] = {}
    for number, source in enumerate(sources, 1):
        trace, own = source.trace, spell(source.trace.policy)
        policies = {own: trace.policy} | {name: policy for name, (policy, _) in NAMED.items()}
        sides = {}
        for name, policy in policies.items():
            key = (policy, trace.scope, trace.events)
            if key not in known:
                known[key] = side(name, policy, trace.scope, trace.events, judge)
            sides[name] = known[key]
        findings.append(_finding(number, source, sides[own]))
        others = []
        for name, other in sides.items():
            run = tables.run(other)
            first = None if name == own else first_difference((sides[own], other))
            others.append([runs(_key(run), run), None if first is None else first.label])
        data.append({"runs": others})
    return findings, tables.data() | {"findings": data, "runs": runs.items}


def _key(run: dict[str, Any]) -> str:
    return repr(run)


def _finding(number: int, source: Source, own: Side) -> Finding:
    trace, run = source.trace, own.replay
    steps = tuple(_steps(own))
    title, word, sentence = _verdict_words(trace, own)
    other = "prompt_group" if own.name == "sibling" else "sibling"
    return Finding(
        number=number,
        name=source.name,
        policy=own.name,
        title=title,
        word=word,
        sentence=sentence,
        left=left(run),
        command=source.command or f"stranded replay {shlex.quote(source.name)}",
        compare=shlex.join(["stranded", "compare", source.name, "--policy", own.name, "--policy", other]),
        found_by=tuple((key, str(value)) for key, value in trace.found_by.items()),
        scope=", ".join(f"{name} {size}" for name, size in trace.scope.sizes().items() if size),
        steps=steps[: own.own],
        onward=steps[own.own :],
        end=own.end,
        why=tuple(why(own.seen.replay.states[-1])),
        picture=timeline(run, further=True),
        mermaid=mermaid(run),
    )


def _verdict_words(trace: Trace, own: Side) -> tuple[str, str, str]:
    """The title, the word and the sentence of a finding. What replaying cannot show is said to be only recorded."""
    verdict, recorded = own.replay.verdict, trace.verdict
    if verdict is not None:
        return str(verdict), verdict.word, _sentence(verdict.sentence)
    if recorded is not None:
        shown = "This replay could not be decided" if own.unknown else "The replay on the model alone does not show it"
        told = f"Recorded as {recorded.word}: {recorded.sentence}. {shown}."
        return str(recorded), recorded.word, told
    if own.unknown:
        return "unknown", "unknown", own.broken
    return "no finding", "clean", "Nothing is broken."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _steps(one: Side) -> list[Step]:
    rows = zip(one.labels, one.seen.replay.events, one.seen.changes, strict=True)
    return [
        Step(label, str(event), event.owner.value, tuple(f"{c.side} {c.sentence}" for c in done))
        for label, event, done in rows
    ]


class Tables:
    """The tables that all runs share."""

    def __init__(self) -> None:
        self.lines, self.events, self.cells, self.states = Table(), Table(), Table(), Table()

    def data(self) -> dict[str, Any]:
        return {
            "sides": SIDES,
            "marks": [[mark.value, text] for mark, text in MARKS.items()],
            "lines": self.lines.items,
            "events": self.events.items,
            "cells": self.cells.items,
            "states": self.states.items,
        }

    def run(self, one: Side) -> dict[str, Any]:
        """Return one history under one policy: its columns, lanes, states and outcome."""
        run = one.seen.replay
        return {
            "policy": one.name,
            "own": one.own,
            "labels": list(one.labels),
            "events": [self.event(event) for event in run.events],
            "changes": [[[SIDES.index(c.side), self.lines(c.sentence)] for c in done] for done in one.seen.changes],
            "states": [self.state(system) for system in run.states],
            "lanes": [self.lane(lane) for lane in one.seen.lanes],
            "verdict": ["unknown", one.broken, None] if one.unknown else _verdict(one),
            "snapshots": list(one.snapshots),
            "left": one.unacked,
            "out": [[str(n), str(event), why] for n, event, why in one.left_out],
            "end": one.end,
        }

    def event(self, event: Event) -> int:
        return self.events(event, [str(event), event.owner.value])

    def lane(self, lane: Any) -> list[Any]:
        cells = [self.cells(c, [c.word, _mark(c.mark), int(c.lost)]) for c in lane.cells]
        return [lane.name, int(lane.attempt is not None), lane.note, cells]

    def state(self, system: System) -> int:
        known = self.states.numbers.get(system)
        if known is not None:
            return known
        text = full(system)
        sides = [[self.lines(line) for line in lines] for lines in attrs.astuple(text)]
        return self.states(system, [*sides, [self.event(event) for event in enabled(system)]])


def _verdict(one: Side) -> list[Any] | None:
    run = one.seen.replay
    return None if run.verdict is None else [run.verdict.word, one.broken, run.at]


def _mark(mark: Mark | None) -> int:
    return -1 if mark is None else MARK_NUMBERS[mark]
