"""`stranded replay`: run a saved history again, under its own policy or another."""

import json
from pathlib import Path

import click

from protocol.policy import Policy, spell
from state_machines.commands.options import POLICY, out
from state_machines.recovery import Unknown
from state_machines.replay import Replay, replay_trace
from state_machines.report.listing import afterwards, listing, why
from state_machines.report.onward import onward
from state_machines.report.text import wrapped
from state_machines.trace import Trace, load


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--policy", type=POLICY, help="replay under this policy instead of the file's own")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of text")
def replay(file: Path, policy: Policy | None, as_json: bool) -> int:
    """Replay the history in FILE: exit 0 when its recorded verdict comes out again, 1 when another does.

    Under another policy, events that cannot happen there are left out.
    """
    trace = load(file)
    try:
        run = replay_trace(trace, policy)
    except Unknown as error:
        click.echo(f"stranded: {file}: unknown: {error}", err=True)
        return 3
    reproduced = run.verdict == trace.verdict
    if as_json:
        verdict = run.verdict
        data = {
            "reproduced": reproduced,
            "property": None if verdict is None else verdict.property,
            "cause": None if verdict is None else verdict.cause,
            "events": [event.to_json() for event in run.events],
        }
        click.echo(json.dumps(data, indent=1))
    else:
        _print(run, trace, reproduced)
    return 0 if reproduced else 1


def _print(run: Replay, trace: Trace, reproduced: bool) -> None:
    to = out()
    width = min(to.width, 100) if to.is_terminal else 80
    to.print(f"{spell(run.policy)}, {len(run.events)} of {len(trace.events)} events", style="bold", markup=False)
    to.print(listing(run), width=width)
    further = onward(run.states[-1])
    to.print(wrapped(f"Then, if everything goes well: {afterwards(further)}", width, ""))
    for sentence in why(further.states[-1]):
        to.print(wrapped(sentence, width, ""), end="")
    found = "nothing is broken" if run.verdict is None else f"{run.verdict}, {run.verdict.sentence}"
    recorded = "no finding" if trace.verdict is None else str(trace.verdict)
    told = f"reproduced: {found}" if reproduced else f"not reproduced: {found}; recorded was {recorded}"
    to.print(wrapped(told, width, "bold green" if reproduced else "bold red"), end="")
