"""pytest in this repository: the plugin that its users get, and the profile that its own tests run with."""

import os

from hypothesis import settings

from state_machines.pytest_plugin import register_profiles

pytest_plugins = ["state_machines.pytest_plugin"]

register_profiles()
settings.load_profile("ci" if os.environ.get("CI") else "dev")
