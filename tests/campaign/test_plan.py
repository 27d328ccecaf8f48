"""Plans: what a TOML file asks for, the shards it makes, and one sentence for everything that is wrong with one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.policy import NAMED
from protocol.scope import Scope
from state_machines.campaign import plan as plans
from state_machines.campaign.shard import from_json

FULL = """
name = "night"
policies = ["sibling", "prompt_group,acknowledge=on_arrival"]
scopes = ["groups=1", "groups=2,siblings=2"]
faults = ["", "lost_replies=2"]
targets = ["model", "http://127.0.0.1:8000"]
seeds = [1, 2, 3]
modes = ["hunt", "prove"]

[budget]
examples = 1000
shard_examples = 300
"""


def load(tmp_path: Path, text: str) -> plans.Plan:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return plans.load(path)


def test_a_plan_is_the_product_of_its_lists_and_each_cell_is_cut_into_shards(tmp_path):
    plan = load(tmp_path, FULL)
    shards = plan.shards()
    assert len(shards) == plan.size() == 2 * 2 * 2 * 2 * 3 * 4 + 2 * 2 * 2
    hunts = [shard for shard in shards if shard.mode == "hunt"]
    assert sum(shard.examples for shard in hunts) == 1000 * 2 * 2 * 2 * 2 * 3
    assert sorted({shard.examples for shard in hunts}) == [100, 300]
    assert {shard.scope.lost_replies for shard in hunts} == {1, 2}
    assert [shard.number for shard in shards] == list(range(len(shards)))


def test_every_shard_has_its_own_seed_and_key(tmp_path):
    shards = load(tmp_path, FULL).shards()
    hunts = [shard for shard in shards if shard.mode == "hunt"]
    assert len({shard.seed for shard in hunts}) == len(hunts)
    assert len({shard.key for shard in shards}) == len(shards)


def test_all_cells_are_looked_at_before_any_gets_its_second_shard(tmp_path):
    hunts = [shard for shard in load(tmp_path, FULL).shards() if shard.mode == "hunt"]
    first = {(shard.policy, shard.scope, shard.target) for shard in hunts[: len(hunts) // 4]}
    assert len(first) == 2 * 4 * 2


def test_a_budget_in_seconds_is_cut_into_shards_of_equal_time(tmp_path):
    plan = load(tmp_path, 'policies = ["sibling"]\n[budget]\nseconds = 100\nshard_seconds = 30\n')
    assert [shard.seconds for shard in plan.shards()] == [25.0] * 4


def test_the_same_plan_makes_the_same_shards_in_every_process(tmp_path):
    keys = [shard.key for shard in load(tmp_path, FULL).shards()]
    program = (
        "import sys; from pathlib import Path; from state_machines.campaign import plan;"
        "print(*[shard.key for shard in plan.load(Path(sys.argv[1])).shards()])"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "plan.toml")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split() == keys


def test_plans_and_shards_survive_their_json(tmp_path):
    plan = load(tmp_path, FULL)
    assert plans.from_json(plan.to_json()) == plan
    assert all(from_json(shard.to_json()) == shard for shard in plan.shards())


def test_equal_cells_are_run_once(tmp_path):
    text = 'policies = ["sibling", "sibling"]\nfaults = ["", "failures=1"]\n[budget]\nexamples = 10\n'
    assert len(load(tmp_path, text).shards()) == 1


def test_random_seeds_are_drawn_once_and_make_the_same_plan(tmp_path):
    plan = load(tmp_path, 'policies = ["sibling"]\nseeds = { random = 3 }\n[budget]\nexamples = 10\n')
    first, second = plan.drawn(), plan.drawn()
    assert len(first.seeds) == len(first.shards()) == 3
    assert first.seeds != second.seeds
    assert first.same_as(plan)
    assert first.drawn() is first


def test_a_plan_of_proofs_needs_no_budget(tmp_path):
    shards = load(tmp_path, f'policies = {json.dumps(list(NAMED))}\nmodes = ["prove"]\n').shards()
    assert [shard.mode for shard in shards] == ["prove"] * len(NAMED)
    assert shards[0].scope == Scope()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("policies = [", "not TOML: Invalid value (at "),
        ("", "policies: missing"),
        ('policies = "sibling"', "policies: not a list of one or more strings"),
        ('policies = ["nobody"]', "policies: no policy is called 'nobody'"),
        ('policies = ["no.such.module:policy"]', "policies: no.such.module:policy cannot be loaded"),
        ('policies = ["sibling"]', "budget: missing"),
        ('policies = ["sibling"]\nbudgets = 1', "budgets: unknown; the keys are name, policies"),
        ('policies = ["sibling"]\nscopes = ["groups=99"]', "scopes: groups is 99"),
        ('policies = ["sibling"]\nfaults = ["floods=1"]', "faults: no bound is called 'floods'"),
        ("seeds = [" + "9" * 5000 + "]", "not TOML: Exceeds the limit"),
        ('policies = ["sibling"]\nname = "\\u001b[2J"', "name: not a string of printable characters"),
        ('policies = ["sibling"]\ntargets = ["http://u:s3cret@127.0.0.1/"]', "targets: an address with a user name"),
        ('policies = ["sibling"]\ntargets = ["gym"]', "targets: 'gym' is neither model, http (a reference Gym) nor"),
        ('policies = ["sibling"]\nseeds = [-1]', "seeds: -1 is not a whole number"),
        ('policies = ["sibling"]\nseeds = [true]', "seeds: True is not a whole number"),
        ('policies = ["sibling"]\nseeds = { random = 0 }', "seeds.random: 0 is not a number of seeds"),
        ('policies = ["sibling"]\nseeds = { fixed = 1 }', "seeds.fixed: unknown"),
        ('policies = ["sibling"]\nmodes = ["guess"]', "modes: 'guess' is neither hunt nor prove"),
        ('policies = ["sibling"]\n[budget]\nexamples = 1\nseconds = 1', "budget: give examples or seconds"),
        ('policies = ["sibling"]\n[budget]\nexamples = 0', "budget.examples: 0 is not a whole number above 0"),
        (
            'policies = ["sibling"]\n[budget]\nexamples = 0x' + "f" * 6000,
            "budget.examples: a number of thousands of digits is not a whole number above 0 and below 10^12",
        ),
        (
            'policies = ["sibling"]\nseeds = [' + "9" * 4000 + "]",
            "seeds: " + "9" * 37 + "... is not",
        ),
        ('policies = ["sibling"]\n[budget]\nexamples = 1.5', "budget.examples: 1.5 is not a whole number"),
        ('policies = ["sibling"]\n[budget]\nseconds = nan', "budget.seconds: nan is not a number of seconds"),
        (
            'policies = ["sibling"]\n[budget]\nseconds = 9\nshard_examples = 9',
            "budget.shard_examples: there is no budget in",
        ),
        ('policies = ["sibling"]\n[budget]\nexamples = 9\nlimit = 9', "budget.limit: unknown; the keys are budget."),
        (
            'policies = ["sibling"]\n[budget]\nexamples = 9_000_000\nshard_examples = 1',
            "budget: 9,000,000 shards; a campaign has at most 1,000,000",
        ),
        (
            'policies = ["sibling"]\n[budget]\nseconds = 1.0\nshard_seconds = 1e-320',
            "budget: far too many shards; a campaign has at most 1,000,000",
        ),
    ],
)
def test_a_plan_error_is_one_sentence_with_the_file_and_the_key(tmp_path, text, sentence):
    with pytest.raises(plans.PlanError) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'plan.toml'}: {sentence}")
    assert "\n" not in str(error.value)


def test_a_missing_plan_and_one_that_is_not_text_are_one_sentence(tmp_path):
    with pytest.raises(plans.PlanError, match=r"plan\.toml: cannot be read: No such file"):
        plans.load(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(plans.PlanError, match=r"plan\.toml: not a text in UTF-8"):
        plans.load(tmp_path / "plan.toml")
