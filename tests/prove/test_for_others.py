"""Another protocol, another Hypothesis machine: the trap is seen, and the same machine without us sees nothing."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from state_machines.always import Avoidable, Inevitable, Stranded, Unknown, always_recoverable, eventually
from state_machines.explore import can_reach, explore_model, traps

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples"
sys.path.insert(0, str(EXAMPLE))
import lease_lock as example  # noqa: E402

QUICK = settings(max_examples=200, derandomize=True, database=None, deadline=None, suppress_health_check=HealthCheck)


def line(*ends):
    """A model: numbers go up by one, and end at each of `ends`."""
    return lambda n: [] if n in ends else [1]


def add(n, by):
    return n + by


def test_hypothesis_alone_does_not_see_the_trap():
    run_state_machine_as_test(example.Plain, settings=QUICK)


def test_always_recoverable_sees_the_trap_and_hypothesis_shrinks_it_to_three_steps():
    with pytest.raises(Stranded, match="lock_gets_free: nothing that may follow") as caught:
        run_state_machine_as_test(example.Trapped, settings=QUICK)
    lock = caught.value.state
    assert "waiting" in lock.clients
    assert lock.holder is not None
    assert "\n".join(caught.value.__notes__).count(".happen(") == 3


def test_the_repair_holds_for_both_invariants():
    run_state_machine_as_test(example.Repaired, settings=QUICK)


def test_exploration_finds_the_trap_in_the_same_model_and_none_after_the_repair():
    graph = explore_model(example.Lock(), example.enabled, example.step)
    found = traps(graph, example.free, lambda event: event[0] not in ("lose", "ask", "refuse"))
    assert found
    assert [name for name, _ in graph.path(found[0])] == ["ask", "grant", "lose"]
    repaired = explore_model(example.Lock(), partial(example.enabled, idempotent=True), example.step)
    assert all(can_reach(repaired, example.free))


def test_the_files_of_the_page_work_in_an_empty_folder(tmp_path):
    page = (EXAMPLE.parent / "for-others.md").read_text("utf-8")
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", page, re.DOTALL))
    assert list(files) == ["test_door.py", "trap.py"]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "lease_lock.py").write_text((EXAMPLE / "lease_lock.py").read_text("utf-8"))
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=False)
    door = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_door.py"])
    assert door.returncode == 1
    assert "opens: nothing that may follow leads there from ('locked', False)" in door.stdout
    told = [line.removeprefix("E").strip() for line in door.stdout.splitlines()]
    assert [line for line in told if line in ("open", "shut", "lock", "unlock", "lose")][-2:] == ["lock", "lose"]
    trap = run([sys.executable, "trap.py"])
    assert trap.stdout == "[('ask', 0), ('grant', 0), ('lose', 0)]\n", trap.stderr


def test_something_can_happen_in_every_state_of_the_example():
    graph = explore_model(example.Lock(), example.enabled, example.step)
    assert all(graph.successors(i) for i in range(len(graph.states)))


def test_the_example_is_under_a_hundred_lines():
    lines = (EXAMPLE / "lease_lock.py").read_text().splitlines()
    assert len(lines) < 100


def test_inevitable_finds_an_end_and_a_cycle_and_is_sure_otherwise():
    three = Inevitable(line(5), add, lambda n: n == 3)
    assert three.avoids(0) is None
    assert three.avoids(4) == [1]
    assert three.avoids(5) == []
    assert Inevitable(lambda n: [1], lambda n, by: (n + by) % 4, lambda n: n == 9).avoids(0) == [1] * 4


@pytest.mark.parametrize("idempotent", [False, True])
def test_inevitable_agrees_with_its_definition_in_every_state_of_the_example(idempotent):
    everything = explore_model(example.Lock(), partial(example.enabled, idempotent=idempotent), example.step)
    helps = partial(example.helps, idempotent=idempotent)
    after = {state: [example.step(state, event) for event in helps(state)] for state in everything.states}
    sure = {state for state in after if example.free(state)}
    for _ in after:
        sure |= {state for state, following in after.items() if following and sure.issuperset(following)}
    ask = Inevitable(helps, example.step, example.free)
    assert {state for state in after if ask.avoids(state) is None} == sure


@pytest.mark.parametrize("attach", [always_recoverable, eventually])
def test_a_question_beyond_the_limit_is_unknown_and_never_a_verdict(attach):
    holds = attach(lambda self: self, lambda n: [1], add, lambda n: False, limit=10)
    with pytest.raises(Unknown):
        holds(0)


def test_eventually_says_which_way_avoids_the_goal():
    holds = eventually(lambda self: self, line(2), add, lambda n: n > 5, name="gets_far")
    with pytest.raises(Avoidable, match=r"gets_far: from 0, 1 -> 1 ends") as caught:
        holds(0)
    assert caught.value.way == [1, 1]
