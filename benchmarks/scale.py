"""What campaigns cost: `python benchmarks/scale.py [--quick]` prints the table of `docs/campaigns.md`.

Hunting with 1 and 2 workers, the overhead per shard of processes, pytest-xdist and Ray (where it is installed), store
writes, growth over the number of shards, what it costs to find a known cause again, and from these a paper estimate for
1,000 cores. About four minutes on two idle cores; a busy machine makes every figure worse.
"""

import argparse
import importlib.util
import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

from protocol.events import Admit
from protocol.policy import named
from protocol.scope import Scope
from state_machines.campaign import plan as plans
from state_machines.campaign import pool
from state_machines.campaign.ray_runner import on_ray
from state_machines.campaign.run import run
from state_machines.campaign.shard import Outcome, from_json
from state_machines.campaign.store import create
from state_machines.campaign.work import _found
from state_machines.hunt import hunt
from state_machines.verdict import Verdict

HUNTS = 'policies = ["{}"]\n[budget]\nexamples = {}\nshard_examples = {}\n'
STORE = "plan.sqlite"


def sleeps(text, database):
    """A shard of one second, which needs no core. Its outcome's worker is the process, and when it began and ended."""
    began = time.time()
    time.sleep(1)
    return Outcome(from_json(text).key, 1, 1, 1, 1.0, worker=f"{os.getpid()} {began} {time.time()}").to_json()


def found(shard):
    """An outcome with one finding of 20 events."""
    finding = _found(shard, Verdict("recoverable", "lost_reply"), (Admit(0),) * 20, 0)
    return Outcome(shard.key, 1, 1, 1, findings=(finding,))


def nothing(text, database):
    return found(from_json(text)).to_json()


def make_plan(directory, examples, shard_examples=1):
    path = Path(directory) / "plan.toml"
    path.write_text(HUNTS.format("prompt_group_repaired", examples, shard_examples))
    return plans.load(path)


def row(what, measured, aim=""):
    print(f"| {what} | {measured} | {aim} |", flush=True)


def campaign(directory, plan, work=pool.WORK, workers=2):
    """Return the seconds and the summary of a campaign on processes."""
    began = time.perf_counter()
    with create(Path(directory) / STORE, plan) as store:
        summary = run(store, lambda shards: pool.local(shards, workers=workers, retries=0, work=work, database="none"))
    return time.perf_counter() - began, summary


def hunting(examples):
    speeds = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as directory:
            seconds, summary = campaign(directory, make_plan(directory, examples, examples // 16), workers=workers)
        speeds.append(summary.examples / seconds)
    row("hunting, 1 worker", f"{speeds[0]:,.0f} examples/s")
    row("hunting, 2 workers", f"{speeds[1]:,.0f} examples/s, {speeds[1] / speeds[0]:.2f}x", "1.8x")
    return speeds[0]


def overhead(shards):
    """For each runner, the time between the end of a shard and the beginning of the next one of the same process."""
    kinds = {"processes": processes, "pytest-xdist": xdist}
    if importlib.util.find_spec("ray"):
        kinds["Ray"] = ray
    for name, kind in kinds.items():
        with tempfile.TemporaryDirectory() as directory:
            began = time.time()
            kind(directory, make_plan(directory, shards))
            connection = sqlite3.connect(Path(directory) / STORE)
            done = [text.split() for (text,) in connection.execute("SELECT worker FROM result")]
            connection.close()
        spans = sorted((pid, float(start), float(end)) for pid, start, end in done)
        gaps = [b[1] - a[2] for a, b in itertools.pairwise(spans) if a[0] == b[0]]
        first = min(start for _, start, _ in spans) - began
        measured = f"{mean(gaps) * 1000:.1f} ms, {mean(gaps):.1%}; starts in {first:.1f} s"
        row(f"overhead per one-second shard, {name}", measured, "5 %")


def processes(directory, plan):
    campaign(directory, plan, "scale:sleeps")


def xdist(directory, plan):
    (Path(directory) / "sleepy.py").write_text(
        "import scale, state_machines.campaign.pool as pool\npool.load_work = lambda work: scale.sleeps\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{directory}"}
    options = ["-p", "sleepy", "--campaign", "plan.toml", "--campaign-database", "none", "-n", "2", "-q"]
    command = [sys.executable, "-m", "pytest", *options]
    subprocess.run(command, cwd=directory, env=environment, check=True, capture_output=True)


def ray(directory, plan):
    options = {"address": "local", "workers": 2, "retries": 0, "database": None, "work": "scale:sleeps"}
    with create(Path(directory) / STORE, plan) as store:
        run(store, lambda shards: on_ray(shards, **options))


def writes(count):
    with tempfile.TemporaryDirectory() as directory:
        plan = make_plan(directory, count)
        shards = plan.shards()
        outcomes = list(map(found, shards))
        with create(Path(directory) / STORE, plan) as store:
            began = time.perf_counter()
            for shard, outcome in zip(shards, outcomes, strict=True):
                store.put(shard, outcome)
            seconds = time.perf_counter() - began
    row("store writes, one transaction each", f"{count / seconds:,.0f} a second")


def growth(sizes):
    """Return the seconds that each further shard costs a driver, with empty shards."""
    seconds = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as directory:
            seconds[size], _ = campaign(directory, make_plan(directory, size), "scale:nothing")
        row(f"{size:,} empty shards", f"{seconds[size]:.2f} s", "linear")
    (a, b) = sizes[-2:]
    driver = (seconds[b] - seconds[a]) / (b - a)
    row(f"each shard more, from {a:,} to {b:,}", f"{driver * 1000:.2f} ms")
    return driver


def again(examples):
    """What it costs a shard that the causes it meets were found before: more runs of Hypothesis."""
    found, clean = (
        sum(hunt(named(name), Scope(), seed=seed, examples=examples, certify=False).examples for seed in range(4))
        for name in ("prompt_group", "prompt_group_repaired")
    )
    row("a shard that finds four known causes, beside a clean one", f"{found / clean - 1:.0%} more examples")


def paper(speed, driver):
    hour, shard = 1000 * speed * 3600, 500 / speed
    row("paper: 1,000 cores for an hour", f"{hour / 1e6:,.0f} million examples")
    row("paper: where one driver stops, one-second shards", f"{1 / driver:,.0f} cores")
    row(f"paper: the same, default shards ({shard:.1f} s)", f"{shard / driver:,.0f} cores")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it runs")
    quick = parser.parse_args().quick
    os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    print("| | measured | aim |\n| --- | --- | --- |")
    speed = hunting(1_600 if quick else 8_000)
    overhead(8 if quick else 40)
    writes(2_000 if quick else 20_000)
    driver = growth((10, 100, 1_000) if quick else (10, 100, 1_000, 10_000))
    again(50 if quick else 500)
    paper(speed, driver)


if __name__ == "__main__":
    main()
