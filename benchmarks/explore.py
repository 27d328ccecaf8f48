"""What exploration costs: `python benchmarks/explore.py [SCOPE…]`. Each figure is a whole process, side by side.

For each scope and policy: the tables of `successors` (stopping at violations, as `stranded prove` does), every state
beyond violations with the tables, and every state with the real step alone (`--naive`, slow). Raw states are counted
by the last only, and never quoted as the speed of another.
"""

import argparse
import json
import subprocess
import sys
import time

WAYS = {
    "prove": "from state_machines.prove import prove; r = prove(p, s); n, t = r.states, r.transitions",
    "all": (
        "from state_machines.explore import explore_system as e; "
        "g = e(p, s).graph; n, t = len(g.states), len(g.targets)"
    ),
    "naive": (
        "from state_machines.explore import explore_system as e; from state_machines.reduce import NONE; "
        "g = e(p, s, NONE).graph; n, t = len(g.states), len(g.targets)"
    ),
}
CODE = """
import json
from protocol import policy, scope
from state_machines.resources import memory
p, s = policy.parse({policy!r}), scope.parse({scope!r})
{way}
print(json.dumps([n, t, memory(peak=True)]))
"""


def measure(policy, scope, way):
    began = time.perf_counter()
    code = CODE.format(policy=policy, scope=scope, way=WAYS[way])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return time.perf_counter() - began, *json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scopes", nargs="*", default=["groups=1,siblings=2", "groups=2,siblings=2,lost_replies=0"])
    parser.add_argument("--policy", action="append", default=None)
    parser.add_argument("--naive", action="store_true")
    given = parser.parse_args()
    print(
        f"{'policy':28} {'scope':40} {'way':6} {'states':>10} {'transitions':>12} {'s':>7} {'tr/s':>10} {'B/state':>8}"
    )
    for scope in given.scopes:
        for policy in given.policy or ["sibling", "prompt_group", "prompt_group_ack_on_arrival"]:
            for way in WAYS if given.naive else ("prove", "all"):
                seconds, states, transitions, peak = measure(policy, scope, way)
                print(
                    f"{policy:28} {scope:40} {way:6} {states:10,} {transitions:12,} {seconds:7.2f} "
                    f"{transitions / seconds:10,.0f} {peak / states:8,.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
