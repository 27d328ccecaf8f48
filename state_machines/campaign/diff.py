"""Two campaigns compared by cause: what is new, what is gone, what has a shorter history now.

A cause is `gone` only when the new campaign has finished and looked wherever the old one found it: at the policy and
target, in the same scope and mode, with as large a budget. Otherwise nobody knows, and it is `not looked for`. What the
old campaign did not look at is `newly looked for`, and as much news as what is `new`.
"""

from typing import Any, Final

from attrs import frozen

from state_machines.campaign.cells import Cell
from state_machines.campaign.plan import Plan
from state_machines.campaign.shard import HUNT
from state_machines.campaign.store import Kept, Summary

Key = tuple[str, str, str, str]
NEW: Final = "new"
NEWLY: Final = "newly looked for"
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
    changes = [_change(before.get(key), after.get(key), old, new) for key in sorted(before | after)]
    order = (NEW, NEWLY, GONE, SHORTER, NOT_LOOKED_FOR, KNOWN)
    return tuple(sorted(changes, key=lambda change: order.index(change.what)))


def _change(old: Kept | None, new: Kept | None, before: Summary, after: Summary) -> Change:
    if old is not None and new is not None:
        return Change(SHORTER if new.length < old.length else KNOWN, old, new)
    if new is not None:
        looked_at = {_place(cell) for cell in before.cells if cell.done}
        seen = any(_place(cell) in looked_at for cell in _found_in(new, after))
        return Change(NEW if seen else NEWLY, old, new)
    assert old is not None
    return Change(GONE if _looked_again(old, before, after) else NOT_LOOKED_FOR, old, new)


def _looked_again(old: Kept, before: Summary, after: Summary) -> bool:
    """Whether the new campaign, finished, looked wherever the old one had found the cause, and as long.

    A larger scope is another one: a policy that strands with one attempt may not with two.
    """
    if not after.finished or after.unknown:
        return False
    looked_at = {_place(cell) for cell in after.cells if cell.done == cell.shards}
    found_in = _found_in(old, before)
    hunted = any(cell.mode == HUNT for cell in found_in)
    if hunted and not _hunts_as_long(before.plan, after.plan):
        return False
    return bool(found_in) and all(_place(cell) in looked_at for cell in found_in)


def _hunts_as_long(old: Plan, new: Plan) -> bool:
    """Whether each combination had as large a budget; examples and seconds do not compare."""
    before, after = (len(plan.seeds) or plan.random_seeds for plan in (old, new))
    if old.examples is not None and new.examples is not None:
        return new.examples * after >= old.examples * before
    return old.seconds is not None and new.seconds is not None and new.seconds * after >= old.seconds * before


def _found_in(kept: Kept, campaign: Summary) -> list[Cell]:
    """The cells of a campaign in which a cause was found."""
    where = (kept.policy, kept.target)
    same = [cell for cell in campaign.cells if (cell.policy, cell.target) == where]
    return [cell for cell in same if (kept.property, kept.cause) in {(x.property, x.cause) for x in cell.found}]


def _place(cell: Cell) -> Key:
    return cell.mode, cell.policy, cell.scope, cell.target


def _key(kept: Kept) -> Key:
    return kept.policy, kept.target, kept.property, kept.cause
