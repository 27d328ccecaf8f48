"""`stranded diff`: what a nightly job asks in the morning."""

import json
import shlex
from collections import Counter
from pathlib import Path

import click
from rich.text import Text

from state_machines.campaign.cells import counted
from state_machines.campaign.diff import GONE, KNOWN, NEW, NEWLY, NOT_LOOKED_FOR, SHORTER, Change, compare
from state_machines.campaign.store import StoreError, Summary, summary
from state_machines.commands.options import out
from state_machines.commands.whole_table import print_whole, whole_table
from state_machines.verdict import Verdict

STYLES = {NEW: "bold red", NEWLY: "bold red", GONE: "green", SHORTER: "yellow", NOT_LOOKED_FOR: "dim", KNOWN: "dim"}


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of a table")
def diff(old: Path, new: Path, as_json: bool) -> int:
    """Compare the campaigns in the stores OLD and NEW by cause: new, gone, shorter.

    Exit codes: 0 nothing new, 1 a new cause, also where OLD did not look, 2 a store that cannot be used, 3 nothing
    new, but NEW is not finished or met something undecided.
    """
    try:
        before, after = summary(old), summary(new)
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    changes = compare(before, after)
    if as_json:
        found = [change.to_json() for change in changes]
        codes = {"old_code": before.code, "new_code": after.code}
        click.echo(json.dumps({"finished": after.finished, **codes, "changes": found}, indent=1))
    else:
        _print(changes, after, new)
        if before.code != after.code:
            text = f"decided by other code: {before.code} before, {after.code} now"
            out().print(text, markup=False, soft_wrap=True)
    if any(change.what in (NEW, NEWLY) for change in changes):
        return 1
    return 0 if after.finished and not after.unknown else 3


def _print(changes: tuple[Change, ...], after: Summary, store: Path) -> None:
    screen = out()
    counts = Counter(change.what for change in changes)
    screen.print(", ".join(f"{counts[what]} {what}" for what in STYLES if counts[what]) or "no causes in either")
    if changes:
        table = whole_table("", "policy", "target", "finding", "events")
        for change in changes:
            kept = change.kept
            lengths = [str(side.length) for side in (change.old, change.new) if side is not None]
            events = " -> ".join(dict.fromkeys(lengths))
            cells = (change.what, kept.policy, kept.target, str(Verdict(kept.property, kept.cause)), events)
            table.add_row(*map(Text, cells), style=STYLES[change.what])
        print_whole(screen, table)
    if not after.finished:
        screen.print(f"{after.plan.name} is not finished: {after.done:,} of {counted(after.shards, 'shard')} are done")
    elif after.unknown:
        where = f"stranded campaign {shlex.quote(str(store))} --show"
        screen.print(
            f"{after.plan.name} did not decide everything, in {counted(after.unknown, 'shard')}: {where} says where",
            markup=False,
            soft_wrap=True,
        )
