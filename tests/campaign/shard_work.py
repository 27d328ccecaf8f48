"""What workers run in these tests instead of a hunt: small, quick, and able to go wrong on purpose.

The seed's target word says how: `shards` are told apart by the plan's examples. A file in the directory that
`STRANDED_TEST_DIR` names records every try.
"""

import os
import signal
import time
from pathlib import Path

from protocol.events import Admit
from state_machines.campaign.shard import Found, Outcome, Shard, from_json, worker_name
from state_machines.campaign.work import _found
from state_machines.verdict import Verdict


def tried(number: int) -> int:
    """Count a try of a shard and return how many there were before."""
    directory = Path(os.environ["STRANDED_TEST_DIR"])
    before = len(list(directory.glob(f"{number}-*")))
    (directory / f"{number}-{before}-{os.getpid()}").touch()
    return before


def history(shard: Shard, length: int, seed: int = 0) -> Found:
    """A finding of so many events; they need not be possible."""
    return _found(shard, Verdict("recoverable", "lost_reply"), (Admit(0),) * length, seed)


def outcome(text: str, *, findings: bool = True) -> str:
    shard = from_json(text)
    found = (history(shard, 5 + shard.number % 3),) if findings else ()
    return Outcome(shard.key, shard.examples or 0, 10, 20, 0.001, False, found, worker_name()).to_json()


def quick(text: str, database: str | None) -> str:
    return outcome(text)


def clean(text: str, database: str | None) -> str:
    return outcome(text, findings=False)


def slow(text: str, database: str | None) -> str:
    tried(from_json(text).number)
    time.sleep(0.05)
    return outcome(text)


def forever(text: str, database: str | None) -> str:
    tried(from_json(text).number)
    while True:
        time.sleep(0.01)


def busy(text: str, database: str | None) -> str:
    """Never ends and never sleeps: what a long hunt is to the thread that watches the parent."""
    tried(from_json(text).number)
    while True:
        pass


def dies_once(text: str, database: str | None) -> str:
    if tried(from_json(text).number) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(text)


def one_always_dies(text: str, database: str | None) -> str:
    number = from_json(text).number
    tried(number)
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome(text)


def one_raises(text: str, database: str | None) -> str:
    number = from_json(text).number
    tried(number)
    if number == 1:
        raise ValueError("the shard\nis broken")
    return outcome(text)
