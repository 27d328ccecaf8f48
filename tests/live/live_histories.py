"""Random histories, and how many of them the default run takes.

`STRANDED_LIVE=all` runs everything that issue *Live* asks for (several minutes); the default is a fixed part of it.
"""

import os
import random

from protocol.events import Event
from protocol.policy import Policy
from protocol.scope import Fault, Scope
from protocol.system import enabled, initial, step

ALL = os.environ.get("STRANDED_LIVE") == "all"
EVERY_FAULT = Scope(snapshots=2, **{fault.value: 1 for fault in Fault})


def part(whole: int, default: int) -> int:
    """How many of `whole` cases this run takes."""
    return whole if ALL else default


def random_history(policy: Policy, scope: Scope, seed: int, length: int = 40) -> tuple[Event, ...]:
    """Every enabled event is equally likely at every step."""
    chance, system, events = random.Random(seed), initial(policy, scope), []
    for _ in range(length):
        possible = enabled(system)
        if not possible:
            break
        events.append(chance.choice(possible))
        system = step(system, events[-1])
    return tuple(events)
