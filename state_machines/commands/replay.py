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
from state_machines.targets.base import Divergence, follow, side_by_side
from state_machines.targets.options import TargetChoice, target_options
from state_machines.trace import Trace, load
from state_machines.verdict import Verdict


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--policy", type=POLICY, help="replay under this policy instead of the file's own")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of text")
@target_options
def replay(file: Path, policy: Policy | None, as_json: bool, target: TargetChoice) -> int:
    """Replay the history in FILE: exit 0 when its recorded verdict comes out again, 1 when another does.

    Under another policy, events that cannot happen there are left out. On a target, a difference from the model is a
    verdict of its own, and comes before the model's.
    """
    trace = load(file)
    try:
        run = replay_trace(trace, policy)
    except Unknown as error:
        click.echo(f"stranded: {file}: unknown: {error}", err=True)
        return 3
    with target.open() as opened:
        divergence = None if opened is None else follow(opened, run.policy, run.scope, run.events)
    verdict = run.verdict if divergence is None else divergence.verdict
    reproduced = verdict == trace.verdict
    if as_json:
        data = {
            "reproduced": reproduced,
            "property": None if verdict is None else verdict.property,
            "cause": None if verdict is None else verdict.cause,
            "events": [event.to_json() for event in run.events],
        } | ({} if divergence is None else {"diverged": side_by_side(divergence)})
        click.echo(json.dumps(data, indent=1))
    else:
        _print(run, trace, verdict, divergence)
    return 0 if reproduced else 1


def _print(run: Replay, trace: Trace, verdict: Verdict | None, divergence: Divergence | None) -> None:
    to = out()
    width = min(to.width, 100) if to.is_terminal else 80
    to.print(f"{spell(run.policy)}, {len(run.events)} of {len(trace.events)} events", style="bold", markup=False)
    to.print(listing(run), width=width)
    further = onward(run.states[-1])
    to.print(wrapped(f"Then, if everything goes well: {afterwards(further)}", width, ""))
    for sentence in why(further.states[-1]):
        to.print(wrapped(sentence, width, ""), end="")
    if divergence is not None:
        for line in [str(divergence), *divergence.lines()]:
            to.print(line, markup=False, highlight=False, soft_wrap=True)
    reproduced = verdict == trace.verdict
    found = "nothing is broken" if verdict is None else f"{verdict}, {verdict.sentence}"
    recorded = "no finding" if trace.verdict is None else str(trace.verdict)
    told = f"reproduced: {found}" if reproduced else f"not reproduced: {found}; recorded was {recorded}"
    to.print(wrapped(told, width, "bold green" if reproduced else "bold red"), end="")
