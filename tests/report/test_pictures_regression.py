"""The exported test module: it fails while the history fails, and passes only when it no longer does."""

import ast
import subprocess
import sys

import attrs
import pytest
from picture_histories import trace

from protocol.policy import NAMED
from state_machines.report.regression import failure, module
from state_machines.trace import save, to_json
from state_machines.verdict import Verdict


def call(text, monkeypatch, policy=""):
    """Run the module's one test, as pytest would."""
    if policy:
        monkeypatch.setenv("STRANDED_POLICY", policy)
    names = {}
    exec(compile(text, "test_made.py", "exec"), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()


def test_the_module_fails_under_pytest_with_the_picture(tmp_path):
    (tmp_path / "test_made.py").write_text(module(trace("stranded")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_made.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "STRANDED: a sibling finished" in done.stdout
    assert "◄ never ready" in done.stdout


def test_the_module_passes_on_the_repair_and_on_a_policy_of_the_users_own(tmp_path, monkeypatch):
    text = module(trace("stranded"))
    with pytest.raises(AssertionError, match="still fails under prompt_group"):
        call(text, monkeypatch)
    call(text, monkeypatch, "prompt_group_reconciled")
    (tmp_path / "my_policy_of_tests.py").write_text("from protocol.policy import NAMED\nMINE = NAMED['sibling'][0]\n")
    monkeypatch.syspath_prepend(tmp_path)
    call(text, monkeypatch, "my_policy_of_tests:MINE")


@pytest.mark.parametrize("policy", NAMED)
def test_failure_agrees_with_the_verdict_of_the_replay(policy):
    said = failure(to_json(trace("stranded")), policy=policy)
    assert (said is None) == (policy != "prompt_group")


def test_an_unknown_policy_or_a_damaged_trace_does_not_pass():
    with pytest.raises(ValueError, match="no policy is called"):
        failure(to_json(trace("stranded")), policy="nonsense")
    with pytest.raises(ValueError, match="not a trace"):
        failure({}, policy="sibling")


def test_what_a_trace_says_never_becomes_code():
    evil = '"""\nimport os; os.abort()\n"""'
    found = attrs.evolve(trace("stranded"), verdict=Verdict(evil, evil), found_by={evil: evil, "{policy}": "{0}"})
    tree = ast.parse(module(found))
    assert [type(node).__name__ for node in tree.body] == [
        "Expr", "Import", "ImportFrom", "Assign", "Assign", "Assign", "FunctionDef",
    ]  # fmt: skip
    literal = ast.literal_eval(tree.body[5].value)
    assert literal["found_by"][evil] == evil


def test_the_command_prints_the_module(tmp_path):
    path = save(tmp_path / "t.json", trace("lost"))
    out = subprocess.run(
        [sys.executable, "-m", "state_machines", "show", str(path), "--format", "pytest"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert out == module(trace("lost"))
    assert "def test_stranded_lost_reply_is_repaired" in out


def test_the_history_also_runs_on_a_target_and_fails_where_it_differs(monkeypatch):
    from contextlib import contextmanager

    from state_machines.targets import options
    from state_machines.targets.base import ModelTarget

    class Other(ModelTarget):
        """A Gym that counts one un-ACKed result too many after the third event."""

        def observe(self):
            seen = super().observe()
            return attrs.evolve(seen, completed_unacknowledged=seen.completed_unacknowledged + 1)

    for kind, said in ((ModelTarget, None), (Other, "completed_unacknowledged is 1, the model has 0")):

        @contextmanager
        def opened(self, kind=kind):
            yield kind()

        monkeypatch.setattr(options.TargetChoice, "open", opened)
        found = failure(to_json(trace("stranded")), policy="sibling", target="http://gym")
        assert found is None if said is None else said in found
