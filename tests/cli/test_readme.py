"""What README.md and docs/trace-format.md say is so."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from protocol.policy import NAMED
from protocol.properties import Property
from state_machines.cli import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_has_two_commands_that_do_all_the_set_up():
    blocks = re.findall(r"<!-- run: (\w+) -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert [name for name, _ in blocks] == ["main", "test"]
    assert README.count("```sh\n") == 2
    for name, block in blocks:
        command = [sys.executable, ROOT / ".ci" / "readme-command", name]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == block
        assert "venv" in block
        assert "pip install" in block


def test_outputs_and_tables_of_the_readme_and_the_trace_format_are_those_of_the_code():
    run = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_finding_of_the_readme_replays_and_breaks_nothing_under_sibling(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    for arguments, code in (((), 0), (("--policy", "sibling"), 4)):
        with pytest.raises(SystemExit) as ended:
            main(["replay", "docs/pictures/abandoned.json", *arguments])
        assert ended.value.code == code
    assert "clean: the whole history happens and nothing breaks" in " ".join(capsys.readouterr().out.split())


def test_tox_has_an_environment_for_each_named_policy_and_interpreter():
    text = (ROOT / "tox.ini").read_text("utf-8")
    listed = re.search(r"py\{([\d,]+)\}-\{([\w,]+)\}", text)
    assert listed is not None
    assert listed[2].split(",") == list(NAMED)
    assert listed[1].split(",") == ["311", "312", "313", "314"]
    assert all(f"{name}: STRANDED_POLICY = {name}" in text for name in NAMED)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], project["license"]) == ("stranded", "Apache-2.0")


def test_every_property_is_an_invariant_of_the_machine():
    from state_machines.machine import LIVENESS, SAFETY

    assert {*LIVENESS, *SAFETY, Property.FAIR} == set(Property)
