"""Keep what README.md and some pages of docs/ show true: `python docs/generate.py`; `--check` exits 1 if stale.

`<!-- output of: COMMAND -->` is followed by a text block with what the command prints, `<!-- the table of: NAME -->` by
a table that is made from the code, or from results that a command has written: docs/small-scope.json (`python
docs/small_scope.py`), and docs/matrix.json: `python docs/generate.py --decide` decides that again, in minutes, and
exits 1 when something has changed.
"""

import re
import sys
from functools import cache, partial
from pathlib import Path

from attrs import evolve

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run_commands import run

REPOSITORY = Path(__file__).resolve().parent.parent
FILES = ("README.md", "docs/trace-format.md", "docs/matrix.md", "docs/small-scope.md")
OF_MATRIX = ("named", "partial", "counts", "all", "curable", "repairs", "proposed")
MATRIX = REPOSITORY / "docs" / "matrix.json"
OUTPUT = re.compile(r"(<!-- output of: (.*?) -->\n)```text\n.*?```\n", re.DOTALL)
TABLE = re.compile(r"(<!-- the table of: (.*?) -->\n)(?:\n(?:\|.*\n)+)?")


def refreshed(text: str) -> str:
    """Return a document with its outputs and tables as they are now."""
    text = OUTPUT.sub(lambda m: f"{m[1]}```text\n{output(m[2])}```\n", text)
    return TABLE.sub(lambda m: f"{m[1]}\n{TABLES[m[2]]()}", text)


def output(command: str) -> str:
    lines = run(command, REPOSITORY).strip("\n").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def expected_table() -> str:
    from protocol.policy import NAMED
    from state_machines.expected import EXPECTED

    rows = []
    for name, (_, about) in NAMED.items():
        found = ", ".join(f"{v.word} by `{v.cause}` ({n} events)" for v, n in EXPECTED[name].items())
        rows.append((f"`{name}`", about, found or "nothing"))
    return table(("policy", "what it is", "what is found, and the length of the shortest history"), rows)


def events_table() -> str:
    from attrs import fields

    from protocol.events import EVENTS

    rows = []
    for kind in EVENTS:
        keys = ", ".join(f"`{field.name}`" for field in fields(kind))
        about = (kind.__doc__ or "").strip().partition("\n")[0]
        rows.append((f"`{kind.name}`", kind.owner.value, keys or "-", about))
    return table(("event", "owner", "keys", "what happens"), rows)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


@cache
def matrix():
    """Return docs/matrix.json, its columns in the order of the page, and the columns of which something is missing."""
    from state_machines.matrix import PAGE
    from state_machines.matrix_run import loads

    found = loads(MATRIX.read_text("utf-8"))
    found = evolve(found, columns=tuple(x for x in PAGE if x in found.columns))
    return found, found.missing


@cache
def every_cure():
    from state_machines.commands.matrix import every_repair

    found, missing = matrix()
    return every_repair(evolve(found, columns=tuple(x for x in found.columns if x not in missing)))


def of_matrix(which: str) -> str:
    from protocol.policy import NAMED
    from state_machines.commands import matrix as c

    found, missing = matrix()
    if which == "named":
        return c.markdown_table(("faults", *NAMED), c.table(found))
    if which == "proposed":
        cells = {f: found.of(f)(NAMED["prompt_group_ack_on_arrival"][0]) for f in found.columns if "+" not in f}
        left = [[f, x.verdict.word, c.history(x)] for f, cell in cells.items() for x in cell.findings]
        return c.markdown_table(("faults", "finding", "shortest history"), left)
    if which == "partial":
        return c.markdown_table(("columns of the named policies only",), [[", ".join(missing) or "none"]])
    whole = evolve(found, columns=tuple(x for x in found.columns if x not in missing))
    if which == "curable":
        return c.markdown_table(c.CURABLE, c.curable(whole.columns, every_cure()))
    if which == "repairs":
        return c.markdown_table(c.CURES, c.cured(every_cure()))
    if which == "counts":
        return c.markdown_table(c.COUNTS, c.counted(whole))
    return c.markdown_table(c.TREE, c.leaves(whole))


def of_small_scope(which: str) -> str:
    import small_scope

    head, rows = {"sizes": small_scope.growth, "bounds": small_scope.one_axis, "enough": small_scope.enough}[which]()
    return table(head, rows)


def decide() -> int:
    """Decide every column of docs/matrix.json again, and return whether something else came out."""
    from state_machines.matrix import PAGE
    from state_machines.matrix_run import dumps, explore

    before, after = matrix()[0], explore(PAGE)
    if after.stopped is not None:
        print(after.stopped)
        return 1
    MATRIX.write_text(dumps(after), "utf-8")
    changed = [f for f in PAGE if (after.count(f), after.rows(f)) != (before.count(f), before.rows(f))]
    print(f"changed: {', '.join(changed)}" if changed else f"{len(PAGE)} columns, the same verdicts")
    return int(bool(changed))


TABLES = {
    "state_machines.expected": expected_table,
    "protocol.events": events_table,
    **{f"docs/matrix.json, {x}": partial(of_matrix, x) for x in OF_MATRIX},
    **{f"docs/small-scope.json, {x}": partial(of_small_scope, x) for x in ("sizes", "bounds", "enough")},
}


def main() -> int:
    if "--decide" in sys.argv:
        return decide()
    stale = 0
    for name in FILES:
        print(name, file=sys.stderr, flush=True)
        path = REPOSITORY / name
        text = path.read_text("utf-8")
        new = refreshed(text)
        if new != text:
            stale += 1
            if "--check" in sys.argv:
                print(f"{name} is stale: python docs/generate.py")
            else:
                path.write_text(new, "utf-8")
    return int("--check" in sys.argv and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
