"""The known verdicts of the named policies in the default scope, with the length of the shortest history of each.

The suite (`pytest --policy NAME`) finds exactly these: one that is missing fails as loudly as a new one. `stranded
prove` derives the same from every state there is.
"""

from typing import Final

from protocol.policy import Policy, spell
from protocol.scope import Scope
from state_machines.verdict import Verdict

_LOST: Final = Verdict("recoverable", "lost_reply")
_LATE: Final = Verdict("recoverable", "late_result")
_ABANDONED: Final = Verdict("recoverable", "abandoned_result")
_PARTIAL: Final = Verdict("unblocked", "partial_group")

EXPECTED: Final[dict[str, dict[Verdict, int]]] = {
    "sibling": {_LOST: 3},
    "prompt_group": {_ABANDONED: 3, _LATE: 2, _LOST: 3, _PARTIAL: 5},
    "prompt_group_ack_on_arrival": {_LATE: 3, _LOST: 3},
    "sibling_repaired": {},
    "prompt_group_repaired": {},
    "prompt_group_reconciled": {},
    "prompt_group_refused": {},
}


def expected(policy: Policy, scope: Scope) -> dict[Verdict, int] | None:
    """Return the known verdicts of a policy, or None when they are not known: an unnamed policy, or another scope."""
    return EXPECTED.get(spell(policy)) if scope == Scope() else None
