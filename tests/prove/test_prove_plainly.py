"""`prove --fair` and `prove --design`: the search over real systems, as a proof."""

import json

from click.testing import CliRunner

from protocol import policy as policies
from protocol import scope as scopes
from state_machines import prove_plainly as plainly
from state_machines.commands.prove import prove as command
from state_machines.prove import Bounds, prove
from state_machines.prove_plainly import prove_plainly

SMALL = scopes.parse("groups=1,siblings=2")


def proved(*arguments):
    result = CliRunner().invoke(command, [*arguments], standalone_mode=False)
    return result.return_value, result.output


def test_fairness_is_one_property_more_and_changes_no_other():
    policy = policies.named("prompt_group")
    plain, tables = prove_plainly(policy, SMALL, Bounds()), prove(policy, SMALL)
    lengths = {x.verdict: x.length for x in plain.findings}
    assert {str(x): lengths.pop(x) for x in list(lengths) if not x.ends} == {"unfair: late_result": 3}
    assert lengths == {x.verdict: x.length for x in tables.findings}
    assert plain.decided() == {**tables.decided(), "fair": "violated"}
    assert plain.exhaustive
    assert plain.depth < plain.states <= plain.transitions + 1


def test_an_unfair_history_is_printed_with_its_lasso():
    code, text = proved("prompt_group", "--groups", "1", "--siblings", "2", "--fair")
    assert code == 1
    assert "fair                 violated" in text
    assert "unfair: late_result, shortest history: 3 events" in text
    assert "A fair run: after deadline, " in text


def test_the_lease_design_is_proved_clean_where_acknowledgements_strand():
    arguments = ("prompt_group", "--groups", "1", "--siblings", "2", "--lost-replies", "0", "--json")
    code, text = proved(*arguments, "--design", "lease", "--fair")
    assert (code, json.loads(text)["proofs"][0]["findings"]) == (0, [])
    assert json.loads(text)["proofs"][0]["properties"]["fair"] == "holds"
    assert proved(*arguments)[0] == 1


def test_a_bound_or_an_interruption_leaves_unknown_what_was_not_found(monkeypatch):
    policy = policies.named("sibling_repaired")
    bounded = prove_plainly(policy, SMALL, Bounds(max_states=100))
    assert set(bounded.decided().values()) == {"unknown"}
    assert "100" in (bounded.stopped or "")

    def interrupt(*, states, transitions, depth):
        if states > 100:
            raise KeyboardInterrupt

    stopped = prove_plainly(policy, SMALL, Bounds(), watch=interrupt)
    assert (stopped.stopped, stopped.exhaustive) == ("interrupted", False)
    monkeypatch.setattr(plainly, "memory", lambda peak=False: 2 << 20)
    assert "MiB" in (prove_plainly(policy, SMALL, Bounds(max_memory=1)).stopped or "")


def test_no_number_of_recoveries_where_nobody_counts_them():
    text = proved("prompt_group_refused", "--groups", "1", "--siblings", "1", "--snapshots", "0", "--fair")[1]
    assert "1 state, " in text
    assert "recoveries" not in text


def test_raw_states_are_counted_of_the_acknowledging_design_only():
    result = CliRunner().invoke(command, ["--design", "lease", "--raw"], standalone_mode=False)
    assert "--raw" in str(result.exception)


def test_a_decision_about_one_state_is_watched_too():
    """In the default scope the first states lead to thousands of systems each: no bound waits for their decision."""
    seen = []

    def watch(*, states, transitions, depth):
        seen.append(states)
        if len(seen) == 5:
            raise KeyboardInterrupt

    proof = prove_plainly(policies.named("prompt_group"), scopes.parse("groups=2,siblings=3"), Bounds(), watch=watch)
    assert (proof.stopped, len(seen)) == ("interrupted", 5)
    assert proof.states == seen[-1] < 200
