"""`stranded hunt`: random histories of each policy, and the shortest ones that leave Gym not ready."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from attrs import evolve
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from protocol.policy import NAMED, Policy, named, spell
from protocol.scope import Fault, Scope
from state_machines.commands.options import POLICY, command_line, console, out, scope_options
from state_machines.database import check, database_option, open_database, silent
from state_machines.designs import design as in_place
from state_machines.hunt import DEFAULT, INTERRUPTED, HuntFinding, HuntResult, Progress, digest, doubts
from state_machines.hunt import hunt as hunted
from state_machines.mutants import NOTHING
from state_machines.replay import replay
from state_machines.report.listing import afterwards, listing, unfair, why
from state_machines.report.onward import onward
from state_machines.report.text import lanes, show, wrapped
from state_machines.report.view import view
from state_machines.search import Decider
from state_machines.targets.base import side_by_side
from state_machines.targets.options import TargetChoice, target_options
from state_machines.trace import Trace, TraceError, found_by, make_folder_of, save, write
from state_machines.verdict import Judge, Judging

SAVED: Final = "stranded-findings"
PROVABLE: Final = (2, 3)  # siblings of all groups, and faults, that are decided in seconds for every policy


@click.command()
@click.argument("policies", nargs=-1, type=POLICY, metavar="[POLICY]…")
@scope_options
@click.option("--seed", type=click.IntRange(0, (1 << 64) - 1), metavar="N", help="hunt the same histories again")
@click.option(
    "--examples", type=click.IntRange(1, 10_000_000), default=DEFAULT, show_default=True, help="histories of each run"
)
@click.option(
    "--seconds", type=click.FloatRange(0.1, 1e6), metavar="N", help="stop each policy then, with what was found"
)
@click.option("--save", "directory", type=click.Path(path_type=Path), metavar="DIR", help=f"trace files [{SAVED}]")
@click.option("--no-save", is_flag=True, help="write no trace files")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of text")
@click.option("--brief", is_flag=True, help="one line for each finding")
@click.option(
    "--design", type=click.Choice(["acknowledge", "lease"]), default="acknowledge", help="Gym's design (docs/lease.md)"
)
@click.option("--fair", is_flag=True, help="look for unfair histories too: a fair scheduler may never settle them")
@database_option
@target_options
def hunt(
    policies: tuple[Policy, ...],
    scope: Scope,
    seed: int | None,
    examples: int,
    seconds: float | None,
    directory: Path | None,
    no_save: bool,
    as_json: bool,
    brief: bool,
    design: str,
    fair: bool,
    database: str,
    target: TargetChoice,
) -> int:
    """Look for histories that leave Gym permanently not ready, shrink them, and say why nobody releases what is left.

    POLICY is a name of `stranded policies`, axis=value pairs, or module:object. The default is prompt_group.

    Ctrl-C ends a hunt with what it has found so far.

    Exit code: 0 nothing found, 1 findings, 2 bad usage, 3 unknown: a state that could not be decided, a hunt that was
    stopped, or one that did not see what it must have seen to say anything.
    """
    policies = policies or (named("prompt_group"),)
    if no_save and directory is not None:
        raise click.UsageError("--save and --no-save exclude each other")
    if seconds is not None and not target.is_model:
        raise click.UsageError("--seconds is for hunts on the model")
    if design != "acknowledge" and (directory is not None or not target.is_model):
        raise click.UsageError(f"--design {design} is for hunts on the model, and a trace file does not record it")
    check(database)
    if directory is not None:  # before the hunt, not after it
        make_folder_of(directory / ".stranded")
        write(directory / ".stranded", "").unlink()
    results: list[HuntResult] = []
    saved: list[list[Path | None]] = []
    with target.open() as opened, in_place(design):
        for policy in policies:
            with progress(policy) as report:
                results.append(
                    hunted(
                        policy,
                        scope,
                        seed=results[0].seed if results else seed,
                        examples=examples,
                        database=open_database(database, silent),
                        target=opened,
                        progress=report,
                        seconds=seconds,
                        partial=True,
                        fair=fair,
                        design=design,
                    )
                )
            saved.append([] if no_save or design != "acknowledge" else saved_in(directory, results[-1]))
            if not as_json:
                print_result(
                    out(), results[-1], saved[-1], brief, None if design == "acknowledge" else Decider(fair=fair)
                )
            if results[-1].stopped == INTERRUPTED:
                break
    if as_json:
        click.echo(json.dumps(to_json(results, saved), indent=1))
    elif target.is_model:
        out().print(exhaustive([r.policy for r in results], scope, design, fair), markup=False, soft_wrap=True)
    if any(result.findings for result in results):
        return 1
    return 3 if any(result.unknown or result.vacuous or result.stopped for result in results) else 0


def exhaustive(policies: list[Policy], scope: Scope, design: str, fair: bool) -> str:
    """Return what a hunt is not, and below it the command that is, of a scope small enough for it to end soon."""
    further = (["--design", design] if design != "acknowledge" else []) + ["--fair"] * fair
    if scope.groups * scope.siblings <= PROVABLE[0] and sum(scope.budget()) <= PROVABLE[1] and scope.snapshots <= 1:
        return f"A hunt may miss some. A proof does not:\n{command_line('prove', policies, scope, *further)}"
    faults = {fault.value: min(size, 1) for fault, size in zip(Fault, scope.budget(), strict=True)}
    smaller = evolve(NOTHING, snapshots=min(scope.snapshots, 1), **faults)
    command = command_line("prove", policies, smaller, *further)
    return f"A hunt may miss some. A proof, here of a smaller scope, does not:\n{command}"


@contextmanager
def progress(policy: Policy) -> Iterator[Any]:
    """Give a callback that shows states, examples and findings so far on one line; None when not on a terminal."""
    messages = console()
    if not messages.is_terminal:
        yield None
        return
    counts = ", ".join(f"{{task.fields[{name}]:,}} {name}" for name in ("states", "examples", "findings"))
    text = TextColumn(f"{{task.description}}: {counts} (Ctrl-C shows what was found)")
    with Bar(SpinnerColumn(), text, TimeElapsedColumn(), console=messages, transient=True, refresh_per_second=5) as bar:
        task = bar.add_task(spell(policy), total=None, states=0, examples=0, findings=0)

        def report(at: Progress) -> None:
            bar.update(task, states=at.states, examples=at.examples, findings=at.findings)

        yield report


def trace_name(policy: Policy, finding: HuntFinding) -> str:
    """Return the name of a finding's file: the policy, what the state is called, the cause."""
    name = spell(policy)
    if name not in NAMED:
        name = f"{re.sub('[^a-z_].*', '', name)}-{digest(policy.axes()) & 0xFFFFFFFF:08x}"
    return "-".join([name, finding.verdict.word, finding.verdict.cause]) + ".json"


def saved_in(directory: Path | None, result: HuntResult) -> list[Path | None]:
    """Write the findings as trace files. Raises TraceError when a directory that was asked for cannot be written."""
    who = found_by(result.seed, "hunt")
    paths: list[Path | None] = []
    for finding in result.findings:
        trace = Trace(result.policy, result.scope, finding.events, finding.verdict, who)
        try:
            paths.append(save((directory or Path(SAVED)) / trace_name(result.policy, finding), trace))
        except TraceError as error:
            if directory is not None:
                raise
            click.echo(f"stranded: {error}; choose another place with --save DIR", err=True)
            return [None] * len(result.findings)
    return paths or [None] * len(result.findings)


def to_json(results: list[HuntResult], saved: list[list[Path | None]]) -> dict[str, Any]:
    """Return what the hunts found as the JSON object of `--json`."""
    findings = []
    for result, paths in zip(results, saved, strict=True):
        for finding, path in zip(result.findings, paths or [None] * len(result.findings), strict=True):
            findings.append(
                {
                    "policy": spell(result.policy),
                    "property": finding.verdict.property,
                    "cause": finding.verdict.cause,
                    "events": [event.to_json() for event in finding.events],
                    "length": len(finding.events),
                    "shortest": finding.shortest,
                    "trace": None if path is None else str(path),
                }
                | ({} if finding.diverged is None else {"diverged": side_by_side(finding.diverged)})
            )
    return {
        "findings": findings,
        "unknown": any(result.unknown or result.stopped is not None for result in results),
        "stopped": next((result.stopped for result in results if result.stopped), None),
        "seed": results[0].seed,
        "scope": results[0].scope.sizes(),
        "examples": sum(result.examples for result in results),
        "missing_witnesses": {spell(r.policy): list(r.missing) for r in results if r.missing},
    }


def print_result(
    to: Console, result: HuntResult, paths: list[Path | None], brief: bool, judge: Judging | None = None
) -> None:
    """Print a hunt: its findings one after the other, and a line that sums it up."""
    paths = paths or [None] * len(result.findings)
    order = sorted(result.findings, key=lambda finding: len(finding.events)) if brief else result.findings
    for number, (finding, path) in enumerate(zip(order, paths, strict=True), 1):
        if brief:
            line = f"{finding.verdict}, {len(finding.events)} events: {finding.verdict.sentence}"
            to.print(line, markup=False, soft_wrap=True)
        else:
            to.rule(f"{number} of {len(result.findings)}", style="dim")
            print_finding(to, result, finding, path, judge)
    name, count = spell(result.policy), len(result.findings)
    what = "nothing found" if not count else "1 finding" if count == 1 else f"{count} findings"
    to.print(
        f"{name}: {what} in {result.seconds:.1f} s "
        f"(seed {result.seed}, {result.examples:,} examples, {result.states:,} states)",
        style="bold",
        markup=False,
        soft_wrap=True,
    )
    if result.stopped:
        told = f"{result.stopped}: what was not found is unknown, and no history is certified to be the shortest"
        to.print(told, style="yellow", soft_wrap=True)
    for line in doubts(result):
        to.print(line, style="yellow", markup=False, soft_wrap=True)


def print_finding(
    to: Console, result: HuntResult, finding: HuntFinding, path: Path | None, judge: Judging | None = None
) -> None:
    """Print one finding: its picture, its list, what follows and why nobody releases what is left, how to replay it."""
    width = min(to.width, 100) if to.is_terminal else 80
    verdict = finding.verdict
    length = f"{len(finding.events)} event{'s' * (len(finding.events) != 1)}{_shortest(finding)}"
    to.print(wrapped(f"{verdict}  ({spell(result.policy)}, {length})", width, "bold"), end="")
    if finding.diverged is None:
        to.print(wrapped(f"{verdict.word.upper()}: {verdict.sentence}.", width, "bold red"), end="")
    run = replay(result.policy, result.scope, finding.events, judge or Judge(fair=not verdict.ends))
    show(to, lanes(view(run), width))
    to.print(listing(run), width=width)
    if finding.diverged is not None:
        to.print(wrapped(f"{finding.diverged}.", width, "bold red"))
        for line in finding.diverged.lines():
            to.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        further = onward(run.states[-1])
        to.print(wrapped(f"Then, if everything goes well: {afterwards(further)}", width, ""))
        for sentence in filter(None, (unfair(run) if judge is None else "", *why(further.states[-1]))):
            to.print(wrapped(sentence, width, ""), end="")
    if path is not None:
        on = "" if finding.diverged is None else " --target …"
        to.print(f"\nstranded replay {shlex.quote(str(path))}{on}", style="cyan", markup=False, soft_wrap=True)
    to.print()


def _shortest(finding: HuntFinding) -> str:
    return ", the shortest there is" if finding.shortest == len(finding.events) else ""
