"""Fairness is decided exactly: ends and lassos are found, what a fair scheduler leaves is none, and it is bounded."""

import pytest

from protocol import policy as policies
from protocol import properties as p
from protocol.scope import Fault
from protocol.system import enabled, step
from state_machines import fairness
from state_machines.fairness import Fairness, check, within
from state_machines.hunt import hunt
from state_machines.replay import replay_trace
from state_machines.report.listing import unfair as unfair_way
from state_machines.search import Decider
from state_machines.search import fairness_of as decide
from state_machines.trace import Trace
from state_machines.verdict import Judge, Verdict
from tests.protocol.histories import event, graph, play, start


def toy(edges: dict[str, dict[str, str]], goal: str = "goal") -> Fairness[str, str]:
    return Fairness(lambda state: edges.get(state, {}).items(), lambda state: state == goal)


def test_an_end_that_is_not_the_goal_is_a_lasso_without_a_loop():
    model = toy({"a": {"x": "b", "y": "goal"}})
    lasso = model.lasso("a")
    assert (lasso.prefix, lasso.loop, lasso.state) == (("x",), (), "b")
    assert check(lasso, "a", model)
    assert model.bound("a") is None


def test_an_event_that_stays_possible_is_taken():
    """Asked again for ever, but the deadline stays possible all along: a fair scheduler lets it pass."""
    model = toy({"ask": {"refuse": "wait", "deadline": "goal"}, "wait": {"again": "ask", "deadline": "goal"}})
    assert model.lasso("ask") is None
    assert model.bound("ask") == 1


def test_an_event_that_is_possible_only_now_and_then_may_be_missed_for_ever():
    model = toy({"ask": {"refuse": "wait", "deadline": "goal"}, "wait": {"again": "ask"}})
    lasso = model.lasso("wait")
    assert (lasso.prefix, lasso.loop) == ((), ("again", "refuse"))
    assert check(lasso, "wait", model)


def test_an_event_taken_inside_the_loop_is_not_starved():
    model = toy({"a": {"x": "b"}, "b": {"x": "a"}, "c": {"x": "c", "out": "goal"}})
    assert model.lasso("a").loop == ("x", "x")
    assert model.lasso("c") is None  # `out` stays possible and always leaves


def test_a_loop_visits_whatever_keeps_it_fair():
    model = toy({"a": {"x": "a", "far": "b"}, "b": {"back": "a"}, "z": {"in": "a"}})
    lasso = model.lasso("z")
    assert lasso.prefix == ("in",)
    assert set(lasso.loop) == {"x", "far", "back"} - ({"x"} if "x" not in lasso.loop else set())
    assert check(lasso, "z", model)


def test_the_bound_is_the_longest_way_that_makes_progress():
    model = toy({"a": {"x": "b", "y": "goal"}, "b": {"x": "c"}, "c": {"x": "goal"}})
    assert [model.bound(state) for state in ("a", "b", "c", "goal")] == [3, 2, 1, 0]


def test_reaching_the_goal_and_leaving_it_is_reaching_it():
    assert toy({"a": {"x": "goal"}, "goal": {"x": "goal"}}).holds("a")


def test_a_refused_flush_repeated_for_ever_is_an_unfair_loop():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | restart_gym"
    system = play(start("sibling", "gym_restarts=1,snapshots=0"), history)
    assert Judge().state(play(system, "deliver p0_g1/0 | finish p0_g1/1 ")) is not None  # stranded, too, later
    decision = fairness.of_system()
    lasso = decision.lasso(system)
    assert [str(event) for event in lasso.loop] == ["flush"]
    assert p.unsettled_by(lasso.state) is p.Cause.UNPAYABLE_DEBT
    assert check(lasso, system, decision)


def test_ready_stays_possible_and_never_happens():
    """The snapshot can be ready in time, so AG EF holds; but its deadline is fair, and then the result is late."""
    system = play(start("prompt_group", "failures=1"), "admit 0 | snapshot | fail p0_g0/0")
    judge = Judge(fair=True)
    assert Judge().state(system) is None
    assert str(judge.state(system)) == "unfair: late_result"
    lasso = judge.fairness.lasso(system)
    assert lasso.loop == ()
    assert check(lasso, system, fairness.of_system())


def test_three_failed_snapshots_end_the_run_and_leave_groups_unfinished():
    history = "admit 0 | snapshot | deadline | snapshot | deadline | snapshot | deadline | fail p0_g0/0"
    system = play(start("sibling", "siblings=1,snapshots=4,failures=1"), history)
    lasso = fairness.of_system().lasso(system)
    assert lasso.loop == ()
    assert p.unsettled_by(lasso.state) is p.Cause.RUN_ENDED


REPAIRED = "prompt_group_repaired,restart=adopt,drain=reschedule,resume_retry=at_once"
QUICK = [f for f in Fault if f not in (Fault.LOST_REQUEST, Fault.TRAINER_RESTART, Fault.GYM_RESTART)]


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.value)
def test_the_completed_repair_is_never_unfair(fault):
    system = start(REPAIRED, f"siblings=1,{fault.value}=1")
    report = decide(system.policy, system.scope)
    assert {str(u.verdict) for u in report.unfair} == set()
    assert 0 < report.bound <= within(system.scope)


@pytest.mark.parametrize("policy", ["sibling", "prompt_group_repaired"])
@pytest.mark.parametrize(("groups", "siblings", "snapshots"), [(1, 1, 0), (1, 3, 0), (1, 1, 1), (1, 2, 1), (2, 1, 1)])
def test_without_faults_the_bound_is_linear_in_the_scope(policy, groups, siblings, snapshots):
    system = start(policy, f"groups={groups},siblings={siblings},snapshots={snapshots}")
    report = decide(system.policy, system.scope)
    each = 4 * siblings + 1 if snapshots else 3 * siblings + 1
    assert report.bound == groups * each + 6 * snapshots
    assert not report.unfair


def test_every_unfair_history_is_one():
    for policy, scope in [("prompt_group", "failures=1"), ("sibling", "siblings=1,gym_restarts=1")]:
        system = start(policy, scope)
        report = decide(system.policy, system.scope)
        assert report.unfair
        decision = fairness.of_system()
        for unfair in report.unfair:
            after = play(system, " | ".join(map(str, unfair.events)))
            assert check(unfair.lasso, after, decision)
            assert unfair.verdict.word == "unfair"


def test_a_state_that_can_never_be_ready_is_never_settled_either():
    """Fair is stronger: whatever is stranded or closed is unfair as well."""
    decision, judge = fairness.of_system(), Judge()
    for system in {after for _, _, after in graph(start("prompt_group", "failures=1,lost_resumes=1"))}:
        verdict = judge.state(system)
        if verdict is not None and verdict.word in ("stranded", "closed"):
            assert not decision.holds(system)


def test_policies_named_here_exist():
    assert policies.parse(REPAIRED).restart.value == "adopt"


AGREE = [
    ("prompt_group", "failures=1"),
    ("sibling", "attempts=1,lost_requests=1"),
    ("sibling,drain=reschedule", "siblings=1,groups=2,gym_restarts=1"),
    ("sibling", "siblings=1,snapshots=4,failures=1"),
]


@pytest.mark.parametrize(("policy", "scope"), AGREE)
def test_tables_decide_fairness_as_the_search_over_real_systems_does(policy, scope):
    """The same verdict, cause included, and every lasso is one: weak fairness tells events apart that codes do not."""
    decider, judge = Decider(), Judge(fair=True)
    system = start(policy, scope)
    seen, queue, unfair = {system}, [system], 0
    for at in queue:
        assert judge.state(at) == decider.state(at)
        assert judge.fairness.holds(at) == decider.fairness.holds(at)
        if not unfair % 9 and not decider.fairness.holds(at):
            assert check(judge.fairness.lasso(at), at, decider.fairness)
        unfair += not decider.fairness.holds(at)
        for happens in enabled(at):
            after = step(at, happens)
            if after not in seen and len(seen) < 200:
                seen.add(after)
                queue.append(after)
    assert unfair


def test_a_settled_moment_with_a_request_on_the_wire_is_not_the_end():
    """The group was dropped, so everything is settled; then the request arrives, runs, and is late."""
    model = toy({"a": {"drop": "goal"}, "goal": {"arrive": "late"}})
    assert model.lasso("goal").prefix == ("arrive",)
    assert not model.holds("a")


def test_a_hunt_finds_the_unfair_histories_beside_all_others():
    scope = start("prompt_group", "failures=1").scope
    result = hunt(policies.named("prompt_group"), scope, seed=3, examples=100, fair=True, certify=False)
    found = {str(f.verdict): len(f.events) for f in result.findings}
    assert found.pop("unfair: late_result") == 3
    assert set(found) == {"stranded: abandoned_result", "stranded: late_result", "blocked: partial_group"}


def test_an_unfair_trace_replays_with_its_lasso():
    system = start("prompt_group", "failures=1")
    events = tuple(event(text) for text in ("admit 0", "snapshot", "fail p0_g0/0"))
    trace = Trace(system.policy, system.scope, events, Verdict("fair", "late_result"))
    run = replay_trace(trace)
    assert run.verdict == trace.verdict
    assert unfair_way(run).startswith("A fair run: after ")
