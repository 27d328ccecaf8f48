"""`stranded export`: the state graph as DOT, a trace as ITF JSON, for other people's tools."""

import json
from pathlib import Path

import click

from protocol.policy import Policy, named
from protocol.scope import Scope
from state_machines.commands.options import POLICY, scope_options
from state_machines.explore import TooMany, explore_system
from state_machines.export import dot, itf
from state_machines.replay import replay_trace
from state_machines.trace import load, write


@click.group()
def export() -> None:
    """Write the state graph as DOT, or a trace as ITF JSON."""


@export.command("dot")
@click.argument("policy", type=POLICY, required=False)
@scope_options
@click.option("--max-states", type=click.IntRange(1), default=5_000, show_default=True, help="refuse larger graphs")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="[standard output]")
def export_dot(policy: Policy | None, scope: Scope, max_states: int, output: Path | None) -> int:
    """Write every state of a scope as a DOT graph: ready ones doubled, stranded ones red, faults dashed."""
    try:
        found = explore_system(policy or named("prompt_group"), scope, max_states=max_states)
    except TooMany as error:
        raise click.ClickException(f"{error}, too large to draw; take a smaller scope or --max-states") from None
    _write(dot(found), output)
    return 0


@export.command("itf")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="[standard output]")
def export_itf(trace: Path, output: Path | None) -> int:
    """Write the states of a saved trace as ITF JSON, which Apalache's and Quint's tools read."""
    _write(json.dumps(itf(replay_trace(load(trace))), indent=1) + "\n", output)
    return 0


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
