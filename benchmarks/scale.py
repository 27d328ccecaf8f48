"""What campaigns cost and how they grow: `python benchmarks/scale.py [--ray] [--quick]`.

One run prints: hunting with 1 and 2 workers (examples a second), the overhead per shard of processes, pytest-xdist and
Ray, store writes a second, growth over the number of shards, and a paper estimate for 1,000 cores made from these.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from state_machines.campaign import plan as plans
from state_machines.campaign import pool
from state_machines.campaign.run import run
from state_machines.campaign.shard import Found, Outcome, from_json
from state_machines.campaign.store import create

HUNTS = 'policies = ["prompt_group_repaired"]\n[budget]\nexamples = {}\nshard_examples = {}\n'
TRACE = '{"events": [' + ", ".join(['{"event": "finish", "attempt": "p0_g1/0"}'] * 20) + "]}"


def sleeps(text, database):
    """A shard of exactly the seconds that `STRANDED_BENCH_SECONDS` says, which needs no core."""
    seconds = float(os.environ["STRANDED_BENCH_SECONDS"])
    time.sleep(seconds)
    return Outcome(from_json(text).key, 1, 1, 1, seconds).to_json()


def nothing(text, database):
    shard = from_json(text)
    return Outcome(shard.key, 1, 1, 1, 0.0, False, (Found("recoverable", "lost_reply", 5, TRACE),)).to_json()


def make_plan(directory, text):
    path = Path(directory) / "plan.toml"
    path.write_text(text)
    return plans.load(path)


def timed(text, work, workers, runner=None):
    with tempfile.TemporaryDirectory() as directory, create(Path(directory) / "s", make_plan(directory, text)) as store:
        runner = runner or (lambda shards: pool.local(shards, workers=workers, retries=0, work=work, database="none"))
        began = time.perf_counter()
        summary = run(store, runner)
        return time.perf_counter() - began, summary


def hunting(examples):
    print("hunting, examples a second (one hunt per shard, no database)")
    speeds = []
    for workers in (1, 2):
        seconds, summary = timed(HUNTS.format(examples, examples // 8), pool.WORK, workers)
        speeds.append(summary.examples / seconds)
        print(f"  {workers} workers: {speeds[-1]:8.1f}  ({summary.examples} examples, {seconds:.1f} s)")
    print(f"  2 workers / 1 worker: {speeds[1] / speeds[0]:.2f} (aim 1.8)")


def overhead(shards, seconds, ray):
    os.environ["STRANDED_BENCH_SECONDS"] = str(seconds)
    os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    text = HUNTS.format(shards, 1)
    print(
        f"overhead per shard, {shards} shards of {seconds} s on 2 workers; start-up is taken off by a run of 2 shards"
    )
    kinds = {"processes": lambda text: timed(text, "scale:sleeps", 2)[0], "pytest-xdist": xdist}
    if ray:
        kinds["ray"] = on_ray
    for name, kind in kinds.items():
        short, long = kind(HUNTS.format(2, 1)), kind(text)
        extra = (long - short) / ((shards - 2) / 2) - seconds
        print(
            f"  {name:13} {extra * 1000:7.1f} ms  {extra / seconds:6.1%} (aim 5 %)   start-up {short - seconds:.1f} s"
        )


def xdist(text):
    with tempfile.TemporaryDirectory() as directory:
        make_plan(directory, text)
        (Path(directory) / "sleepy.py").write_text(
            "import scale, state_machines.campaign.pool as pool\npool.load_work = lambda work: scale.sleeps\n"
        )
        environment = os.environ | {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{directory}"}
        arguments = ["-p", "sleepy", "--campaign", "plan.toml", "--campaign-database", "none", "-n", "2", "-q"]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=directory,
            env=environment,
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began


def on_ray(text):
    from state_machines.campaign.ray_runner import on_ray

    return timed(
        text,
        "",
        2,
        lambda shards: on_ray(shards, address="local", workers=2, retries=0, database=None, work="scale:sleeps"),
    )[0]


def writes(count):
    with tempfile.TemporaryDirectory() as directory:
        plan = make_plan(directory, HUNTS.format(count, 1))
        shards = plan.shards()
        outcomes = [Outcome(s.key, 1, 1, 1, 0.1, False, (Found("a", "b", 5, TRACE),)) for s in shards]
        with create(Path(directory) / "s", plan) as store:
            began = time.perf_counter()
            for shard, outcome in zip(shards, outcomes, strict=True):
                store.put(shard, outcome)
            speed = count / (time.perf_counter() - began)
        print(f"store writes a second (one transaction each): {speed:,.0f}, {count} shards")
    return speed


def growth(sizes):
    print("growth: empty shards, plan, run and summary, 2 workers")
    for size in sizes:
        seconds, _ = timed(HUNTS.format(size, 1), "scale:nothing", 2)
        print(f"  {size:6} shards: {seconds:7.2f} s  {seconds / size * 1000:7.3f} ms a shard")
    return seconds / size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    hunting(2_000 if options.quick else 16_000)
    overhead(12 if options.quick else 60, 1.0, options.ray)
    speed = writes(2_000 if options.quick else 20_000)
    driver = growth((10, 100, 1_000) if options.quick else (10, 100, 1_000, 10_000))
    print(f"paper: the driver's own work is {driver * 1000:.2f} ms a shard, of which the store {1000 / speed:.2f} ms.")
    print(
        f"  1,000 cores on one-second shards are 1,000 shards a second; one driver serves {1 / driver:,.0f} a second."
    )
    print(f"  So 1,000 cores need shards of {1000 * driver:.1f} s or more; at 60 s it serves {60 / driver:,.0f} cores.")


if __name__ == "__main__":
    main()
