"""The tables of `explore.py`, written from what it measured. Nothing here measures or knows a figure."""

from typing import Any

Found = dict[str, Any]
OURS = "stranded prove"
MANY = 10_000  # with fewer states, memory says nothing of a state
INTRODUCTION = """# Exploration beside other tools

Written by `{command}`; do not edit.

{date}, {machine}; Python {python}; {spin}; {gcc}; minicheck {minicheck}. Load average before the first scope and
after each: {load}.

Whole processes, one at a time, in rounds over the tools of a scope; the median. A tool that had already taken long was
not run again: the column says how often it ran. Of SPIN, spin and gcc are included in the seconds, and the memory is
the checker's. States and transitions are those that the tool visited, and the rate is over the whole process. Where the
load is not low, processor seconds compare better than seconds. `stranded prove` also decides *unblocked*, *reopens*
and safety, and gives each cause its shortest history; the others decide one property.
"""

GROWTH = """## As the scope grows

Raw states are those of a tool without reductions, where one finished, beyond violations too. Of SPIN the fastest
set-up, without symmetry and with; a ratio below 1 says that `stranded prove` took less time.
"""
GROWTH_COLUMNS = (
    "policy, scope, raw states, states of `prove`, `prove` s, SPIN s, `prove` / SPIN, SPIN + symmetry s, "
    "`prove` / that, naive / `prove`, minicheck / `prove`"
)
COLUMNS = (
    "tool, seconds, of these compiling, processor seconds, least to most, runs, states, transitions, "
    "transitions/s, MiB, bytes a state, verdict"
)


def markdown(measured: Found, rows: list[Found] | None = None) -> str:
    """Return the tables of all scopes, or only those of `rows`, without introduction."""
    if rows is not None:
        return "\n".join(map(table, rows))
    head = INTRODUCTION.format(
        command="python benchmarks/explore.py --json benchmarks/explore.json --markdown benchmarks/explore.md",
        **{**measured, "load": ", ".join(f"{x:.1f}" for x in measured["load"])},
    )
    return "\n".join([head, growth(measured["rows"]), "## Scope by scope\n", *map(table, measured["rows"])])


def growth(rows: list[Found]) -> str:
    """Return a line for each scope: what was there to visit, and the best that each kind of tool did."""
    lines = [GROWTH, head(GROWTH_COLUMNS, words=2)]
    for row in rows:
        tools = {name: x for name, x in row["tools"].items() if "failed" not in x and "first error" not in name}
        ours = tools.get(OURS)
        if ours is None:
            continue
        raw = next((f"{x['states']:,}" for name, x in tools.items() if whole(name)), "-")
        cells = [row["policy"], scope_of(row), raw, f"{ours['states']:,}", f"{ours['seconds']:.2f}"]
        for folded in (False, True):
            several = [x["seconds"] for name, x in tools.items() if "SPIN" in name and ("symmetry" in name) is folded]
            best = min(several, default=None)
            cells += ["-", "-"] if best is None else [f"{best:.2f}", f"{ours['seconds'] / best:.2f}"]
        for name in ("naive search", "minicheck"):
            cells.append(f"{tools[name]['seconds'] / ours['seconds']:.0f}" if name in tools else "-")
        lines.append(line(cells))
    return "\n".join(lines) + "\n"


def whole(tool: str) -> bool:
    """Return whether this tool visits every state without a reduction."""
    return "NOREDUCE" in tool or tool == "naive search"


def table(row: Found) -> str:
    """Return the table of one scope."""
    cycle = row["tools"].get("naive search", {}).get("cycle")
    lines = [
        f"### `{row['policy']}`, {scope_of(row)}\n",
        *([f"The graph {'has a cycle' if cycle else 'has no cycle'}.\n"] if cycle is not None else []),
        head(COLUMNS, words=1),
    ]
    for tool, x in row["tools"].items():
        if "failed" in x:
            lines.append(line([tool, x["failed"], *["-"] * 10]))
            continue
        moved = x["transitions"]
        lines.append(
            line(
                [
                    tool,
                    f"{x['seconds']:.2f}",
                    f"{x['compiling']:.2f}" if "compiling" in x else "-",
                    f"{x['processor']:.2f}",
                    f"{x['least']:.2f} to {x['most']:.2f}",
                    str(x["runs"]),
                    f"{x['states']:,}",
                    "-" if moved is None else f"{moved:,}",
                    "-" if moved is None else f"{moved / x['seconds']:,.0f}",
                    f"{x['memory']:.0f}",
                    f"{x['memory'] * 2**20 / x['states']:,.0f}" if x["states"] >= MANY else "-",
                    "clean" if x["clean"] else "stranded",
                ]
            )
        )
    return "\n".join(lines) + "\n"


def scope_of(row: Found) -> str:
    groups, siblings, attempts, snapshots, failures, lost = row["scope"]
    words = [f"{groups} \u00d7 {siblings}"]
    words += [f"{n} attempts" for n in [attempts] if n != 2] + [f"{n} snapshots" for n in [snapshots] if n != 1]
    words += [f"{n} failure" for n in [failures] if n] + [f"{n} lost reply" for n in [lost] if n]
    return ", ".join(words)


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def head(columns: str, words: int) -> str:
    """Return the first two lines of a table whose columns are numbers, but for the first few."""
    names = columns.split(", ")
    return f"{line(names)}\n|{'---|' * words}{'---:|' * (len(names) - words)}"
