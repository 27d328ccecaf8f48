"""What exploration costs, side by side: `python benchmarks/explore.py --json FILE --markdown FILE [--limit SECONDS]`.

Whole processes, one after the other, in rounds over all tools of a scope: `stranded prove`; SPIN on the hand-written
model of `benchmarks/spin`, in every set-up that might be its best, spin and gcc included; a naive search over `enabled`
and `step`; `minicheck`. States and transitions are those that each visited. `--from FILE --markdown FILE` only writes
the tables again, from what was measured.
"""

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from attrs import frozen
from explore_tables import markdown

from protocol import properties
from protocol.policy import Policy, named
from protocol.scope import Scope
from protocol.state import initial
from protocol.system import enabled, step

sys.path.insert(0, str(Path(__file__).resolve().parent / "spin"))
import model

Found = dict[str, Any]
OURS = "stranded prove"
PLAIN = {
    "SPIN -O0": ("-O0",),
    "SPIN -O2": ("-O2",),
    "SPIN -O0 -DNOREDUCE": ("-O0", "-DNOREDUCE"),
    "SPIN -O2 -DNOREDUCE": ("-O2", "-DNOREDUCE"),
    "SPIN -O2 -DNOREDUCE -DCOLLAPSE": ("-O2", "-DNOREDUCE", "-DCOLLAPSE"),
}
FOLDED = {
    "SPIN + symmetry -O0": ("-O0",),
    "SPIN + symmetry -O1": ("-O1",),
    "SPIN + symmetry -O2": ("-O2",),
    "SPIN + symmetry -O0 -DCOLLAPSE": ("-O0", "-DCOLLAPSE"),
}
FIRST = {"SPIN -O0, to its first error": ("-O0",)}
SPIN = PLAIN | FOLDED | FIRST
SLOW = ("naive search", "minicheck")
BIG = (OURS, "SPIN -O2 -DNOREDUCE", *list(FOLDED)[:3])


@frozen
class Row:
    """One policy and scope, and the tools to measure there."""

    policy: str
    scope: Scope
    tools: tuple[str, ...] = (OURS, *PLAIN, *FOLDED)


ROWS = (
    Row("sibling_repaired", Scope(2, 2, 2, 1, 0, 0), (OURS, *list(PLAIN)[:3], *list(FOLDED)[:1], *SLOW)),
    Row("sibling_repaired", Scope(1, 3, 2, 1, 1, 1), (OURS, *PLAIN, *FOLDED, *SLOW)),
    Row("sibling_repaired", Scope(2, 2, 2, 1, 1, 0), (OURS, *PLAIN, *FOLDED, *SLOW)),
    Row("sibling", Scope(2, 2, 2, 1, 1, 1), (OURS, *PLAIN, *FOLDED, *FIRST)),
    Row("sibling_repaired", Scope(2, 2, 2, 1, 1, 1)),
    Row("sibling_repaired", Scope(2, 3, 2, 1, 1, 0)),
    Row("sibling_repaired", Scope(3, 2, 2, 1, 1, 0), BIG),
    Row("prompt_group_repaired", Scope(2, 2, 2, 1, 1, 1), BIG),
    Row("sibling_repaired", Scope(2, 4, 2, 1, 1, 0), (OURS, "SPIN + symmetry -O0")),
)


class Failed(Exception):
    """A tool that did not finish; the text says why."""


# The tools. Each returns what one run of it cost and found.


def ours(name: str, scope: Scope, limit: float) -> Found:
    sizes = [x for key, size in scope.sizes().items() for x in (f"--{key.replace('_', '-')}", str(size))]
    done = model.measure([sys.executable, "-m", "state_machines", "prove", name, *sizes, "--json"], limit=limit)
    if done.code not in (0, 1):
        raise Failed(f"over {limit:.0f} s" if done.code < 0 else done.output[-200:])
    (proof,) = json.loads(done.output)["proofs"]
    states = proof["states"]["reduced"]
    return cost(done) | {"states": states, "transitions": proof["transitions"], "clean": done.code == 0}


def spin(tool: str, name: str, scope: Scope, limit: float) -> Found:
    try:
        done = model.check(
            named(name), scope, symmetry=tool in FOLDED, build=SPIN[tool], first=tool in FIRST, limit=limit
        )
    except TimeoutError:
        raise Failed(f"over {limit:.0f} s") from None
    except RuntimeError as error:
        raise Failed(" ".join(str(error).split())[-100:]) from None
    size = {"states": done.states, "transitions": done.transitions, "clean": not done.errors}
    return cost(done) | size | {"compiling": done.compiling}


def alone(tool: str, name: str, scope: Scope, limit: float) -> Found:
    """Run one of `ALONE` in a process of its own."""
    command = [sys.executable, __file__, "--alone", tool, name, *map(str, sizes_of(scope))]
    done = model.measure(command, limit=limit)
    if done.code:
        raise Failed(f"over {limit:.0f} s" if done.code < 0 else done.output.strip().splitlines()[-1][-200:])
    answer: Found = json.loads(done.output)
    return cost(done) | answer


def cost(done: model.Measured | model.Checked) -> Found:
    return {"seconds": done.seconds, "processor": done.processor, "memory": done.memory}


def naive(policy: Policy, scope: Scope) -> Found:
    """Count everything one by one, decide AG EF ready backwards, and look for a cycle."""
    from state_machines.explore import explore_model, traps

    graph = explore_model(initial(policy, scope), enabled, step)
    trapped = traps(graph, properties.ready, properties.rescues)
    size = {"states": len(graph.states), "transitions": len(graph.targets)}
    return {**size, "clean": not trapped, "cycle": graph.has_cycle()}


def with_minicheck(policy: Policy, scope: Scope) -> Found:
    """Ask minicheck the same question. It does not count transitions."""
    import minicheck

    checked = minicheck.check_liveness(
        minicheck.Protocol(
            name="handover",
            candidate=False,
            fields=("system",),
            initial=(initial(policy, scope),),
            transitions=lambda s: [(event.name, (step(s[0], event),)) for event in enabled(s[0])],
            invariants={},
            goal=lambda d: properties.ready(d["system"]),
        )
    )
    return {"states": checked.get("reachable_states", 0), "transitions": None, "clean": checked["holds"]}


ALONE = dict(zip(SLOW, (naive, with_minicheck), strict=True))


def once(tool: str, row: Row, limit: float) -> Found:
    if tool == OURS:
        return ours(row.policy, row.scope, limit)
    return (spin if tool in SPIN else alone)(tool, row.policy, row.scope, limit)


# The measurement


def rounds(row: Row, limit: float, runs: int, enough: float) -> Iterator[tuple[str, list[Found] | str]]:
    """Yield each tool's runs, or why there are none. A tool that has run for `enough` seconds is not run again."""
    done: dict[str, list[Found]] = {tool: [] for tool in row.tools}
    failed: dict[str, str] = {}
    for _ in range(runs):
        for tool in row.tools:
            if tool not in failed and sum(x["seconds"] for x in done[tool]) < enough:
                try:
                    done[tool].append(once(tool, row, limit))
                except Failed as error:
                    failed[tool] = str(error)
    for tool in row.tools:
        yield tool, failed.get(tool) or done[tool]


def middle(runs: list[Found]) -> Found:
    """Return the run of these that took the median time, with how many there were. Their counts must be the same."""
    assert len({(x["states"], x["transitions"], x["clean"]) for x in runs}) == 1, runs
    times = [x["seconds"] for x in runs]
    rest = {key: median(x[key] for x in runs) for key in ("processor", "compiling", "memory") if key in runs[0]}
    return {**runs[0], **rest, "seconds": median(times), "runs": len(times), "least": min(times), "most": max(times)}


def sizes_of(scope: Scope) -> list[int]:
    return list(scope.sizes().values())[:6]


def machine() -> Found:
    """Return what the figures depend on."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    said = {name: model.measure(command).output for name, command in VERSIONS.items()}
    return {
        "machine": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{name: (text.strip().splitlines() or ["missing"])[0] for name, text in said.items()},
        "load": [os.getloadavg()[0]],
    }


VERSIONS = {
    "date": ["date", "-u", "+%F"],
    "spin": ["spin", "-V"],
    "gcc": ["gcc", "--version"],
    "minicheck": [sys.executable, "-c", "from importlib.metadata import version; print(version('minicheck'))"],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--limit", type=float, default=60, help="seconds for one process (60)")
    options.add_argument("--runs", type=int, default=3, help="runs of each tool (3)")
    options.add_argument(
        "--enough", type=float, default=8, help="a tool that took so many seconds is not run again (8)"
    )
    options.add_argument("--rows", type=int, default=len(ROWS), help="only the first so many scopes")
    options.add_argument("--json", type=Path, help="where to write what was measured")
    options.add_argument("--markdown", type=Path, help="where to write the tables")
    options.add_argument("--from", dest="read", type=Path, help="measure nothing: read this JSON file")
    options.add_argument("--alone", nargs="+", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.alone:
        tool, name, *sizes = given.alone
        print(json.dumps(ALONE[tool](named(name), Scope(*map(int, sizes)))))
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    if not given.read:
        ours("prompt_group_refused", Scope(), given.limit)  # and here it has now
    measured = json.loads(given.read.read_text()) if given.read else {**machine(), "rows": []}
    for row in () if given.read else ROWS[: given.rows]:
        entry: Found = {"policy": row.policy, "scope": sizes_of(row.scope), "tools": {}}
        for tool, runs in rounds(row, given.limit, given.runs, given.enough):
            entry["tools"][tool] = {"failed": runs} if isinstance(runs, str) else middle(runs)
        measured["rows"].append(entry)
        measured["load"].append(os.getloadavg()[0])
        print(markdown(measured, measured["rows"][-1:]), flush=True)
        if given.json:
            given.json.write_text(json.dumps(measured, indent=1) + "\n")
    if given.markdown:
        given.markdown.write_text(markdown(measured))


if __name__ == "__main__":
    main()
