"""The words of every finding: the properties, the causes, and a sentence for each."""

from enum import Enum
from typing import Final


class Property(Enum):
    """The properties, each decided by itself."""

    RECOVERABLE = "recoverable"
    UNBLOCKED = "unblocked"
    REOPENS = "reopens"
    FAIR = "fair"
    NOTHING_LOST = "nothing_lost"
    APPLIED_ONCE = "applied_once"
    ACKNOWLEDGED_OWNED = "acknowledged_owned"
    SEALED_TOGETHER = "sealed_together"
    STALE_HARMLESS = "stale_harmless"
    PUBLISHED_ONCE = "published_once"
    RESTORE_COMES = "restore_comes"
    CUT_CLEAN = "cut_clean"


PROPERTIES: Final[dict[Property, str]] = {
    Property.RECOVERABLE: "AG EF ready: from every state some continuation makes Gym ready to commit",
    Property.UNBLOCKED: "while a snapshot is prepared, some continuation commits it without its deadline",
    Property.REOPENS: "AG EF open: from every state some continuation opens Gym's admission and ends the snapshot",
    Property.FAIR: "once faults stop, a fair scheduler settles every group, pays every debt and reaches ready",
    Property.NOTHING_LOST: "a result that Gym has dropped is the trainer's, or was given up on purpose",
    Property.APPLIED_ONCE: "no sibling is sealed a second time, and no finalized group changes",
    Property.ACKNOWLEDGED_OWNED: "nothing is owed that the trainer neither holds, sealed nor gave up",
    Property.SEALED_TOGETHER: "in prompt_group a group is sealed from one attempt only",
    Property.STALE_HARMLESS: "an answer of an attempt given up changes nothing about a newer attempt",
    Property.PUBLISHED_ONCE: "every snapshot is published at most once, and only after Gym has committed it",
    Property.RESTORE_COMES: "no sealed sibling is run again, and no restored run waits for what cannot come",
    Property.CUT_CLEAN: "a snapshot is a clean cut: nothing runs and nothing is un-ACKed or owed when it is taken",
}


class Cause(Enum):
    """Which mechanism a finding shows. The value is its name everywhere."""

    LOST_REPLY = "lost_reply"
    RECEIPT_FETCH_LOST = "receipt_fetch_lost"
    NULL_RESULT = "null_result"
    ABANDONED_RESULT = "abandoned_result"
    LATE_RESULT = "late_result"
    FORGOTTEN_RESULT = "forgotten_result"
    PARTIAL_GROUP = "partial_group"
    DRAIN_DIED = "drain_died"
    PARKED_WITHOUT_BOUNDARY = "parked_without_boundary"
    UNPAYABLE_DEBT = "unpayable_debt"
    CLOSED_GYM = "closed_gym"
    RESUME_LOST = "resume_lost"
    ROLLBACK_LOST = "rollback_lost"
    RUN_ENDED = "run_ended"
    OTHER = "other"


CAUSES: Final[dict[Cause, str]] = {
    Cause.LOST_REPLY: "the answer to a /run was lost: Gym retains a result whose receipt the trainer never saw",
    Cause.RECEIPT_FETCH_LOST: "the receipt of a good answer could not be fetched: Gym retains the result",
    Cause.NULL_RESULT: "a null result has no receipt, so nothing can acknowledge it",
    Cause.ABANDONED_RESULT: "a sibling finished, then its group was given up: nobody owes the ACK of its result",
    Cause.LATE_RESULT: "a run finishes after its attempt was given up: its result comes too late for anybody to owe it",
    Cause.FORGOTTEN_RESULT: "a restart forgot or gave up the attempt whose result Gym retains, and nobody owes its ACK",
    Cause.PARTIAL_GROUP: "Gym waits for an ACK that comes at the seal, and the seal waits for siblings that are parked",
    Cause.DRAIN_DIED: "the debt is in the outbox, but the drain died and nothing wakes it during this snapshot",
    Cause.PARKED_WITHOUT_BOUNDARY: "a run is parked without a boundary: it blocks the commit until it is resumed",
    Cause.UNPAYABLE_DEBT: "the trainer owes receipts that Gym no longer knows: every flush is refused",
    Cause.CLOSED_GYM: "Gym's admission is closed and nobody is left to resume it",
    Cause.RESUME_LOST: "a resume was not answered, and it is not sent again before the next snapshot",
    Cause.ROLLBACK_LOST: "the resume that aborts a snapshot was not answered: both sides stay frozen until the next",
    Cause.RUN_ENDED: "three failed snapshots in a row have ended the run, with groups unfinished",
    Cause.OTHER: "none of the known causes",
}
