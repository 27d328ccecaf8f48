"""pytest in this repository: the plugin that its users get, the profile that its own tests run with, and what keeps
them quick: where each of them runs, and how often the garbage collector looks through what they keep.
"""

import gc
import os
from typing import Any

import pytest
from hypothesis import settings

from state_machines.pytest_plugin import register_profiles

PLUGIN = "state_machines.pytest_plugin"
SHARED = (  # modules of many seconds whose tests share little: workers share them, a test function each
    "tests/prove/test_prove_verdicts.py",
    "tests/faults/test_catalogue.py",
    "tests/hunt/test_hunt_findings.py",
    "tests/hunt/test_hunt_pytest.py",
)
LONG = (  # what begins first, so that the last worker ends soon after the others
    "tests/report/test_pictures_page.py",
    "tests/report/test_pictures_docs.py",
    "tests/prove/test_matrix.py",
    *SHARED,
    "tests/prove/test_prove_tables.py",
    "tests/prove/test_spin.py",
    "tests/campaign/test_command.py",
)

register_profiles()
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin where `stranded` is not installed: an installed one is there already, by its entry point."""
    if not pluginmanager.has_plugin(PLUGIN):
        pluginmanager.import_plugin(PLUGIN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest first. Leave out what takes several seconds, unless it is asked for: `pytest -m slow`, or `-m ""`
    for everything."""
    places = {module: place for place, module in enumerate(LONG)}
    items.sort(key=lambda item: places.get(module_of(item.nodeid), len(LONG)))
    if config.option.markexpr or any("::" in str(argument) for argument in config.args):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: pytest -m slow"))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected to nobody, and look for garbage less often.

    Explorations keep hundreds of thousands of values, none of them garbage: a fifth of the time went into looking.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 20)


def module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker whole modules, so that what their tests share is made once; of some, whole functions."""
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.markexpr
    if config.option.dist != "load" or not everything:
        return None  # of a few modules or of the longer tests, as they come: one may be most of the work
    from xdist.scheduler import LoadScopeScheduling

    class Modules(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("[")[0] if module_of(nodeid) in SHARED else module_of(nodeid)

    config.option.loadscopereorder = False  # they are in order
    return Modules(config, log)
