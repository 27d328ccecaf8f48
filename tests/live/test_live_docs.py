"""The pages of this part say what there is."""

import runpy
from pathlib import Path

from state_machines.gym_server.app import PUPPET

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_defects_is_not_stale():
    made = runpy.run_path(str(DOCS / "live_tables.py"))
    assert made["page"]() == (DOCS / "live.md").read_text(encoding="utf-8"), "run python docs/live_tables.py"


def test_every_puppet_route_is_documented():
    text = (DOCS / "live.md").read_text(encoding="utf-8")
    for route in PUPPET:
        assert f"`POST /puppet/{route}`" in text
