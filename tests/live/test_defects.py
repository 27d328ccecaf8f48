"""Every seeded defect of the reference Gym is found by the hunt, as *diverged*.

The default run hunts on three; STRANDED_LIVE=all on each.
"""

from contextlib import closing

import pytest
from live_histories import ALL, part

from protocol.events import Event
from protocol.policy import parse
from protocol.scope import Scope
from protocol.scope import parse as parse_scope
from state_machines.gym_server.defects import DEFECTS
from state_machines.gym_server.service import OPERATIONS
from state_machines.hunt import hunt
from state_machines.targets import follow
from state_machines.targets.http import HttpTarget
from state_machines.targets.process import ReferenceGym

HUNTED = list(DEFECTS) if ALL else ["half_batch", "digest_unchecked", "open_after_prepare"]


def test_there_are_at_least_ten_defects_and_each_changes_an_operation():
    assert len(DEFECTS) >= 10
    for defect in DEFECTS.values():
        changed = {name for name, operation in defect.seeded().items() if operation is not OPERATIONS[name]}
        assert changed == set(defect.operations)


@pytest.mark.parametrize("name", HUNTED)
def test_the_hunt_finds_the_defect_as_diverged(name):
    defect = DEFECTS[name]
    policy, scope = parse(defect.policy), parse_scope(defect.scope)
    gym = ReferenceGym(name)
    with closing(HttpTarget(gym.url, gym.token, owned=gym)) as target:
        result = hunt(policy, scope, seed=3, examples=part(60, 20), target=target, certify=False)
        found = [f for f in result.findings if f.verdict.property == "diverged"]
        assert found, f"nothing in {result.examples} histories"
        shortest = min(found, key=lambda f: len(f.events))
        assert all(isinstance(event, Event) for event in shortest.events)
        assert shortest.diverged is not None
        again = follow(target, policy, scope, shortest.events)
        assert again is not None
        assert again.verdict == shortest.verdict
        assert again.at == len(shortest.events)


def test_a_gym_without_a_defect_has_nothing_to_find(target):
    result = hunt(parse("sibling_repaired"), Scope(groups=1, siblings=2), seed=3, examples=20, target=target)
    assert [f.verdict for f in result.findings if f.verdict.property == "diverged"] == []
