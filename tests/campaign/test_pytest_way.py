"""The pytest way: `pytest --campaign PLAN.toml -n auto`, with real workers of pytest-xdist."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from state_machines.campaign.store import summary

PLUGIN = "state_machines.pytest_plugin"
CLEAN = """
policies = ["sibling"]
scopes = ["groups=1,siblings=2,snapshots=0,failures=0,lost_replies=0"]
[budget]
examples = {}
shard_examples = 10
"""
STRANDED = """
policies = ["prompt_group"]
scopes = ["groups=1,siblings=2,snapshots=0,failures=0"]
[budget]
examples = 60
shard_examples = 30
"""


@pytest.fixture(autouse=True)
def _only_these_plugins(monkeypatch):
    """Every process starts in half the time without the plugins that happen to be installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def command(directory: Path, *arguments: object) -> list[str]:
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_other.py").write_text("def test_other():\n    assert False\n")
    options = [
        "-p",
        PLUGIN,
        "-p",
        "xdist",
        "-p",
        "no:cacheprovider",
        "--campaign",
        "night.toml",
        "--campaign-database",
        "none",
    ]
    return [sys.executable, "-m", "pytest", *options, *map(str, arguments)]


def campaign(directory: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(directory, *arguments), cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_each_shard_is_a_test_and_all_workers_share_them(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(60))
    run = campaign(tmp_path, "-n", "2", "-v")
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(set(re.findall(r"PASSED night\.toml::(hunt sibling #\d)", run.stdout))) == 6
    assert {"gw0", "gw1"} >= set(re.findall(r"\[(gw\d)\]", run.stdout)) > set()
    assert "WorkStealingScheduling" in run.stdout
    assert "6 of 6 shards, 60 examples" in run.stdout
    assert "test_other" not in run.stdout
    assert summary(tmp_path / "night.sqlite").finished

    again = campaign(tmp_path)
    assert again.returncode == 0, again.stdout
    assert "all 6 shards are done; nothing to do" in again.stdout


@pytest.mark.slow
def test_shards_with_findings_fail_and_each_cause_is_named_once(tmp_path):
    (tmp_path / "night.toml").write_text(STRANDED)
    run = campaign(tmp_path)
    assert run.returncode == 1
    assert "2 failed" in run.stdout
    assert "Traceback" not in run.stdout
    named = re.findall(
        r"^  hunt prompt_group, groups=1,.*stranded: lost_reply \(3 events, 2 shards\)", run.stdout, re.MULTILINE
    )
    assert len(named) == 1
    again = campaign(tmp_path)
    assert again.returncode == 1
    assert "all 2 shards are done; nothing to do" in again.stdout


def test_a_proof_that_is_cut_short_fails_with_a_sentence_and_so_does_the_next_run(tmp_path):
    proof = 'policies = ["sibling_repaired"]\nscopes = ["groups=1,siblings=2"]\nmodes = ["prove"]\n'
    (tmp_path / "night.toml").write_text(f"{proof}[budget]\nstates = 10\n")
    run = campaign(tmp_path)
    assert run.returncode == 1
    assert "unknown: the proof was cut short: more than " in run.stdout
    again = campaign(tmp_path)
    assert again.returncode == 1
    assert "what is unknown of earlier runs: kept in the store, and this run fails for it" in again.stdout


@pytest.mark.slow
def test_findings_of_an_earlier_run_fail_a_run_whose_own_shards_pass(tmp_path):
    scopes = '"groups=1,siblings=2,snapshots=0,failures=0", "groups=1,siblings=1,failures=0,lost_replies=0"'
    (tmp_path / "night.toml").write_text(f'policies = ["prompt_group"]\nscopes = [{scopes}]\n[budget]\nexamples = 30\n')
    assert campaign(tmp_path, "--maxfail", "1").returncode == 1
    again = campaign(tmp_path)
    assert "1 passed" in again.stdout
    assert again.returncode == 1, again.stdout
    assert "findings of earlier runs" in again.stdout


@pytest.mark.slow
def test_kill_9_of_pytest_loses_only_the_shards_in_flight(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(500))
    process = subprocess.Popen(command(tmp_path, "-n", "2"), cwd=tmp_path, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    store = tmp_path / "night.sqlite"
    while not (store.exists() and store.stat().st_size) or summary(store).done < 2:  # SQLite begins with an empty file
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = summary(tmp_path / "night.sqlite").done
    assert 2 <= kept < 50
    again = campaign(tmp_path)
    assert again.returncode == 0, again.stdout
    assert f"50 shards, going on: {kept} are done" in again.stdout
    assert f"{50 - kept} passed" in again.stdout
    after = summary(tmp_path / "night.sqlite")
    assert (after.done, after.examples) == (50, 500)


@pytest.mark.parametrize(
    ("text", "sentence"), [('policies = ["x"]', "policies: no policy is called 'x'"), ("", "missing")]
)
def test_a_plan_that_cannot_be_used_is_a_usage_error(tmp_path, text, sentence):
    (tmp_path / "night.toml").write_text(text)
    run = campaign(tmp_path)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"night.toml: {sentence}" in run.stderr or sentence in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_a_worker_that_is_killed_fails_its_test_and_its_shard_is_run_by_the_next_run(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(40))
    (tmp_path / "suicide.py").write_text(
        "import os, signal, state_machines.campaign.pool as pool\n"
        "load = pool.load_work\n"
        "def dies(text, database):\n"
        "    if '\"number\": 2' in text: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return load(pool.WORK)(text, database)\n"
        "pool.load_work = lambda work: dies\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    line = command(tmp_path, "-n", "2", "-p", "suicide")
    run = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 1
    assert "crashed while running 'night.toml::hunt sibling #2'" in run.stdout
    assert summary(tmp_path / "night.sqlite").done == 3
    again = campaign(tmp_path)
    assert again.returncode == 0
    assert "1 passed" in again.stdout
