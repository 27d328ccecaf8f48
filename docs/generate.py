"""Keep what README.md and docs/trace-format.md show true: `python docs/generate.py`; `--check` exits 1 if stale.

`<!-- output of: COMMAND -->` is followed by a text block with what the command prints, `<!-- the table of: NAME -->` by
a table that is made from the code.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run_commands import run

REPOSITORY = Path(__file__).resolve().parent.parent
FILES = ("README.md", "docs/trace-format.md")
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


TABLES = {"state_machines.expected": expected_table, "protocol.events": events_table}


def main() -> int:
    stale = 0
    for name in FILES:
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
