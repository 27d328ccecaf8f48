"""One reference Gym for all tests that do not need their own, and a target on it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from state_machines.targets.http import HttpTarget
from state_machines.targets.process import ReferenceGym


@pytest.fixture(scope="session")
def gym() -> Iterator[ReferenceGym]:
    with closing(ReferenceGym()) as started:
        yield started


@pytest.fixture
def target(gym: ReferenceGym) -> Iterator[HttpTarget]:
    with closing(HttpTarget(gym.url, gym.token)) as opened:
        yield opened
