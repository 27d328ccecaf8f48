"""What an event of one group, or of nobody's, can see of the groups: a few bits, which the tables look up by."""

from typing import Final

from protocol.gym import State
from protocol.trainer import GIVEN_UP, AttemptStatus, GroupStatus
from state_machines.factor import Local

RUNNING, NOT_READY, OWING, UNPAYABLE, FRESH, STILL_NOT_READY, RESERVED, RETAINED, RECORDED = (1 << n for n in range(9))
FIRST: Final = 1 << 9  # this group is the next one to be admitted
WAIT_FACTS: Final = RUNNING | NOT_READY  # what keeps a waiting prepare from its answer


def facts(found: Local) -> int:
    """Return what others can see of a group, as a set of bits."""
    seen = 0
    for sibling in found.siblings:
        for cell in sibling.cells:
            execution, owed = cell.execution, cell.owed
            retained = execution is not None and execution.receipt is not None
            if execution is not None:
                if execution.state in (State.RUNNING, State.PARK_REQUESTED):
                    seen |= RUNNING
                if execution.state is not State.PARKED or execution.boundary is None:
                    seen |= NOT_READY
                    if not (owed and retained):
                        seen |= STILL_NOT_READY
            if owed:
                seen |= OWING | (FRESH if retained else 0 if cell.acknowledged else UNPAYABLE)
            elif retained and cell.entry is not None and cell.entry.status in GIVEN_UP:
                seen |= RETAINED
            if cell.durable is not None:
                seen |= RECORDED
        last = sibling.cells[-1].entry if sibling.cells else None
        if found.status is GroupStatus.GENERATING and last is not None and last.status is AttemptStatus.RESERVED:
            seen |= RESERVED
    return seen
