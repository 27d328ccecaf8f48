"""Workers: shards on real processes, some of which die, and a parent that is killed: nothing lost, nothing twice."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from state_machines.campaign import plan as plans
from state_machines.campaign import pool
from state_machines.campaign.run import left, run
from state_machines.campaign.store import StoreError, create, summary

HERE = Path(__file__).parent
PLAN = 'policies = ["sibling"]\n[budget]\nexamples = {}\nshard_examples = 1\n'


@pytest.fixture(autouse=True)
def tries(tmp_path, monkeypatch) -> Path:
    directory = tmp_path / "tries"
    directory.mkdir()
    monkeypatch.setenv("STRANDED_TEST_DIR", str(directory))
    return directory


def make_plan(tmp_path: Path, shards: int) -> plans.Plan:
    path = tmp_path / "night.toml"
    path.write_text(PLAN.format(shards))
    return plans.load(path)


def runner(work: str, workers: int = 2, retries: int = 2):
    return lambda shards: pool.local(shards, workers=workers, retries=retries, work=f"shard_work:{work}")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(tries: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in tries.iterdir()}


def gone(numbers: set[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, numbers)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_every_shard_is_run_once_and_a_finished_campaign_runs_nothing(tmp_path):
    plan = make_plan(tmp_path, 40)
    with create(tmp_path / "s", plan) as store:
        after = run(store, runner("quick"))
        assert (after.done, after.examples, after.finished) == (40, 40, True)
        assert [(kept.length, kept.shards) for kept in after.findings] == [(5, 40)]
        assert left(store) == ()
        assert run(store, runner("no_such_function")) == after


def test_a_shard_whose_process_is_killed_is_run_again_and_counted_once(tmp_path, tries):
    with create(tmp_path / "s", make_plan(tmp_path, 3)) as store:
        after = run(store, runner("dies_once"))
    assert (after.done, after.examples, after.given_up) == (3, 3, ())
    assert len(list(tries.iterdir())) == 6


@pytest.mark.slow
def test_a_shard_that_always_kills_its_process_is_given_up_and_the_others_are_done(tmp_path, tries):
    with create(tmp_path / "s", make_plan(tmp_path, 6)) as store:
        after = run(store, runner("one_always_dies"))
        assert (after.done, after.finished) == (5, False)
        assert [(lost.tries, lost.error) for lost in after.given_up] == [(3, "its process died (SIGKILL)")]
        assert len(list(tries.glob("1-*"))) == 3
        after = run(store, runner("quick"))  # the next run tries it again
        assert (after.done, after.finished, after.given_up) == (6, True, ())


def test_a_shard_that_raises_is_given_up_with_its_error_in_one_line(tmp_path):
    with create(tmp_path / "s", make_plan(tmp_path, 4)) as store:
        after = run(store, runner("one_raises", retries=1))
    assert [(lost.tries, lost.error) for lost in after.given_up] == [(2, "ValueError: the shard is broken")]
    assert after.done == 3


def test_workers_end_when_the_run_is_stopped_in_the_middle(tmp_path, tries):
    with create(tmp_path / "s", make_plan(tmp_path, 20)) as store:
        reports = pool.local(left(store), workers=2, retries=0, work="shard_work:slow")
        next(reports)
        reports.close()
    assert pids(tries)
    assert gone(pids(tries))
    assert multiprocessing.active_children() == []


def test_workers_end_when_the_store_cannot_be_written(tmp_path, tries, monkeypatch):
    def full(*arguments):
        raise StoreError("full")

    with create(tmp_path / "s", make_plan(tmp_path, 20)) as store:
        monkeypatch.setattr(store, "put", full)
        with pytest.raises(StoreError):
            run(store, runner("slow"))
    assert gone(pids(tries))


DRIVER = """
import sys
from pathlib import Path
from state_machines.campaign import plan, pool, run, store
if __name__ == "__main__":
    with store.create(Path(sys.argv[2]), plan.load(Path(sys.argv[1]))) as opened:
        run.run(opened, lambda shards: pool.local(shards, workers=2, retries=2, work="shard_work:" + sys.argv[3]))
"""


def start(tmp_path: Path, work: str) -> subprocess.Popen[bytes]:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    arguments = [sys.executable, driver, tmp_path / "night.toml", tmp_path / "s", work]
    return subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": str(HERE)}, start_new_session=True)


def wait_until(condition, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def test_kill_9_in_the_middle_loses_only_the_shards_in_flight(tmp_path, tries):
    plan = make_plan(tmp_path, 24)
    process = start(tmp_path, "slow")
    wait_until(lambda: len(list(tries.iterdir())) >= 8)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(pids(tries)), "workers outlived their parent"
    begun = len(list(tries.iterdir()))
    kept = summary(tmp_path / "s").done
    assert begun - 2 <= kept <= begun < 24  # two workers, one shard each
    with create(tmp_path / "s", plan) as store:
        assert len(left(store)) == 24 - kept
        after = run(store, runner("slow"))
    assert (after.done, after.examples, after.finished) == (24, 24, True)


def test_workers_in_the_middle_of_a_shard_end_with_a_killed_parent(tmp_path, tries):
    make_plan(tmp_path, 2)
    process = start(tmp_path, "busy")
    wait_until(lambda: len(pids(tries)) == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(pids(tries)), "workers outlived their parent"
