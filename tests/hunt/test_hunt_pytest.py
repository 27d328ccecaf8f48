"""The pytest plugin, in processes of its own: options, profiles, the suite, and failures that reproduce."""

import os
import re
import subprocess
import sys

import pytest
from hypothesis import settings

from protocol.events import Admit
from protocol.policy import named
from protocol.scope import Scope
from state_machines.expected import EXPECTED
from state_machines.hunt import HuntFinding, HuntResult
from state_machines.suite import complaints
from state_machines.trace import Trace, save
from state_machines.verdict import Verdict

SMALL = (
    "--stranded-scope",
    "groups=1,siblings=2,snapshots=0,failures=0",
    "--stranded-examples",
    "40",
    "--stranded-seed",
    "1",
)
NEW = Verdict("recoverable", "other")


@pytest.fixture
def run_pytest(tmp_path):
    """Run pytest in an empty folder; return its exit code and what it printed.

    With `alone`, of all installed plugins only this one is loaded, and by its name: that takes a third of the time.
    """

    def run(*arguments, alone=False):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST") and k != "CI"}
        if alone:
            command += ["-p", "state_machines.pytest_plugin"]
            environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, env=environment)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.slow
def test_each_policy_is_a_test_case_of_its_own_and_workers_share_them(run_pytest):
    names = ("prompt_group", "sibling")
    policies = [word for name in names for word in ("--policy", name)]
    code, out = run_pytest(*policies, "-n", "2", "--hypothesis-seed=5", "--stranded-examples=250", "-v")
    assert code == 0, out
    assert "stranded: policy prompt_group, sibling (known causes checked), scope groups=2" in out
    assert "profile dev, seed 5" in out
    assert "2 passed" in out
    for name in names:
        assert re.search(rf"^{name} +{', '.join(sorted(v.cause for v in EXPECTED[name]))}", out, re.MULTILINE), out


def test_a_hunt_shows_a_failure_that_reproduces_as_hypothesis_says(run_pytest, tmp_path):
    code, out = run_pytest("--policy", "sibling", "--hunt", *SMALL)
    assert code == 1
    said = re.search(r"StrandedLostReply: stranded: lost_reply after (\d+) events: .*\nE +(admit 0 \| .*)", out)
    assert said is not None, out
    length, history = int(said[1]), said[2]
    assert len(history.split(" | ")) == length < 10  # Hypothesis' own shrinking: 3 is the shortest, and mostly reached
    assert "lose_reply run p0_g" in history
    assert "state.happen(finish=0)" in out
    decorator = re.search(r"@(reproduce_failure\('[^']+', b'[^']+'\))", out)
    assert decorator is not None
    lines = [re.sub(r"^[E |]+", "", line) for line in out.splitlines()]
    start = lines.index("from hypothesis import reproduce_failure")
    module = "\n".join(lines[start : start + 6]).replace("reproduce_failure(…)", decorator[1])
    (tmp_path / "test_again.py").write_text(module)
    code, out = run_pytest("test_again.py", alone=True)
    assert code == 1
    assert f"after {length} events" in out
    assert history in out


@pytest.mark.slow
def test_a_policy_without_known_verdicts_passes_when_nothing_is_found_and_fails_otherwise(run_pytest):
    scope = SMALL[1] + ",lost_replies=0"
    assert run_pytest("--policy", "sibling", *SMALL, "--stranded-scope", scope)[0] == 0
    code, out = run_pytest("--policy", "sibling", *SMALL, "--stranded-seed", "3")
    assert code == 1
    assert "sibling, seed 3:" in out
    assert "new: stranded: lost_reply" in out


@pytest.mark.slow
def test_a_replay_passes_when_the_recorded_verdict_comes_out_again(run_pytest, tmp_path):
    policy, scope, events = named("prompt_group"), Scope(), (Admit(0),)
    good = save(tmp_path / "good.json", Trace(policy, scope, events, None))
    bad = save(tmp_path / "bad.json", Trace(policy, scope, events, NEW))
    assert run_pytest("--replay", good)[0] == 0
    code, out = run_pytest("--replay", good, "--replay", bad)
    assert code == 1
    assert "1 failed, 1 passed" in out
    assert f"{bad}: clean: the whole history happens and nothing breaks; recorded is stranded: other" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--policy", "nope"), "no policy is called 'nope'"),
        (("--policy", "sibling", "--stranded-scope", "groups=99"), "groups is 99"),
        (("--replay", "missing.json"), "missing.json: cannot be read"),
        (("--hunt",), "are about a --policy NAME"),
    ],
)
def test_bad_options_are_one_sentence(run_pytest, arguments, sentence):
    code, out = run_pytest(*arguments, alone=True)
    assert code == 4
    assert sentence in out
    assert "Traceback" not in out


def test_without_its_options_the_plugin_does_nothing(run_pytest, tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    code, out = run_pytest()
    assert code == 0
    assert "stranded:" not in out
    assert "--policy=NAME" in run_pytest("--help")[1]


def test_the_profiles_are_registered_and_only_ci_draws_the_same_every_time():
    assert settings.get_profile("ci").derandomize
    assert not settings.get_profile("nightly").derandomize
    assert not settings.get_profile("dev").derandomize


def result(findings=(), **values):
    values = {"unknown": False, "missing": ()} | values
    rest = {"seed": 1, "examples": 1, "states": 1, "steps": 1, "seconds": 0.1, "witnesses": {}}
    return HuntResult(named("sibling"), Scope(), tuple(findings), **values, **rest)


def test_a_missing_verdict_a_new_one_a_longer_one_unknown_and_vacuous_are_all_complaints():
    known = EXPECTED["sibling"]
    (lost,) = known
    finding = HuntFinding(lost, (Admit(0),) * 3)
    assert complaints(result([finding]), known) == []
    assert complaints(result(), known)[0].startswith("missing: stranded: lost_reply")
    assert complaints(result([HuntFinding(NEW, (Admit(0),))]), {})[0] == "new: stranded: other"
    assert complaints(result([HuntFinding(lost, (Admit(0),) * 4)]), known)[0].startswith("length:")
    assert complaints(result(unknown=True), {})[0].startswith("unknown:")
    assert complaints(result(missing=("409",)), {})[0].startswith("vacuous:")
