"""The lease design is decided by the same properties: nothing is stranded, what leaks is counted, as the docs say."""

from pathlib import Path

import pytest

from protocol import gym as g
from protocol import policy as policies
from protocol import system as rules
from protocol.events import Deadline, Resume
from protocol.identity import Attempt
from state_machines.cli import main
from state_machines.designs import POLICIES, decided, design, leaks, scope_of
from state_machines.mutants import small
from state_machines.witness import expected, witnesses
from tests.protocol.histories import play, start

TABLE = (Path(__file__).parents[2] / "docs" / "lease.md").read_text(encoding="utf-8").splitlines()
HUNT = (
    "stranded hunt prompt_group --design lease --groups 1 --siblings 1 --failures 0 --lost-replies 0 --lost-resumes 1 "
    "--seed 1"
)
SMALL = "stranded hunt prompt_group --design lease --groups 1 --siblings 2 --failures 0 --seed 1 --examples 100 --brief"
A, A1, B = Attempt("p0_g0", 0), Attempt("p0_g0", 1), Attempt("p0_g1", 0)


@pytest.mark.parametrize("fault", ["lost_receipts=1", "lost_resumes=1", "null_results=1", "trainer_restarts=1"])
def test_the_table_says_what_is_decided(fault):
    cells = [
        "<br>".join(decided(name, policies.parse(policy), scope_of(fault))) or "clean"
        for name, spelled in POLICIES.items()
        for policy in spelled
    ]
    assert f"| {fault or 'none'} | {' | '.join(cells)} |" in TABLE


@pytest.mark.parametrize("policy", ["sibling", "prompt_group"])
@pytest.mark.parametrize("fault", ["failures=1", "lost_replies=1"])
def test_nothing_is_stranded_without_acknowledgements(policy, fault):
    verdicts = decided("lease", policies.parse(policy), small(f"{fault},snapshots=0"))
    assert verdicts == ()


@pytest.mark.parametrize(
    ("policy", "lost", "length"),
    [
        ("prompt_group", 0, 3),
        ("prompt_group,give_up=retire", 0, None),
        ("prompt_group,give_up=retire", 1, 4),
        ("sibling", 0, 3),
        ("sibling,give_up=retire", 0, 5),
    ],
)
def test_what_nobody_frees_leaks(policy, lost, length):
    scope = small(f"failures=1,attempts=1,snapshots=0,lost_retires={lost}")
    assert leaks(policies.parse(policy), scope) == length


def test_a_finished_run_blocks_no_checkpoint():
    with design("lease"):
        system = play(
            start("prompt_group"), "admit 0 | finish p0_g0/0 | snapshot | prepare | boundary p0_g1/0 | answer"
        )
        assert play(system, "commit | publish | resume").snapshot.published == (0,)


def test_retire_frees_a_finished_run_and_refuses_every_earlier_attempt():
    with design("lease"):
        gym = g.finish(g.begin(g.begin(g.Gym(), A).gym, A1).gym, A, None).gym
        after = g.retire(gym, "r", A1)
        assert after.reply == g.Reply(200)
        assert [(answer.attempt, answer.status) for answer in after.answers] == [
            (A1, 0)
        ]  # A was answered when it finished
        assert after.gym.executions == ()
        assert after.gym.tombstones == (A, A1)


def test_a_finalized_group_is_freed_and_forgotten():
    history = "admit 0 | finish p0_g0/0 | deliver p0_g0/0 | finish p0_g1/0 | deliver p0_g1/0"
    with design("lease"):
        kept = play(start("prompt_group"), history)
        assert [attempt for attempt, _ in kept.gym.executions] == [A, B]
        assert kept.trainer.outbox == ()
        assert play(kept, "finalize 0").gym == g.Gym()
        during = play(kept, "snapshot | prepare | finalize 0")
        assert during.gym.executions
        assert play(during, "answer | commit | publish | resume").gym.executions == ()


def test_the_lease_opens_a_gym_that_its_trainer_has_forgotten():
    with design("lease"):
        system = play(start("sibling", "trainer_restarts=1"), "snapshot | prepare | restart_trainer")
        assert not system.gym.open
        assert play(system, "resume").gym.open


def test_the_lease_does_not_open_a_trainer_that_waits():
    with design("lease"):
        system = play(
            start("sibling", "lost_resumes=1"), "snapshot | prepare | deadline | lose_request resume | resume"
        )
        assert system.gym.open
        assert system.snapshot.stuck


def test_the_other_design_comes_back():
    before = (g.retire, rules.RULES[Resume])
    with design("lease"):
        assert (g.retire, rules.RULES[Resume]) != before
    assert (g.retire, rules.RULES[Resume]) == before


def test_the_same_machine_hunts_the_lease_design(capsys):
    """And finds what the table says, in its row of lost resumes."""
    with pytest.raises(SystemExit) as ended:
        main(HUNT.split()[1:])
    assert ended.value.code == 1
    output = capsys.readouterr().out
    assert HUNT in "\n".join(TABLE)
    assert "closed: rollback_lost  (prompt_group, 4 events, the shortest there is)" in output
    assert "closed: resume_lost  (prompt_group, 6 events, the shortest there is)" in output
    assert "2 findings" in output
    assert "vacuous" not in output


def test_a_hunt_of_the_lease_design_that_finds_nothing_has_seen_what_the_design_can_show(capsys):
    """A prepare that misses its deadline, in the place of a 409, which un-ACKed results no longer cause."""
    with pytest.raises(SystemExit) as ended:
        main(SMALL.split()[1:])
    assert (ended.value.code, "vacuous" in capsys.readouterr().out) == (0, False)
    scope = small()
    assert expected(policies.parse("sibling"), scope) - expected(policies.parse("sibling"), scope, "lease") == {"409"}
    with design("lease"):
        before = play(start("sibling"), "admit 0 | snapshot | prepare")
        assert "missed deadline" in witnesses(before, Deadline(), play(before, "deadline"))
