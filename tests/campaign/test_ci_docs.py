"""The CI files in `docs/ci.md`: they are YAML, their plans are plans, and every command in them is one."""

import re
import shlex
from pathlib import Path

import click
import pytest

from state_machines.campaign import plan as plans
from state_machines.commands.group import stranded
from state_machines.database import open_database

TEXT = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
CAMPAIGNS = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text()


def blocks(kind: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def scripts() -> list[str]:
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (extra stranded[test])")
    github, gitlab = map(yaml.safe_load, blocks("yaml"))
    lines = [step["run"] for job in github["jobs"].values() for step in job["steps"] if "run" in step]
    return lines + [line for job in ("pull-request", "night") for line in gitlab[job]["script"]]


def commands() -> list[list[str]]:
    found = []
    for line in "\n".join(scripts()).splitlines():
        if line.startswith("stranded "):
            found.append(shlex.split(line.partition("||")[0])[1:])
        else:
            assert "stranded " not in line
    return found


def test_every_stranded_command_in_the_ci_files_parses():
    found = commands()
    assert sorted({command[0] for command in found}) == ["campaign", "diff"]
    for name, *arguments in found:
        command = stranded.get_command(click.Context(stranded), name)
        with command.make_context(name, arguments) as context:
            if name == "campaign":
                open_database(context.params["database"])
                assert f"`{context.params['plan']}`" in TEXT, "its plan is not on the page"


def test_nights_end_with_diff():
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (extra stranded[test])")
    github, gitlab = map(yaml.safe_load, blocks("yaml"))
    assert github["jobs"]["night"]["steps"][-1]["run"].startswith("stranded diff ")
    assert gitlab["night"]["script"][-1].startswith("stranded diff ")


def test_the_plans_are_plans_and_only_nights_are_random(tmp_path):
    found = []
    for text in blocks("toml"):
        (tmp_path / "plan.toml").write_text(text)
        found.append(plans.load(tmp_path / "plan.toml"))
    assert [bool(plan.random_seeds) for plan in found] == [False, True]


def test_the_plan_in_the_campaigns_page_is_one(tmp_path):
    (text,) = blocks("toml", CAMPAIGNS)
    (tmp_path / "plan.toml").write_text(text.replace('"mypackage.policies:mine"', '"prompt_group"'))
    assert plans.load(tmp_path / "plan.toml").size() == 3 * 4 * 4 * 20 + 3 * 4
