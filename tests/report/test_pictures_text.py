"""The timeline: what a reader must be able to see in it, whatever the history."""

import random
import re

import pytest
from picture_histories import HISTORIES, events, run

from protocol import Scope, enabled, initial, step
from protocol.policy import NAMED
from protocol.scope import parse as parse_scope
from state_machines.replay import Replay, replay
from state_machines.report.onward import extended
from state_machines.report.text import GLYPHS, plain, timeline
from state_machines.report.view import Mark, view
from state_machines.verdict import Judge

WIDE = parse_scope(
    "lost_requests=1,lost_acknowledges=1,lost_receipts=1,lost_prepares=1,lost_commits=1,lost_resumes=1,lost_retires=1,"
    "duplicates=1,refusals=1,disconnects=1,null_results=1,commit_failures=1,trainer_restarts=1,gym_restarts=1,"
    "restarts=1,snapshots=2"
)


def wander(policy, scope: Scope, length: int, seed: int) -> Replay:
    """A random history, without its verdict: only the picture is looked at."""
    source = random.Random(seed)
    states, done = [initial(policy, scope)], []
    while len(done) < length and (possible := enabled(states[-1])):
        done.append(source.choice(possible))
        states.append(step(states[-1], done[-1]))
    return Replay(policy, scope, tuple(done), tuple(states), None, None)


def lane(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(name))


def test_a_failed_sibling_is_shown_beside_the_finished_one_that_it_strands():
    assert timeline(run("stranded")) == (
        "stranded: abandoned_result  (prompt_group, 3 events)\n"
        "\n"
        "         1         2        3\n"
        "RL       admit p0\n"
        "p0_g0/0  run ──────finish ●●●●●●●●●●● ◄ un-ACKed\n"
        "p0_g1/0  run ───────────────fail✗\n"
        "p0_g2/0  run ──────────────────────── ◄ too late\n"
        "Gym                                   ◄ never ready\n"
        "\n"
        "STRANDED: a sibling finished, then its group was given up: nobody owes the ACK\n"
        "of its result.\n"
        "Left un-ACKed: p0_g0/0. In the end, even if all else goes well: p0_g0/0 and\n"
        "p0_g2/0.\n"
        "── running   ●● finished, not ACKed   ✗ failed or lost\n"
    )


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_asked(name, further, width):
    assert max(map(len, timeline(run(name), width=width, further=further).splitlines())) <= width


@pytest.mark.parametrize("policy", NAMED)
def test_any_history_can_be_drawn_in_80_columns(policy):
    for seed in range(6):
        walked = wander(NAMED[policy][0], WIDE, 40, seed)
        text = timeline(walked)
        assert max(map(len, text.splitlines())) <= 80
        for attempt, _ in walked.states[-1].gym.executions:
            assert any(line.strip().startswith((str(attempt), f"/{attempt.index}")) for line in text.splitlines())


def test_six_rollouts_and_25_events_stay_on_one_screen():
    walked = run("long")
    lines = timeline(walked).splitlines()
    assert len(walked.events) == 25
    assert len(lines) <= 45
    assert {f"p{g}_g{s}" for g in (0, 1) for s in (0, 1, 2)} <= {line[:5] for line in lines}


def test_every_state_has_glyphs_of_its_own_also_in_ascii():
    glyphs = [first for first, _, _ in GLYPHS.values()]
    assert len(set(glyphs)) == len(GLYPHS) == len(Mark)
    assert len(set(map(plain, glyphs))) == len(GLYPHS)
    assert plain(timeline(run("long"), further=True)).isascii()


def test_the_four_states_that_matter_are_seen_without_colour():
    text = timeline(run("clean"))
    assert "●" in lane(text, "p0_g0/0")
    assert "ACK ✓" in lane(text, "p0_g0/0")
    assert "─" in lane(text, "p0_g1/0")
    assert "park ═" in lane(text, "p0_g1/0")
    assert "\x1b" not in text


def test_colour_adds_escapes_and_nothing_else():
    coloured = timeline(run("long"), colour=True)
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == timeline(run("long")).splitlines()


@pytest.mark.parametrize(
    ("scope", "text", "row", "word"),
    [
        ("", "admit 0 | finish p0_g0/0 | lose_reply run p0_g0/0", "p0_g0/0", "reply✗"),
        ("lost_requests=1", "admit 0 | lose_request run p0_g0/0", "p0_g0/0", "/run✗"),
        ("lost_receipts=1", "admit 0 | finish p0_g0/0 | lose_reply receipt p0_g0/0", "p0_g0/0", "receipt✗"),
        (
            "lost_acknowledges=1",
            "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | lose_reply acknowledge",
            "RL",
            "ACK✗",
        ),
        ("lost_prepares=1", "snapshot | lose_request prepare", "snapshot", "prepare✗"),
        ("lost_commits=1", "snapshot | prepare | answer | lose_reply commit", "snapshot", "commit✗"),
        ("lost_resumes=1", "snapshot | prepare | deadline | lose_reply resume", "snapshot", "resume✗"),
        ("disconnects=1", "admit 0 | disconnect p0_g0/0", "p0_g0/0", "client✗"),
        ("gym_restarts=1", "admit 0 | restart_gym", "Gym", "restart✗"),
        ("trainer_restarts=1", "admit 0 | restart_trainer", "RL", "restart✗"),
    ],
)
def test_what_the_wire_or_a_process_loses_is_seen_in_its_lane(scope, text, row, word):
    sibling = NAMED["sibling"][0]
    seen = timeline(replay(sibling, parse_scope(scope), events(text)))
    assert word in lane(seen, row)
    assert "failed or lost" in seen


def test_the_legend_explains_what_is_there_and_nothing_else():
    last = timeline(run("stranded")).splitlines()[-1]
    assert "running" in last
    assert "parked" not in last


def test_a_picture_ends_with_the_verdict_and_who_is_left_unacknowledged():
    text = timeline(run("blocked"))
    assert "BLOCKED: Gym waits for an ACK that comes at the seal" in text
    assert "Left un-ACKed: p0_g0/0." in text
    assert "Left un-ACKed: nothing." in timeline(run("clean"))


def test_what_follows_shows_that_a_stranded_gym_is_still_not_ready_when_all_else_has_ended_well():
    longer, own, end = extended(run("stranded"))
    assert own == 3
    assert "completed_unacknowledged=2" in end
    assert [str(a) for a in view(longer, own).left] == ["p0_g0/0", "p0_g2/0"]
    for before, event, after in zip(longer.states[own:], longer.events[own:], longer.states[own + 1 :], strict=False):
        assert event in enabled(before)
        assert step(before, event) == after


@pytest.mark.parametrize("policy", NAMED)
def test_what_follows_ends_and_only_goes_well(policy):
    for seed in range(4):
        longer, own, _ = extended(wander(NAMED[policy][0], WIDE, 15, seed))
        assert len(longer.events) - own < 120
        assert {event.owner.value for event in longer.events[own:]} <= {"system", "environment"}


def test_an_empty_history_is_a_picture_too():
    sibling = NAMED["sibling"][0]
    text = timeline(replay(sibling, Scope(), (), Judge()))
    assert "no event" in text
    assert "Nothing is broken" in text
