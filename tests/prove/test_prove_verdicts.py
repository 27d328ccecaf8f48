"""Exploration against the definitions: the same verdicts, the same shortest lengths, whatever is switched off."""

import json
import re
from contextlib import nullcontext
from functools import cache

import attrs
import pytest
from naive import FAULTS, Naive

from protocol import policy as policies
from protocol import properties
from protocol import scope as scopes
from protocol.policy import NAMED
from protocol.scope import Scope
from state_machines import closures
from state_machines import prove as proofs
from state_machines.commands import prove as command
from state_machines.expected import EXPECTED
from state_machines.explore import explore_system
from state_machines.prove import Bounds, Explorer, prove
from state_machines.reduce import ALL, NONE
from state_machines.replay import replay

proved = cache(prove)  # what several tests compare with
ONE = scopes.parse("groups=1,siblings=2,failures=0,lost_replies=0")
SCOPES = [
    "groups=1,siblings=2",
    "groups=2,siblings=1",
    pytest.param("groups=2,siblings=1,snapshots=2,lost_replies=0", marks=pytest.mark.slow),
]


@cache
def naive(policy: str, scope: Scope) -> Naive:
    return Naive(policies.parse(policy), scope)


@pytest.mark.parametrize("text", SCOPES)
@pytest.mark.parametrize("name", NAMED)
def test_verdicts_and_shortest_lengths_are_those_of_the_definition(name, text):
    scope = scopes.parse(text)
    if name.endswith(("_reconciled", "_group_repaired")):
        scope = attrs.evolve(scope, lost_replies=0)  # every state of these is many
    proof = prove(policies.named(name), scope)
    assert {x.verdict: x.length for x in proof.findings} == naive(name, scope).findings()
    assert proof.exhaustive


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "name", ["sibling,give_up=retire", pytest.param("prompt_group_ack_on_arrival", marks=pytest.mark.slow)]
)
def test_the_same_with_every_kind_of_fault(name, fault):
    scope = attrs.evolve(ONE, **{fault: 1})
    proof = prove(policies.parse(name), scope)
    assert {x.verdict: x.length for x in proof.findings} == naive(name, scope).findings()


@pytest.mark.parametrize("fault", ["trainer_restarts", "gym_restarts", "restarts"])
@pytest.mark.parametrize("name", ["prompt_group", "sibling,restart=adopt"])
@pytest.mark.parametrize("size", ["groups=1,siblings=1", "groups=2,siblings=1,attempts=1,snapshots=0"])
def test_the_same_with_restarts(name, fault, size):
    scope = attrs.evolve(scopes.parse(size, ONE), **{fault: 1})
    proof = prove(policies.parse(name), scope)
    assert {x.verdict: x.length for x in proof.findings} == naive(name, scope).findings()


def test_the_same_when_what_is_on_disk_outlives_what_the_ledger_knows():
    scope = attrs.evolve(ONE, failures=1, restarts=1)
    proof = prove(policies.named("sibling"), scope)
    assert {x.verdict: x.length for x in proof.findings} == naive("sibling", scope).findings()


@pytest.mark.parametrize("off", [field.name for field in attrs.fields(type(ALL))])
@pytest.mark.parametrize("name", ["sibling", "prompt_group", "prompt_group_ack_on_arrival"])
def test_no_reduction_changes_a_verdict_or_a_length(name, off):
    scope = scopes.parse("groups=2,siblings=2,snapshots=1,lost_replies=0,attempts=1")
    policy = policies.named(name)
    with_all, without = proved(policy, scope), prove(policy, scope, on=attrs.evolve(ALL, **{off: False}))
    assert {x.verdict: x.length for x in with_all.findings} == {x.verdict: x.length for x in without.findings}
    assert with_all.states <= without.states


@pytest.mark.parametrize("off", ["pool", "history", "siblings"])
@pytest.mark.parametrize(
    "name", ["prompt_group_repaired", "prompt_group_ack_on_arrival", "prompt_group,give_up=retire"]
)
def test_no_reduction_of_what_was_given_up_changes_a_verdict_or_a_length(name, off):
    scope = scopes.parse("groups=1,siblings=2,attempts=2,lost_replies=0")
    policy = policies.parse(name)
    with_all, without = proved(policy, scope), prove(policy, scope, on=attrs.evolve(ALL, **{off: False}))
    assert {x.verdict: x.length for x in with_all.findings} == {x.verdict: x.length for x in without.findings}
    assert with_all.states < without.states or (with_all.findings and with_all.states == without.states)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sibling", "prompt_group"])
def test_without_reductions_every_state_is_visited(name):
    scope = scopes.parse("groups=1,siblings=2")
    assert len(explore_system(policies.named(name), scope, NONE).graph.states) == len(naive(name, scope).states)


@pytest.mark.parametrize(
    ("early", "many", "few", "chunk"), [(0, 1, -(1 << 30), 1), (0, 1 << 20, -(1 << 30), 3), (1 << 20, 1, 0, 7)]
)
@pytest.mark.parametrize(
    "text", ["prompt_group", "prompt_group_repaired", "sibling", "sibling,lost_reply=fetch_receipt"]
)
def test_when_states_are_judged_and_how_many_at_a_time_changes_nothing(monkeypatch, text, early, many, few, chunk):
    scope = scopes.parse("groups=2,siblings=1,attempts=1,lost_resumes=1,lost_replies=1,failures=0")
    policy = policies.parse(text)
    expected = prove(policy, scope)
    for name, value in (("EARLY", early), ("MANY", many), ("CHUNK", chunk)):
        monkeypatch.setattr(proofs, name, value)
    for name, value in (("FEW", few), ("CHUNK", chunk)):
        monkeypatch.setattr(closures, name, value)
    found = prove(policy, scope, Bounds(max_states=30_000))
    assert [(x.verdict, x.length) for x in found.findings] == [(x.verdict, x.length) for x in expected.findings]
    assert (found.states, found.transitions, found.depth) == (expected.states, expected.transitions, expected.depth)
    assert found.exhaustive


@pytest.mark.parametrize("name", ["prompt_group", "sibling", "prompt_group_ack_on_arrival"])
def test_a_finding_is_a_real_history_that_ends_with_its_verdict(name):
    for finding in prove(policies.named(name), scopes.parse("groups=2,siblings=2")).findings:
        run = replay(policies.named(name), scopes.parse("groups=2,siblings=2"), finding.events)
        assert (run.verdict, run.at) == (finding.verdict, finding.length)


@pytest.mark.parametrize("fault", ["failures", "trainer_restarts", "gym_restarts", "restarts"])
def test_every_state_is_at_the_end_of_a_real_history(fault):
    """Also where a run has passed several boundaries, which codes do not count."""
    size = attrs.evolve(ONE, siblings=1, attempts=1, snapshots=2)
    explorer = Explorer(policies.parse("sibling,resume_retry=at_once"), attrs.evolve(size, **{fault: 1}))
    explorer.run()
    for rows, parents, vias in explorer.chunks[1:]:
        for row, parent, via in zip(rows.tolist(), parents.tolist(), vias.tolist(), strict=True):
            assert explorer.history(parent, via, tuple(row))


@pytest.mark.parametrize("name", ["prompt_group", "sibling", "prompt_group_ack_on_arrival", "prompt_group_refused"])
def test_the_known_verdicts_are_those_of_every_state_of_one_group_of_three(name):
    found = prove(policies.named(name), Scope(groups=1)).findings
    assert {x.verdict: x.length for x in found} == EXPECTED[name]


def test_an_initial_state_that_is_broken_is_a_finding(monkeypatch):
    monkeypatch.setattr(properties, "reopened", lambda system: False)
    (finding,) = prove(policies.named("sibling"), ONE).findings
    assert (finding.verdict.property, finding.length) == ("reopens", 0)


def test_a_bound_makes_unknown_what_was_not_found():
    proof = prove(policies.named("sibling_repaired"), Scope(), Bounds(max_states=500))
    assert not proof.exhaustive
    assert 0 < proof.states <= 500
    assert set(proof.decided().values()) == {"unknown"}
    assert "500" in (proof.stopped or "")


def test_a_proof_tells_how_far_it_is_and_how_fast(monkeypatch, capsys):
    said = []
    monkeypatch.setattr(command, "telling", lambda what: nullcontext(said.append))
    command.prove.main(["prompt_group", "--groups", "1", "--siblings", "2"], standalone_mode=False)
    assert re.fullmatch(
        r"[\d.k]+ states \+ [\d.k]+ for recoveries, [\d.k]+ transitions, depth \d+, [\d.k]+ states/s, [\d,]+ MiB",
        said[-1],
    )
    assert said[-1].split(" ")[0] == re.search(r"([0-9,]+) states, ", capsys.readouterr().out)[1]
    assert [command.short(x) for x in (0.4, 950, 12_345, 4_561_234, 135_167_879)] == [
        "0",
        "950",
        "12.3k",
        "4.56M",
        "135M",
    ]


def test_states_without_reductions_that_were_not_counted_are_said_to_be(monkeypatch, capsys):
    small = ["sibling_repaired", "--groups", "1", "--siblings", "2", "--raw"]
    assert command.prove.main([*small, "--max-states", "2000"], standalone_mode=False) == 3
    assert "not counted: more than 2,000 states" in capsys.readouterr().out
    monkeypatch.setattr(command, "explore_system", interrupted)
    assert command.prove.main([*small, "sibling"], standalone_mode=False) == 3
    printed = capsys.readouterr().out
    assert "not counted: interrupted" in printed
    assert "not begun, so unknown: sibling\n" in printed


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("flags", [["--design", "lease"], ["--fair"]])
def test_over_real_systems_every_state_is_raw_and_the_design_is_said(capsys, flags):
    one = ["sibling", "--groups", "1", "--siblings", "1", "--snapshots", "0", *flags]
    command.prove.main([*one, "--json"], standalone_mode=False)
    (proof,) = json.loads(capsys.readouterr().out)["proofs"]
    assert proof["states"]["raw"] > 5
    assert proof["states"]["reduced"] is proof["real_steps"] is None
    assert proof["design"] == ("lease" if "lease" in flags else "acknowledge")
    command.prove.main(one, standalone_mode=False)
    scope = "groups=1,siblings=1,attempts=2,snapshots=0,failures=1,lost_replies=1"
    assert capsys.readouterr().out.splitlines()[1].strip() == scope + (", design lease" if "lease" in flags else "")


def test_an_interruption_keeps_what_is_known():
    def interrupt(*, states, transitions, depth, recoveries):
        if states > 300:
            raise KeyboardInterrupt

    proof = prove(policies.named("prompt_group"), Scope(), watch=interrupt)
    assert proof.stopped == "interrupted"
    assert proof.decided()["recoverable"] == "violated"
    assert proof.decided()["reopens"] == "unknown"
