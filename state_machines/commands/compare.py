"""`stranded compare`: one history under two or more policies."""

import json
from pathlib import Path
from typing import Any

import click

from state_machines.commands.options import load_policy, out
from state_machines.report.compare import Comparison, Side, split_policies, text
from state_machines.report.compare import compare as compared
from state_machines.report.text import show
from state_machines.trace import load


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "--policies",
    "policies",
    multiple=True,
    default=("sibling", "prompt_group"),
    show_default=True,
    metavar="POLICY",
    help="repeatable: a name, a name with axis=value pairs after it, or module:object",
)
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of timelines")
def compare(file: Path, policies: tuple[str, ...], as_json: bool) -> int:
    """Show the history in FILE under several policies: the first difference, each snapshot, who is left un-ACKed.

    What a policy cannot do is left out; each history then goes on with what happens by itself when all goes well.
    """
    trace = load(file)
    names = [name for text in policies for name in split_policies(text)]
    if len(set(names)) < 2:
        raise click.UsageError("two policies or more are compared: --policy A --policy B")
    comparison = compared(trace.events, trace.scope, [(name, load_policy(name)) for name in names])
    if as_json:
        click.echo(json.dumps(to_json(comparison), indent=1))
    else:
        console = out()
        show(console, text(comparison, width=min(console.width, 100) if console.is_terminal else 80))
    return 3 if any(side.unknown for side in comparison.sides) else 0


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as data. Events of a side are those of the file that can happen there."""
    first = comparison.first
    return {
        "first_difference": None if first is None else {"event": first.label, "effects": list(first.effects)},
        "policies": [_side(side) for side in comparison.sides],
    }


def _side(side: Side) -> dict[str, Any]:
    verdict = side.seen.replay.verdict
    return {
        "policy": side.name,
        "events": [event.to_json() for event in side.replay.events],
        "left_out": [{"event": event.to_json(), "number": n, "why": why} for n, event, why in side.left_out],
        "then": [event.to_json() for event in side.seen.replay.events[side.own :]],
        "verdict": None if verdict is None else {"property": verdict.property, "cause": verdict.cause},
        "snapshots": list(side.snapshots),
        "unknown": side.unknown,
        "left_unacknowledged": [str(attempt) for attempt in side.seen.left],
    }
