"""Many hunts in a row of each named policy: `python benchmarks/soak.py [--hunts N] [--examples N] [POLICY…]`.

The scope is proved first. Then every hunt's causes are among the proved ones, all hunts together find all of them, no
state is undecided, a seed of the beginning finds the same again at the end, memory does not grow, and no file, thread
or process is left. Exit code 1 when any of it fails. In CI with `--hunts 40`; the full run, 10,000 hunts, by hand.

Memory is counted in Python's own blocks with the memo of states dropped: exact where resident memory is not. The
memo is bounded (`walk.NODE_LIMIT`), and its size is shown as the peak of resident memory.
"""

import argparse
import gc
import os
import resource
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from protocol.policy import NAMED
from protocol.scope import parse
from state_machines.hunt import hunt
from state_machines.machine import machine
from state_machines.prove import prove
from state_machines.walk import Walk

SCOPE = parse("groups=1,siblings=2")
AGAIN = 20  # seeds that are hunted a second time, at the end
BURN_IN = 150  # hunts that fill Hypothesis' own bounded caches before anything is measured
KINDS = ("blocks", "files", "threads", "children")


def resources(policy):
    """Blocks of memory, open files, threads and children, with no state of this policy remembered."""
    machine(policy, SCOPE).session.walk = Walk(policy, SCOPE)
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    files = len(list(Path("/proc/self/fd").iterdir()))
    return sys.getallocatedblocks(), files, threading.active_count(), len(children)


def content(result):
    """Everything about a hunt that its seed decides."""
    return result.findings, result.unknown, result.examples, result.steps, result.witnesses


def soak(name, hunts, examples):
    policy = NAMED[name][0]
    proof = prove(policy, SCOPE)
    proved = {finding.verdict for finding in proof.findings}
    warm, first, causes, problems = max(1, min(1_000, hunts // 4)), {}, Counter(), set()
    began = time.monotonic()
    for seed in range(hunts):
        if seed == warm:
            settled = resources(policy)
        result = hunt(policy, SCOPE, seed=seed, examples=examples, certify=False)
        causes.update(result.verdicts)
        if seed < AGAIN:
            first[seed] = content(result)
        problems |= {f"seed {seed} met an undecided state"} if result.unknown else set()
        problems |= {
            f"seed {seed} found {verdict}, which the proof does not know" for verdict in result.verdicts - proved
        }
    for seed, before in first.items():
        again = content(hunt(policy, SCOPE, seed=seed, examples=examples, certify=False))
        problems |= {f"seed {seed} was not the same again"} if again != before else set()
    seconds, after = time.monotonic() - began, resources(policy)
    problems |= {f"no hunt found {verdict}" for verdict in proved - causes.keys()}
    problems |= {"not proved"} if not proof.exhaustive else set()
    problems |= {"memory grew"} if after[0] - settled[0] > 20_000 + settled[0] * 0.01 else set()
    problems |= {f"{kind} left" for kind, a, b in list(zip(KINDS, settled, after, strict=True))[1:] if b > a}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = ", ".join(f"{verdict} {number}" for verdict, number in causes.most_common()) or "clean"
    grown = ", ".join(f"{kind} {a:,} -> {b:,}" for kind, a, b in zip(KINDS, settled, after, strict=True))
    print(f"{name}: {hunts:,} hunts of {examples} examples in {seconds:.0f} s: {found}")
    print(
        "\n".join([f"  after {warm:,} hunts and at the end: {grown}; peak {peak:.0f} MiB", *sorted(problems)]),
        flush=True,
    )
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("policies", nargs="*", default=list(NAMED))
    parser.add_argument("--hunts", type=int, default=10_000)
    parser.add_argument("--examples", type=int, default=5)
    options = parser.parse_args()
    for seed in range(BURN_IN):
        hunt(NAMED["prompt_group_refused"][0], SCOPE, seed=seed, examples=options.examples, certify=False)
    results = [soak(name, options.hunts, options.examples) for name in options.policies]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
