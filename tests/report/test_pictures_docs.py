"""The documents show what the commands print: none of their outputs is stale."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def commands():
    spec = importlib.util.spec_from_file_location("run_commands", DOCS / "run_commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["tutorial.md", "pictures.md"])
def test_what_a_document_shows_is_what_its_commands_print(commands, name):
    text = (DOCS / name).read_text("utf-8")
    new = commands.refreshed(text)
    said = f"stale: python docs/run_commands.py docs/{name}"
    assert commands.comparable(new).splitlines() == commands.comparable(text).splitlines(), said


def test_a_stale_output_is_noticed_and_a_measured_one_is_not(commands):
    shown = "```sh\nstranded policies --json\n```\n\n```json\n{}\n```\n"
    assert '"sibling_repaired"' in commands.refreshed(shown)
    kept = f"<!-- not run -->\n{shown}"
    assert commands.refreshed(kept) == kept
    assert commands.comparable("in 6.1 s (1,804 states)") == commands.comparable("in 12 s (9 states)")
    assert commands.comparable("4 findings") != commands.comparable("3 findings")
