"""One history under several policies: the first difference, each snapshot, who is left un-ACKed."""

import json

import pytest
from picture_histories import events, run, trace

from protocol import Scope
from protocol.policy import NAMED, parse
from state_machines.cli import main
from state_machines.report.compare import compare, named_policies, split_policies, text
from state_machines.trace import save

REVIEW = "admit 0 | finish p0_g0/0 | snapshot"  # one finished sibling and a snapshot: the review of NeMo-RL #4265


def of(history, *policies):
    return compare(events(history), Scope(), named_policies(policies))


def test_the_comparison_that_the_review_of_4265_draws_by_hand():
    """Sibling mode sends the ACK and commits; prompt-group mode answers 409 until the deadline."""
    comparison = of(REVIEW, "sibling", "prompt_group")
    sibling, group = comparison.sides
    assert sibling.snapshots == ("snapshot c0 commits and is published",)
    assert group.snapshots == ("snapshot c0 is answered 409 until its deadline, and is given up",)
    assert (sibling.unacked, group.unacked) == ("nothing", "p0_g0/0")
    assert "flush" in [event.name for event in sibling.seen.replay.events]
    assert "flush" not in [event.name for event in group.seen.replay.events]
    assert comparison.first.effects == (
        "deliver p0_g0/0: RL seals p0_g0/0; RL owes the ACK of p0_g0/0",
        "deliver p0_g0/0: RL holds the result of p0_g0/0 in memory until the group is complete",
    )
    assert group.broken.startswith("BLOCKED")
    assert not sibling.broken
    seen = text(comparison).plain
    assert "ACK ✓" in seen.partition("── prompt_group")[0]
    assert "409" in seen.partition("── prompt_group")[2]
    assert seen.count("▼") == 3  # in the sentence, and over the column on each side
    assert max(map(len, seen.splitlines())) <= 80


def test_a_difference_within_the_history_is_marked_at_its_own_event():
    comparison = of("admit 0 | finish p0_g0/0 | deliver p0_g0/0 | snapshot", "sibling", "prompt_group")
    assert comparison.first.label == "3"


def test_an_event_that_a_policy_cannot_do_is_left_out_and_said():
    comparison = of("admit 0 | finish p0_g0/0 | deliver p0_g0/0 | flush | snapshot", "sibling", "prompt_group")
    (left_out,) = comparison.sides[1].left_out
    assert (left_out[0], left_out[2]) == (4, "the outbox is empty")
    assert "Left out: 4 flush" in text(comparison).plain
    assert comparison.sides[1].labels[:4] == ("1", "2", "3", "5")


def test_policies_that_do_the_same_have_no_first_difference():
    comparison = of(REVIEW, "sibling", "sibling_repaired")
    assert comparison.first is None
    assert "Every policy does the same" in text(comparison).plain


def test_every_named_policy_can_be_compared():
    comparison = compare(run("long").events, Scope(), named_policies(NAMED))
    assert [side.name for side in comparison.sides] == list(NAMED)
    guarded = comparison.sides[list(NAMED).index("prompt_group_refused")]
    assert not guarded.replay.events or guarded.replay.events[0].name == "snapshot"


def test_axes_belong_to_the_name_before_them():
    assert split_policies("sibling,prompt_group,late=raise,acknowledge=on_arrival, sibling_repaired") == [
        "sibling",
        "prompt_group,late=raise,acknowledge=on_arrival",
        "sibling_repaired",
    ]
    assert parse(split_policies("late=raise,sibling")[0]).late.value == "raise"


def test_the_command_compares_a_file(tmp_path, capsys):
    path = save(tmp_path / "t.json", trace("stranded"))
    with pytest.raises(SystemExit) as done:
        main(["compare", str(path), "--policies", "prompt_group,prompt_group_reconciled"])
    assert done.value.code == 0
    seen = capsys.readouterr().out
    assert "── prompt_group_reconciled" in seen
    with pytest.raises(SystemExit):
        main(["compare", str(path), "--policies", "prompt_group,sibling", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["policies"][0]["verdict"] == {"property": "recoverable", "cause": "abandoned_result"}
    assert data["policies"][1]["verdict"] is None


@pytest.mark.parametrize("policies", ["sibling", "", "sibling,nonsense", "late=never,sibling"])
def test_a_bad_list_of_policies_is_one_sentence_and_exit_2(policies, tmp_path, capsys):
    path = save(tmp_path / "t.json", trace("stranded"))
    with pytest.raises(SystemExit) as done:
        main(["compare", str(path), "--policies", policies])
    assert done.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
