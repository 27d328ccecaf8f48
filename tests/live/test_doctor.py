"""The doctor says what keeps a Gym from ready, whose it is to release, and what would."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from attrs import asdict
from click.testing import CliRunner

from protocol.events import Admit, Boundary, Deliver, Event, Fail, Finish, NullResult, Prepare, Refuse, Snapshot
from protocol.findings import Cause
from protocol.identity import Attempt, model_receipt
from protocol.policy import named
from protocol.scope import Scope
from protocol.system import initial, step
from state_machines.catalogue import BY_ID, with_cause
from state_machines.cli import main
from state_machines.commands.group import stranded
from state_machines.doctor import diagnose, read_ledger
from state_machines.gym_server.service import status_json
from state_machines.targets import follow
from state_machines.targets.http import HttpTarget
from state_machines.targets.process import TOKEN_ENV, ReferenceGym
from state_machines.targets.status import Unreadable, read_report

ROOT = Path(__file__).parents[2]

G0, G1, G2 = (Attempt(f"p0_g{i}", 0) for i in range(3))
SCOPE = Scope(null_results=1, refusals=1)
ABANDONED = (Admit(0), Finish(G0), Deliver(G0), Fail(G2), Deliver(G2))
PARTIAL = (Admit(0), Finish(G0), Deliver(G0), Snapshot(), Prepare(), Boundary(G1), Boundary(G2))
LEDGER = {"format": "stranded/ledger", "version": 1}


def document(*events: Event, **changes):
    system = initial(named("prompt_group"), SCOPE)
    for event in events:
        system = step(system, event)
    return status_json(system.gym, "c0") | changes


def run(*arguments, **options):
    """The command's exit code, and everything it said."""
    ended = CliRunner().invoke(stranded, ["doctor", *map(str, arguments)], standalone_mode=False, **options)
    code = ended.return_value if ended.exception is None else 2
    return code, ended.output + (str(getattr(ended.exception, "message", "")) if ended.exception else "")


def saved(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def holds(diagnosis):
    return [(h.what.split(":")[0], h.owner.name.lower(), h.cause and h.cause.value) for h in diagnosis.holds]


def test_a_gym_with_nothing_to_hold_it_is_ready(tmp_path):
    code, said = run("--target", saved(tmp_path / "s.json", document()))
    assert code == 0
    assert said.startswith("Gym is ready to commit")


def test_each_result_that_was_not_acknowledged_is_named_and_without_the_ledger_its_owner_is_not(tmp_path):
    code, said = run("--target", saved(tmp_path / "s.json", document(Admit(0), Finish(G0), Finish(G1), Fail(G2))))
    assert code == 1
    assert "p0_g0/0 has a result that was not acknowledged" in said
    assert "p0_g1/0 has a result that was not acknowledged" in said
    assert "cannot be told without the trainer's ledger" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("key", "events", "owner", "cause"),
    [
        ("sealed", (Admit(0), Finish(G0)), "trainer", None),
        ("held", (Admit(0), Finish(G0)), "trainer", None),
        ("held", PARTIAL, "trainer", "partial_group"),
        ("sealed", PARTIAL, "trainer", "drain_died"),
        ("given_up", ABANDONED, "nobody", "abandoned_result"),
        ("given_up", (Admit(0), Finish(G0)), "nobody", "late_result"),
        ("waiting", (Admit(0), Finish(G0)), "unknown", "lost_reply"),
        ("sealed", (Admit(0), Finish(G1)), "nobody", "forgotten_result"),
    ],
)
def test_the_ledger_says_which_results_are_owed_and_which_nobody_owns(key, events, owner, cause):
    found = diagnose(read_report(document(*events)), read_ledger(LEDGER | {key: ["p0_g0/0"]}))
    (result,) = [h for h in found.holds if h.receipt is not None]
    assert (result.owner.name.lower(), result.cause and result.cause.value) == (owner, cause)
    assert found.unowned == ((result.receipt,) if owner == "nobody" else ())


def test_without_a_ledger_the_attempts_give_away_what_they_can():
    assert ("p0_g0/0 has a result that was not acknowledged", "unknown", "abandoned_result") in holds(
        diagnose(read_report(document(*ABANDONED)))
    )
    assert holds(diagnose(read_report(document(*PARTIAL)))) == [
        ("admission is closed and no checkpoint is under way", "unknown", "closed_gym"),
        ("p0_g0/0 has a result that was not acknowledged", "unknown", "partial_group"),
    ]


@pytest.mark.parametrize(
    ("key", "owner", "cause"),
    [("waiting", "itself", None), ("given_up", "unknown", "late_result"), (None, "unknown", "forgotten_result")],
)
def test_a_running_run_goes_by_itself_only_while_the_trainer_waits_for_it(key, owner, cause):
    report = read_report(document(Admit(0), Finish(G0), Finish(G1)))
    names = {"sealed": [str(G0), str(G1)]} | ({key: [str(G2)]} if key else {})
    found = diagnose(report, read_ledger(LEDGER | names))
    assert holds(found)[-1] == (f"{G2} is running", owner, cause)
    assert ("It can become ready" in found.sentence) == (owner == "itself")


def test_a_run_parked_without_a_boundary_waits_for_a_resume():
    found = diagnose(read_report(document(Admit(0), Snapshot(), Prepare(), Refuse(G1))))
    assert ("p0_g1/0 is parked without a boundary", "trainer", "parked_without_boundary") in holds(found)


def test_a_null_result_has_nobody_to_release_it():
    found = diagnose(read_report(document(Admit(0), NullResult(G0))))
    assert (
        "p0_g0/0 has a result that was not acknowledged, and there is no receipt for it",
        "nobody",
        "null_result",
    ) in (holds(found))


def test_admission_that_is_closed_with_no_snapshot_is_said_also_of_a_gym_that_could_commit():
    found = diagnose(read_report(document(state="preparing")))
    assert (found.ready, found.exit_code) == (False, 1)
    assert [h.cause.value for h in found.holds] == ["closed_gym"]
    prepared = diagnose(read_report(document(state="preparing", phase="prepared")))
    assert (prepared.ready, prepared.exit_code) == (True, 0)


@pytest.mark.parametrize(
    "changes",
    [{"running": 1}, {"ready_to_commit": False}],
    ids=["ready but running", "not ready for no reason"],
)
def test_a_report_that_contradicts_itself_cannot_be_told(tmp_path, changes):
    code, said = run("--target", saved(tmp_path / "s.json", document(**changes)))
    assert code == 3
    assert said.startswith("It cannot be told")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", "[" * 100_000, json.dumps(document(running=True)), "\udce9"]
)
def test_an_unusable_document_is_exit_2(tmp_path, text, capsys):
    path = tmp_path / "s.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--target", str(path)])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"stranded: {path}: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "x"}, {"version": 2}, {"extra": []}, {"sealed": "p0_g0/0"}, {"sealed": ["p0_g0"]}, {"sealed": [3]},
        {"sealed": ["p0_g0/0"], "held": ["p0_g0/0"]}, {"sealed": [{"rollout_id": "a", "attempt_index": -1}]},
        {"version": True}, {"sealed": [{"rollout_id": "a", "attempt_index": 10**4200}]}, {"sealed": [10**4300]},
    ],
)  # fmt: skip
def test_an_unusable_ledger_is_refused(changes):
    with pytest.raises(Unreadable) as error:
        read_ledger(LEDGER | changes)
    assert len(str(error.value)) < 200


def test_every_cause_that_fits_comes_with_the_hazards_of_the_catalogue_that_have_it(tmp_path):
    path = saved(tmp_path / "s.json", document(*PARTIAL))
    _, said = run("--target", path)
    shown = [line.split()[-1] for line in said.splitlines() if line.startswith("  stranded hazards ")]
    assert shown == ["partial-group", "orphaned-prepare", "adopt-with-used-id"]
    assert all(BY_ID[name].verdict.cause in ("partial_group", "closed_gym") for name in shown)
    _, told = run("--target", path, "--json")
    assert json.loads(told)["hazards"] == {"partial_group": shown[:1], "closed_gym": shown[1:]}
    assert all(with_cause(Cause(x)) for x in ("abandoned_result", "late_result", "lost_reply", "forgotten_result"))
    assert all(with_cause(Cause(x)) for x in ("drain_died", "null_result", "parked_without_boundary"))


def test_json_says_the_same(tmp_path):
    path = saved(tmp_path / "s.json", document(*ABANDONED))
    known = {"given_up": [f"p0_g{i}/0" for i in range(3)], "waiting": [f"p0_g{i}/1" for i in range(3)]}
    ledger = saved(tmp_path / "l.json", LEDGER | known)
    code, said = run("--target", path, "--ledger", ledger, "--json")
    data = json.loads(said)
    assert (code, data["ready"], data["causes"]) == (1, False, ["abandoned_result", "late_result"])
    assert data["unowned"] == [asdict(model_receipt(G0))]


@pytest.fixture
def stuck(monkeypatch):
    """A Gym that retains an abandoned result: (its URL, the target, the receipt)."""
    gym = ReferenceGym()
    monkeypatch.setenv(TOKEN_ENV, gym.token)
    with closing(HttpTarget(gym.url, gym.token, owned=gym)) as target:
        assert follow(target, named("prompt_group"), SCOPE, ABANDONED) is None
        yield gym.url, target, target._history.receipts[G0]


def test_a_live_gym_is_read_and_what_nobody_owns_released(stuck, tmp_path):
    url, target, receipt = stuck
    ledger = saved(tmp_path / "l.json", LEDGER | {"given_up": [str(receipt.attempt)]})
    unowned = tmp_path / "unowned.json"
    code, said = run("--target", url, "--ledger", ledger, "--unowned", unowned)
    assert code == 1
    assert "nobody owes it any more" in said.replace("\n", " ")
    assert json.loads(unowned.read_text()) == [asdict(receipt)]
    assert target._report(target._history).completed_unacknowledged == 1  # it only read

    code, said = run("--target", url, "--release", unowned)
    assert code == 2
    assert target._report(target._history).completed_unacknowledged == 1  # it asked, and nobody answered
    code, said = run("--target", url, "--release", unowned, input="n\n")
    assert "nothing was released" in said
    code, said = run("--target", url, "--release", unowned, "--yes")
    assert f"release {receipt.attempt}" in said
    assert "released 1" in said
    assert target._report(target._history).completed_unacknowledged == 0


def test_a_receipt_that_gym_does_not_know_releases_nothing(stuck, tmp_path):
    url, target, receipt = stuck
    both = saved(tmp_path / "r.json", {"executions": [asdict(receipt), asdict(model_receipt(Attempt("p9_g9", 0)))]})
    code, said = run("--target", url, "--release", both, "--yes")
    assert code == 2
    assert "Gym does not list this result" in said
    assert "nothing was released" in said
    assert target._report(target._history).completed_unacknowledged == 1


@pytest.mark.parametrize("data", [[], {}, [{}], [asdict(model_receipt(G0))] * 2, "x"])
def test_a_file_that_holds_no_receipts_is_refused_before_anything_is_sent(tmp_path, data):
    code, _ = run("--target", "http://127.0.0.1:1", "--release", saved(tmp_path / "r.json", data), "--yes")
    assert code == 2


def test_a_wrong_token_is_exit_2_and_is_not_shown(stuck, monkeypatch, capsys):
    monkeypatch.setenv("OTHER", "not-the-token")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--target", stuck[0], "--token-env", "OTHER"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "401" in said
    assert "not-the-token" not in said


def test_a_result_that_the_trainer_waits_for_cannot_be_told(tmp_path):
    """Its answer may be on its way, or lost: then the trainer never acknowledges it."""
    ledger = saved(tmp_path / "l.json", LEDGER | {"waiting": ["p0_g0/0"]})
    status = saved(tmp_path / "s.json", document(Admit(0), Finish(G0)))
    said = " ".join(run("--target", status, "--ledger", ledger)[1].split())
    assert "Whether it can become ready cannot be told" in said
    assert "It can become ready" not in said
    assert "The trainer releases it" not in said


def test_only_what_gym_retained_is_counted_as_released(stuck, tmp_path):
    url, _, receipt = stuck
    receipts = saved(tmp_path / "r.json", [asdict(receipt)])
    assert "released 1\n" in run("--target", url, "--release", receipts, "--yes")[1]
    assert "released 0; 1 had been acknowledged before\n" in run("--target", url, "--release", receipts, "--yes")[1]


def test_the_examples_of_the_page_are_stuck_a_saved_document_and_a_server_after_a_replay(monkeypatch):
    page = (ROOT / "docs" / "doctor.md").read_text("utf-8")
    status, ledger = (ROOT / "docs" / "examples" / name for name in ("status.json", "ledger.json"))
    assert f"--target docs/examples/{status.name} --ledger docs/examples/{ledger.name}" in page
    code, said = run("--target", status, "--ledger", ledger)
    assert (code, "Nobody will release it" in said) == (1, True)
    gym = ReferenceGym()
    with closing(gym):
        monkeypatch.setenv(TOKEN_ENV, gym.token)
        trace = ROOT / "docs" / "pictures" / "abandoned.json"
        assert f"stranded replay {trace.relative_to(ROOT)} --target http" in page
        replayed = CliRunner().invoke(stranded, ["replay", str(trace), "--target", gym.url], standalone_mode=False)
        assert replayed.return_value == 0
        code, live = run("--target", gym.url)
    assert (code, "completed_unacknowledged=1" in live, "p0_g0/0 has a result" in live) == (1, True, True), live
