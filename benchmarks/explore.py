"""What exploration costs, side by side: `python benchmarks/explore.py [--limit SECONDS] [--scopes N] [--json FILE]`.

Whole processes, one after the other: `stranded prove`; SPIN on the hand-written model of `benchmarks/spin`, compile
included, at `-O0` and `-O2`, plain and with the siblings' symmetry written by hand; a naive breadth-first search over
`enabled` and `step`; `minicheck`, where it is installed. States are those that were visited by each. SPIN and the
naive search look beyond violations, `stranded prove` does not: take the rows of a clean policy for speed.
"""

import argparse
import json
import sys
from pathlib import Path

from protocol import properties
from protocol.policy import named
from protocol.scope import Scope
from protocol.state import initial
from protocol.system import enabled, step

sys.path.insert(0, str(Path(__file__).resolve().parent / "spin"))
import model

SCOPES = (
    Scope(1, 2, 2, 1, 1, 1),
    Scope(2, 2, 2, 1, 0, 0),
    Scope(2, 1, 2, 1, 1, 1),
    Scope(1, 3, 2, 1, 1, 0),
    Scope(2, 2, 2, 1, 1, 0),
    Scope(1, 3, 2, 1, 1, 1),
)
POLICIES = ("sibling", "prompt_group_repaired")


def naive(policy, scope):
    """Count everything one by one, and decide AG EF ready backwards."""
    from state_machines.explore import explore_model, traps

    graph = explore_model(initial(policy, scope), enabled, step)
    found = traps(graph, properties.ready, properties.rescues)
    return {"states": len(graph.states), "transitions": len(graph.targets), "clean": not found}


def with_minicheck(policy, scope):
    """The same question to minicheck."""
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
    return {"states": checked.get("reachable_states", 0), "clean": checked["holds"]}


ALONE = {"naive": naive, "minicheck": with_minicheck}


def row(tool, states, transitions, seconds, memory, clean):
    return {
        "tool": tool,
        "states": states,
        "transitions": transitions,
        "seconds": seconds,
        "memory": memory,
        "rate": states / seconds,
        "clean": clean,
    }


def ours(name, scope, limit):
    sizes = [x for key, size in scope.sizes().items() for x in (f"--{key.replace('_', '-')}", str(size))]
    done = model.measure([sys.executable, "-m", "state_machines", "prove", name, *sizes, "--json"], limit=limit)
    if done.code not in (0, 1):
        return {"tool": "stranded prove", "failed": done.output[-200:] or "too long"}
    (proof,) = json.loads(done.output)["proofs"]
    states = proof["states"]["reduced"] if isinstance(proof["states"], dict) else proof["states"]
    return row("stranded prove", states, proof["transitions"], done.seconds, done.memory, done.code == 0)


def spin(name, scope, limit, level, symmetry, partial_order=False):
    tool = f"spin{' +por' if partial_order else ''}{' +symmetry' if symmetry else ''} {level}"
    try:
        done = model.check(
            named(name),
            scope,
            verdict=True,
            symmetry=symmetry,
            level=level,
            limit=limit,
            partial_order=partial_order,
        )
    except (TimeoutError, RuntimeError) as error:
        return {"tool": tool, "failed": str(error)[-200:]}
    found = row(tool, done.states, done.transitions, done.seconds, done.memory, not done.errors)
    return found | {"compiling": done.compiling}


def alone(tool, name, scope, limit):
    sizes = [str(size) for size in list(scope.sizes().values())[:6]]
    done = model.measure([sys.executable, __file__, "--alone", tool, name, *sizes], limit=limit)
    if done.code:
        return {"tool": tool, "failed": done.output.strip().splitlines()[-1][-200:] if done.output else "too long"}
    found = json.loads(done.output)
    return row(tool, found["states"], found.get("transitions", 0), done.seconds, done.memory, found["clean"])


def show(found):
    if "failed" in found:
        return f"| {found['tool']} | - | - | {found['failed']} | - | - | - |"
    verdict = "clean" if found["clean"] else "stranded"
    return (
        f"| {found['tool']} | {found['states']:,} | {found['transitions']:,} | {found['seconds']:.2f} | "
        f"{found['rate']:,.0f} | {found['memory']:.0f} | {verdict} |"
    )


def runs(name, scope, limit):
    """Every tool on one policy and scope, one after the other."""
    yield ours(name, scope, limit)
    for symmetry in (False, True):
        for level in ("-O0", "-O2"):
            yield spin(name, scope, limit, level, symmetry)
    yield spin(name, scope, limit, "-O2", False, True)
    for tool in ALONE:
        yield alone(tool, name, scope, limit)


HEAD = """| tool | states visited | transitions | seconds | states/s | MiB | verdict |
|---|---|---|---|---|---|---|"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--limit", type=float, default=120, help="seconds for one process")
    options.add_argument("--scopes", type=int, default=len(SCOPES), help="only the first so many scopes")
    options.add_argument("--policy", action="append", choices=POLICIES)
    options.add_argument("--json", type=Path)
    options.add_argument("--alone", nargs="+", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.alone:
        tool, name, *sizes = given.alone
        print(json.dumps(ALONE[tool](named(name), Scope(*map(int, sizes)))))
        return
    everything = []
    for scope in SCOPES[: given.scopes]:
        for name in given.policy or POLICIES:
            sizes = ", ".join(f"{key}={size}" for key, size in list(scope.sizes().items())[:6])
            print(f"\n{name}, {sizes}\n\n{HEAD}")
            for found in runs(name, scope, given.limit):
                everything.append({"policy": name, "scope": scope.sizes(), **found})
                print(show(found), flush=True)
                if given.json:
                    given.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
