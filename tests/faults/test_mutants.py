"""Every mutant of the protocol is killed by a finding, and the table of docs/mutants.md says by which."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from protocol import gym as g
from protocol import system as rules
from protocol.safety import unsafe
from protocol.snapshot import SnapshotState
from protocol.state import initial
from state_machines import mutants as m
from state_machines.mutants.__main__ import row
from tests.protocol.histories import play

MUTANTS = m.load()
ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "mutants.md"
SLOW = {"restart-restores-every-record", "restart-reruns-the-sealed", "trainer-late-failure-fails-the-newer"}
BY_SYSTEM = [mutant for mutant in MUTANTS.values() if mutant.policy is not None]
BY_OBSERVATION = [mutant for mutant in MUTANTS.values() if mutant.policy is None]


def test_there_are_mutants_of_both_sides_the_wire_the_snapshot_and_restarts():
    assert len(MUTANTS) >= 40
    assert {mutant.side for mutant in MUTANTS.values()} == set(m.SIDES)


@pytest.mark.parametrize("mutant", BY_SYSTEM, ids=lambda mutant: mutant.name)
def test_a_mutant_is_killed_by_the_finding_of_the_table(mutant):
    finding = m.kill(mutant)
    assert finding is not None
    assert row(mutant, finding) in TABLE.read_text(encoding="utf-8").splitlines()


def test_what_is_unsafe_is_said_in_a_sentence():
    said, lines = set(), TABLE.read_text(encoding="utf-8").splitlines()
    unsafe_first = {line.split("|")[1].strip() for line in lines if "| unsafe: " in line}
    for mutant in [mutant for mutant in BY_SYSTEM if mutant.name in unsafe_first - SLOW]:
        with m.applied(mutant):
            finding = next(m.search(mutant.policy, mutant.scope))
            if finding.verdict.word == "unsafe":
                before = play(initial(mutant.policy, mutant.scope), " | ".join(map(str, finding.events[:-1])))
                said |= {v.why for v in unsafe(before, finding.events[-1], rules.step(before, finding.events[-1]))}
    assert len(said) >= 12
    assert all(isinstance(why, str) and len(why) > 20 and "None" not in why for why in said)


@pytest.fixture(scope="module")
def observations():
    spec = importlib.util.spec_from_file_location("observations_of_gym", ROOT / "tests" / "test_gym_observations.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module.test_the_model_agrees_with_all_ten_thousand_observations_of_the_real_participant
    del sys.modules[spec.name]


@pytest.mark.parametrize("mutant", BY_OBSERVATION, ids=lambda mutant: mutant.name)
def test_a_mutant_that_no_policy_meets_diverges_from_the_real_participant(mutant, observations):
    with m.applied(mutant), pytest.raises(AssertionError, match="sequence"):
        observations()
    assert row(mutant, None) in TABLE.read_text(encoding="utf-8").splitlines()


def test_a_mutant_leaves_nothing_behind():
    before = (g.begin, g.resume, dict(rules.RULES), vars(SnapshotState)["checkpoint_id"])
    for mutant in MUTANTS.values():
        with m.applied(mutant):
            pass
    assert before == (g.begin, g.resume, dict(rules.RULES), vars(SnapshotState)["checkpoint_id"])


def test_the_table_lists_every_mutant_and_no_other():
    rows = [line.split("|")[1].strip() for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    assert [name for name in rows if "-" in name] == [
        x.name for side in m.SIDES for x in MUTANTS.values() if x.side == side
    ]


def test_every_survivor_of_the_mutation_run_is_explained_in_the_document():
    spec = importlib.util.spec_from_file_location("mutation_run", ROOT / "benchmarks" / "mutation.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.table() in TABLE.read_text(encoding="utf-8")
    known = json.loads(module.KNOWN.read_text(encoding="utf-8"))
    assert len(known["survivors"]) < 0.05 * known["run"]
