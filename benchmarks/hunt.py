"""What a hunt costs and what it misses: `python benchmarks/hunt.py [--seeds 50] [--policy NAME] [--json FILE]`.

- speed: steps of the protocol in a second, against an empty state machine with as many rules (aim: 0.6). Both are
  driven by the same Hypothesis with the same settings; the hunt decides every property after every step. *Cold* is the
  first hunt of a process, *warm* one that remembers what it decided.
- first: seconds from the start to the first history with each verdict, shrunk as far as it is reported.
- detection: of how many seeds a default hunt finds exactly the known verdicts (aim: all).
- shrinking: the length reported against the shortest that exists, from a breadth-first search (aim: 1.00), and how
  often shrinking alone had got there, before the search.
"""

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from protocol.policy import NAMED, Policy
from protocol.scope import Scope
from state_machines.expected import EXPECTED
from state_machines.hunt import DEFAULT, hunt
from state_machines.machine import INDEX, Session, families, machine, steps, with_session
from state_machines.shrink import plainest, shrink
from state_machines.walk import Walk

SCOPE = Scope()


def empty_machine(rules: int, taken: Counter[str]) -> type[RuleBasedStateMachine]:
    """Return a machine of as many rules that do nothing."""

    def one(name: str) -> Any:
        def nothing(self, i):
            taken["steps"] += 1

        nothing.__name__ = name
        return rule(i=INDEX)(nothing)

    return type(RuleBasedStateMachine)("Empty", (RuleBasedStateMachine,), {f"r{i}": one(f"r{i}") for i in range(rules)})


def run(kind: type[RuleBasedStateMachine], examples: int) -> float:
    """Run a machine without shrinking and return the processor seconds it took."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps(SCOPE),
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    began = time.process_time()
    run_state_machine_as_test(seed(1)(kind), settings=chosen)
    return time.process_time() - began


def speed(policy: Policy, known: set[Any]) -> dict[str, float]:
    taken: Counter[str] = Counter()
    empty = empty_machine(len(families(SCOPE)) + 1, taken)
    run(empty, 50)
    taken.clear()
    empty_rate = 1 / (run(empty, DEFAULT) / taken["steps"])
    found = {"empty": empty_rate}
    walk = Walk(policy, SCOPE)
    for name in ("cold", "warm"):
        session = Session(walk, known=set(known))
        machine(policy, SCOPE)
        seconds = run(with_session(policy, SCOPE, session), DEFAULT)
        found[name] = session.steps / seconds
        found[f"{name} ratio"] = found[name] / empty_rate
    return found


def first(policy: Policy, known: dict[Any, int]) -> dict[str, float]:
    """Return the seconds to the first history of each verdict, shrunk, in a fresh walk."""
    walk, began, times = Walk(policy, SCOPE), time.perf_counter(), {}
    seen: set[Any] = set()
    for number in range(20):
        session = Session(walk, known=set(seen))
        with contextlib.suppress(Exception):  # a finding, or several: the session has them
            run(seed(number)(with_session(policy, SCOPE, session)), DEFAULT)
        for verdict in set(session.shortest) - seen:
            plainest(walk, verdict, len(shrink(walk, verdict, session.shortest[verdict])))
            times[str(verdict)] = time.perf_counter() - began
        seen |= set(session.shortest)
        if seen >= set(known):
            break
    return times


def measure(name: str, seeds: int) -> dict[str, Any]:
    policy, known = NAMED[name][0], EXPECTED[name]
    exact, unknown, vacuous, ratios, alone, seconds = 0, 0, 0, [], Counter(), []
    misses: Counter[str] = Counter()
    out: dict[str, Any] = {"policy": name, "first": first(policy, known), "speed": speed(policy, set(known))}
    for number in range(seeds):
        result = hunt(policy, SCOPE, seed=number)
        found = {finding.verdict: len(finding.events) for finding in result.findings}
        exact += set(found) == set(known)
        unknown += result.unknown
        vacuous += result.vacuous
        misses.update(str(v) for v in set(known) ^ set(found))
        seconds.append(result.seconds)
        for finding in result.findings:
            ratios.append(len(finding.events) / known.get(finding.verdict, len(finding.events)))
            alone[finding.certified] += 1
        print(f"{name}: {number + 1} of {seeds}", end="\r", file=sys.stderr)
    return out | {
        "seeds": seeds,
        "exact": exact,
        "unknown": unknown,
        "vacuous": vacuous,
        "misses": dict(misses),
        "length ratio": max(ratios, default=1.0),
        "shrunk alone": f"{alone[True]} of {sum(alone.values())}",
        "seconds": [min(seconds), max(seconds)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--policy", action="append", choices=list(NAMED))
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    found = []
    for name in options.policy or NAMED:
        row = measure(name, options.seeds)
        found.append(row)
        rates = row["speed"]
        print(f"{name}")
        print(f"  exactly the known verdicts: {row['exact']} of {row['seeds']} seeds", row["misses"] or "")
        print(f"  unknown {row['unknown']}, vacuous {row['vacuous']}")
        print(
            f"  longest report / shortest history: {row['length ratio']:.2f}; by shrinking alone {row['shrunk alone']}"
        )
        print(f"  a hunt: {row['seconds'][0]:.1f} to {row['seconds'][1]:.1f} s")
        print("  steps/s: " + ", ".join(f"{k} {v:.2f}" if v < 10 else f"{k} {v:,.0f}" for k, v in rates.items()))
        print("  first shrunk: " + (", ".join(f"{k} {v:.1f} s" for k, v in row["first"].items()) or "nothing to find"))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
