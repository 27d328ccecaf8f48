"""Many machines: a real Ray cluster of two nodes, one of which is killed in the middle, and a driver that dies."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip(
    "ray", reason="ray is not installed (extra stranded[ray]); .ci/run tests it in an environment of its own"
)

from ray.cluster_utils import Cluster

from state_machines.campaign import plan as plans
from state_machines.campaign.ray_runner import RayError, on_ray
from state_machines.campaign.run import left, run
from state_machines.campaign.store import create, summary

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
PLAN = 'policies = ["sibling"]\n[budget]\nexamples = {}\nshard_examples = 1\n'
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each, as processes, that find these tests' modules and share one directory for tries."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, HERE)))
    os.environ["RAY_DEDUP_LOGS"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield cluster
    cluster.shutdown()
    del os.environ["PYTHONPATH"]


@pytest.fixture
def second(cluster):
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield node
    if node in cluster.list_all_nodes():
        cluster.remove_node(node)


@pytest.fixture
def tries(tmp_path) -> Path:
    directory = tmp_path / "tries"
    directory.mkdir()
    return directory


def make_plan(tmp_path: Path, shards: int) -> plans.Plan:
    path = tmp_path / "night.toml"
    path.write_text(PLAN.format(shards))
    return plans.load(path)


def runner(cluster, work: str, tries: Path, retries: int = 3):
    def run_on_ray(shards):
        # The cluster's processes began before this test: the directory travels as the database's URL.
        yield from on_ray(
            shards, address=cluster.address, workers=None, retries=retries, database=str(tries), work=f"ray_work:{work}"
        )

    return run_on_ray


def nodes_of(tries: Path) -> set[str]:
    return {path.read_text() for path in tries.iterdir()}


def wait_until(condition, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def test_when_a_node_is_killed_its_shards_run_elsewhere_and_none_is_counted_twice(cluster, second, tmp_path, tries):
    held = tries.parent / f"{second.node_id}.hold"
    held.touch()  # on this node no shard ends by itself
    killed = False

    def kill_it(report):
        nonlocal killed
        if not killed and second.node_id in nodes_of(tries):
            cluster.remove_node(second, allow_graceful=False)
            killed = True

    with create(tmp_path / "s", make_plan(tmp_path, 30)) as store:
        after = run(store, runner(cluster, "slow", tries), kill_it)
    assert killed, "the second node was given nothing"
    assert (after.done, after.examples, after.finished, after.given_up) == (30, 30, True, ())
    assert sum(kept.shards for kept in after.findings) == 30
    assert len(list(tries.iterdir())) > 30  # what was in flight on the lost node ran again


def test_a_shard_that_always_loses_its_worker_is_given_up_and_one_that_raises_says_why(cluster, tmp_path, tries):
    with create(tmp_path / "s", make_plan(tmp_path, 5)) as store:
        after = run(store, runner(cluster, "two_are_broken", tries, retries=1))
    assert after.done == 3
    errors = sorted((lost.tries, lost.error) for lost in after.given_up)
    assert len(errors) == 2
    assert all(count == 2 for count, _ in errors)
    assert any("ValueError: the shard is broken" in error for _, error in errors)
    assert any("worker" in error.lower() for _, error in errors)


DRIVER = """
import sys
from pathlib import Path
from state_machines.campaign import plan, ray_runner, run, store
with store.create(Path(sys.argv[2]), plan.load(Path(sys.argv[1]))) as opened:
    run.run(opened, lambda shards: ray_runner.on_ray(
        shards, address=sys.argv[3], workers=None, retries=2, database=sys.argv[4], work="ray_work:slow"))
"""


def test_a_driver_that_dies_and_starts_again_goes_on_where_it_stopped(cluster, tmp_path, tries):
    plan = make_plan(tmp_path, 16)
    (tmp_path / "driver.py").write_text(DRIVER)
    arguments = [tmp_path / "driver.py", tmp_path / "night.toml", tmp_path / "s", cluster.address, tries]
    process = subprocess.Popen([sys.executable, *arguments])
    wait_until(lambda: len(list(tries.iterdir())) >= 6)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = summary(tmp_path / "s").done
    assert 0 < kept < 16
    with create(tmp_path / "s", plan) as store:
        assert len(left(store)) == 16 - kept
        after = run(store, runner(cluster, "slow", tries))
    assert (after.done, after.examples, after.finished) == (16, 16, True)


def test_a_cluster_that_is_not_there_is_one_sentence(cluster, tmp_path):
    with pytest.raises(RayError, match=r"the Ray cluster 127\.0\.0\.1:1 cannot be used") as error:
        next(on_ray(make_plan(tmp_path, 1).shards(), address="127.0.0.1:1", workers=None, retries=0, database=None))
    assert "\n" not in str(error.value)
