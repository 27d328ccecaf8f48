"""The hand-over protocol between a trainer and Gym, as pure functions over frozen values.

Nothing here does I/O, reads a clock, draws a random number or knows Hypothesis. Read `gym` and `trainer` for the two
sides, `wire` for what is between them, `events` for everything that can happen, and `system` for how it happens.
"""

from protocol.events import Event, Owner
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.system import IllegalEvent, System, enabled, initial, step

__all__ = ["Event", "IllegalEvent", "Owner", "Policy", "Scope", "System", "enabled", "initial", "step"]
