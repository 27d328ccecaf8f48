"""The pytest plugin of campaigns: `pytest --campaign PLAN.toml -n auto`. `pytest_plugin` names it in `pytest_plugins`.

The options, and nothing else until a campaign is asked for: this is imported by every pytest run.
"""

from typing import Final

import pytest

DATABASE: Final = "dir:.hypothesis/examples"  # database.DEFAULT, without importing it


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stranded")
    group.addoption("--campaign", metavar="PLAN.toml", help="run a campaign's shards as tests, instead of other tests")
    group.addoption("--campaign-store", metavar="PATH", help="the file that keeps a campaign's results [PLAN.sqlite]")
    group.addoption(
        "--campaign-database", metavar="URL", default=DATABASE, help="where a campaign's failures are remembered"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--campaign", None):
        from state_machines.campaign.pytest_shards import register

        register(config)
