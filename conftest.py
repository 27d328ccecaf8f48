"""pytest in this repository: the plugin that its users get, and the profile that its own tests run with."""

import os

import pytest
from hypothesis import settings

from state_machines.pytest_plugin import register_profiles

PLUGIN = "state_machines.pytest_plugin"

register_profiles()
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin where `stranded` is not installed: an installed one is there already, by its entry point."""
    if not pluginmanager.has_plugin(PLUGIN):
        pluginmanager.import_plugin(PLUGIN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes several seconds, unless it is asked for: `pytest -m slow`, or `-m ""` for everything."""
    if config.option.markexpr or any("::" in str(argument) for argument in config.args):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: pytest -m slow"))
