"""What other tools read: DOT graphs and ITF traces."""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from protocol.policy import named
from protocol.scope import Scope
from protocol.system import enabled, initial, step
from state_machines.cli import main
from state_machines.commands.export import export
from state_machines.explore import TooMany, explore_model
from state_machines.export import VARIABLES, dot, itf
from state_machines.prove import prove
from state_machines.reduce import NONE
from state_machines.replay import replay
from state_machines.trace import Trace, save

ONE = Scope(groups=1, siblings=1)


@pytest.fixture
def trace(tmp_path):
    found = prove(named("sibling"), ONE).findings[0]
    return save(tmp_path / "trace.json", Trace(named("sibling"), ONE, found.events, found.verdict))


def well_formed(value):
    """ADR-015: booleans, texts, lists, records, and objects with one of the special keys; no bare number, no null."""
    if isinstance(value, bool | str):
        return True
    if isinstance(value, list):
        return all(map(well_formed, value))
    if not isinstance(value, dict):
        return False
    special = [key for key in value if key.startswith("#")]
    if not special:
        return all(map(well_formed, value.values()))
    (key,) = value
    inside = value[key]
    if key == "#bigint":
        return re.fullmatch(r"-?\d+", inside) is not None
    if key == "#map":
        return all(len(pair) == 2 and well_formed(pair) for pair in inside)
    return key in ("#set", "#tup") and well_formed(inside)


def test_a_trace_is_well_formed_itf(trace):
    done = CliRunner().invoke(export, [str(trace), "--format", "itf"], standalone_mode=False)
    data = json.loads(done.output)
    assert data["#meta"]["format"] == "ITF"
    assert data["vars"] == list(VARIABLES) == list(data["#meta"]["varTypes"])
    for index, state in enumerate(data["states"]):
        assert state.pop("#meta") == {"index": index}
        assert list(state) == data["vars"]
        assert well_formed(state)
    assert data["states"][0]["event"] == ""
    assert data["states"][-1]["ready"] is False


def test_an_itf_trace_tells_apart_all_neighbours_of_its_history():
    policy = named("prompt_group_repaired")
    system, events = initial(policy, ONE), []
    while following := enabled(system):
        events.append(following[-1])
        system = step(system, following[-1])
    states = itf(replay(policy, ONE, events), "here")["states"]
    bare = [{k: v for k, v in x.items() if k not in ("#meta", "event")} for x in states]
    assert all(a != b for a, b in pairwise(bare))


def test_the_graph_has_a_node_for_every_state_and_an_edge_for_every_transition():
    policy = named("sibling")
    text = dot(policy, ONE, on=NONE)
    graph = explore_model(initial(policy, ONE), enabled, step)
    assert len(re.findall(r"^  s\d+ \[", text, re.MULTILINE)) == len(graph.states)
    assert len(re.findall(r"^  s\d+ -> ", text, re.MULTILINE)) == len(graph.targets)
    assert "lost_reply" in text


def test_the_graph_goes_on_where_prove_stops():
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
    nodes = len(re.findall(r"^  s\d+ \[", dot(named("sibling"), ONE), re.MULTILINE))
    assert f"has {nodes} states, of which prove visits {prove(named('sibling'), ONE).states}." in page


def test_a_graph_of_a_policy_without_traps_has_no_red_state():
    assert "#f4b6b6" not in dot(named("sibling_repaired"), ONE)


@pytest.mark.skipif(not shutil.which("dot"), reason="needs Graphviz")
def test_graphviz_reads_the_graph():
    text = dot(named("sibling"), Scope(groups=1, siblings=1, snapshots=0))
    assert subprocess.run(["dot", "-Tplain"], input=text, text=True, capture_output=True).returncode == 0


def test_a_graph_that_is_too_big_is_one_sentence_and_exit_2(capsys):
    with pytest.raises(TooMany):
        dot(named("sibling"), Scope(), max_states=100)
    with pytest.raises(SystemExit) as exit_:
        main(["export", "--format", "dot", "--max-states", "100"])
    assert exit_.value.code == 2
    assert "more than 100 states" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--format", "itf"], ["x.json", "--format", "dot"], ["x.json", "--format", "itf"]]
)
def test_bad_usage_is_exit_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["export", *arguments])
    assert exit_.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_output_goes_to_a_file(tmp_path):
    file = tmp_path / "graph.dot"
    with pytest.raises(SystemExit) as exit_:
        main(["export", "--format", "dot", "--policy", "sibling", "--groups", "1", "--siblings", "1", "-o", str(file)])
    assert exit_.value.code == 0
    assert file.read_text().startswith("digraph stranded {")
