"""Shards that run on a Gym over HTTP: a reference Gym of their own, and one at an address that workers share."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (extra stranded[http])")

from state_machines.campaign import plan as plans
from state_machines.campaign.store import summary
from state_machines.campaign.work import run
from state_machines.targets.process import TOKEN_ENV, ReferenceGym

PLAN = """
policies = ["sibling"]
scopes = ["groups=1,siblings=2,snapshots=0,failures=0"]
targets = ["{}"]
[budget]
examples = {}
shard_examples = 5
"""


def make_plan(directory, target, examples):
    path = directory / "night.toml"
    path.write_text(PLAN.format(target, examples))
    return plans.load(path)


def test_a_shard_with_a_gym_of_its_own_finds_what_the_model_finds(tmp_path):
    (shard,) = make_plan(tmp_path, "http", 5).shards()
    (alone,) = make_plan(tmp_path, "model", 5).shards()
    assert shard.key != alone.key
    found = run(shard.to_json(), None)
    assert '"cause": "lost_reply"' in found
    assert "diverged" not in found


@pytest.mark.slow
def test_two_workers_take_turns_at_a_gym_at_an_address_and_its_token_is_kept_nowhere(tmp_path):
    gym = ReferenceGym()
    try:
        make_plan(tmp_path, gym.url, 20)
        command = [sys.executable, "-m", "state_machines", "campaign", "night.toml", "--database", "none"]
        environment = os.environ | {TOKEN_ENV: gym.token}
        process = subprocess.run(
            [*command, "--workers", "2"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        gym.close()
    assert process.returncode == 1, process.stderr
    after = summary(tmp_path / "night.sqlite")
    assert (after.done, after.given_up) == (4, ())
    assert {(kept.target, kept.property, kept.cause) for kept in after.findings} == {
        (gym.url, "recoverable", "lost_reply")
    }
    assert gym.token.encode() not in (tmp_path / "night.sqlite").read_bytes()
    assert gym.token not in process.stdout + process.stderr


def test_a_gym_that_is_gone_is_a_shard_given_up_with_the_reason(tmp_path):
    make_plan(tmp_path, "http://127.0.0.1:9", 5)
    command = [sys.executable, "-m", "state_machines", "campaign", "night.toml", "--database", "none", "--retries", "0"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 3
    assert "given up after 1 try: hunt sibling http://127.0.0.1:9 #0: TargetError: " in process.stdout.replace(
        "\n", " "
    )
    assert summary(tmp_path / "night.sqlite").done == 0
