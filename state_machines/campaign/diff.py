"""Two campaigns compared by cause: what is new, what is gone, what has a shorter history now.

A cause is `gone` only when the new campaign has finished and looked at its policy and target; otherwise nobody knows,
and it is `not looked for`.
"""

from typing import Any, Final

from attrs import frozen

from state_machines.campaign.store import Kept, Summary

Key = tuple[str, str, str, str]
NEW: Final = "new"
GONE: Final = "gone"
SHORTER: Final = "shorter"
KNOWN: Final = "known"
NOT_LOOKED_FOR: Final = "not looked for"


@frozen
class Change:
    """One cause in two campaigns. `old` or `new` is None where it was not found."""

    what: str
    old: Kept | None
    new: Kept | None

    @property
    def kept(self) -> Kept:
        found = self.new or self.old
        assert found is not None
        return found

    def to_json(self) -> dict[str, Any]:
        kept = self.kept
        return {
            "change": self.what,
            "policy": kept.policy,
            "target": kept.target,
            "property": kept.property,
            "cause": kept.cause,
            "old_length": self.old.length if self.old else None,
            "new_length": self.new.length if self.new else None,
        }


def compare(old: Summary, new: Summary) -> tuple[Change, ...]:
    """Return every cause of both campaigns with what became of it: new ones first, then gone, shorter and the rest."""
    before = {_key(kept): kept for kept in old.findings}
    after = {_key(kept): kept for kept in new.findings}
    changes = [_change(before.get(key), after.get(key), new) for key in sorted(before | after)]
    order = (NEW, GONE, SHORTER, NOT_LOOKED_FOR, KNOWN)
    return tuple(sorted(changes, key=lambda change: order.index(change.what)))


def _change(old: Kept | None, new: Kept | None, campaign: Summary) -> Change:
    if old is None:
        return Change(NEW, old, new)
    if new is None:
        looked = campaign.finished and not campaign.unknown and (old.policy, old.target) in campaign.looked_at
        return Change(GONE if looked else NOT_LOOKED_FOR, old, new)
    return Change(SHORTER if new.length < old.length else KNOWN, old, new)


def _key(kept: Kept) -> Key:
    return kept.policy, kept.target, kept.property, kept.cause
