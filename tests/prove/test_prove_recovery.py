"""The probe: exact for every state it is asked about, or unknown; never a guess."""

import random

import numpy as np
import pytest
from naive import FAULTS

from protocol import policy as policies
from protocol import scope as scopes
from protocol.events import (
    Admit,
    Answer,
    Boundary,
    Commit,
    Deliver,
    Fail,
    Finish,
    Prepare,
    Publish,
    RestartTrainer,
    Resume,
    Snapshot,
)
from protocol.identity import Attempt
from protocol.policy import NAMED
from protocol.state import initial
from protocol.system import enabled, step
from state_machines import closures
from state_machines.closures import READY, Closures
from state_machines.recovery import GOALS, Recovery, SystemRecovery, Unknown
from state_machines.successors import SYSTEM_ONLY

EVERYTHING = scopes.parse(
    "groups=1,siblings=2,snapshots=2,"
    + ",".join(f"{name}=1" for name in [*FAULTS, "trainer_restarts", "gym_restarts", "restarts"])
)


@pytest.mark.parametrize("name", NAMED)
def test_the_probe_agrees_with_the_closure_of_real_steps(name):
    policy, rnd, probe = policies.named(name), random.Random(name), SystemRecovery()
    plain = {
        goal: Recovery(
            lambda s, allowed=allowed: [e for e in enabled(s, SYSTEM_ONLY) if allowed(e)], step, reached, limit=None
        )
        for goal, (reached, allowed) in GOALS.items()
    }
    for _ in range(8):
        system = initial(policy, EVERYTHING)
        for _ in range(40):
            for goal in GOALS:
                assert probe.can(system, goal) == plain[goal].reaches(system)
            events = enabled(system)
            if not events:
                break
            system = step(system, rnd.choice(events))


@pytest.mark.slow
def test_two_groups_rest_as_if_each_were_alone():
    policy, rnd, probe = policies.named("prompt_group_ack_on_arrival"), random.Random(5), SystemRecovery()
    reached, allowed = GOALS["ready"]
    plain = Recovery(lambda s: [e for e in enabled(s, SYSTEM_ONLY) if allowed(e)], step, reached, limit=None)
    for _ in range(8):
        system = initial(policy, scopes.parse("groups=2,siblings=2,snapshots=1,failures=2,lost_replies=1"))
        for _ in range(14):
            assert probe.can(system, "ready") == plain.reaches(system)
            system = step(system, rnd.choice(enabled(system)))


def test_a_result_that_the_ledger_has_forgotten_and_will_ask_for_again_is_not_lost(monkeypatch):
    """The ledger falls back to attempt 0 and sends 1, which Gym refuses; then it sends 2, whose result Gym retains."""
    policy = policies.named("sibling")
    scope = scopes.parse("groups=1,siblings=1,attempts=3,failures=2,lost_replies=0,trainer_restarts=1")
    first, second, third = (Attempt("p0_g0", index) for index in range(3))
    taken = [Admit(0), Snapshot(), Prepare(), Boundary(first), Answer(), Commit(), Publish(), Resume()]
    lost = [Fail(first), Deliver(first), Fail(second), Deliver(second), Finish(third), RestartTrainer()]
    system = initial(policy, scope)
    for event in [*taken, *lost]:
        system = step(system, event)
    assert SystemRecovery().continuation(system, "ready") is not None
    monkeypatch.setattr(closures, "FEW", -100)  # ask at once which states are hopeless
    recoveries = Closures(policy, scope)
    code = recoveries.successors.encode(system)
    assert recoveries.of(np.array([code], np.int32)) & READY


def test_a_limit_is_unknown_and_leaves_no_verdict_behind():
    endless = Recovery(lambda n: [1], lambda n, e: n + e, lambda n: n < 0, limit=100)
    with pytest.raises(Unknown):
        endless.reaches(0)
    assert endless.verdicts == {}


def test_states_left_behind_are_decided_exactly():
    """0 goes to a trap first, then to the goal by a way that leads back to what was left behind."""
    edges = {0: [1, 3], 1: [2], 2: [1], 3: [4, 9], 4: [3], 9: []}
    probe = Recovery(lambda n: edges[n], lambda n, e: e, lambda n: n == 9)
    assert probe.reaches(0)
    assert probe.verdicts == {0: True, 1: False, 2: False, 3: True, 4: True, 9: True}
    assert probe.continuation(0) == [3, 9]
    assert probe.continuation(1) is None


def test_a_continuation_is_a_list_of_system_events_that_reaches_the_goal():
    system = initial(policies.named("prompt_group"), scopes.parse("groups=1"))
    for _ in range(4):
        system = step(system, enabled(system)[0])
    probe = SystemRecovery()
    events = probe.continuation(system, "ready")
    assert events is not None
    for event in events:
        system = step(system, event)
    assert GOALS["ready"][0](system)
