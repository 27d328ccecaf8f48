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
