"""`stranded campaign` and `stranded diff` as people run them: real processes, real hunts, exit codes, one sentence."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from state_machines.campaign.store import summary
from state_machines.replay import replay_trace
from state_machines.trace import load

# Histories of one group with a lost reply strand both policies; without faults `sibling` is clean.
STRANDED = """
policies = ["sibling", "prompt_group"]
scopes = ["groups=1,siblings=2,snapshots=0,failures=0"]
[budget]
examples = 30
shard_examples = 30
"""
CLEAN = """
policies = ["sibling"]
scopes = ["groups=1,siblings=2,snapshots=0,failures=0,lost_replies=0"]
[budget]
examples = {}
shard_examples = 10
"""


def stranded(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "state_machines", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A finished campaign with findings: its directory and the finished command."""
    directory = tmp_path_factory.mktemp("found")
    (directory / "night.toml").write_text(STRANDED)
    run = stranded("campaign", "night.toml", "--database", "none", "--json", "--save", "traces", cwd=directory)
    return directory, run


@pytest.mark.slow
def test_a_campaign_reports_each_cause_once_with_its_shortest_history(found):
    _, run = found
    assert run.returncode == 1, run.stderr
    out = json.loads(run.stdout)
    assert (out["campaign"], out["finished"], out["shards"], out["done"]) == ("night", True, 2, 2)
    causes = {(f["policy"], f["property"], f["cause"]) for f in out["findings"]}
    assert ("sibling", "recoverable", "lost_reply") in causes
    assert ("prompt_group", "recoverable", "lost_reply") in causes
    assert len(causes) == len(out["findings"])
    for f in out["findings"]:
        assert f["length"] == len(f["events"])


def test_its_saved_traces_replay_with_the_same_verdict(found):
    directory, run = found
    for f in json.loads(run.stdout)["findings"]:
        trace = load(directory / f["trace"])
        replayed = replay_trace(trace)
        assert replayed.verdict == trace.verdict
        assert (trace.verdict.property, trace.verdict.cause) == (f["property"], f["cause"])
        assert trace.found_by["how"] == "campaign, hunt"


def test_a_finished_campaign_run_again_does_nothing_and_says_so(found):
    directory, run = found
    before = (directory / "night.sqlite").read_bytes()
    again = stranded("campaign", "night.toml", "--database", "none", "--json", cwd=directory)
    assert again.returncode == 1
    assert "night: all 2 shards are done (night.sqlite); nothing to do" in again.stderr
    first, second = json.loads(run.stdout), json.loads(again.stdout)
    for f in first["findings"]:
        f["trace"] = None
    assert first == second
    kept = summary(directory / "night.sqlite")
    assert kept.done == 2
    assert len((directory / "night.sqlite").read_bytes()) == len(before)


def test_no_progress_is_shown_when_there_is_no_terminal(found):
    _, run = found
    assert run.stderr.splitlines() == ["night: 2 shards (night.sqlite)"]


def test_a_clean_campaign_exits_with_0(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(10))
    run = stranded("campaign", tmp_path / "night.toml", "--database", "none")
    assert (run.returncode, run.stderr.count("\n")) == (0, 1)
    assert run.stdout.startswith("night: 1 of 1 shard, 10 examples")


PROOFS = """
policies = ["sibling", "prompt_group"]
scopes = ["groups=1,siblings=2,snapshots=0,failures=0"]
modes = ["prove"]
[budget]
states = {}
"""


def test_proofs_are_shards_too_and_one_that_is_cut_short_is_unknown(tmp_path):
    (tmp_path / "proofs.toml").write_text(PROOFS.format(1_000_000))
    run = stranded("campaign", "proofs.toml", "--json", "--workers", 1, cwd=tmp_path)
    out = json.loads(run.stdout)
    assert (run.returncode, out["unknown"], out["examples"]) == (1, False, 0)
    assert ("sibling", "lost_reply", 3) in {(f["policy"], f["cause"], f["length"]) for f in out["findings"]}
    (tmp_path / "cut.toml").write_text(PROOFS.format(1))
    run = stranded("campaign", "cut.toml", "--json", "--workers", 1, cwd=tmp_path)
    out = json.loads(run.stdout)
    assert (run.returncode, out["unknown"], out["findings"]) == (3, True, [])
    assert [(cell["policy"], cell["mode"], cell["result"]) for cell in out["cells"]] == [
        ("sibling", "prove", "unknown"),
        ("prompt_group", "prove", "unknown"),
    ]


def test_show_prints_what_a_store_holds_and_runs_nothing(found):
    directory, _ = found
    before = (directory / "night.sqlite").read_bytes()
    for argument in ("night.toml", "night.sqlite"):
        shown = stranded("campaign", argument, "--show", cwd=directory)
        assert (shown.returncode, shown.stderr) == (1, "")
    words = "groups=1,siblings=2,snapshots=0,failures=0"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "│" in line]
    assert [row[:3] for row in rows if row[0]] == [["sibling", words, "hunt"], ["prompt_group", words, "hunt"]]
    assert rows[0][4] == "stranded: lost_reply (3 events)"
    assert (directory / "night.sqlite").read_bytes() == before
    assert files(directory) == ["night.sqlite", "night.toml", "traces"]


@pytest.mark.slow
def test_kill_9_of_the_command_loses_only_the_shards_in_flight(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(400))
    command = [sys.executable, "-m", "state_machines", "campaign", "night.toml", "--database", "none", "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    done = wait_for_shards(tmp_path / "night.sqlite", 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = summary(tmp_path / "night.sqlite").done
    assert done <= kept < 40
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert again.stderr.startswith(f"night: going on, {kept} of 40 shards are done (night.sqlite)")
    after = summary(tmp_path / "night.sqlite")
    assert (after.done, after.examples, after.finished) == (40, 400, True)


def test_ctrl_c_stops_the_command_with_a_sentence_and_its_workers_with_it(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(4000))
    command = [sys.executable, "-m", "state_machines", "campaign", "night.toml", "--database", "none", "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, text=True, start_new_session=True, **pipes)
    wait_for_shards(tmp_path / "night.sqlite", 3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to everyone
    shown, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "of 400 shards are done; the same command goes on from there" in errors
    assert "of 400 shards, " in shown
    assert "of 400 shards done" in shown
    assert "Traceback" not in errors
    assert group_ends(process.pid)
    assert files(tmp_path) == ["night.sqlite", "night.toml"]


def group_ends(group: int) -> bool:
    """Whether no process of a group is left soon: also not multiprocessing's own, which ends by itself."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def files(directory: Path) -> list[str]:
    """What is in a directory, apart from what Hypothesis keeps for itself."""
    return sorted(path.name for path in directory.iterdir() if path.name != ".hypothesis")


def wait_for_shards(path: Path, count: int) -> int:
    until = time.monotonic() + 60
    while True:
        assert time.monotonic() < until, "no shard was done in time"
        if path.exists():
            try:
                with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as reader:
                    (done,) = reader.execute("SELECT count(*) FROM result").fetchone()
            except sqlite3.OperationalError:
                done = 0  # not written yet
            finally:
                reader.close()
            if done >= count:
                return done
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["campaign", "missing.toml"], "missing.toml: cannot be read: No such file or directory"),
        (["campaign", "bad.toml"], "bad.toml: policies: no policy is called 'nobody'"),
        (["campaign", "good.toml", "--store", "bad.toml"], "bad.toml is damaged or not a campaign's store"),
        (["campaign", "good.toml", "--database", "ftp://x"], "'ftp://x' names no database"),
        (["campaign", "good.toml", "--ray", "127.0.0.1:1"], ("--ray needs ray", "cannot be used: Connection refused")),
        (["diff", "missing", "bad.toml"], "missing does not exist"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    (tmp_path / "bad.toml").write_text('policies = ["nobody"]\n')
    (tmp_path / "good.toml").write_text(CLEAN.format(10))
    run = stranded(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    lines = [line for line in run.stderr.splitlines() if "shards (" not in line]
    assert len(lines) == 1, run.stderr
    sentences = (sentence,) if isinstance(sentence, str) else sentence
    assert any(s in lines[0] for s in sentences)
    assert lines[0].startswith("stranded: ")
    assert run.stdout == ""


@pytest.mark.slow
def test_an_unreachable_database_is_warned_of_once_and_the_campaign_goes_on(tmp_path):
    (tmp_path / "night.toml").write_text(CLEAN.format(40))
    (tmp_path / "file").touch()
    run = stranded("campaign", "night.toml", "--database", "dir:file", "--workers", "2", cwd=tmp_path)
    assert run.returncode == 0
    assert run.stderr.count("cannot be reached") == 1
    assert summary(tmp_path / "night.sqlite").finished


def test_diff_of_a_campaign_with_itself_finds_nothing_new(found):
    directory, _ = found
    run = stranded("diff", "night.sqlite", "night.sqlite", "--json", cwd=directory)
    assert run.returncode == 0
    out = json.loads(run.stdout)
    assert out["finished"]
    assert {change["change"] for change in out["changes"]} == {"known"}
    assert files(directory) == ["night.sqlite", "night.toml", "traces"]


@pytest.mark.slow
def test_diff_exits_with_1_for_a_new_cause_and_names_it(found, tmp_path):
    directory, _ = found
    (tmp_path / "old.toml").write_text(STRANDED.replace('"sibling", ', ""))
    assert stranded("campaign", tmp_path / "old.toml", "--database", "none").returncode == 1
    run = stranded("diff", tmp_path / "old.sqlite", directory / "night.sqlite")
    assert run.returncode == 1
    assert run.stdout.startswith("1 newly looked for, ")  # OLD had no such policy
    assert "sibling" in run.stdout
    back = stranded("diff", directory / "night.sqlite", tmp_path / "old.sqlite")
    assert back.returncode == 0
    assert "1 not looked for" in back.stdout
