"""The CI files in `docs/ci.md`: they are YAML, their plans are plans, and every command in them is one."""

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from state_machines.campaign import plan as plans
from state_machines.commands.group import stranded
from state_machines.database import open_database

TEXT = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
CAMPAIGNS = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text()
INSTALL = 'pip install "stranded @ $STRANDED"'


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
        elif line != INSTALL:
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


def ci_files() -> list[dict]:
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (extra stranded[test])")
    return [yaml.safe_load(block) for block in blocks("yaml")]


def test_the_pull_request_asks_for_the_very_cache_that_the_night_saves():
    github, gitlab = ci_files()
    caches = [
        (step["uses"], step["with"]["path"].split(), step["with"].get("restore-keys", step["with"]["key"]))
        for job in github["jobs"].values()
        for step in job["steps"]
        if "cache" in step.get("uses", "")
    ]
    assert len(caches) == 3
    assert [uses for uses, _, _ in caches].count("actions/cache/save@v4") == 1
    assert {tuple(paths) for _, paths, _ in caches} == {("failures", "last.sqlite")}
    assert all(key.startswith("stranded-failures-") for _, _, key in caches)
    pull, night = gitlab["pull-request"]["cache"], gitlab["night"]["cache"]
    assert {(cache["key"], *cache["paths"], cache["unprotect"]) for cache in (pull, night)} == {
        ("stranded-night", "failures", "last.sqlite", True)
    }


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
@pytest.mark.parametrize("before", [False, True])
def test_a_night_keeps_its_store_after_findings_and_unknowns_and_not_after_errors(tmp_path, code, before):
    github, gitlab = ci_files()
    for name, lines in (
        ("github", [step["run"] for step in github["jobs"]["night"]["steps"][3:] if "run" in step]),
        ("gitlab", gitlab["night"]["script"]),
    ):
        directory = tmp_path / name
        directory.mkdir()
        if before:
            (directory / "last.sqlite").write_text("before")
        campaign, diff = f"echo now > new.sqlite; return {code}", 'cat "$2" "$3" > diff'
        fake = f"stranded() {{ case $1 in campaign) {campaign} ;; *) {diff} ;; esac; }}"
        script = "\n".join(["set -e", fake, *lines])
        run = subprocess.run(["/bin/sh", "-c", script], cwd=directory, check=False)
        kept = code in (0, 1, 3)
        assert (run.returncode == 0) is kept
        compared = directory / "diff"
        assert (compared.read_text() if compared.exists() else None) == (
            ("beforenow\n" if before else "now\nnow\n") if kept else None
        )
        assert not kept or (directory / "last.sqlite").read_text() == "now\n"


def test_the_ci_files_install_it_from_where_it_is():
    github, gitlab = ci_files()
    installs = [line for line in scripts() + gitlab["default"]["before_script"] if "pip install" in line]
    assert installs == [INSTALL] * 3
    assert github["env"]["STRANDED"] == gitlab["variables"]["STRANDED"]
    assert github["env"]["STRANDED"].startswith("git+https://")


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
