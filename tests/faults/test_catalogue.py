"""Every hazard of the catalogue is found by a search that knows only its scope, and is gone with its remedy."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from protocol.policy import spell
from protocol.properties import Cause, Property
from protocol.scope import parse
from state_machines.catalogue import BY_ID, ENTRIES, counted, find, replayed
from state_machines.catalogue import entry as entries
from state_machines.cli import main
from state_machines.commands.hazards import hazards, hunt_of, place
from state_machines.hunt import _until_nothing_new as until_nothing_new
from state_machines.hunt import hunt
from state_machines.machine import Session, machine
from state_machines.mutants import applied
from state_machines.search import Decider, first_verdict
from state_machines.shrink import shrink
from state_machines.walk import Walk

ROOT = Path(__file__).parents[2]
SHOWN = [entry for entry in ENTRIES if entry.held_by is None]
HELD = [entry for entry in ENTRIES if entry.held_by is not None]
ALL = "STRANDED_HUNT_CATALOGUE" in os.environ
BUDGETS = (20, 60, 200, 600, *((2_000, 10_000) if ALL else ()))  # examples; most hazards need no more than the first
RARE = {"ack-before-durable", "adopt-with-used-id"}  # 12 and 11 events, not met by 12,000 examples; searches find them
DEEP = re.findall(  # hunts of more than a second
    r"\S+",
    """bare-park drain-died flush-for-ever parked-for-ever prepare-rolled-back
    ready-never-comes unpayable-debt unpublished-commit""",
)
ROWS = re.findall(
    r"\S+",
    """partial-group abandoned-result lost-reply receipt-fetch-lost ack-reply-lost drain-died prepare-rolled-back
    resume-lost rollback-resume-lost commit-reply-lost ack-before-durable stale-attempt-ack forgotten-owner late-child
    double-run cut-through-handoff orphaned-prepare partial-seal duplicate-result empty-prepare""",
)


def name(entry):
    return entry.id


def test_every_row_of_the_list_of_hazards_is_an_entry():
    assert [entry.id for entry in ENTRIES][: len(ROWS)] == ROWS
    assert len(BY_ID) == len(ENTRIES) > len(ROWS)
    assert all(entry.sources for entry in ENTRIES[: len(ROWS)])


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_it_is_found_in_its_scope_and_its_history_is_the_shortest(entry):
    finding = find(entry)
    assert finding is not None
    assert finding.events == entry.events


@pytest.mark.parametrize("entry", [entry for entry in SHOWN if entry.remedy], ids=name)
def test_it_is_gone_with_its_remedy(entry):
    assert find(entry, entry.remedy) is None


@pytest.mark.parametrize("entry", HELD, ids=name)
def test_it_is_gone_with_the_rule_that_holds_it_off(entry):
    assert find(entry, cured=True) is None
    assert first_verdict(entry.policy, entry.scope, entry.events) is None


def test_only_a_bare_park_has_no_remedy():
    assert [entry.id for entry in SHOWN if entry.remedy is None] == ["bare-park"]
    assert BY_ID["bare-park"].note


def test_every_verdict_is_made_of_known_words():
    words = {p.value for p in Property} | {c.value for c in Cause}
    for entry in ENTRIES:
        assert {entry.verdict.property, entry.verdict.cause} <= words


def test_the_command_lists_every_hazard_with_its_verdict():
    result = CliRunner().invoke(hazards, [], standalone_mode=False)
    assert result.return_value == 0
    for entry in ENTRIES:
        assert re.search(rf"^{entry.id} +{len(entry.events)} ", result.output, re.MULTILINE)
    data = json.loads(CliRunner().invoke(hazards, ["--json"], standalone_mode=False).output)
    assert [row["id"] for row in data["hazards"]] == [entry.id for entry in ENTRIES]
    assert all(row["reproduced"] for row in data["hazards"])


@pytest.mark.parametrize("entry", [e for e in ENTRIES if ALL or e.states < 1_000], ids=name)
def test_it_was_decided_by_as_many_states_as_are_said(entry):
    assert counted(entry) == entry.states


def test_what_the_list_says_can_be_pasted():
    """No line is broken, so every policy keeps its spelling; every scope is whole."""
    output = CliRunner().invoke(hazards, [], standalone_mode=False).output
    for entry in SHOWN:
        assert f"  {hunt_of(entry)}\n" in output
        assert entry.remedy is None or f"  removed by: {spell(entry.remedy)}\n" in output
    for entry in ENTRIES:
        words = shlex.split(hunt_of(entry) or place(entry))
        written = words[words.index("--scope") + 1] if "--scope" in words else ""
        assert parse(written) == entry.scope
        assert spell(entry.policy) in words


@pytest.mark.parametrize("entry", [e for e in SHOWN if ALL or e.id == "drain-died"], ids=name)
def test_the_hunt_that_is_printed_finds_it(entry, capsys):
    command = hunt_of(entry)
    assert command is not None
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command)[1:], "--brief", "--no-save", "--database", "none"])
    assert ended.value.code == 1
    assert f"{entry.verdict}, {len(entry.events)} events" in capsys.readouterr().out


def test_a_hazard_held_off_is_not_said_to_have_no_known_cause():
    output = CliRunner().invoke(hazards, ["ack-reply-lost"], standalone_mode=False).output
    assert "none of the known causes" not in output
    assert "UNFAIR: the rule that holds it off is skipped." in output


@pytest.mark.parametrize("hazard", ["partial-group", "double-run", "refused-arrival", "bare-park"])
def test_the_command_replays_one(hazard):
    result = CliRunner().invoke(hazards, [hazard], standalone_mode=False)
    assert result.return_value == 0
    assert result.output.startswith(f"{hazard}: ")
    assert result.output.rstrip().endswith("reproduced")
    commands = (hunt_of(BY_ID[hazard]), place(BY_ID[hazard]))
    assert max(len(x) for x in result.output.splitlines() if "http" not in x and x not in commands) <= 80
    data = json.loads(CliRunner().invoke(hazards, [hazard, "--json"], standalone_mode=False).output)
    entry = BY_ID[hazard]
    assert (data["reproduced"], data["property"], data["cause"]) == (True, entry.verdict.property, entry.verdict.cause)
    assert data["events"] == [event.to_json() for event in entry.events]


def test_a_hazard_whose_verdict_is_another_one_exits_1(monkeypatch):
    other = dict(entries.histories(), **{"lost-reply": BY_ID["lost-reply"].events[:2]})
    monkeypatch.setattr(entries, "histories", lambda: other)
    result = CliRunner().invoke(hazards, ["lost-reply"], standalone_mode=False)
    assert result.return_value == 1
    assert "not reproduced" in result.output
    listed = CliRunner().invoke(hazards, [], standalone_mode=False)
    assert listed.return_value == 1
    assert "NOT REPRODUCED" in listed.output


@pytest.mark.parametrize("arguments", [["no-such-hazard"], ["lost-reply", "--markdown"], ["a", "b"]])
def test_bad_usage_exits_2(arguments):
    result = CliRunner().invoke(hazards, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_replay_keeps_the_states_of_the_mutant():
    run = replayed(BY_ID["cut-through-handoff"])
    assert run.states[-1].gym.manifest == "c0"
    assert len(run.states) == len(run.events) + 1


def test_the_document_is_what_the_command_prints():
    printed = CliRunner().invoke(hazards, ["--markdown"], standalone_mode=False).output
    assert (ROOT / "docs" / "hazards.md").read_text(encoding="utf-8") == printed


def hunted(entry, examples):
    """The length of the shortest history of every verdict that a hunt finds; under the mutant of one held off.

    Hunts of the policies as they are judge by memos that know no mutants, and of fairness only when they are asked.
    """
    machine(entry.policy, entry.scope)  # made once for all, so not under a mutant
    with applied(entry.mutant):
        if entry.mutant is None and entry.verdict.word != "unfair":
            found = hunt(entry.policy, entry.scope, seed=1, examples=examples, certify=False).findings
            return {finding.verdict: len(finding.events) for finding in found}
        session = Session(Walk(entry.policy, entry.scope, Decider()))
        until_nothing_new(session, 1, examples, None)
        return {v: len(shrink(session.walk, v, events)) for v, events in session.shortest.items()}


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.id not in RARE], ids=name)
def test_the_hunt_finds_it_and_shrinks_its_history_to_the_recorded_length(entry):
    if entry.id in DEEP and not ALL:
        pytest.skip("a longer hunt: tox -e hazards")
    lengths = (hunted(entry, examples).get(entry.verdict) for examples in BUDGETS)
    assert len(entry.events) in lengths
