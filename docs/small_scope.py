"""The measured rows of docs/small-scope.md: `python docs/small_scope.py [MINUTES]` proves those that are missing.

Each row is one `stranded prove`, as a process of its own; its result, its CPU seconds and its memory go to
docs/small-scope.json, from which `python docs/generate.py` makes the tables. A row that does not end within MINUTES
(3) of its own CPU time is written down as such, and none that is larger in the same direction is tried for its policy.
Rows that are there already are kept.
"""

import argparse
import json
import resource
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "small-scope.json"
SIZES = [(1, 1), (2, 1), (1, 2), (1, 3), (1, 4), (2, 2), (3, 2), (2, 3), (4, 2), (2, 4), (3, 3)]
AXES = {
    "attempts": range(1, 5),
    "snapshots": range(4),
    "failures": range(3),
    "lost_replies": range(3),
}
TIMES = "\N{MULTIPLICATION SIGN}"
START = {"groups": 1, "siblings": 2, "attempts": 2, "snapshots": 1, "failures": 1, "lost_replies": 1}


def scopes() -> list[tuple[str, dict[str, int]]]:
    """Return every row: what grows in it (`size` or a bound), and its scope."""
    bounds = [(name, {**START, name: n}) for name, values in AXES.items() for n in values if n != START[name]]
    return bounds + [("size", {**START, "groups": groups, "siblings": siblings}) for groups, siblings in SIZES]


def load() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text("utf-8"))["rows"] if FILE.exists() else []


def proved(policy: str, scope: dict[str, int], seconds: float) -> dict[str, Any]:
    """Return what `stranded prove` says of one row, or only that it did not end in time."""
    words = ",".join(f"{name}={n}" for name, n in scope.items())
    command = [sys.executable, "-m", "state_machines", "prove", policy, "--scope", words, "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    limit = (int(seconds), int(seconds) + 5)
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
    )
    if run.returncode < 0:
        return {"ended": False, "minutes": seconds / 60}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (proof,) = json.loads(run.stdout)["proofs"]
    return {
        "ended": proof["exhaustive"],
        "states": proof["states"]["reduced"],
        "seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "mib": proof["peak_memory"] >> 20,
        "causes": {x["cause"]: x["length"] for x in proof["findings"]},
    }


def main() -> None:
    from protocol.policy import NAMED

    parser = argparse.ArgumentParser(description="Prove the rows that docs/small-scope.json lacks, one by one.")
    parser.add_argument("minutes", nargs="?", type=float, default=3.0, help="processor time of a row at most [3]")
    parser.add_argument("--only", metavar="POLICY:2x3", help="only this policy and size, whatever the file says of it")
    given = parser.parse_args()
    rows = load()
    for grows, scope in scopes():
        for policy in NAMED:
            mine = [x for x in rows if (x["policy"], x["grows"]) == (policy, grows)]
            if given.only:
                wanted = grows == "size" and given.only == f"{policy}:{scope['groups']}x{scope['siblings']}"
                rows = [x for x in rows if not (wanted and x in mine and x["scope"] == scope)]
            else:
                wanted = not any(x["scope"] == scope or not (x["ended"] or larger(x["scope"], scope)) for x in mine)
            if wanted:
                rows.append(
                    {"policy": policy, "grows": grows, "scope": scope} | proved(policy, scope, 60 * given.minutes)
                )
                write(rows)
                print(rows[-1], flush=True)


def larger(scope: dict[str, int], other: dict[str, int]) -> bool:
    """Return whether some bound is larger in `scope` than in `other`."""
    return any(n > other[name] for name, n in scope.items())


def write(rows: list[dict[str, Any]]) -> None:
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    FILE.write_text(f'{{\n "rows": [\n{lines}\n ]\n}}\n', "utf-8")


# The tables


def text(scope: dict[str, int]) -> str:
    return f"{scope['groups']} {TIMES} {scope['siblings']}"


def causes(row: dict[str, Any]) -> str:
    return ", ".join(f"{cause} ({n})" for cause, n in row["causes"].items()) or "none"


def growth() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a row for each policy and size."""
    rows, before = [], {}
    for row in sorted((x for x in load() if x["grows"] == "size"), key=_place):
        if not row["ended"]:
            rows.append(
                (row["policy"], text(row["scope"]), "-", "-", "-", f"not exhausted in {row['minutes']:g} CPU minutes")
            )
            continue
        found = causes(row)
        shown = "the same" if before.get(row["policy"]) == found else found
        before[row["policy"]] = found
        figures = (f"{row['states']:,}", f"{row['seconds']:.1f}", f"{row['mib']:,}")
        rows.append((row["policy"], text(row["scope"]), *figures, shown))
    return ("policy", f"groups {TIMES} siblings", "states", "CPU seconds", "MiB", "causes"), rows


def one_axis() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a row for each policy and bound: what is found at each value, equal neighbours together."""
    rows = []
    for policy in _policies():
        for axis in AXES:
            mine = [x for x in load() if x["policy"] == policy and (x["grows"] == axis or x["scope"] == START)]
            mine = sorted((x for x in mine if x["ended"]), key=lambda x: x["scope"][axis])
            found = [(words, [x["scope"][axis] for x in same]) for words, same in groupby(mine, causes)]
            shown = "; ".join(f"{_span(values)}: {words}" for words, values in found)
            rows.append((policy, axis, shown, f"{mine[-1]['states']:,}"))
    return ("policy", "bound", "causes at its values", "states at the largest"), rows


def _span(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def enough() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return for each policy the first size that has all that any size has, each as short, and the largest size."""
    rows = []
    for policy in _policies():
        mine = [x for x in load() if x["policy"] == policy and x["grows"] == "size" and x["ended"]]
        every: dict[str, int] = {}
        for row in mine:
            every |= {cause: min(n, every.get(cause, n)) for cause, n in row["causes"].items()}
        mine.sort(key=_place)
        first = text(next(x for x in mine if x["causes"] == every)["scope"]) if every else "nothing is found"
        tops = [x for x in mine if not any(_below(x, y) for y in mine)]
        largest = ", ".join(f"{text(x['scope'])} ({x['states']:,} states)" for x in tops)
        rows.append((policy, first, largest))
    return ("policy", "all causes are seen from", "the largest sizes explored"), rows


def _place(row: dict[str, Any]) -> tuple[int, int]:
    """Sort key: by policy, then in the order of SIZES."""
    scope = row["scope"]
    return _policies().index(row["policy"]), SIZES.index((scope["groups"], scope["siblings"]))


def _below(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether `other` has as many groups and siblings, and more of one."""
    mine, its = row["scope"], other["scope"]
    return mine != its and mine["groups"] <= its["groups"] and mine["siblings"] <= its["siblings"]


def _policies() -> list[str]:
    from protocol.policy import NAMED

    return list(NAMED)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
