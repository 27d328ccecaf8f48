"""`stranded campaign`: a plan, on all cores or on a Ray cluster, kept in one file, going on where it stopped."""

import contextlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from state_machines import database as databases
from state_machines import source
from state_machines.campaign import plan as plans
from state_machines.campaign import pool
from state_machines.campaign.board import Board
from state_machines.campaign.cells import CLEAN, FINDINGS, NOT_FINISHED, PROVED, UNKNOWN, Cell, counted
from state_machines.campaign.ray_runner import RayError, on_ray, reach
from state_machines.campaign.run import Runner, left, run
from state_machines.campaign.shard import MODEL
from state_machines.campaign.store import Kept, Store, StoreError, Summary, all_done, create, read, totals
from state_machines.commands.options import console, out
from state_machines.commands.whole_table import print_whole, whole_table
from state_machines.trace import from_data, save
from state_machines.verdict import Verdict

STYLES = {FINDINGS: "red", UNKNOWN: "yellow", NOT_FINISHED: "yellow", CLEAN: "", PROVED: "green"}


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--store", type=click.Path(path_type=Path), help="the SQLite file that keeps the results [PLAN's, .sqlite]"
)
@click.option(
    "--workers", type=click.IntRange(1, 1024), metavar="N", help="how many shards run at a time [one per core]"
)
@click.option(
    "--retries", type=click.IntRange(0, 100), default=2, show_default=True, help="further tries of a failed shard"
)
@click.option(
    "--ray", is_flag=False, flag_value="local", metavar="[ADDRESS]", help="run on Ray: a cluster's, or one here"
)
@databases.database_option
@click.option(
    "--save", "directory", type=click.Path(path_type=Path, file_okay=False), help="write each cause's trace here"
)
@click.option("--show", is_flag=True, help="show what the store holds and run nothing; PLAN may be the store itself")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of a table")
def campaign(
    plan: Path,
    store: Path | None,
    workers: int | None,
    retries: int,
    ray: str | None,
    database: str,
    directory: Path | None,
    show: bool,
    as_json: bool,
) -> int:
    """Hunt and prove what PLAN asks for, as independent shards; the same command goes on where it stopped.

    Exit codes: 0 nothing found, 1 findings, 2 a plan or store that cannot be used, 3 unknown or shards given up, 130
    stopped by Ctrl-C: what was found so far is shown.
    """
    path = store or plan.with_suffix(".sqlite")
    try:
        if show:
            with read(path) as opened:
                return _report(opened, directory, as_json)
        asked = plans.load(plan)
        databases.check(database, _warn)
        runner = _runner(ray, workers, retries, database)
        with create(path, asked) as opened:
            before = opened.summary()
            console().print(_opening(before, len(left(opened)), path), soft_wrap=True)
            try:
                with Board(console(), before) as board:
                    run(opened, runner, board)
            except KeyboardInterrupt:
                _report(opened, directory, as_json)
                done = f"{opened.summary().done:,} of {counted(before.shards, 'shard')}"
                console().print(f"stopped: {done} are done; the same command goes on from there")
                raise
            return _report(opened, directory, as_json)
    except (plans.PlanError, StoreError, databases.DatabaseError, RayError) as error:
        raise click.ClickException(str(error)) from None


def _report(store: Store, directory: Path | None, as_json: bool) -> int:
    """Print what a store holds, save its traces, and return the exit code."""
    summary, cells = store.summary(), store.cells()
    paths = _save(summary, directory) if directory is not None else {}
    if summary.code != source.code():
        _warn(f"what follows was decided by {summary.code}; this is {source.code()}")
    if as_json:
        click.echo(json.dumps(to_json(summary, cells, store.path, paths), indent=1))
    else:
        _print(summary, cells, paths)
    return exit_code(summary)


def exit_code(summary: Summary) -> int:
    """Return 1 for findings, else 3 when something is unknown or not done, else 0."""
    if summary.findings:
        return 1
    return 0 if summary.finished and not summary.unknown else 3


def to_json(summary: Summary, cells: tuple[Cell, ...], store: Path, paths: dict[Kept, Path]) -> dict[str, Any]:
    """Return a campaign's results as JSON values."""
    return {
        "campaign": summary.plan.name,
        "store": str(store),
        "code": summary.code,
        "finished": summary.finished,
        "shards": summary.shards,
        "done": summary.done,
        "seeds": list(summary.plan.seeds),
        "examples": summary.examples,
        "states": summary.states,
        "steps": summary.steps,
        "seconds": round(summary.seconds, 3),
        "unknown": bool(summary.unknown),
        "cells": [cell.to_json() for cell in cells],
        "findings": [
            {
                "policy": kept.policy,
                "target": kept.target,
                "scope": json.loads(kept.trace)["scope"],
                "property": kept.property,
                "cause": kept.cause,
                "length": kept.length,
                "shards": kept.shards,
                "events": json.loads(kept.trace)["events"],
                "trace": str(paths[kept]) if kept in paths else None,
            }
            for kept in summary.findings
        ],
        "given_up": [{"shard": lost.title, "tries": lost.tries, "error": lost.error} for lost in summary.given_up],
    }


def _runner(ray: str | None, workers: int | None, retries: int, database: str) -> Runner:
    if ray is None:
        count = workers or pool.cores()
        return lambda shards: pool.local(shards, workers=count, retries=retries, database=database)
    if importlib.util.find_spec("ray") is None:
        raise RayError("--ray needs ray, which is not installed: pip install 'stranded[ray]'")
    reach(ray)
    return lambda shards: on_ray(shards, address=ray, workers=workers, retries=retries, database=database)


def _opening(before: Summary, todo: int, path: Path) -> str:
    name = before.plan.name
    if not todo:
        return f"{name}: {all_done(before)} ({path}); nothing to do"
    if before.done:
        return f"{name}: going on, {before.done:,} of {counted(before.shards, 'shard')} are done ({path})"
    return f"{name}: {counted(todo, 'shard')} ({path})"


def _save(summary: Summary, directory: Path) -> dict[Kept, Path]:
    paths = {}
    for kept in summary.findings:
        words = "-".join(
            filter(None, (kept.policy, "" if kept.target == "model" else kept.target, kept.property, kept.cause))
        )
        name = "".join(letter if letter.isalnum() or letter in "-_=" else "-" for letter in words)
        paths[kept] = save(directory / f"{name}.json", from_data(json.loads(kept.trace)))
    return paths


def _print(summary: Summary, cells: tuple[Cell, ...], paths: dict[Kept, Path]) -> None:
    screen = out()
    screen.print(f"{summary.plan.name}: {totals(summary)}", markup=False)
    print_whole(screen, cells_table(cells, folded=screen.is_terminal))
    for kept, path in paths.items():
        screen.print(f"{path}: {kept.policy}, {Verdict(kept.property, kept.cause)}", markup=False, soft_wrap=True)
    for lost in summary.given_up:
        screen.print(
            Text(f"given up after {lost.tries} {'try' if lost.tries == 1 else 'tries'}: {lost.title}: {lost.error}")
        )


def cells_table(cells: tuple[Cell, ...], *, folded: bool) -> Table:
    """Return a row for each policy, scope, mode and target, with what was found there, what is clean or unknown."""
    gap = ", " if folded else ","
    targets = {cell.target for cell in cells} - {MODEL}
    table = whole_table("policy", "scope", "mode", *(["target"] if targets else []), "looked at", "result")
    for cell in cells:
        words = (
            cell.policy,
            cell.scope.replace(",", gap),
            cell.mode,
            *([cell.target] if targets else []),
            cell.effort(),
        )
        table.add_row(*map(Text, words), Text("\n".join(cell.lines()), style=STYLES[cell.result]))
    return table


def _warn(sentence: str) -> None:
    with contextlib.suppress(OSError):
        console().print(f"stranded: {sentence}", soft_wrap=True, markup=False)
