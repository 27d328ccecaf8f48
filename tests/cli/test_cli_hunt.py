"""`stranded hunt`, `replay` and `policies` as people use them: what is printed, what is saved, the exit codes."""

import json
import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from protocol.policy import AXES, NAMED, named
from protocol.scope import Scope
from state_machines.cli import main
from state_machines.commands.group import COMMANDS
from state_machines.machine import machine
from state_machines.trace import load
from state_machines.verdict import Judge

SMALL = ("--groups", "1", "--siblings", "2", "--examples", "80", "--seed", "1", "--database", "none")
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
FOUND = {("recoverable", "abandoned_result"), ("recoverable", "late_result"), ("recoverable", "lost_reply")}


@pytest.fixture
def stranded(capsys, tmp_path, monkeypatch):
    """Run the command in an empty folder; return its exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_a_hunt_tells_each_finding_with_both_sides_what_follows_why_and_how_to_replay(stranded, tmp_path):
    code, out, err = stranded("hunt", *SMALL)
    assert (code, err) == (1, "")  # no progress: not a terminal
    assert "stranded: abandoned_result  (prompt_group, 3 events, the shortest there is)" in out
    assert "a sibling finished, then its group was given up: nobody owes the ACK" in out
    for part in ("finish p0_g0/0", "RL", "Gym", "running p0_g1/0", "un-ACKed p0_g0/0"):
        assert part in out
    assert "Then, if everything goes well: deliver p0_g0/0" in out
    assert "completed_unacknowledged=" in out
    assert "p0_g0/0: RL held its result, and cleared it when the group was given up" in out
    assert "stranded replay stranded-findings/prompt_group-stranded-abandoned_result.json" in out
    assert (tmp_path / "stranded-findings" / "prompt_group-stranded-abandoned_result.json").exists()
    assert "\x1b" not in out
    assert all(len(line) <= 80 for line in out.splitlines() if "stranded replay" not in line and "seed" not in line)


def test_the_json_of_a_hunt_has_every_key_and_its_traces_replay(stranded, tmp_path):
    code, out, _ = stranded("hunt", "prompt_group", "sibling", *SMALL, "--json", "--save", tmp_path / "kept")
    data = json.loads(out)
    assert code == 1
    assert {"findings", "unknown", "seed", "scope", "examples"} <= set(data)
    assert (data["unknown"], data["seed"]) == (False, 1)
    assert data["scope"] == Scope(groups=1, siblings=2).sizes()
    found = {(f["property"], f["cause"]) for f in data["findings"] if f["policy"] == "prompt_group"}
    assert found >= FOUND
    for finding in data["findings"]:
        assert finding["length"] == len(finding["events"]) == finding["shortest"]
        trace = load(tmp_path / "kept" / finding["trace"].rpartition("/")[2])
        assert [event.to_json() for event in trace.events] == finding["events"]
        code, out, _ = stranded("replay", finding["trace"], "--json")
        again = json.loads(out)
        assert (code, again["reproduced"]) == (0, True)
        assert (again["property"], again["cause"], again["events"]) == (
            finding["property"],
            finding["cause"],
            finding["events"],
        )


def test_a_clean_hunt_exits_with_0(stranded):
    code, out, _ = stranded("hunt", "sibling", "--lost-replies", "0", *SMALL)
    assert code == 0
    assert "sibling: nothing found" in out


def test_a_hunt_that_could_not_decide_exits_with_3(stranded, monkeypatch):
    scope = Scope(groups=1, siblings=2, snapshots=0)
    monkeypatch.setattr(machine(named("sibling_repaired"), scope).session.walk, "judge", Judge(limit=1))
    code, out, _ = stranded("hunt", "sibling_repaired", "--snapshots", "0", *SMALL)
    assert code == 3
    assert "unknown:" in out


def test_a_vacuous_hunt_exits_with_3(stranded):
    code, out, _ = stranded("hunt", "sibling_repaired", *SMALL, "--examples", "1")
    assert code == 3
    assert "vacuous: no history saw" in out
    assert "use more examples or a larger scope" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("hunt", "nope"), "no policy is called 'nope'"),
        (("hunt", "sibling,late=maybe"), "late is one of ignore, raise, acknowledge"),
        (("hunt", "no_such_module:POLICY"), "no_such_module:POLICY cannot be loaded"),
        (("hunt", "--groups", "99"), "groups is 99; it is a whole number from 1 to 8"),
        (("hunt", "--failures", "-1"), "failures is -1"),
        (("hunt", "--scope", "groups=1,failures=0,groups=2"), "groups is given twice"),
        (("hunt", "--scope", "groups=1,,failures=0"), "has a comma with no bound beside it"),
        (("hunt", "--target", "http://u:secret@host:x"), "'http://…@host:x' cannot be read as a URL"),
        (("doctor", "--target", "HTTP://"), "'HTTP://' is not a target"),
        (("report", "docs", "-o", "nowhere/page.html"), "there is no folder nowhere"),
        (("hunt", "--examples", "0"), "--examples"),
        (("hunt", "--save", "x", "--no-save"), "exclude each other"),
        (("replay", "missing.json"), "missing.json: cannot be read"),
        (("replay",), "Missing argument 'FILE"),
        (("nope",), "No such command"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(stranded, tmp_path, arguments, sentence):
    (tmp_path / "docs").mkdir()
    code, out, err = stranded(*arguments)
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err


def test_a_place_that_cannot_be_written_is_one_sentence(stranded, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = stranded("hunt", *SMALL, "--brief", "--save", "file")
    assert code == 2
    assert err.count("\n") == 1
    assert "cannot be written" in err


def test_a_policy_of_the_users_own_is_hunted(stranded, tmp_path):
    (tmp_path / "own_policy_for_test.py").write_text("from protocol.policy import parse\nMINE = parse('sibling')\n")
    code, out, _ = stranded("hunt", "own_policy_for_test:MINE", *SMALL, "--brief")
    assert code == 1
    assert "stranded: lost_reply, 3 events" in out


def test_an_unnamed_policy_has_files_of_its_own(stranded, tmp_path):
    stranded("hunt", "prompt_group,late=raise", "prompt_group,late=acknowledge", *SMALL, "--examples", "20", "--brief")
    names = {"-".join(path.name.split("-")[:2]) for path in (tmp_path / "stranded-findings").iterdir()}
    assert len(names) == 2
    assert all(name.startswith("prompt_group-") for name in names)


def test_a_replay_says_by_its_exit_code_whether_a_history_still_breaks(stranded):
    abandoned, lost = PICTURES / "abandoned.json", PICTURES / "lost-reply.json"
    for files, policy, code, sentence in [
        ([lost], "sibling", 0, "reproduced: stranded: lost_reply"),
        ([abandoned], "sibling", 4, "clean: the whole history happens and nothing breaks"),
        ([abandoned], "prompt_group_refused", 5, "cannot happen any more: 3 of 3 events are impossible here"),
        ([lost, abandoned], "sibling", 0, "clean: the whole history happens"),  # one of them still breaks
        ([abandoned, lost], "prompt_group_repaired", 4, "clean: the whole history happens"),
        ([abandoned, "none.json"], "sibling", 2, "clean: the whole history happens"),
    ]:
        found, out, _ = stranded("replay", *files, "--policy", policy)
        assert (found, sentence in " ".join(out.split())) == (code, True), out
    assert [x["outcome"] for x in json.loads(stranded("replay", lost, lost, "--json")[1])] == ["same", "same"]


def test_a_snapshot_that_commits_is_not_told_as_a_gym_that_is_not_ready(stranded):
    out = " ".join(stranded("replay", PICTURES / "one-finished-sibling.json", "--policy", "sibling")[1].split())
    assert "publish, resume. Snapshot c0 is committed, and the runs go on: running=2" in out


def test_a_hunt_that_is_stopped_tells_what_it_has_and_is_never_clean(stranded):
    large = ("--scope", "groups=8,siblings=8,failures=9,lost_replies=9", "--seed", "1", "--seconds", "0.5")
    code, out, _ = stranded("hunt", "sibling_repaired", *large)
    assert code == 3
    assert "out of time: what was not found is unknown" in out


def test_policies_are_listed_with_axes_and_one_line_each(stranded):
    code, out, _ = stranded("policies")
    assert code == 0
    assert all(name in out for name in (*NAMED, *AXES))
    assert set(json.loads(stranded("policies", "--json")[1])["policies"]) == set(NAMED)


def test_a_module_that_exits_is_not_a_clean_hunt(stranded, tmp_path):
    (tmp_path / "leaving_for_test.py").write_text("import sys; sys.exit(0)\n")
    code, _, err = stranded("hunt", "leaving_for_test:MINE")
    assert code == 2
    assert "cannot be loaded" in err


def test_help_needs_no_extra_and_what_needs_one_names_it(tmp_path):
    without = """
import sys
sys.modules |= dict.fromkeys(("fastapi", "uvicorn", "httpx", "ray", "redis", "jinja2"))
from state_machines.cli import main
for name in sys.argv[1:]:
    try:
        main([name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0, name
main(["gym"])
"""
    run = subprocess.run([sys.executable, "-c", without, *COMMANDS], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stdout.count("Usage: stranded") == len(COMMANDS)
    assert run.stderr == "stranded: this needs uvicorn, which is not installed: pip install 'stranded[http]'\n"


@pytest.mark.parametrize("module", ["state_machines.commands.group", "state_machines.commands.policies"])
def test_an_interrupt_while_the_command_is_loaded_is_one_sentence_and_exit_code_130(stranded, monkeypatch, module):
    class Interrupted(MetaPathFinder):
        def find_spec(self, name, *_):
            if name == module:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    code, out, err = stranded("policies")
    assert (code, out, err.strip()) == (130, "", "interrupted")


def test_a_hunt_ends_with_the_command_of_the_proof_that_is_exhaustive(stranded):
    proof = "stranded prove prompt_group --scope groups=1,siblings=2"
    out = stranded("hunt", *SMALL, "--brief")[1]
    assert out.splitlines()[-2:] == ["A hunt may miss some. A proof does not:", proof]
    large = stranded("hunt", "--brief", "--examples", "5", "--seed", "1")[1]
    assert large.splitlines()[-2:] == ["A hunt may miss some. A proof, here of a smaller scope, does not:", proof]
    code, proved, _ = stranded(*proof.split()[1:])
    assert code == 1
    assert all(line.split(",")[0] in proved for line in out.splitlines()[:-3])
