"""The table of defects in docs/live.md: `python docs/live_tables.py` writes it, a test fails when it is stale."""

from pathlib import Path

from state_machines.gym_server.defects import DEFECTS

PAGE = Path(__file__).parent / "live.md"
MARK = "<!-- defects -->"
END = "<!-- end of defects -->"


def table() -> str:
    rows = [f"| `{d.name}` | {d.about} | `{d.policy}` | `{d.scope}` |" for d in DEFECTS.values()]
    return "\n".join([MARK, "", "| name | what is wrong | policy | scope |", "|---|---|---|---|", *rows, "", END])


def page() -> str:
    """Return the page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARK)
    return before + table() + (rest.partition(END)[2] if END in rest else rest)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
