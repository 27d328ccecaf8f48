"""Exports are what other tools read, and say the same as the model."""

import json

from click.testing import CliRunner

from protocol import policy as policies
from protocol import scope as scopes
from state_machines.commands.export import export
from state_machines.explore import explore_system
from state_machines.export import VARIABLES, dot, itf
from state_machines.prove import prove
from state_machines.replay import replay

SMALL = scopes.parse("groups=1,siblings=2,snapshots=0")


def test_the_dot_graph_has_every_state_and_marks_the_stranded_ones():
    found = explore_system(policies.named("prompt_group"), SMALL)
    text = dot(found)
    assert text.count("shape=doublecircle") + text.count("shape=circle, style") == len(found.graph.states)
    assert 'fillcolor="red"' in text
    assert 'fillcolor="red"' not in dot(explore_system(policies.named("sibling_repaired"), SMALL))


def test_an_itf_trace_has_a_state_more_than_events_and_every_variable_in_each():
    policy = policies.named("prompt_group")
    finding = prove(policy, SMALL).findings[0]
    trace = json.loads(json.dumps(itf(replay(policy, SMALL, finding.events))))
    assert trace["vars"] == list(VARIABLES)
    assert len(trace["states"]) == finding.length + 1
    assert all(set(state) == {*VARIABLES, "#meta"} for state in trace["states"])
    assert [state["event"] for state in trace["states"][1:]] == [str(event) for event in finding.events]


def test_a_graph_that_is_too_large_is_one_sentence():
    result = CliRunner().invoke(export, ["dot", "--max-states", "50"])
    assert result.exit_code == 1  # the command line's main makes it 2
    assert "more than 50 states" in result.output
