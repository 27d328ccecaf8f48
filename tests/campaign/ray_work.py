"""What Ray's workers run in these tests. The database's URL is the directory that counts tries, named by node."""

import os
import signal
import time
from pathlib import Path

import ray
from shard_work import outcome

from state_machines.campaign.shard import from_json


def _tried(text: str, directory: str) -> int:
    number = from_json(text).number
    before = len(list(Path(directory).glob(f"{number}-*")))
    (Path(directory) / f"{number}-{before}").write_text(ray.get_runtime_context().get_node_id())
    return number


def slow(text: str, directory: str) -> str:
    _tried(text, directory)
    time.sleep(0.2)
    while (Path(directory).parent / f"{ray.get_runtime_context().get_node_id()}.hold").exists():
        time.sleep(0.05)
    return outcome(text)


def two_are_broken(text: str, directory: str) -> str:
    number = _tried(text, directory)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise ValueError("the shard is broken")
    return outcome(text)
