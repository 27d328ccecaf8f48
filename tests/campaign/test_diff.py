"""Two campaigns compared by cause, and when nothing can be said."""

import pytest
from attrs import evolve

from protocol.policy import Policy
from protocol.scope import Scope
from state_machines.campaign.diff import compare
from state_machines.campaign.plan import Plan
from state_machines.campaign.store import Kept, Summary

PLAN = Plan("night", (Policy(),), (Scope(),), examples=1)


def kept(cause: str, length: int = 5, policy: str = "sibling") -> Kept:
    return Kept(policy, "model", "recoverable", cause, length, "{}", 1)


def campaign(*findings: Kept, **changes) -> Summary:
    looked_at = frozenset({("sibling", "model"), ("prompt_group", "model")})
    return evolve(Summary(PLAN, 2, 2, 1, 1, 1, 1.0, 0, findings, (), looked_at), **changes)


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
    "changes", [{"done": 1}, {"unknown": 1}, {"looked_at": frozenset({("prompt_group", "model")})}]
)
def test_a_cause_is_gone_only_when_it_was_looked_for_to_the_end(changes):
    assert words(campaign(kept("a")), campaign(**changes)) == {"a": "not looked for"}
