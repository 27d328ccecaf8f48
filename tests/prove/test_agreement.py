"""Exploration and hunts agree: what a hunt finds in the default scope is what is there, no more and no less.

`tests/hunt` shows that the hunt of each named policy finds exactly `expected.EXPECTED` there. Here exploration does.
"""

import json
import os
from pathlib import Path

import pytest

from protocol.policy import NAMED, named
from protocol.scope import Scope
from state_machines.expected import EXPECTED
from state_machines.prove import prove
from state_machines.watched import Kin, watched

DOCS = Path(__file__).parents[2] / "docs"
RECORDED = json.loads((DOCS / "small-scope.json").read_text("utf-8"))["rows"]

QUICK = [row for row in RECORDED if row["ended"] and row["grows"] == "size" and row["states"] <= 400]

SLOW = pytest.mark.skipif("STRANDED_SLOW" not in os.environ, reason="minutes, and gigabytes: STRANDED_SLOW=1")
QUICK_POLICIES = ("prompt_group", "prompt_group_refused")
SECONDS = ("sibling", "prompt_group_ack_on_arrival", "sibling_repaired")


def scope_of(row) -> Scope:
    return Scope(**row["scope"])


def lengths(found) -> dict[str, int]:
    return {finding.verdict.cause: finding.length for finding in found}


@pytest.mark.parametrize("name", ["sibling_repaired", "prompt_group_repaired"])  # smaller ones: test_prove_verdicts.py
def test_in_one_group_of_two_exploration_already_finds_what_hunts_find_in_the_default_scope(name):
    proof = prove(named(name), Scope(groups=1, siblings=2))
    assert proof.exhaustive
    assert {x.verdict: x.length for x in proof.findings} == EXPECTED[name]


@pytest.mark.parametrize("name", NAMED)
def test_every_recorded_size_with_two_siblings_or_more_has_what_hunts_find_in_the_default_scope(name):
    mine = [x for x in RECORDED if x["policy"] == name and x["grows"] == "size" and x["ended"]]
    rows = [x for x in mine if x["scope"]["siblings"] >= 2]
    assert rows
    assert Scope() in map(scope_of, rows)
    for row in rows:
        assert row["causes"] == {verdict.cause: n for verdict, n in EXPECTED[name].items()}, row


def test_the_small_rows_of_the_small_scope_page_are_as_recorded():
    kin = Kin()
    for row in QUICK:
        proof = prove(watched(named(row["policy"]), kin), scope_of(row))
        assert (proof.states, lengths(proof.findings)) == (row["states"], row["causes"]), row


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK_POLICIES else [pytest.mark.slow] if name in SECONDS else [SLOW]


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in NAMED])
def test_in_the_default_scope_exploration_finds_what_hunts_find(name):
    proof = prove(named(name), Scope())
    if "memory" in (proof.stopped or ""):
        pytest.skip(f"{proof.stopped}: this machine has no more")
    assert proof.exhaustive
    assert {x.verdict: x.length for x in proof.findings} == EXPECTED[name]
