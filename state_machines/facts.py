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
from protocol.system import RuleKey
from protocol.trainer import GIVEN_UP, HELD, AttemptStatus, Entry
from protocol.wire import Call
from state_machines.factor import Shared, Sibling

RUNNING, NOT_READY, OWING, UNPAYABLE, FRESH, STILL_NOT_READY, RETAINED, RECORDED = (1 << n for n in range(8))
FIRST: Final = 1 << 9  # this group is the next one to be admitted
UNSEALED, UNHELD, UNEVEN = 1 << 10, 1 << 11, 1 << 12  # of the siblings of a group: what keeps it from its seal
WAIT_FACTS: Final = RUNNING | NOT_READY  # what keeps a waiting prepare from its answer
SEAL_FACTS: Final = UNSEALED | UNHELD

_PAYMENT: Final = OWING | UNPAYABLE | FRESH  # all or nothing
SEES: Final[dict[RuleKey, int]] = {
    # an event of nobody's group: what it can see of the groups, while no prepare waits
    Flush: _PAYMENT,
    (LoseRequest, Call.ACKNOWLEDGE): _PAYMENT,
    (LoseReply, Call.ACKNOWLEDGE): _PAYMENT,
    ReconcileLedger: RETAINED,
    DrainDies: OWING,
    Snapshot: OWING,  # it begins with a strict flush when there is a debt
    Prepare: WAIT_FACTS,
    Answer: 0,
    Deadline: 0,
    Commit: WAIT_FACTS,
    CommitFails: 0,
    Publish: OWING | RECORDED,
    Resume: 0,
    (LoseRequest, Call.PREPARE): 0,
    (LoseReply, Call.PREPARE): 0,
    (LoseRequest, Call.COMMIT): 0,
    (LoseReply, Call.COMMIT): WAIT_FACTS,
    (LoseRequest, Call.RESUME): 0,
    (LoseReply, Call.RESUME): 0,
}
WAITING: Final = WAIT_FACTS | STILL_NOT_READY  # what any event can see on top while a prepare waits: it may end it


def seen_by(rule: RuleKey, every: int, *, waiting: bool) -> int:
    """Return what an event of nobody's group sees of what there is to see of all groups."""
    return every & (SEES[rule] | (WAITING if waiting else 0))


def of_sibling(sibling: Sibling) -> int:
    """Return what others can see of a sibling, as a set of bits; of a group they see what they see of its siblings."""
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
    last = entries(sibling)[-1:]
    unsealed = UNSEALED if not last or last[0].status is not AttemptStatus.SEALED else 0
    return (of_sibling(sibling) & WAIT_FACTS) | unsealed | (UNHELD if last != [HELD] else 0)


def entries(sibling: Sibling) -> list[Entry]:
    """Return what the ledger has of a sibling. After a restart Gym may know of an attempt that the ledger does not."""
    return [cell.entry for cell in sibling.cells if cell.entry is not None]


def sends(shared: Shared) -> tuple[bool, bool]:
    """Return what becomes of an attempt that is reserved: whether it is sent, and whether Gym admits it then."""
    return not shared.snapshot.frozen, shared.open
