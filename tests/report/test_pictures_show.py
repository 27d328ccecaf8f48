"""The command show: every format, and what it says when something is in its way."""

import json
import sys

import attrs
import pytest
from picture_histories import trace

from protocol.policy import NAMED
from state_machines import verdict as verdicts
from state_machines.cli import main
from state_machines.recovery import Unknown
from state_machines.replay import replay_trace
from state_machines.report.mermaid import mermaid
from state_machines.report.text import timeline
from state_machines.trace import save
from state_machines.verdict import Verdict


@pytest.fixture
def file(tmp_path):
    return save(tmp_path / "t.json", trace("stranded"))


def run(capsys, *words):
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    seen = capsys.readouterr()
    assert "Traceback" not in seen.err
    return done.value.code, seen.out, seen.err


def test_text_is_the_timeline_with_what_follows_and_brief_is_without(file, capsys):
    history = replay_trace(trace("stranded"))
    assert run(capsys, "show", file)[:2] == (0, timeline(history, further=True))
    assert run(capsys, "show", file, "--brief")[:2] == (0, timeline(history))


def test_mermaid_and_text_can_be_written_to_a_file(file, tmp_path, capsys):
    history = replay_trace(trace("stranded"))
    assert run(capsys, "show", file, "--format", "mermaid")[1] == mermaid(history)
    out = tmp_path / "out.txt"
    assert run(capsys, "show", file, "-o", tmp_path / "deep" / "out.txt")[0] == 2  # no folder is made silently
    assert run(capsys, "show", file, "-o", out, "--brief")[:2] == (0, "")
    assert out.read_text() == timeline(history)


def test_under_another_policy_the_verdict_is_that_policys(file, capsys):
    text = run(capsys, "show", file, "--policy", "prompt_group_reconciled", "--brief")[1]
    assert "no finding  (prompt_group_reconciled, 3 events)" in text


def test_html_and_pytest_are_complete_files(file, capsys):
    page = run(capsys, "show", file, "--format", "html")[1]
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    compile(run(capsys, "show", file, "--format", "pytest")[1], "test_made.py", "exec")


def test_several_files_are_shown_one_after_another_and_the_worst_counts(file, tmp_path, capsys):
    one = timeline(replay_trace(trace("stranded")))
    code, out, err = run(capsys, "show", file, tmp_path / "none.json", file, "--brief")
    assert (code, out, err.count("\n")) == (2, f"{one}\n{one}", 1)
    assert run(capsys, "show", file, file, "--format", "html")[1].count("<!doctype html>") == 1
    assert run(capsys, "show", file, file, "--format", "pytest")[0] == 2


def test_output_that_can_write_only_ascii_gets_ascii(file, capsysbinary, monkeypatch):
    import io

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with pytest.raises(SystemExit):
        main(["show", str(file)])
    sys.stdout.flush()
    assert b"finish ###" in raw.getvalue()


@pytest.mark.parametrize("form", ["text", "mermaid", "html", "pytest"])
def test_a_file_that_cannot_be_used_is_one_sentence_and_exit_2(tmp_path, capsys, form, file):
    bad = tmp_path / "bad.json"
    data = json.loads(file.read_text())
    data["events"][0]["event"] = "<script>"
    bad.write_text(json.dumps(data))
    code, out, err = run(capsys, "show", bad, "--format", form)
    assert (code, out) == (2, "")
    assert "event 1: " in err
    assert run(capsys, "show", tmp_path / "none.json")[0] == 2
    assert run(capsys, "show", file, "--format", form, "-o", tmp_path)[0] == 2


def test_an_event_that_cannot_happen_is_named(tmp_path, capsys):
    wrong = attrs.evolve(trace("stranded"), events=trace("stranded").events[1:])
    code, _, err = run(capsys, "show", save(tmp_path / "t.json", wrong))
    assert code == 2
    assert "event 1: finish p0_g0/0 cannot happen here" in err


def test_a_page_without_jinja2_says_what_to_install(file, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, _, err = run(capsys, "show", file, "--format", "html")
    assert code == 2
    assert "pip install 'stranded[report]'" in err


def test_a_history_that_cannot_be_decided_is_exit_3_and_never_clean(file, tmp_path, capsys, monkeypatch):
    def give_up(self, system):
        raise Unknown(7)

    monkeypatch.setattr(verdicts.Judge, "state", give_up)
    assert run(capsys, "show", file)[0] == 3
    code, compared, _ = run(capsys, "compare", file, "--policy", "sibling", "--policy", "prompt_group")
    assert code == 3
    assert compared.count("Unknown: a state could not be decided") == 2
    assert "Nothing is broken" not in compared
    page = run(capsys, "show", file, "--format", "html")[1]
    assert "This replay could not be decided" in page


def test_a_verdict_that_the_model_alone_cannot_show_is_said_to_be_recorded(tmp_path, capsys):
    diverged = attrs.evolve(trace("clean"), verdict=Verdict("diverged", "running"))
    path = save(tmp_path / "t.json", diverged)
    assert "Recorded as diverged: running" in run(capsys, "show", path, "--brief")[1]
    page = run(capsys, "show", path, "--format", "html")[1]
    assert '<span class="badge diverged">diverged: running</span>' in page


@pytest.mark.parametrize("policy", NAMED)
def test_every_named_policy_can_be_shown(file, capsys, policy):
    assert run(capsys, "show", file, "--policy", policy)[0] == 0
