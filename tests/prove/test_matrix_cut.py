"""What a matrix says when it was cut off: certain where it decided, unknown everywhere else."""

import pytest
from click.testing import CliRunner

from protocol.policy import Policy, named
from state_machines.commands.matrix import matrix as command
from state_machines.matrix import BASE, Matrix, cover, decide

CUT = Matrix(BASE, ("none",), cover("none", {"granularity": "sibling", "acknowledge": "on_arrival"}))


def test_a_column_that_is_half_decided_counts_the_other_half_as_unknown():
    counts, rows = CUT.count("none"), CUT.rows("none")
    assert counts["clean"]
    assert counts["unknown"]
    assert sum(counts.values()) == sum(size for *_, size in rows)
    for words in ("clean", "unknown"):
        assert counts[words] == sum(size for _, found, size in rows if found == words)
    assert CUT.missing == ("none",)


@pytest.mark.parametrize("limit", [20, 100])
def test_what_an_exploration_found_before_its_bound_is_shown_and_the_cell_stays_unknown(limit):
    cell = decide(named("prompt_group"), "failures", limit=limit)
    assert cell.stopped
    assert cell.verdict == "unknown"
    assert cell.words.endswith("unknown")
    assert ("late_result (2)" in cell.words) is bool(cell.findings)


def test_a_cell_with_findings_that_was_cut_off_is_exit_3():
    arguments = ["--named", "--faults", "failures", "--max-states", "100"]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.return_value == 3
    assert "unknown" in result.output


def test_an_exploration_that_ended_is_never_unknown():
    assert decide(Policy(), "none").verdict in ("clean", "blocked")
