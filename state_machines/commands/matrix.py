"""`stranded matrix`: all combinations of policy axes and faults, and the smallest repairs."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from protocol.policy import AXES, NAMED, Policy, spell
from state_machines import matrix as m
from state_machines.commands.options import POLICY, out
from state_machines.commands.progress import telling
from state_machines.matrix_run import INTERRUPTED, Progress, as_object, explore
from state_machines.prove import Shortest
from state_machines.repairs import MOST, Repair, asked, repairs

Policies = Mapping[str, Policy]
NAMES: Final = {name: policy for name, (policy, _) in NAMED.items()}
COUNTS = ("faults", "clean", *m.WORST, "unknown", "explorations")
TREE = ("faults", "axes", "what is found", "policies")
CURABLE = ("policy", "clean as it is", "has a repair", "has none")
CURES = ("policy", "faults", "changes", "without the change")
Rows = list[list[str]]


@click.command()
@click.argument("policies", nargs=-1, type=POLICY, metavar="[POLICY]…")
@click.option(
    "--faults",
    "columns",
    multiple=True,
    metavar="KIND[+KIND…]",
    help="a column; may be given several times; every: all of docs/matrix.md, a quarter of an hour of one core",
)
@click.option("--repairs", "with_repairs", is_flag=True, help="the smallest repairs as well")
@click.option("--named", "only_named", is_flag=True, help="the named policies only, not all combinations (seconds)")
@click.option("--markdown", is_flag=True, help="Markdown, as in docs/matrix.md")
@click.option("--json", "as_json", is_flag=True, help="JSON, also for stranded report --matrix")
@click.option("--csv", "as_csv", is_flag=True, help="one line for each exploration; an empty axis is any value")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="keep what is known in FILE, and go on from there")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 64), metavar="N", help="processes [one for each core]")
@click.option(
    "--max-states",
    type=click.IntRange(1),
    default=m.LIMIT,
    show_default=True,
    metavar="N",
    help="a cell with more states is unknown",
)
def matrix(policies: tuple[Policy, ...], columns: tuple[str, ...], with_repairs: bool, only_named: bool,
           markdown: bool, as_json: bool, as_csv: bool, save: Path | None, jobs: int | None,
           max_states: int) -> int:  # fmt: skip
    """Decide every combination of policy axes under each set of faults, in one group of two siblings.

    With a POLICY, or several, only those, as with --named. The default columns are those that take seconds, a minute or
    two together; --faults chooses others. The quick ones come first, and Ctrl-C shows what is known.

    Exit 0 when all was decided, 3 when a cell is unknown, also after Ctrl-C.
    """
    if markdown + as_json + as_csv > 1:
        raise click.UsageError("--markdown, --json and --csv are one or the other")
    few: Policies = {spell(policy): policy for policy in policies} or NAMES
    only_these = only_named or bool(policies)
    if save is not None and only_these:
        raise click.UsageError("--save is of all combinations: leave --named and policies out")
    chosen = m.PAGE if "every" in columns else tuple(dict.fromkeys(columns)) or m.DEFAULT
    for faults in chosen:
        m.column(faults)
    cures: list[Repair] = []
    if only_these:
        found, cures = these_only(few, chosen, max_states, with_repairs=with_repairs)
    else:
        with progress() as told:
            found = explore(chosen, jobs=jobs, limit=max_states, file=save, progress=told)
        if with_repairs:
            cures = every_repair(found, few)
    left = missing(found, few, every=not only_these)
    known = [f for f in found.begun if f not in left] if with_repairs else []
    if as_json:
        data = as_object(found, max_states, few)
        click.echo(json.dumps({**data, "repairs": list(map(cure_to_json, cures))}, indent=1))
    elif as_csv:
        click.echo(as_lines(found), nl=False)
    elif markdown:
        click.echo(as_markdown(found, cures, few, known, every=not only_these), nl=False)
    else:
        show(out(), found, cures, few, known, every=not only_these)
    if found.stopped is not None:
        said = [f"{f} (in part known)" if f in found.begun else f for f in left]
        click.echo(f"{found.stopped}; unknown: {', '.join(said)}", err=True)
    return 3 if found.stopped is not None or any(c.verdict == "unknown" for c in found.cells) else 0


@contextmanager
def progress() -> Iterator[Progress | None]:
    """Give a callback that shows parts and explorations on one line; None off a terminal."""
    with telling("the quick columns first") as say:
        if say is None:
            yield None
        else:
            yield lambda done, of, n: say(f"{done} of {of} parts, {n:,} explorations")


def these_only(
    policies: Policies, columns: Iterable[str], limit: int = m.LIMIT, *, with_repairs: bool = False
) -> tuple[m.Matrix, list[Repair]]:
    """Return the matrix of some policies, and their repairs. Ctrl-C ends it with what is known."""
    columns, stopped = tuple(columns), None
    cells, cures = list[m.Cell](), list[Repair]()
    with telling("some policies") as say:
        try:
            for faults in sorted(columns, key=m.cost):
                look = asked(faults, limit=limit)
                for name, policy in policies.items():
                    if say is not None:
                        say(f"{name} under {faults}")
                    cells.append(look(policy))
                    cures += repairs(policy, faults, look, MOST) if with_repairs else ()
        except KeyboardInterrupt:
            stopped = INTERRUPTED
    found = m.Matrix(m.BASE, columns, tuple(dict.fromkeys(cells)), stopped)
    return found, sorted(cures, key=lambda x: (list(policies).index(x.base), columns.index(x.faults)))


def every_repair(found: m.Matrix, policies: Policies = NAMES) -> list[Repair]:
    """Return the smallest repairs of every size. A column that is not known as a whole has none."""
    left = found.missing
    looks = {faults: cache(found.of(faults)) for faults in found.columns if faults not in left}
    return [x for base in policies.values() for faults, look in looks.items() for x in repairs(base, faults, look)]


def missing(found: m.Matrix, policies: Policies, *, every: bool) -> tuple[str, ...]:
    """Return the columns of which something is unknown: of all combinations, or of these policies."""
    if every:
        return found.missing
    looks = {f: found.of(f) for f in found.columns}
    return tuple(f for f, look in looks.items() if any(look(x).verdict == "unknown" for x in policies.values()))


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


def table(found: m.Matrix, policies: Policies = NAMES) -> Rows:
    """Return for each column what is found in each of the policies."""
    return [[f, *map(words_of(found, f), policies.values())] for f in found.begun]


def words_of(found: m.Matrix, faults: str) -> Callable[[Policy], str]:
    look = found.of(faults)
    return lambda policy: look(policy).words


def counted(found: m.Matrix) -> Rows:
    """Return for each column how many of all combinations have each verdict, and from how many explorations."""
    runs = Counter(cell.faults for cell in found.cells)
    return [[f, *(f"{n:,}" for n in found.count(f).values()), str(runs[f])] for f in found.begun]


def leaves(found: m.Matrix) -> Rows:
    """Return all combinations: for each column the axes that matter there, and what is found."""
    return [[f, axes, words, f"{n:,}"] for f in found.begun for axes, words, n in found.rows(f)]


def cured(cures: Iterable[Repair]) -> Rows:
    """Return a row for each smallest repair, with what its policy does once a change is dropped."""
    rows = [(r, "; ".join(f"{c}: {history(x)}" for c, x in r.dropped)) for r in cures if r.changes]
    return [[r.base, r.faults, changes(r), without] for r, without in rows]


def curable(columns: Iterable[str], cures: Iterable[Repair], policies: Policies = NAMES) -> Rows:
    """Return for each policy the columns in which it is clean as it is, has a repair, and has none."""
    needed = {(r.base, r.faults): bool(r.changes) for r in cures}
    rows = []
    for name in policies:
        parts: dict[bool | None, list[str]] = {False: [], True: [], None: []}
        for faults in columns:
            parts[needed.get((name, faults))].append(faults)
        rows.append([name, *(", ".join(part) or "-" for part in parts.values())])
    return rows


def changes(cure: Repair) -> str:
    return ", ".join(f"{name}={value}" for name, value in cure.changes) or "none needed"


def history(finding: Shortest) -> str:
    return f"{finding.verdict.cause} [{', '.join(map(str, finding.events))}]"


def as_markdown(
    found: m.Matrix, cures: list[Repair], policies: Policies, known: Iterable[str] = (), *, every: bool
) -> str:
    parts = [markdown_table(("faults", *policies), table(found, policies))]
    if every:
        parts += [markdown_table(COUNTS, counted(found)), markdown_table(TREE, leaves(found))]
    if known:
        parts += [markdown_table(CURABLE, curable(known, cures, policies)), markdown_table(CURES, cured(cures))]
    return "\n".join(parts)


def markdown_table(head: Iterable[str], rows: Rows) -> str:
    head = list(head)
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def show(
    to: Console,
    found: m.Matrix,
    cures: list[Repair],
    policies: Policies = NAMES,
    known: Iterable[str] = (),
    *,
    every: bool,
) -> None:
    """Print a block for each column that was begun, then the repairs in those `known`, two narrow columns wide."""
    for f in found.begun:
        to.print(heading(found, f) if every else f, style="bold", markup=False, soft_wrap=False)
        pairs(list(zip(policies, map(words_of(found, f), policies.values()), strict=True)), to)
        if every:
            to.print("  all combinations", style="dim")
            pairs([(words, f"{n:,}: {axes}") for axes, words, n in found.rows(f)], to)
    for name, *columns in curable(known, cures, policies) if known else ():
        to.print(f"repairs of {name}", style="bold", markup=False, soft_wrap=False)
        none = CURABLE[-1] if every else f"{CURABLE[-1]} of {MOST} changes or fewer"
        pairs(list(zip((*CURABLE[1:-1], none), columns, strict=True)), to)
    for cure in (x for x in cures if x.changes):
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
