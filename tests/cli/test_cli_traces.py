"""A trace file that cannot be used is one sentence with its name, and exit code 2."""

import json

import pytest

from protocol.events import Admit, Fail
from protocol.identity import Attempt
from protocol.policy import named
from protocol.scope import Scope
from state_machines.cli import main
from state_machines.trace import Trace, TraceError, found_by, load, save, to_json
from state_machines.verdict import Verdict

TRACE = Trace(
    named("prompt_group"),
    Scope(),
    (Admit(0), Fail(Attempt("p0_g0", 0))),
    Verdict("recoverable", "late_result"),
    found_by(7, "test"),
)


def changed(**values):
    return json.dumps(to_json(TRACE) | values)


BAD = {
    "truncated": (json.dumps(to_json(TRACE))[:-20], "truncated or not JSON"),
    "empty": ("", "truncated or not JSON"),
    "not UTF-8": (b"\xff\xfe{}", "not text in UTF-8"),
    "nested": ("[" * 100_000, "truncated or not JSON"),
    "a list": ("[]", 'the key "format" is not "stranded/trace"'),
    "another format": (changed(format="other"), 'the key "format" is not "stranded/trace"'),
    "another version": (changed(version=2), "version 2 of the format; this is a reader of version 1"),
    "a version that is no whole number": (changed(version=1.0), "version 1.0 of the format"),
    "a truth value": (changed(found_by={"how": True}), "found_by is not an object of words and numbers"),
    "too large": (" " * (1 << 20) + "{}", "larger than 1 MiB"),
    "unknown key": (changed(extra=1), "unknown key 'extra' in the trace"),
    "a key twice": ('{"format": "stranded/trace", "format": "stranded/trace"}', "a key is given twice"),
    "unknown axis": (changed(policy={"speed": "fast"}), "unknown key 'speed' in the policy"),
    "unknown value": (changed(policy={"late": "maybe"}), "late=maybe is not a policy"),
    "unknown bound": (changed(scope={"planets": 9}), "unknown key 'planets' in the scope"),
    "bad bound": (changed(scope={"groups": 0}), "groups is 0"),
    "no list": (changed(events={}), "events is not a list"),
    "unknown event": (changed(events=[{"event": "explode"}]), "event 1: unknown event 'explode'"),
    "event key": (changed(events=[{"event": "flush", "why": 1}]), "event 1: unknown key 'why'"),
    "bad attempt": (changed(events=[{"event": "finish", "attempt": "../x"}]), "event 1:"),
    "illegal event": (changed(events=[{"event": "admit", "group": 0}] * 2), "event 2: admit 0 cannot happen here"),
    "too many": (changed(events=[{"event": "flush"}] * 2001), "2001 events"),
    "bad verdict": (changed(verdict={"property": 1}), "verdict is not an object"),
}


@pytest.mark.parametrize(("content", "sentence"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_one_sentence_and_exit_code_2(tmp_path, capsys, content, sentence):
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(path)])
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert str(path) in err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_trace_is_read_as_it_was_written(tmp_path):
    path = save(tmp_path / "deep" / "trace.json", TRACE)
    assert load(path) == TRACE
    assert load(path).found_by["seed"] == 7
    assert [p.name for p in path.parent.iterdir()] == ["trace.json"]  # no temporary file is left
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as editors of Windows save it
    assert load(path) == TRACE


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = save(tmp_path / "trace.json", TRACE)
    before = path.read_text()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(TraceError, match="cannot be written: No space left on device"):
        save(path, TRACE)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
