"""Many hunts in a row of each named policy: `python benchmarks/soak.py [--hunts N] [--seconds S] [POLICY…]`.

Checks that every hunt of a policy finds the same causes as its first ones, that memory does not grow, and that no file
handle, thread or process is left. Exit code 1 when any of it fails. In CI with `--seconds 30`; the full run is
`--hunts 10000`, by hand.
"""

import argparse
import gc
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from protocol.policy import NAMED
from protocol.scope import parse
from state_machines.hunt import DEFAULT, hunt

SCOPE = parse("groups=1,siblings=2")


def resources():
    """Resident memory in MiB, open files, threads, children."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return (
        pages * os.sysconf("SC_PAGESIZE") / 2**20,
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
        len(children),
    )


def soak(name, hunts, seconds, examples):
    policy, began, causes, unknown = NAMED[name][0], time.monotonic(), Counter(), 0
    settled, count = None, 0
    while count < hunts and time.monotonic() - began < seconds:
        result = hunt(policy, SCOPE, seed=count, examples=examples, certify=False)
        causes[tuple(sorted(str(verdict) for verdict in result.verdicts))] += 1
        unknown += result.unknown
        count += 1
        if count == min(20, max(2, hunts // 10)):
            settled = resources()
    after = resources()
    short = settled is None
    settled = settled or after
    lines = [f"{name}: {count} hunts in {time.monotonic() - began:.0f} s, {unknown} unknown"]
    lines += [f"  {number:6} times {', '.join(found) or 'clean'}" for found, number in causes.most_common()]
    words = ("MiB", "files", "threads", "children")
    lines.append("  " + ", ".join(f"{w} {a:.0f} -> {b:.0f}" for w, a, b in zip(words, settled, after, strict=True)))
    problems = (
        ["too few hunts to say anything"] * short
        + ["unknown"] * bool(unknown)
        + ["not always the same causes"] * (len(causes) > 1)
    )
    problems += ["memory grew"] * (after[0] > settled[0] * 1.2 + 20)
    problems += [f"{w} left" for w, a, b in zip(words[1:], settled[1:], after[1:], strict=True) if b > a]
    print("\n".join(lines + [f"  PROBLEM: {problem}" for problem in problems]), flush=True)
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("policies", nargs="*", default=list(NAMED))
    parser.add_argument("--hunts", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most, for each policy")
    parser.add_argument("--examples", type=int, default=DEFAULT)
    options = parser.parse_args()
    results = [soak(name, options.hunts, options.seconds, options.examples) for name in options.policies]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
