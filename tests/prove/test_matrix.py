"""The matrix: one exploration decides every policy that agrees on the axes it read, and each column is a partition."""

import contextlib
import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner

from protocol.policy import AXES, NAMED, Guard, Late, Policy, named
from protocol.scope import Scope, ScopeError
from state_machines import matrix as m
from state_machines import matrix_run as run
from state_machines.commands import matrix as command
from state_machines.prove import prove
from state_machines.repairs import asked, repairs
from state_machines.report.html.matrix import read

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
PROMPT_GROUP = {"granularity": "prompt_group", "reconcile": "never"}


def found(policy: Policy, faults: str) -> list[object]:
    return [(x.verdict, x.length) for x in prove(policy, m.column(faults)).findings]


def invoke(*arguments: str):
    return CliRunner().invoke(command.matrix, arguments, standalone_mode=False)


@pytest.fixture(scope="module")
def small() -> m.Matrix:
    """Two columns, all combinations, in this process."""
    cells = [x for faults in ("none", "drain_deaths") for part in run.parts() for x in m.cover(faults, part)]
    return m.Matrix(m.BASE, ("none", "drain_deaths"), tuple(cells))


@pytest.mark.parametrize("faults", ["none", "drain_deaths"])
def test_policies_that_agree_on_the_axes_that_were_read_have_the_same_findings(small, faults):
    look = small.of(faults)
    for policy in itertools.islice(m.combinations(PROMPT_GROUP), 0, None, 97):
        assert found(policy, faults) == [(x.verdict, x.length) for x in look(policy).findings]


def test_an_error_at_a_late_result_is_decided_like_a_late_result_ignored():
    for name in ("sibling", "prompt_group", "prompt_group_ack_on_arrival"):
        policy = named(name)
        assert found(evolve(policy, late=Late.RAISE), "failures") == found(policy, "failures")


def test_the_guard_means_nothing_in_sibling_mode():
    guarded = evolve(named("sibling"), guard=Guard.REFUSE_PROMPT_GROUP)
    for faults in ("failures", "lost_resumes"):
        assert found(guarded, faults) == found(named("sibling"), faults)


def test_the_cells_of_a_column_are_about_every_combination(small):
    for faults in small.columns:
        cells = [x for x in small.cells if x.faults == faults]
        for policy in m.combinations(PROMPT_GROUP):
            assert len({x.words for x in cells if x.covers(m.canonical(policy))}) == 1
        assert sum(small.count(faults).values()) == 4608
        assert small.count(faults)["unknown"] == 0


def test_the_tree_of_a_column_says_what_is_found_for_every_combination(small):
    rows = small.rows("drain_deaths")
    assert sum(n for _, _, n in rows) == 4608
    look = small.of("drain_deaths")
    for axes, words, n in rows:
        policies = list(m.combinations(dict(x.split("=") for x in axes.split(", "))))
        assert {look(policy).words for policy in policies} == {words}
        assert len(policies) <= n  # and those that are decided like them


def test_a_smallest_repair_is_clean_and_none_of_its_changes_can_go(small):
    look = small.of("drain_deaths")
    (repair,) = repairs("prompt_group", "drain_deaths", look)
    assert dict(repair.changes) == {"acknowledge": "on_arrival", "drain": "reschedule"}
    assert look(named("prompt_group").with_axes(dict(repair.changes))).verdict == "clean"
    for change, finding in repair.dropped:
        left = {n: v for n, v in repair.changes if f"{n}={v}" != change}
        proof = prove(named("prompt_group").with_axes(left), m.column("drain_deaths"))
        assert proof.shortest(finding.verdict) == finding.length
    assert repairs("prompt_group", "drain_deaths", asked("drain_deaths"), most=2) == (repair,)


def test_a_matrix_survives_its_file(small):
    again = run.loads(run.dumps(small))
    assert again == small


def test_the_page_reads_the_json_of_the_matrix(small):
    table = read(run.as_object(small))
    assert table.columns == ("none", "drain_deaths")
    assert dict(table.rows)["prompt_group"][0].text == "blocked: partial_group"


def test_workers_decide_what_one_process_decides_and_a_second_run_decides_nothing(small, tmp_path):
    told: list[tuple[int, int, int]] = []
    file = tmp_path / "matrix.json"
    first = run.explore(("none",), jobs=2, file=file)
    assert set(first.cells) == {x for x in small.cells if x.faults == "none"}
    before = file.read_bytes()
    again = run.explore(("none",), jobs=1, file=file, progress=lambda *n: told.append(n))
    assert again == first
    assert file.read_bytes() == before
    assert {n for _, _, n in told} == {len(first.cells)}


@pytest.mark.parametrize(
    ("text", "why"),
    [("{", "is not the file"), ('{"combinations": 1}', "is not the file"), (None, "other code or in another scope")],
)
def test_a_file_that_cannot_be_continued_is_one_sentence(small, tmp_path, text, why):
    file = tmp_path / "matrix.json"
    file.write_text(text or run.dumps(evolve(small, base=Scope(groups=1))))
    done = invoke("--faults", "none", "--save", str(file))
    assert why in str(done.exception)


def test_the_table_of_a_terminal_is_at_most_80_columns_wide(small, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    command.show(command.out(), small, command.every_repair(small), every=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "none: 4,032 clean, 576 blocked" in lines
    assert ["prompt_group", "blocked:", "partial_group", "(5)"] in [line.split() for line in lines]
    assert not any(line.rstrip().endswith(("…", "...")) for line in lines)


def test_a_column_that_was_not_begun_is_not_shown_and_named_in_one_line(small, capsys):
    more = evolve(small, columns=(*small.columns, "failures"), stopped="interrupted")
    command.show(command.out(), more, [], every=True)
    assert "failures" not in capsys.readouterr().out
    assert command.missing(more, command.NAMES, every=True) == ("failures",)


def test_the_quick_columns_are_decided_first():
    work = [(faults, part) for faults in ("failures", "none", "refusals") for part in run.parts()]
    assert [faults for faults, _ in sorted(work, key=run._weight)][-4:] == ["failures"] * 4


def test_a_policy_of_ones_own_has_its_repairs():
    data = json.loads(invoke("prompt_group,late=acknowledge", "--faults", "none", "--repairs", "--json").output)
    assert {x["policy"] for x in data["matrix"]} == {"prompt_group,late=acknowledge"}
    assert [x["changes"] for x in data["repairs"]] == [{"acknowledge": "on_arrival"}]


def test_what_each_policy_needs_is_one_row(small):
    rows = command.curable(small.columns, command.every_repair(small))
    assert [row[0] for row in rows] == list(NAMED)
    assert rows[list(NAMED).index("prompt_group_ack_on_arrival")][1:] == ["none", "drain_deaths", "-"]


def test_csv_has_a_line_for_each_exploration():
    done = invoke("--named", "--faults", "none", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.output)))
    assert done.return_value == 0
    assert len(rows) == len({tuple(x[name] for name in AXES) for x in rows})
    (blocked,) = [x for x in rows if x["verdict"] == "blocked"]
    assert (blocked["granularity"], blocked["acknowledge"], blocked["late"]) == ("prompt_group", "at_seal", "")
    assert blocked["findings"] == "blocked: partial_group (5)"


def test_json_has_the_named_policies_every_exploration_and_the_repairs():
    data = json.loads(invoke("--named", "--faults", "drain_deaths", "--repairs", "--json").output)
    assert [x["policy"] for x in data["matrix"]][:2] == ["sibling", "prompt_group"]
    needed = {x["policy"]: x["changes"].get("drain") for x in data["repairs"]}
    assert needed == {name: None if name == "prompt_group_refused" else "reschedule" for name in NAMED}
    history = data["histories"][data["combinations"][0]["findings"][0]]
    assert history["cause"] == "drain_died"


def test_markdown_has_a_row_for_each_column():
    done = invoke("--named", "--faults", "none", "--faults", "refusals", "--markdown")
    lines = done.output.splitlines()
    assert lines[0].startswith("| faults | sibling | prompt_group |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| none", "| refusals"]


def test_a_cell_that_was_not_exhausted_is_unknown_and_exit_3():
    done = invoke("--named", "--faults", "none", "--max-states", "20", "--csv")
    assert done.return_value == 3
    assert "unknown" in done.output


@pytest.mark.parametrize("words", [["--csv", "--json"], ["--named", "--save", "x"], ["--faults", "tea"]])
def test_bad_usage_is_one_sentence(words):
    assert invoke(*words).exception is not None


def started(*arguments: str) -> "subprocess.Popen[str]":
    """A matrix of which some parts are quick and one takes minutes, in a group of its own, as a shell starts it."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "state_machines",
            "matrix",
            "--faults",
            "lost_resumes",
            "--faults",
            "lost_replies",
            *arguments,
        ],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def workers(group: int) -> list[Path]:
    """Return the processes of a group that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, owner = stat.read_text().rpartition(")")[2].split()[:3]
            found += [stat] if int(owner) == group and state != "Z" else []
    return found


def gone(group: int, within: float = 10.0) -> bool:
    end = time.monotonic() + within
    while workers(group) and time.monotonic() < end:
        time.sleep(0.05)
    return not workers(group)


def wait_for(what, within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not what() and time.monotonic() < end:
        time.sleep(0.05)


@needs_proc
def test_ctrl_c_shows_what_is_known_leaves_no_worker_and_is_exit_3(tmp_path):
    file = tmp_path / "matrix.json"
    process = started("--jobs", "2", "--save", str(file), "--csv")
    wait_for(file.exists)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: every process of the group
    output, told = process.communicate(timeout=30)
    assert process.returncode == 3
    assert told.strip().startswith("interrupted; unknown: ")
    assert "Traceback" not in told
    assert output.startswith("faults,granularity,")
    assert gone(process.pid)


@needs_proc
def test_ctrl_c_at_the_start_has_no_traceback():
    process = started("--jobs", "2", "--csv")
    wait_for(lambda: len(workers(process.pid)) >= 3)  # workers are starting
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "Traceback" not in told
    assert gone(process.pid)


@needs_proc
def test_workers_end_with_a_parent_that_was_killed():
    process = started("--jobs", "2")
    wait_for(lambda: len(workers(process.pid)) >= 4)
    time.sleep(0.5)
    process.kill()
    process.communicate(timeout=30)
    assert gone(process.pid)


@pytest.mark.skipif("STRANDED_SLOW" not in os.environ, reason="explores every combination: STRANDED_SLOW=1")
def test_every_combination_is_decided():
    found = run.explore(m.DEFAULT)
    assert not found.missing


def test_a_kind_of_fault_twice_in_a_column_is_refused():
    with pytest.raises(ScopeError, match="failures twice"):
        m.column("failures+failures")
