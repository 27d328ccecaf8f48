"""One row for each policy, scope, target and mode, and what it says."""

from types import SimpleNamespace

import pytest

from state_machines.campaign import plan as plans
from state_machines.campaign.cells import cells, spell_scope
from state_machines.campaign.shard import Found, Outcome
from state_machines.campaign.store import create
from state_machines.campaign.work import run

PLAN = plans._plan(
    {
        "policies": ["sibling"],
        "scopes": ["", "groups=1"],
        "modes": ["hunt", "prove"],
        "budget": {"examples": 2, "shard_examples": 1, "states": 7},
    },
    "night",
)


def rows(path, outcome=lambda shard: Outcome(shard.key, 1, 10)) -> dict[tuple[str, str], str]:
    with create(path, PLAN) as store:
        for shard in PLAN.shards():
            store.put(shard, outcome(shard))
        return {(cell.scope, cell.mode): "; ".join(cell.lines()) for cell in store.cells()}


def test_a_clean_proof_is_told_from_a_hunt_that_found_nothing(tmp_path):
    assert rows(tmp_path / "s") == {
        ("default", "hunt"): "nothing found",
        ("default", "prove"): "proved clean",
        ("groups=1", "hunt"): "nothing found",
        ("groups=1", "prove"): "proved clean",
    }


def test_a_row_says_what_was_found_in_its_own_scope_and_what_is_unknown(tmp_path):
    def outcome(shard):
        proof = shard.mode == "prove" and shard.scope.groups == 1
        found = (Found("recoverable", "lost_reply", 4 + shard.number % 3, "{}"),) if shard.scope.groups == 2 else ()
        return Outcome(shard.key, 1, 7, unknown=proof, findings=found, reason="7 states are the bound" * proof)

    out = rows(tmp_path / "s", outcome)
    shortest = min(4 + s.number % 3 for s in PLAN.shards() if s.mode == "hunt" and s.scope.groups == 2)
    assert out["default", "hunt"] == f"stranded: lost_reply ({shortest} events, 2 shards)"
    assert out["groups=1", "hunt"] == "nothing found"
    assert out["groups=1", "prove"] == "unknown: the proof was cut short: 7 states are the bound"


def test_a_cell_that_is_not_done_is_never_called_clean(tmp_path):
    with create(tmp_path / "s", PLAN) as store:
        assert {cell.result for cell in store.cells()} == {"not finished"}
        store.put(PLAN.shards()[0], Outcome(PLAN.shards()[0].key, 1, 10))
        assert [cell.result for cell in store.cells()].count("proved clean") == 1


@pytest.mark.parametrize("seeds", [[3, 4], {"random": 3}])
def test_the_cells_have_all_shards_of_the_plan_and_no_others(seeds):
    data = {"policies": ["sibling", "prompt_group"], "seeds": seeds, "faults": ["", "failures=0"]}
    plan = plans._plan(data | {"targets": ["model", "http"], "budget": {"seconds": 100}}, "night").drawn()
    assert sum(cell.shards for cell in cells(plan, (), {})) == len(plan.shards()) == plan.size()
    assert spell_scope(plan.scopes[1]) == "failures=0"


@pytest.mark.parametrize("mode", ["hunt", "prove"])
def test_a_shard_that_was_interrupted_is_not_done(monkeypatch, mode):
    does = {"hunt": "hunt", "prove": "prove_anyhow"}[mode]
    monkeypatch.setattr(f"state_machines.campaign.work.{does}", lambda *_, **__: SimpleNamespace(stopped="interrupted"))
    shard = next(shard for shard in PLAN.shards() if shard.mode == mode)
    with pytest.raises(KeyboardInterrupt):
        run(shard.to_json(), "none")
