"""Two campaigns compared by cause, and when nothing can be said."""

import pytest
from attrs import evolve

from protocol.policy import Policy
from protocol.scope import Scope
from state_machines.campaign.cells import Cell, FoundHere
from state_machines.campaign.diff import compare
from state_machines.campaign.plan import Plan
from state_machines.campaign.store import Kept, Summary

PLAN = Plan("night", (Policy(),), (Scope(),), examples=10)


def kept(cause: str, length: int = 5, policy: str = "sibling") -> Kept:
    return Kept(policy, "model", "recoverable", cause, length, "{}", 1)


def campaign(*findings: Kept, policies=("sibling", "prompt_group"), scope="default", mode="hunt", **changes) -> Summary:
    cells = tuple(
        Cell(mode, policy, scope, "model", 1, 1, found=tuple(here(kept) for kept in findings if kept.policy == policy))
        for policy in policies
    )
    return evolve(Summary(PLAN, 2, 2, 1, 1, 1, 1.0, 0, findings, (), cells), **changes)


def here(kept: Kept) -> FoundHere:
    return FoundHere(kept.property, kept.cause, kept.length, 1)


def words(old: Summary, new: Summary) -> dict[str, str]:
    return {change.kept.cause: change.what for change in compare(old, new)}


def test_causes_are_new_gone_shorter_or_known():
    old = campaign(kept("a"), kept("b"), kept("c"), kept("d", 3))
    new = campaign(kept("b", 4), kept("c"), kept("d", 9), kept("e"))
    assert words(old, new) == {"e": "new", "a": "gone", "b": "shorter", "c": "known", "d": "known"}


def test_new_ones_come_first():
    changes = compare(campaign(kept("a")), campaign(kept("a"), kept("z")))
    assert [change.what for change in changes] == ["new", "known"]


def test_the_same_cause_of_another_policy_is_another_cause():
    changes = compare(campaign(kept("a")), campaign(kept("a"), kept("a", policy="prompt_group")))
    assert [(change.what, change.kept.policy) for change in changes] == [("new", "prompt_group"), ("known", "sibling")]


@pytest.mark.parametrize(
    "changes",
    [
        {"done": 1},
        {"unknown": 1},
        {"policies": ("prompt_group",)},
        {"scope": "failures=0"},
        {"mode": "prove"},
        {"plan": evolve(PLAN, examples=9)},
        {"plan": evolve(PLAN, examples=None, seconds=1e6)},
    ],
)
def test_a_cause_is_gone_only_when_it_was_looked_for_to_the_end(changes):
    old = campaign(kept("a"))
    assert words(old, campaign(**changes)) == {"a": "not looked for"}
    assert words(old, campaign(plan=evolve(PLAN, examples=5, seeds=(0, 1)))) == {"a": "gone"}


def test_a_cause_that_the_old_campaign_did_not_look_for_is_told_from_a_new_one():
    assert words(campaign(scope="failures=0"), campaign(kept("a"))) == {"a": "newly looked for"}
    assert words(campaign(), campaign(kept("a"))) == {"a": "new"}
