"""`stranded hunt`, `replay` and `policies` as people use them: what is printed, what is saved, the exit codes."""

import json

import pytest

from protocol.policy import AXES, NAMED, named
from protocol.scope import Scope
from state_machines.cli import main
from state_machines.machine import machine
from state_machines.trace import load
from state_machines.verdict import Judge

SMALL = ("--groups", "1", "--siblings", "2", "--examples", "80", "--seed", "1", "--database", "none")
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
    assert "vacuous: never seen:" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("hunt", "nope"), "no policy is called 'nope'"),
        (("hunt", "sibling,late=maybe"), "late is one of ignore, raise, acknowledge"),
        (("hunt", "no_such_module:POLICY"), "no_such_module:POLICY cannot be loaded"),
        (("hunt", "--groups", "99"), "groups is 99; it is a whole number from 1 to 8"),
        (("hunt", "--failures", "-1"), "failures is -1"),
        (("hunt", "--examples", "0"), "--examples"),
        (("hunt", "--save", "x", "--no-save"), "exclude each other"),
        (("replay", "missing.json"), "missing.json: cannot be read"),
        (("replay",), "Missing argument 'FILE'"),
        (("nope",), "No such command"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(stranded, arguments, sentence):
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
    stranded("hunt", "prompt_group,late=raise", "prompt_group,late=acknowledge", *SMALL, "--brief")
    names = {"-".join(path.name.split("-")[:2]) for path in (tmp_path / "stranded-findings").iterdir()}
    assert len(names) == 2
    assert all(name.startswith("prompt_group-") for name in names)


def test_a_replay_under_another_policy_exits_with_1_when_another_verdict_comes_out(stranded):
    stranded("hunt", *SMALL, "--brief")
    file = "stranded-findings/prompt_group-stranded-abandoned_result.json"
    assert stranded("replay", file)[0] == 0
    code, out, _ = stranded("replay", file, "--policy", "sibling")
    assert code == 1
    assert "not reproduced: nothing is broken" in " ".join(out.split())


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
