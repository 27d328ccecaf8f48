"""`stranded replay`: run saved histories again, under their own policy or another."""

import json
from pathlib import Path
from typing import Any, Final

import click

from protocol.policy import Policy, spell
from state_machines.commands.options import POLICY, out
from state_machines.recovery import Unknown
from state_machines.replay import Outcome, Replay, outcome, replay_trace, told
from state_machines.report.listing import afterwards, listing, unfair, why
from state_machines.report.onward import onward
from state_machines.report.text import wrapped
from state_machines.targets.base import Divergence, Target, follow, side_by_side
from state_machines.targets.options import TargetChoice, target_options
from state_machines.trace import Trace, TraceError, load
from state_machines.verdict import Verdict

BEST_FIRST: Final = (0, 4, 5, 3, 1, 2)
BEST_FIRST_ELSEWHERE: Final = (4, 5, 0, 3, 1, 2)  # under another policy the recorded verdict is no good news


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--policy", type=POLICY, help="replay under this policy instead of the file's own")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of text; of several files a list")
@target_options
def replay(files: tuple[Path, ...], policy: Policy | None, as_json: bool, target: TargetChoice) -> int:
    """Replay the histories in FILE….

    Under another policy, events that cannot happen there are left out. On a target, a difference from the model is a
    verdict of its own, and comes before the model's.

    Exit code: 0 the recorded verdict comes out again, 1 another verdict does, 2 a file that cannot be used, 3 unknown,
    4 clean: the whole history happens and nothing breaks, 5 it cannot happen any more, and nothing breaks in what is
    left of it. Of several files the worst counts: with --policy 0 is worse than 4 and 5, because it still breaks.
    """
    codes, data = [], []
    with target.open() as opened:
        for number, file in enumerate(files):
            if number and not as_json:
                click.echo()
            try:
                code, found = _replay(file, policy, as_json, opened)
                data.append(found)
            except TraceError as error:
                click.echo(f"stranded: {error}", err=True)
                code = 2
            except Unknown as error:
                click.echo(f"stranded: {file}: unknown: {error}", err=True)
                code = 3
            codes.append(code)
    if as_json and data:
        click.echo(json.dumps(data if len(files) > 1 else data[0], indent=1))
    return max(codes, key=(BEST_FIRST if policy is None else BEST_FIRST_ELSEWHERE).index)


def _replay(file: Path, policy: Policy | None, as_json: bool, target: Target | None) -> tuple[int, dict[str, Any]]:
    trace = load(file)
    run = replay_trace(trace, policy)
    divergence = None if target is None else follow(target, run.policy, run.scope, run.events)
    verdict = run.verdict if divergence is None else divergence.verdict
    came = outcome(run, trace, verdict)
    if not as_json:
        _print(run, trace, verdict, divergence)
    data = {
        "file": str(file),
        "reproduced": came is Outcome.SAME,
        "outcome": came.name.lower(),
        "property": None if verdict is None else verdict.property,
        "cause": None if verdict is None else verdict.cause,
        "events": [event.to_json() for event in run.events],
    } | ({} if divergence is None else {"diverged": side_by_side(divergence)})
    return came.value, data


def _print(run: Replay, trace: Trace, verdict: Verdict | None, divergence: Divergence | None) -> None:
    to = out()
    width = min(to.width, 100) if to.is_terminal else 80
    to.print(f"{spell(run.policy)}, {len(run.events)} of {len(trace.events)} events", style="bold", markup=False)
    to.print(listing(run), width=width)
    further = onward(run.states[-1])
    to.print(wrapped(f"Then, if everything goes well: {afterwards(further)}", width, ""))
    for sentence in filter(None, (unfair(run), *why(further.states[-1]))):
        to.print(wrapped(sentence, width, ""), end="")
    if divergence is not None:
        for line in [str(divergence), *divergence.lines()]:
            to.print(line, markup=False, highlight=False, soft_wrap=True)
    good = outcome(run, trace, verdict) is not Outcome.OTHER
    to.print(wrapped(told(run, trace, verdict), width, "bold green" if good else "bold red"), end="")
