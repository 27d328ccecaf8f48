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
from state_machines.campaign import plan as plans
from state_machines.campaign import pool
from state_machines.campaign.board import Board
from state_machines.campaign.ray_runner import RayError, on_ray, reach
from state_machines.campaign.run import Runner, left, run
from state_machines.campaign.store import Kept, StoreError, Summary, create
from state_machines.commands.options import console, out
from state_machines.trace import from_data, save
from state_machines.verdict import Verdict


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
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of a table")
def campaign(
    plan: Path,
    store: Path | None,
    workers: int | None,
    retries: int,
    ray: str | None,
    database: str,
    directory: Path | None,
    as_json: bool,
) -> int:
    """Hunt and prove what PLAN asks for, as independent shards; the same command goes on where it stopped.

    Exit codes: 0 nothing found, 1 findings, 2 a plan or store that cannot be used, 3 unknown or shards given up.
    """
    path = store or plan.with_suffix(".sqlite")
    try:
        asked = plans.load(plan)
        databases.check(database, _warn)
        runner = _runner(ray, workers, retries, database)
        with create(path, asked) as opened:
            before = opened.summary()
            console().print(_opening(before, len(left(opened)), path), soft_wrap=True)
            try:
                with Board(console(), before) as board:
                    after = run(opened, runner, board)
            except KeyboardInterrupt:
                done = opened.summary().done
                console().print(
                    f"stopped: {done} of {before.shards} shards are done; the same command goes on from there"
                )
                raise
    except (plans.PlanError, StoreError, databases.DatabaseError, RayError) as error:
        raise click.ClickException(str(error)) from None
    paths = _save(after, directory) if directory is not None else {}
    if as_json:
        click.echo(json.dumps(to_json(after, path, paths), indent=1))
    else:
        _print(after, paths)
    return exit_code(after)


def exit_code(summary: Summary) -> int:
    """Return 1 for findings, else 3 when something is unknown or not done, else 0."""
    if summary.findings:
        return 1
    return 0 if summary.finished and not summary.unknown else 3


def to_json(summary: Summary, store: Path, paths: dict[Kept, Path]) -> dict[str, Any]:
    """Return a campaign's results as JSON values."""
    return {
        "campaign": summary.plan.name,
        "store": str(store),
        "finished": summary.finished,
        "shards": summary.shards,
        "done": summary.done,
        "seeds": list(summary.plan.seeds),
        "examples": summary.examples,
        "states": summary.states,
        "steps": summary.steps,
        "seconds": round(summary.seconds, 3),
        "unknown": bool(summary.unknown),
        "findings": [
            {
                "policy": kept.policy,
                "target": kept.target,
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
        return f"{name}: all {before.shards} shards are done ({path}); nothing to do"
    if before.done:
        return f"{name}: going on, {before.done} of {before.shards} shards are done ({path})"
    return f"{name}: {todo} shards ({path})"


def _save(summary: Summary, directory: Path) -> dict[Kept, Path]:
    paths = {}
    for kept in summary.findings:
        words = "-".join(
            filter(None, (kept.policy, "" if kept.target == "model" else kept.target, kept.property, kept.cause))
        )
        name = "".join(letter if letter.isalnum() or letter in "-_=" else "-" for letter in words)
        paths[kept] = save(directory / f"{name}.json", from_data(json.loads(kept.trace)))
    return paths


def _print(summary: Summary, paths: dict[Kept, Path]) -> None:
    screen = out()
    unknown = f", {summary.unknown} shards met a state that could not be decided" if summary.unknown else ""
    screen.print(
        f"{summary.plan.name}: {summary.done} of {summary.shards} shards, {summary.examples:,} examples,"
        f" {summary.states:,} states, {len(summary.findings)} causes{unknown}"
    )
    if summary.findings:
        screen.print(findings_table(summary, paths))
    for lost in summary.given_up:
        screen.print(Text(f"given up after {lost.tries} tries: {lost.title}: {lost.error}"))


def findings_table(summary: Summary, paths: dict[Kept, Path]) -> Table:
    """Return the causes with the length of their shortest histories and how many shards found them."""
    table = Table("policy", "target", "finding", "events", "shards", *(["trace"] if paths else []))
    for kept in summary.findings:
        cells = (kept.policy, kept.target, str(Verdict(kept.property, kept.cause)), str(kept.length), str(kept.shards))
        table.add_row(*map(Text, cells), *([Text(str(paths[kept]))] if paths else []))
    return table


def _warn(sentence: str) -> None:
    with contextlib.suppress(OSError):
        console().print(f"stranded: {sentence}", soft_wrap=True, markup=False)
