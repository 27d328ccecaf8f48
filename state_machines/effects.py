"""What every event does, learned from the real `step` once for each thing that it can see.

A transition of a group is put together from that of one sibling, and a transition of nobody's group from what it does
to single attempts, so that groups of many siblings cost no more real steps than their parts. An event of a sibling
reads the shared part, its group's head, its own sibling, and of the others a few bits (`facts`); only an answer that
the ledger acts on touches the others. An event of nobody's group reads the shared part and a few bits of every group.
Of a budget an event reads whether something is left, and spends one.

That this is all is an assumption about the protocol. It is checked, not trusted: whatever the real step does to a part
that is not foreseen raises FactoringError, as does whatever is learned again and differs, and a sample of what was put
together is done again with the real step.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple, TypeVar

from protocol.events import Admit, Deliver, LoseReply, Owner
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.system import OF_A_GROUP, OF_NOBODY, RULES, RuleKey, enabled, owner_of
from protocol.wire import Call
from state_machines import reduce
from state_machines.coding import Code, Group
from state_machines.factor import FactoringError
from state_machines.facts import FIRST, SEAL_FACTS, SEES, UNEVEN, WAIT_FACTS, entries, of_peer, seen_by, sends
from state_machines.happenings import NOBODY, UNFACTORED, Happenings, where
from state_machines.reduce import ALL, Reductions

K = TypeVar("K")
T = TypeVar("T")
TOUCHING: Final[frozenset[RuleKey]] = frozenset({Admit, Deliver, (LoseReply, Call.RECEIPT)})  # others of the group
assert set(SEES) == OF_NOBODY - UNFACTORED  # of a new rule it must be said what it sees
SAMPLE: Final = 127  # one list of moves in so many is done again with the real step


class Effect(NamedTuple):
    """What an event of a sibling does: to the shared part, the head, the sibling, and to the others (`column`)."""

    label: int
    fault: int
    core: int
    head: int
    own: int
    column: int


class Turned(NamedTuple):
    """What an event of nobody's group does: to the shared part, and to every group (`column`)."""

    label: int
    fault: int
    core: int
    column: int


Move = tuple[int, int, int]  # a transition of one group: the label, the shared part and the group after it


class Turn(NamedTuple):
    """A transition of nobody's group: the label, the shared part after it, and the column that maps each group."""

    label: int
    shared: int
    column: int


class Effects(Happenings):
    """The effects of the events of one policy and scope, over coded parts.

    `closed` limits them to SYSTEM events. `columns` maps groups, for each column as far as is known.
    """

    kin = (*Happenings.kin, "_peers", "_lengths", "_units")

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL, *, closed: bool = False) -> None:
        self.columns: list[dict[int, int]] = []
        self._peers: list[int] = []  # of each sibling
        self._lengths: list[int] = []  # of each sibling: entries
        self._units: list[list[tuple[int, int, int]]] = []  # of each group
        self._effects: dict[tuple[int, int, int, int], tuple[Effect, ...]] = {}
        self._turned: dict[tuple[int, RuleKey, int], tuple[Turned, ...]] = {}
        self._column_ids: dict[tuple[object, ...], int] = {}
        self._heads: list[dict[int, int]] = []  # by column: head to head
        self._pieces: list[dict[tuple[int, ...], tuple[int, ...]]] = []  # by column: a cell to the cells it becomes
        self._mapped: list[dict[tuple[int, int], int]] = []  # by column: sibling to sibling, by what `_pieces` know
        self.derived = self.verified = 0
        self.whole_siblings = reduce.restarts(scope)  # a published ledger belongs to a whole sibling
        super().__init__(policy, scope, on, closed=closed)

    # Moves

    def moves_of(self, code: Code, at: int) -> tuple[Move, ...]:
        """Return the transitions of the group at a position."""
        budget, (head, siblings) = self.budget_of[code[0]], self.groups[code[at]]
        core, outside, found = self.core(code[0]), self.seen_outside(code, at), []
        seen = ~0 if self.waiting[core] else ~WAIT_FACTS
        for unit, own, beside in self._units_of(code[at]):
            key = (core, head, own, outside | (beside & seen))
            effects = self._effects.get(key)
            if effects is None:
                effects = self._learn(code, at, unit, key)
            for label, fault, into, after, become, column in effects:
                left = budget if fault == NOBODY else self.spent(budget, fault)
                if left == NOBODY:
                    continue
                if column == NOBODY:
                    changed = siblings if unit == NOBODY else (*siblings[:unit], become, *siblings[unit + 1 :])
                else:
                    others = self._siblings_after(column, head, siblings, unit)
                    if others is None:
                        self._learn(code, at, unit, key)
                        return self.moves_of(code, at)
                    changed = others if unit == NOBODY else (*others[:unit], become, *others[unit + 1 :])
                found.append((label, self.budgeted(into, left), self.grouped((after, changed))))
        if self.derived % SAMPLE == 0:
            self._verify(code, at, found)
        self.derived += 1
        return tuple(found)

    def seen_outside(self, code: Code, at: int) -> int:
        """Return what an event of the group at `at` can see of the other groups."""
        seen = 0
        if self.waiting[code[0]]:
            for i, x in enumerate(code[1:], 1):
                if i != at:
                    seen |= self.facts[x]
            seen &= WAIT_FACTS
        if self.absent[code[at]] and next(i for i, x in enumerate(code[1:], 1) if self.absent[x]) == at:
            seen |= FIRST
        return seen

    def _units_of(self, local: int) -> list[tuple[int, int, int]]:
        """Return what has events in a group, and what it sees of the rest: the group as a whole, and each sibling."""
        for x in range(len(self._peers), len(self.siblings)):
            self._peers.append(of_peer(self.siblings[x]))
            self._lengths.append(len(entries(self.siblings[x])))
        for x in range(len(self._units), len(self.groups)):
            siblings, found = self.groups[x].siblings, []
            uneven = UNEVEN if len({self._lengths[y] for y in siblings}) > 1 else 0
            for unit, own in enumerate((NOBODY, *siblings), NOBODY):
                if self.on.siblings and own in siblings[: max(unit, 0)]:
                    continue  # as good as the one before it
                seen = 0
                for i, y in enumerate(siblings):
                    if i != unit:
                        seen |= self._peers[y]
                found.append((unit, own, seen if seen & SEAL_FACTS == SEAL_FACTS else seen | uneven))
            self._units.append(found)
        return self._units[local]

    def _learn(self, code: Code, at: int, unit: int, key: tuple[int, int, int, int]) -> tuple[Effect, ...]:
        """Learn what the events of one sibling do, from a system that has its group and all others."""
        core, head, own, _ = key
        before, effects = self.groups[code[at]].siblings, []
        for x in self.look((core, *code[1:]), at, unit):
            after = x.groups[0]
            if x.rule in TOUCHING:
                outcome = self._outcome(own, x.attempt, after, unit)
                column = self._column((head, after.head, x.rule, outcome, sends(self.shared[core])))
                for i in range(len(before)):
                    if i != unit:
                        self._record(column, head, before[i], after.siblings[i])
            else:
                column = NOBODY
                if any(before[i] != after.siblings[i] for i in range(len(before)) if i != unit):
                    raise FactoringError(f"{self.labels[x.label].name} has touched another sibling in {code}")
            become = NOBODY if unit == NOBODY else after.siblings[unit]
            effects.append(Effect(x.label, x.fault, x.core, after.head, become, column))
        return self._remember(self._effects, key, tuple(effects))

    def _outcome(self, own: int, index: int, after: Group, unit: int) -> tuple[object, ...]:
        """Return what the others of the group follow: the ledger's entry of the attempt, and whether it is retried."""
        if unit == NOBODY:
            return ()
        before, become = entries(self.siblings[own]), entries(self.siblings[after.siblings[unit]])
        return index == len(before) - 1, len(become) - len(before), tuple(become[index : index + 1])

    # Turns

    def turns_of(self, code: Code, every: int) -> tuple[Turn, ...]:
        """Return the transitions of nobody's group. `every`: what can be seen of all groups."""
        budget, core, found = self.budget_of[code[0]], self.core(code[0]), []
        for rule in _nobodys(self.owners):
            key = (core, rule, seen_by(rule, every, waiting=self.waiting[core]))
            if key not in self._turned:
                self.learn_turns((core, *code[1:]), every)
            for label, fault, into, column in self._turned[key]:
                left = budget if fault == NOBODY else self.spent(budget, fault)
                if left != NOBODY:
                    found.append(Turn(label, self.budgeted(into, left), column))
        return tuple(found)

    def learn_turns(self, code: Code, every: int) -> None:
        """Learn what the events of nobody's group do to these groups."""
        code = (self.core(code[0]), *code[1:])
        waiting = self.waiting[code[0]]
        found: dict[RuleKey, list[Turned]] = {rule: [] for rule in _nobodys(self.owners)}
        for x in self.look(code, 0, NOBODY):
            column = self._column((code[0], x.rule, seen_by(x.rule, every, waiting=waiting)))
            for local, after in zip(code[1:], x.groups, strict=True):
                before = self.groups[local]
                if self._heads[column].setdefault(before.head, after.head) != after.head:
                    raise FactoringError(f"{self.labels[x.label].name} does two things to the same group in {code}")
                for i, sibling in enumerate(before.siblings):
                    self._record(column, before.head, sibling, after.siblings[i])
            found[x.rule].append(Turned(x.label, x.fault, x.core, column))
        for rule, turned in found.items():
            self._remember(self._turned, (code[0], rule, seen_by(rule, every, waiting=waiting)), tuple(turned))

    def missing(self, column: int, local: int) -> set[tuple[int, ...]]:
        """Return the pieces of a group of which it is not known what a turn makes of them; empty when all are."""
        head, siblings = self.groups[local]
        pieces = {(head,)} if head not in self._heads[column] else set()
        return pieces | {key for x in siblings for key in self._keys(head, x) if key not in self._pieces[column]}

    def map(self, column: int, local: int) -> int | None:
        """Return what a turn makes of a group, None as long as that is not known."""
        known = self.columns[column].get(local)
        if known is None:
            head, siblings = self.groups[local]
            become, after = self._heads[column].get(head), self._siblings_after(column, head, siblings)
            if become is None or after is None:
                return None
            known = self.columns[column][local] = self.grouped((become, after))
        return known

    # Columns

    def _column(self, key: tuple[object, ...]) -> int:
        known = self._column_ids.get(key)
        if known is None:
            known = self._column_ids[key] = len(self.columns)
            self.columns.append({})
            self._heads.append({})
            self._pieces.append({})
            self._mapped.append({})
        return known

    def _keys(self, head: int, sibling: int) -> list[tuple[int, ...]]:
        """Return what the pieces of a sibling are known by: each of its cells, or, where that is not enough, itself."""
        if self.whole_siblings:
            return [(head, sibling)]
        cells = self.cells_of[sibling] or (NOBODY,)
        return [(head, x, i, i == len(cells) - 1) for i, x in enumerate(cells)]

    def _record(self, column: int, head: int, before: int, after: int) -> None:
        keys, pieces = self._keys(head, before), self._pieces[column]
        if self.whole_siblings:
            become: list[tuple[int, ...]] = [(after,)]
        else:
            cells, n = self.cells_of[after], len(keys)
            if len(cells) < len(self.cells_of[before]) or self.siblings[after].published is not None:
                raise FactoringError("an attempt has vanished, or a ledger was published where nothing restarts")
            become = [*[(x,) for x in cells[: n - 1]], cells[n - 1 :]]
        for key, found in zip(keys, become, strict=True):
            if pieces.setdefault(key, found) != found:
                raise FactoringError("an event does two things to attempts that look the same")

    def _siblings_after(
        self, column: int, head: int, siblings: tuple[int, ...], but: int = NOBODY
    ) -> tuple[int, ...] | None:
        """Return what a column makes of siblings (of all `but` one), None as long as that is not known."""
        mapped, found = self._mapped[column], []
        for i, x in enumerate(siblings):
            after = x if i == but else mapped.get((head, x))
            if after is None:
                after = self._sibling_after(column, head, x)
                if after is None:
                    return None
            found.append(after)
        return tuple(found)

    def _sibling_after(self, column: int, head: int, sibling: int) -> int | None:
        pieces = self._pieces[column]
        found = [pieces.get(key) for key in self._keys(head, sibling)]
        if None in found:
            return None
        parts = [x for piece in found if piece is not None for x in piece]
        after = parts[0] if self.whole_siblings else self.of_cells(tuple(parts))
        self._mapped[column][head, sibling] = after
        return after

    def _verify(self, code: Code, at: int, found: Iterable[Move]) -> None:
        """Raise FactoringError unless `found` are the real moves of the group at a position."""
        self.verified += 1
        system = self.decode(code)
        events = [e for e in enabled(system, self.owners, OF_A_GROUP) if where(e)[0] == at]
        real = set()
        for event, after in self.steps(system, events):
            into = self._encode(after)
            real.add((self.label(system, event, after), into[0], into[at]))
        if set(found) != real:
            raise FactoringError(f"what was put together is not what the real step does to group {at} of {code}")

    def _remember(self, table: dict[K, tuple[T, ...]], key: K, found: tuple[T, ...]) -> tuple[T, ...]:
        known = table.setdefault(key, found)
        if set(known) != set(found):
            raise FactoringError(f"two systems that look the same from {key} differ in what can happen")
        return known


@cache
def _nobodys(owners: frozenset[Owner]) -> tuple[RuleKey, ...]:
    """Return the rules of nobody's group that tables can hold."""
    return tuple(x for x in RULES if x in SEES and owner_of(x) in owners)
