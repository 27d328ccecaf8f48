"""`stranded matrix`: all combinations of policy axes and faults, and the smallest repairs."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from protocol.policy import AXES, NAMED
from state_machines import matrix as m
from state_machines.commands.options import console, out
from state_machines.matrix_run import INTERRUPTED, Progress, as_object, explore
from state_machines.prove import Shortest
from state_machines.repairs import MOST, Repair, asked, repairs

BASES = ("sibling", "prompt_group")
COUNTS = ("faults", "clean", *m.WORST, "unknown", "explorations")
TREE = ("faults", "axes", "what is found", "policies")
CURES = ("policy", "faults", "changes", "without the change")
Rows = list[list[str]]


@click.command()
@click.option(
    "--faults",
    "columns",
    multiple=True,
    metavar="KIND[+KIND…]",
    help="a column; may be given several times; every: all of docs/matrix.md",
)
@click.option("--repairs", "with_repairs", is_flag=True, help="the smallest repairs as well")
@click.option("--named", "only_named", is_flag=True, help="the named policies only, not all combinations")
@click.option("--markdown", is_flag=True, help="Markdown, as in docs/matrix.md")
@click.option("--json", "as_json", is_flag=True, help="JSON, also for stranded report --matrix")
@click.option("--csv", "as_csv", is_flag=True, help="one line for each exploration; an empty axis is any value")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="keep what is known in FILE, and go on from there")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 64), metavar="N", help="processes [one for each core]")
@click.option("--max-states", type=click.IntRange(1), default=m.LIMIT, show_default=True)
def matrix(columns: tuple[str, ...], with_repairs: bool, only_named: bool, markdown: bool, as_json: bool,
           as_csv: bool, save: Path | None, jobs: int | None, max_states: int) -> int:  # fmt: skip
    """Decide every combination of policy axes under each set of faults, in one group of two siblings.

    The default columns are those that take seconds; --faults chooses others.
    Exit 0 when all was decided, 3 when a cell is unknown, also after Ctrl-C.
    """
    if markdown + as_json + as_csv > 1:
        raise click.UsageError("--markdown, --json and --csv are one or the other")
    if save is not None and only_named:
        raise click.UsageError("--save is of all combinations: leave --named out")
    chosen = m.PAGE if "every" in columns else tuple(dict.fromkeys(columns)) or m.DEFAULT
    for faults in chosen:
        m.column(faults)
    cures: list[Repair] = []
    if only_named:
        found = named_only(chosen, max_states)
        if with_repairs and found.stopped is None:
            cures = [x for b in BASES for f in chosen for x in repairs(b, f, asked(f, limit=max_states), MOST)]
    else:
        with progress() as told:
            found = explore(chosen, jobs=jobs, limit=max_states, file=save, progress=told)
        if with_repairs:
            cures = every_repair(found)
    if as_json:
        click.echo(json.dumps({**as_object(found, max_states), "repairs": list(map(cure_to_json, cures))}, indent=1))
    elif as_csv:
        click.echo(as_lines(found), nl=False)
    elif markdown:
        click.echo(as_markdown(found, cures, every=not only_named), nl=False)
    else:
        show(out(), found, cures, every=not only_named)
    if found.stopped is not None:
        missing = [f for f, *words in table(found) if "unknown" in words] if only_named else found.missing
        click.echo(f"{found.stopped}; unknown: {', '.join(missing)}", err=True)
    return 3 if found.stopped is not None or any(c.verdict == "unknown" for c in found.cells) else 0


@contextmanager
def progress() -> Iterator[Progress | None]:
    """Give a callback that shows parts and explorations on one line; None off a terminal."""
    to = console()
    if not to.is_terminal:
        yield None
        return
    with to.status("starting") as status:
        yield lambda done, of, n: status.update(f"{done} of {of} parts, {n:,} explorations")


def named_only(columns: Iterable[str], limit: int = m.LIMIT) -> m.Matrix:
    """Return the matrix of the named policies. Ctrl-C ends it with what is known."""
    cells, stopped = list[m.Cell](), None
    try:
        for faults in columns:
            look = asked(faults, limit=limit)
            for policy, _ in NAMED.values():
                cells.append(look(policy))
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return m.Matrix(m.BASE, tuple(columns), tuple(dict.fromkeys(cells)), stopped)


def every_repair(found: m.Matrix) -> list[Repair]:
    """Return the smallest repairs of every size. A column that is not known as a whole has none."""
    missing = found.missing
    known = [faults for faults in found.columns if faults not in missing]
    return [x for base in BASES for faults in known for x in repairs(base, faults, found.of(faults))]


def cure_to_json(cure: Repair) -> dict[str, Any]:
    without = {
        change: {
            "verdict": x.verdict.word,
            "cause": x.verdict.cause,
            "events": [event.to_json() for event in x.events],
        }
        for change, x in cure.dropped
    }
    return {"policy": cure.base, "faults": cure.faults, "changes": dict(cure.changes), "without": without}


def as_lines(found: m.Matrix) -> str:
    """Return the CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["faults", *AXES, "verdict", "findings", "states"])
    for c in found.cells:
        fixed = dict(c.fixed)
        writer.writerow([c.faults, *(fixed.get(n, "") for n in AXES), c.verdict, c.words, c.states])
    return text.getvalue()


# Tables: a row for each column of the matrix, because there are more of them than of named policies.


def table(found: m.Matrix) -> Rows:
    """Return for each column what is found in each named policy."""
    return [[f, *(found.of(f)(policy).words for policy, _ in NAMED.values())] for f in found.columns]


def counted(found: m.Matrix) -> Rows:
    """Return for each column how many of all combinations have each verdict, and from how many explorations."""
    runs = Counter(cell.faults for cell in found.cells)
    return [[f, *(f"{n:,}" for n in found.count(f).values()), str(runs[f])] for f in found.columns]


def leaves(found: m.Matrix) -> Rows:
    """Return all combinations: for each column the axes that matter there, and what is found."""
    return [[f, axes, words, f"{n:,}"] for f in found.columns for axes, words, n in found.rows(f)]


def cured(cures: Iterable[Repair]) -> Rows:
    """Return a row for each smallest repair, with what its policy does once a change is dropped."""
    return [[r.base, r.faults, changes(r), "; ".join(f"{c}: {history(x)}" for c, x in r.dropped)] for r in cures]


def changes(cure: Repair) -> str:
    return ", ".join(f"{name}={value}" for name, value in cure.changes) or "none needed"


def history(finding: Shortest) -> str:
    return f"{finding.verdict.cause} [{', '.join(map(str, finding.events))}]"


def as_markdown(found: m.Matrix, cures: list[Repair], *, every: bool) -> str:
    parts = [markdown_table(("faults", *NAMED), table(found))]
    if every:
        parts += [markdown_table(COUNTS, counted(found)), markdown_table(TREE, leaves(found))]
    if cures:
        parts.append(markdown_table(CURES, cured(cures)))
    return "\n".join(parts)


def markdown_table(head: Iterable[str], rows: Rows) -> str:
    head = list(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def show(to: Console, found: m.Matrix, cures: list[Repair], *, every: bool) -> None:
    """Print a block for each column, then the repairs, two narrow columns wide."""
    for f in found.columns:
        to.print(heading(found, f) if every else f, style="bold", markup=False, soft_wrap=False)
        pairs([(name, found.of(f)(policy).words) for name, (policy, _) in NAMED.items()], to)
        if every:
            to.print("  all combinations", style="dim")
            pairs([(words, f"{n:,}: {axes}") for axes, words, n in found.rows(f)], to)
    for cure in cures:
        to.print(f"{cure.base} under {cure.faults}: {changes(cure)}", style="bold", markup=False, soft_wrap=False)
        pairs([(f"without {change}", history(x)) for change, x in cure.dropped], to)


def heading(found: m.Matrix, faults: str) -> str:
    counts = ", ".join(f"{n:,} {word}" for word, n in found.count(faults).items() if n)
    return f"{faults}: {counts}"


def pairs(rows: list[tuple[str, str]], to: Console) -> None:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(max_width=30, overflow="fold")
    grid.add_column(overflow="fold")
    for left, right in rows:
        grid.add_row(escape(left), escape(right))
    to.print(Padding(grid, (0, 0, 0, 2)), soft_wrap=False)
