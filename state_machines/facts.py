"""What an event of one sibling, of one group, or of nobody's group can see of the others: a few bits, looked up by."""

from typing import Final

from protocol.events import (
    Answer,
    Commit,
    CommitFails,
    Deadline,
    DrainDies,
    Flush,
    LoseReply,
    LoseRequest,
    Prepare,
    Publish,
    ReconcileLedger,
    Resume,
    Snapshot,
)
from protocol.gym import State
from protocol.system import OF_NOBODY, RuleKey
from protocol.trainer import GIVEN_UP, HELD, AttemptStatus, GroupStatus
from protocol.wire import Call
from state_machines.factor import Local, Sibling

RUNNING, NOT_READY, OWING, UNPAYABLE, FRESH, STILL_NOT_READY, RESERVED, RETAINED, RECORDED = (1 << n for n in range(9))
FIRST: Final = 1 << 9  # this group is the next one to be admitted
UNSEALED, UNHELD, UNEVEN = 1 << 10, 1 << 11, 1 << 12  # of the siblings of a group: what keeps it from its seal
EVERYTHING: Final = (1 << 13) - 1
WAIT_FACTS: Final = RUNNING | NOT_READY  # what keeps a waiting prepare from its answer
SEAL_FACTS: Final = UNSEALED | UNHELD

_READY: Final = WAIT_FACTS | STILL_NOT_READY
_PAYMENT: Final = OWING | UNPAYABLE | FRESH | _READY  # all or nothing; what it releases may end a prepare
SEES: Final[dict[RuleKey, int]] = {
    # an event of nobody's group: what it can see of the groups; of others, everything
    Flush: _PAYMENT,
    (LoseRequest, Call.ACKNOWLEDGE): _PAYMENT,
    (LoseReply, Call.ACKNOWLEDGE): _PAYMENT,
    ReconcileLedger: RETAINED,
    DrainDies: OWING,
    Snapshot: OWING | WAIT_FACTS,  # it begins with a strict flush when there is a debt
    Prepare: WAIT_FACTS,
    Answer: 0,
    Deadline: WAIT_FACTS,
    Commit: WAIT_FACTS,
    CommitFails: 0,
    Publish: OWING | RECORDED,
    Resume: WAIT_FACTS,
    (LoseRequest, Call.PREPARE): 0,
    (LoseReply, Call.PREPARE): WAIT_FACTS,
    (LoseRequest, Call.COMMIT): WAIT_FACTS,
    (LoseReply, Call.COMMIT): WAIT_FACTS,
    (LoseRequest, Call.RESUME): 0,
    (LoseReply, Call.RESUME): WAIT_FACTS,
}
assert set(SEES) <= OF_NOBODY


def facts(found: Local) -> int:
    """Return what others can see of a group, as a set of bits."""
    seen = 0
    for sibling in found.siblings:
        seen |= of_sibling(sibling)
        last = sibling.cells[-1].entry if sibling.cells else None
        if found.status is GroupStatus.GENERATING and last is not None and last.status is AttemptStatus.RESERVED:
            seen |= RESERVED
    return seen


def of_sibling(sibling: Sibling) -> int:
    """Return what others outside its group can see of a sibling."""
    seen = 0
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
    return seen


def of_peer(sibling: Sibling) -> int:
    """Return what the siblings of its group can see of a sibling: readiness, and what keeps the group from its seal."""
    last = sibling.cells[-1].entry if sibling.cells else None
    unsealed = UNSEALED if last is None or last.status is not AttemptStatus.SEALED else 0
    return (of_sibling(sibling) & WAIT_FACTS) | unsealed | (UNHELD if last != HELD else 0)
