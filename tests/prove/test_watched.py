"""What is learned under one policy is used for another only where both agree on everything that was read."""

import pytest

from protocol.policy import named, parse
from protocol.scope import Scope
from state_machines.prove import Explorer, prove
from state_machines.watched import Kin, watched

ONE = Scope(groups=1, siblings=2, attempts=1, lost_replies=0)
POLICIES = ("prompt_group", "prompt_group_ack_on_arrival", "prompt_group_repaired", "sibling")


def test_policies_that_learn_together_have_the_verdicts_that_each_has_alone():
    kin = Kin()
    alone = [prove(named(name), ONE) for name in POLICIES]
    together = [prove(watched(named(name), kin), ONE) for name in POLICIES]
    for a, b in zip(alone, together, strict=True):
        assert {x.verdict: x.length for x in a.findings} == {x.verdict: x.length for x in b.findings}
        assert (a.states, a.transitions) == (b.states, b.transitions)
    assert sum(x.real_steps for x in together) < 0.8 * sum(x.real_steps for x in alone)


def test_a_lesson_is_learned_once_for_all_that_agree_on_what_it_read():
    learned, lessons = [], []
    for name in ("prompt_group", "prompt_group_repaired", "sibling", "prompt_group_reconciled"):
        policy = watched(named(name))
        policy.once(lessons, lambda policy=policy: learned.append(policy.granularity))
        assert policy.reads == {"granularity"}
    assert [x.value for x in learned] == ["prompt_group", "sibling"]


@pytest.mark.parametrize("text", ["prompt_group", "prompt_group_reconciled", "sibling,drain=reschedule"])
def test_a_lesson_names_every_axis_that_was_read_for_it(text):
    """What is asked of one system for several siblings is asked anew for each lesson, with all that it reads."""
    policy = watched(parse(text))
    explorer = Explorer(policy, ONE)
    explorer.run()
    tables = explorer.successors
    assert len(tables._lessons) > 20
    for (code, at, unit), lessons in tables._lessons.items():
        again = []
        policy.reads.clear()
        tables._asked = None
        policy.once(again, lambda code=code, at=at, unit=unit: tables._really(code, at, unit))
        assert [fixed for fixed, _ in again] == [fixed for fixed, _ in lessons]
