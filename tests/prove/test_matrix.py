"""The matrix: one exploration decides every policy that agrees on the axes it read, and docs/matrix.md is not stale."""

import itertools
import os
from pathlib import Path

import pytest
from attrs import evolve

from protocol.policy import Guard, Late, Policy, named
from state_machines import matrix as m
from state_machines.commands.matrix import as_object, cured, named_only
from state_machines.prove import prove
from state_machines.repairs import repairs
from state_machines.report.html.matrix import read

DOCUMENT = (Path(__file__).parents[2] / "docs" / "matrix.md").read_text("utf-8")
QUICK = ("none", "lost_resumes", "drain_deaths", "refusals", "lost_acknowledges")


def found(policy: Policy, faults: str) -> list[object]:
    return [(x.verdict, x.length) for x in prove(policy, m.column(faults)).findings]


@pytest.mark.parametrize("faults", ["none", "drain_deaths"])
def test_policies_that_agree_on_the_axes_that_were_read_have_the_same_findings(faults):
    cells = m.cover(faults, {"granularity": "prompt_group", "reconcile": "never"})
    policies = list(m.combinations({"granularity": "prompt_group", "reconcile": "never"}))
    for policy in itertools.islice(policies, 0, None, 97):
        cell = next(x for x in cells if x.covers(m.canonical(policy)))
        assert found(policy, faults) == [(x.verdict, x.length) for x in cell.findings]


def test_an_error_at_a_late_result_is_decided_like_a_late_result_ignored():
    for name in ("sibling", "prompt_group", "prompt_group_ack_on_arrival"):
        policy = named(name)
        assert found(evolve(policy, late=Late.RAISE), "failures") == found(policy, "failures")


def test_the_guard_means_nothing_in_sibling_mode():
    guarded = evolve(named("sibling"), guard=Guard.REFUSE_PROMPT_GROUP)
    for faults in ("failures", "lost_resumes"):
        assert found(guarded, faults) == found(named("sibling"), faults)


def test_the_page_reads_the_json_of_the_matrix():
    table = read(as_object(named_only(("none", "refusals")), []))
    assert table.columns == ("none", "refusals")
    assert dict(table.rows)["prompt_group"][0].text == "blocked: partial_group"


def test_the_document_has_the_cells_and_repairs_as_they_are_now():
    for base in ("sibling", "prompt_group"):
        for faults in QUICK:
            for row in cured(list(repairs(base, faults, most=2))):
                assert f"| {' | '.join(row)} |\n" in DOCUMENT
    for cell in named_only(QUICK).cells:
        assert (", ".join(cell.words) or cell.verdict) in DOCUMENT


@pytest.mark.skipif("STRANDED_SLOW" not in os.environ, reason="explores every combination: STRANDED_SLOW=1")
def test_every_combination_is_decided():
    found = m.explore(m.DEFAULT)
    assert found.decided
    assert all(sum(found.count(faults).values()) == 4608 for faults in found.columns)
