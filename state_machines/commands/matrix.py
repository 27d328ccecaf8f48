"""`stranded matrix`: all combinations of policy axes and faults, and the smallest repairs."""

import csv
import io
import json
from typing import Any

import click
from rich.table import Table

from protocol.policy import AXES, NAMED
from state_machines import matrix as m
from state_machines.commands.options import console, out
from state_machines.repairs import Repair, repairs

BASES = ("sibling", "prompt_group")


@click.command()
@click.option("--faults", "columns", multiple=True, metavar="KIND[+KIND…]", help="a column; may be given several times")
@click.option("--repairs", "with_repairs", is_flag=True, help="the smallest repairs as well")
@click.option("--named", "only_named", is_flag=True, help="the named policies only, not all combinations")
@click.option("--markdown", is_flag=True, help="Markdown, as in docs/matrix.md")
@click.option("--json", "as_json", is_flag=True, help="JSON, also for stranded report --matrix")
@click.option("--csv", "as_csv", is_flag=True, help="one line for each exploration; an empty axis is any value")
@click.option("--jobs", type=click.IntRange(1, 64), metavar="N", help="processes [one for each core]")
@click.option("--max-states", type=click.IntRange(1), default=m.LIMIT, show_default=True)
def matrix(columns: tuple[str, ...], with_repairs: bool, only_named: bool, markdown: bool, as_json: bool,
           as_csv: bool, jobs: int | None, max_states: int) -> int:  # fmt: skip
    """Decide every combination of policy axes under each set of faults, in one group of two siblings.

    Exit 0 when all was decided, 3 when a cell is unknown.
    """
    if markdown + as_json + as_csv > 1:
        raise click.UsageError("--markdown, --json and --csv are one or the other")
    chosen = columns or m.DEFAULT
    for faults in chosen:
        m.column(faults)
    found = named_only(chosen, max_states) if only_named else explored(chosen, jobs, max_states)
    cures = [x for b in BASES for f in chosen for x in repairs(b, f, limit=max_states)] if with_repairs else []
    if as_json:
        click.echo(json.dumps(as_object(found, cures), indent=1))
    elif as_csv:
        click.echo(as_lines(found), nl=False)
    elif markdown:
        click.echo(as_markdown(found, cures, counts=not only_named), nl=False)
    else:
        show(found, cures, counts=not only_named)
    if found.missing:
        click.echo(f"not explored to the end: {', '.join(found.missing)}", err=True)
    return 0 if found.decided else 3


def explored(columns: tuple[str, ...], jobs: int | None, limit: int) -> m.Matrix:
    to = console()
    if not to.is_terminal:
        return m.explore(columns, jobs=jobs, limit=limit)
    with to.status("exploring") as status:
        return m.explore(columns, jobs=jobs, limit=limit, progress=lambda done, of, n: status.update(
            f"{done} of {of} parts, {n:,} explorations"))  # fmt: skip


def named_only(columns: tuple[str, ...], limit: int = m.LIMIT) -> m.Matrix:
    """Return the matrix of the named policies."""
    cells = [m.decide(m.canonical(policy), f, limit=limit) for f in columns for policy, _ in NAMED.values()]
    return m.Matrix(m.BASE, columns, tuple(cells))


def as_object(found: m.Matrix, cures: list[Repair]) -> dict[str, Any]:
    """Return the JSON: `matrix` has the named policies, `combinations` every exploration and the axes it fixes."""
    rows = [(name, found.cell(policy, f)) for name, (policy, _) in NAMED.items() for f in found.columns]
    return {
        "scope": {name: size for name, size in found.base.sizes().items() if size},
        "matrix": [{"policy": n, "faults": c.faults, "verdict": c.verdict, "causes": c.causes} for n, c in rows],
        "combinations": [
            {"axes": dict(c.fixed), "faults": c.faults, "verdict": c.verdict, "causes": c.causes, "states": c.states}
            for c in found.cells
        ],
        "repairs": [
            {"policy": r.base, "faults": r.faults, "changes": dict(r.changes),
             "without": {change: {"verdict": x.verdict.word, "cause": x.verdict.cause,
                                  "events": [event.to_json() for event in x.events]} for change, x in r.dropped}}
            for r in cures
        ],
        "missing": found.missing,
    }  # fmt: skip


def as_lines(found: m.Matrix) -> str:
    """Return the CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["faults", *AXES, "verdict", "findings", "states"])
    for c in found.cells:
        fixed = dict(c.fixed)
        writer.writerow([c.faults, *(fixed.get(n, "") for n in AXES), c.verdict, "; ".join(c.words), c.states])
    return text.getvalue()


def table(found: m.Matrix) -> list[list[str]]:
    """Return the rows of the named policies: the name, and for each column what is found."""
    return [
        [name, *(", ".join(c.words) or c.verdict for c in (found.cell(policy, f) for f in found.columns))]
        for name, (policy, _) in NAMED.items()
    ]


def counted(found: m.Matrix) -> list[list[str]]:
    """Return for each column how many of all combinations have each verdict, and from how many explorations."""
    rows = []
    for f in found.columns:
        runs = sum(c.faults == f for c in found.cells)
        rows.append([f, *(f"{n:,}" for n in found.count(f).values()), str(runs)])
    return rows


COUNTS = ("faults", "clean", *m.WORST, "unknown", "explorations")


def cured(cures: list[Repair]) -> list[list[str]]:
    """Return a row for each smallest repair, with what its policy does once a change is dropped."""
    rows = []
    for r in cures:
        changes = ", ".join(f"{n}={v}" for n, v in r.changes) or "none needed"
        shown = [f"{c}: {x.verdict.cause} [{', '.join(map(str, x.events))}]" for c, x in r.dropped]
        rows.append([r.base, r.faults, changes, "; ".join(shown)])
    return rows


CURES = ("policy", "faults", "changes", "without the change")


def as_markdown(found: m.Matrix, cures: list[Repair], *, counts: bool) -> str:
    parts = [_markdown(("policy", *found.columns), table(found))]
    if counts:
        parts.append(_markdown(COUNTS, counted(found)))
    if cures:
        parts.append(_markdown(CURES, cured(cures)))
    return "\n".join(parts)


def show(found: m.Matrix, cures: list[Repair], *, counts: bool) -> None:
    tables: list[tuple[tuple[str, ...], list[list[str]]]] = [(("policy", *found.columns), table(found))]
    tables += [(COUNTS, counted(found))] if counts else []
    tables += [(CURES, cured(cures))] if cures else []
    for head, rows in tables:
        shown = Table(*head, box=None, pad_edge=False)
        for row in rows:
            shown.add_row(*(text.replace("[", r"\[") for text in row))
        out().print(shown, "")


def _markdown(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
