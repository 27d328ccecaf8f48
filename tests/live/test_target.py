"""The same histories on the model and on a Gym at the other end of a socket."""

import threading

import pytest
from live_histories import EVERY_FAULT, part, random_history

from protocol import gym as g
from protocol.events import Admit, Deliver, Finish, Flush, LoseReply, LoseRequest, Prepare, Snapshot
from protocol.identity import Attempt, model_receipt
from protocol.policy import NAMED, named, parse
from protocol.scope import Scope
from protocol.system import IllegalEvent, initial, step
from protocol.wire import Call
from state_machines.catalogue import ENTRIES
from state_machines.replay import possible
from state_machines.targets import Divergence, ModelTarget, Observation, check, follow, observation_of
from state_machines.targets.calls import Loss, calls_of, recording, spoil
from state_machines.targets.http import HttpTarget

A = Attempt("p0_g0", 0)
OTHERS = (
    "sibling,lost_reply=same_attempt",
    "prompt_group,give_up=retire",
    "prompt_group,give_up=retire,retire=release,restart=adopt",
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_known_hazard_looks_the_same_on_both_targets(entry, target):
    """A hazard that a rule holds off happens as far as the rule lets it."""
    events = possible(entry.policy, entry.scope, entry.events)
    for either in (ModelTarget(), target):
        assert follow(either, entry.policy, entry.scope, events) is None


@pytest.mark.parametrize("policy", [*NAMED, *OTHERS])
def test_random_histories_do_not_diverge(policy, target):
    """200 for each policy with STRANDED_LIVE=all: half in the default scope, half with every fault there is."""
    policy = parse(policy)
    for seed in range(part(200, 4)):
        scope = EVERY_FAULT if seed % 2 else Scope()
        found = follow(target, policy, scope, random_history(policy, scope, seed))
        assert found is None, "\n".join([f"seed {seed}: {found}", *found.lines()])


def test_the_calls_of_an_event_are_those_that_the_model_makes():
    policy, scope = named("prompt_group"), Scope()
    system = initial(policy, scope)
    begun = calls_of(system, Admit(0))
    assert [str(call.arguments[0]) for call in begun] == ["p0_g0/0", "p0_g1/0", "p0_g2/0"]
    assert {(call.operation, call.answer) for call in begun} == {("begin", "open")}
    system = step(step(system, Admit(0)), Finish(A))
    assert [call.subject for call in calls_of(system, Deliver(A))] == ["completion_receipt p0_g0/0"]


def test_a_request_that_is_lost_is_the_call_of_its_event_cut():
    scope = Scope(groups=1, lost_prepares=1)
    system = step(initial(named("sibling"), scope), Snapshot())
    (cut,) = calls_of(system, LoseRequest(Call.PREPARE))
    (whole,) = calls_of(system, Prepare())
    assert (cut.operation, cut.arguments) == (whole.operation, whole.arguments)
    assert (cut.loss, cut.answer) == (Loss.REQUEST, "not sent")


def test_each_acknowledgement_is_preceded_by_one_that_must_be_refused():
    system = initial(named("sibling"), Scope())
    for event in (Admit(0), Finish(A), Deliver(A)):
        system = step(system, event)
    probe, real = calls_of(system, Flush())
    assert probe.probe
    assert probe.arguments == ((spoil(model_receipt(A)),),)
    assert (probe.answer, real.answer) == ("409 completed_execution_acknowledgement_error", "200")


def test_recording_leaves_the_model_as_it_was_and_hears_no_other_thread():
    before = g.begin
    with recording() as calls:
        other = threading.Thread(target=lambda: g.begin(g.Gym(), A))
        other.start()
        other.join()
        g.begin(g.Gym(), A)
    assert g.begin is before
    assert len(calls) == 1
    with pytest.raises(IllegalEvent), recording():
        step(initial(named("sibling"), Scope()), Finish(A))
    assert g.begin is before


def test_a_lost_reply_is_an_answer_that_came_and_was_thrown_away(target):
    policy, scope = named("sibling"), Scope()
    lost = (Admit(0), Finish(A), LoseReply(Call.RUN, A))
    assert follow(target, policy, scope, lost) is None
    seen = target.observe()
    assert seen.answers == ("p0_g0/0 lost",)
    assert seen.unacknowledged_attempts == ("p0_g0/0",)


def test_a_target_shows_nothing_of_the_history_before(target):
    policy, scope = named("prompt_group"), Scope()
    assert follow(target, policy, scope, (Admit(0), Finish(A), Snapshot(), Prepare())) is None
    target.reset(policy, scope)
    seen = target.observe()
    assert seen == observation_of(initial(policy, scope))


def test_a_history_on_a_target_ends_with_its_first_difference(target, monkeypatch):
    real = HttpTarget._observation
    monkeypatch.setattr(
        HttpTarget, "_observation", lambda self, *a: Observation(*[*vars_of(real(self, *a))[:-1], ("p9_g9/0@1",)])
    )
    policy, scope = named("sibling"), Scope()
    target.reset(policy, scope)
    system = initial(policy, scope)
    found = []
    for number, event in enumerate((Admit(0), Finish(A), Deliver(A)), 1):
        after = step(system, event)
        found.append(check(target, number, event, system, after))
        system = after
    assert isinstance(found[0], Divergence)
    assert found[1:] == [None, None]


def vars_of(observation):
    return [getattr(observation, name) for name in Observation.__slots__ if name != "__weakref__"]


def test_both_observations_of_a_divergence_are_shown_side_by_side():
    model = observation_of(initial(named("sibling"), Scope()))
    other = Observation(*[*vars_of(model)[:5], "preparing", *vars_of(model)[6:]])
    found = Divergence(3, Prepare(), model, other)
    assert str(found) == "diverged after event 3 (prepare): state is preparing, the model has accepting"
    assert (found.verdict.word, found.verdict.cause) == ("diverged", "state")
    marked = [line for line in found.lines() if line.startswith("!")]
    assert [line.split() for line in marked] == [["!", "state", "accepting", "preparing"]]
