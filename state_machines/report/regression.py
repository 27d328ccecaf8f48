"""A history as a regression test: a small, complete module that passes only when the history no longer fails."""

import keyword
import re
from typing import Any, Final

from protocol.policy import spell
from state_machines.replay import Replay
from state_machines.trace import Trace, to_json

WIDTH: Final = 110
MODULE: Final = '''\
"""A regression test, made by `stranded show FILE --format pytest`: a history that must not fail any more.

It replays the history on POLICY: a policy's name, axis=value pairs, or a policy of your own as module:object. With
TARGET, `http` or a Gym's URL, it also runs the very same history there and fails where that Gym does something else.
Events that cannot happen under POLICY are left out, as `stranded replay` does.
"""

import os

from state_machines.report.regression import failure

POLICY = os.environ.get("STRANDED_POLICY", {policy})
TARGET = os.environ.get("STRANDED_TARGET", "")

TRACE = {trace}


def test_{name}():
    """{about}"""
    broken = failure(TRACE, policy=POLICY, target=TARGET)
    assert broken is None, broken
'''


def module(trace: Trace) -> str:
    """Return the test module of a trace, as text. Nothing that the trace says becomes code."""
    words = "finding" if trace.verdict is None else f"{trace.verdict.word}_{trace.verdict.cause}"
    name = re.sub(r"\W+", "_", words, flags=re.ASCII).strip("_").lower()[:60] or "finding"
    if keyword.iskeyword(name):
        name = f"{name}_"
    sentence = "The history stays without a finding."
    if trace.verdict is not None and trace.verdict.sentence != trace.verdict.cause:
        known = trace.verdict.sentence
        sentence = f"{trace.verdict.word.capitalize()}: {known}."
    literal = _literal(to_json(trace))
    about = "\n    ".join(_lines(sentence, 100))
    return MODULE.format(policy=_quoted(spell(trace.policy)), trace=literal, name=f"{name}_is_repaired", about=about)


def failure(trace: object, *, policy: str = "", target: str = "") -> str | None:
    """Return what is still wrong with a history, as text with its timeline, or None when it no longer fails.

    `trace` is a trace file's object, `policy` and `target` are as on the command line; an empty policy is the trace's
    own. Raises TraceError, PolicyError and TargetError for what cannot be used, and `recovery.Unknown` for what cannot
    be decided: neither passes.
    """
    from state_machines.commands.options import load_policy
    from state_machines.replay import replay_trace
    from state_machines.report.text import timeline
    from state_machines.trace import from_data

    read = from_data(trace)
    chosen = load_policy(policy) if policy else read.policy
    run = replay_trace(read, chosen)
    if run.verdict is not None:
        return f"the history still fails under {spell(chosen)}\n\n{timeline(run)}"
    if target:
        return _on_target(target, run)
    return None


def _literal(value: Any, depth: int = 0) -> str:
    """Return data as Python's own literal, as a formatter would lay it out: short things on one line."""
    if isinstance(value, str):
        return _quoted(value)
    if not isinstance(value, dict | list) or not value:
        return repr(value)
    pairs = isinstance(value, dict)
    if isinstance(value, dict):
        items = [f"{_quoted(k)}: {_literal(v, depth + 1)}" for k, v in value.items()]
    else:
        items = [_literal(v, depth + 1) for v in value]
    start, end = "{}" if pairs else "[]"
    line = f"{start}{', '.join(items)}{end}"
    if depth and "\n" not in line and (len(line) <= WIDTH - 4 * depth):
        return line
    indent, rows = "    " * (depth + 1), [""]
    for item in items:
        together = depth == 1 and pairs and rows[-1] and len(rows[-1]) + len(item) < WIDTH - 4 * depth
        if together:
            rows[-1] += f" {item},"
        else:
            rows.append(f"{indent}{item},")
    return "\n".join([start, *rows[1:], "    " * depth + end])


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isascii() and text.isprintable() and not {'"', "\\"} & set(text) else repr(text)


def _lines(sentence: str, width: int) -> list[str]:
    lines = [""]
    for word in sentence.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _on_target(text: str, run: Replay) -> str | None:
    """The first step after which the target shows something else than the model does."""
    from state_machines.targets.base import follow
    from state_machines.targets.options import TargetChoice

    with TargetChoice(text).open() as target:
        divergence = None if target is None else follow(target, run.policy, run.scope, run.events)
    if divergence is None:
        return None
    return "\n".join([str(divergence), "", *divergence.lines()])
