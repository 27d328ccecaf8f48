"""`stranded export`: a trace as ITF JSON, or the state graph as DOT."""

import json
from pathlib import Path

import click

from protocol.policy import Policy, named
from protocol.scope import Scope
from state_machines.commands.options import POLICY, scope_options
from state_machines.explore import TooMany
from state_machines.export import dot, itf
from state_machines.recovery import Unknown
from state_machines.reduce import ALL, NONE
from state_machines.replay import replay_trace
from state_machines.trace import load, write

MOST = 5_000  # states that Graphviz can still lay out


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--format", "form", type=click.Choice(("itf", "dot")), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="write there, not to standard output")
@click.option("--policy", type=POLICY, help="itf: instead of the file's own; dot: of the graph [prompt_group]")
@click.option("--max-states", type=click.IntRange(1), default=MOST, metavar="N", help=f"dot: refuse more [{MOST:,}]")
@click.option("--raw", is_flag=True, help="dot: every state, without any reduction")
@scope_options
def export(
    file: Path | None,
    form: str,
    output: Path | None,
    policy: Policy | None,
    max_states: int,
    raw: bool,
    scope: Scope,
) -> int:
    """Write a history or a state graph for other tools.

    itf is the history in FILE as ITF JSON, which Apalache's and Quint's tools read. dot is the graph of everything that
    a policy can do in a scope, for Graphviz, also beyond violations, so it has more states than prove counts; it takes
    no FILE.
    """
    if form == "itf":
        if file is None:
            raise click.UsageError("itf is of a trace: stranded export FILE --format itf")
        text = _trace(file, policy)
    else:
        if file is not None:
            raise click.UsageError("dot is of a policy and a scope, and takes no file")
        text = _graph(policy or named("prompt_group"), scope, max_states, raw)
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
        click.echo(f"{output}", err=True)
    return 0


def _trace(file: Path, policy: Policy | None) -> str:
    try:
        return json.dumps(itf(replay_trace(load(file), policy), str(file)), indent=1) + "\n"
    except Unknown as error:
        raise click.ClickException(f"{file}: unknown: {error}") from None


def _graph(policy: Policy, scope: Scope, max_states: int, raw: bool) -> str:
    try:
        return dot(policy, scope, max_states=max_states, on=NONE if raw else ALL)
    except TooMany:
        raise click.ClickException(
            f"the graph, which goes on where prove stops, beyond violations, has more than {max_states:,} states; "
            "choose a smaller scope or a larger --max-states"
        ) from None
