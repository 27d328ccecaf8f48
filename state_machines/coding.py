"""Systems as tuples of small integers: every part that occurs has a number, and reduced parts that are equal the same.

A code is the shared part, then one number for each group. A group is known by its head (its status, in the ledger and
in the published one) and its siblings, which have numbers of their own, as have the cells of a sibling. Numbers are
given in the order in which parts are met; nothing about the protocol is decided here.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System
from state_machines import reduce
from state_machines.factor import Cell, FactoringError, Local, Parts, Shared, Sibling, join, split
from state_machines.facts import OWING, of_sibling
from state_machines.reduce import ALL, Reductions
from state_machines.watched import Watched

T = TypeVar("T")
Code = tuple[int, ...]
Budget = tuple[int, ...]


def numbered(ids: dict[T, int], items: list[T], found: T) -> int:
    """Return the number of an item, which is its place in `items`."""
    known = ids.get(found)
    if known is None:
        known = ids[found] = len(items)
        items.append(found)
    return known


class Group(NamedTuple):
    """A group by the numbers of its parts."""

    head: int
    siblings: tuple[int, ...]


OF_KIN: Final = (
    *("shared", "locals", "facts", "absent", "waiting", "groups", "siblings", "heads", "cells", "cells_of"),
    *("_shared_ids", "_local_ids", "_group_ids", "_sibling_ids", "_head_ids", "_cell_ids", "_of_cells"),
    *("_reduced_siblings", "_reduced_heads", "_dealt_ids", "seen_of", "_over", "_given_up"),
    *("_raw_shared", "budgets", "budget_of", "_budget_ids", "_budgeted", "_spent"),
)  # no policy changes what a part is called


class Coding:
    """The numbers of the parts of one policy and scope.

    `closed` forgets what no SYSTEM event reads: that is what a recovery needs.
    """

    kin: tuple[str, ...] = OF_KIN

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL, *, closed: bool = False) -> None:
        self.policy, self.scope, self.closed = policy, scope, closed
        self.on = ALL if closed and on == ALL else reduce.applicable(on, scope)
        self.shared: list[Shared] = []
        self.waiting: list[bool] = []
        self.locals: list[Local] = []
        self.facts: list[int] = []
        self.absent: list[bool] = []
        self.groups: list[Group] = []
        self.heads: list[Local] = []  # without siblings
        self.siblings: list[Sibling] = []
        self.cells: list[Cell] = []
        self.cells_of: list[tuple[int, ...]] = []  # of a sibling
        self._shared_ids: dict[Shared, int] = {}
        self._local_ids: dict[Local, int] = {}
        self._group_ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self._sibling_ids: dict[Sibling, int] = {}
        self._head_ids: dict[Local, int] = {}
        self._cell_ids: dict[Cell, int] = {}
        self._raw_shared: dict[tuple[Shared, bool], int] = {}
        self._reduced_siblings: dict[tuple[int, bool], int] = {}
        self._reduced_heads: dict[tuple[int, bool], tuple[int, int | None]] = {}
        self._dealt_ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self.seen_of: list[int] = []  # of a sibling
        self._over: list[bool] = []  # of a sibling
        self._given_up: list[tuple[int, ...]] = []  # of a sibling: cells
        self._of_cells: dict[tuple[int, ...], int] = {}
        self.budgets: list[Budget] = []
        self.budget_of: list[int] = []  # of a shared part
        self._budget_ids: dict[Budget, int] = {}
        self._budgeted: dict[tuple[int, int], int] = {}
        self._spent: dict[tuple[int, int], int] = {}
        self._begin()
        self._full = self._budget((0,) * len(scope.budget()) if closed else scope.budget())
        self._gone = self._cell(reduce.GONE)
        self.empty = self.intern(Local(None, None, (Sibling(),) * scope.siblings))
        assert self.empty == 0

    def _begin(self) -> None:
        """Take the numbers of the policy's kin, if it has any."""
        if isinstance(self.policy, Watched):
            mine = {x: getattr(self, x) for x in self.kin}
            vars(self).update(self.policy.kin.setdefault((self.scope, self.on, self.closed), mine))

    # Systems and codes

    def encode(self, system: System) -> Code:
        """Return the code of `system`, the same for all systems that the reductions identify."""
        return self.sort(self._encode(system))

    def sort(self, code: Code) -> Code:
        """Return the code with its groups in canonical order; those not admitted come last."""
        if self.on.groups and len(code) > 2:
            return (code[0], *sorted(code[1:], reverse=True))
        return code

    def decode(self, code: Code) -> System:
        """Return the representative system of `code`."""
        parts = Parts(self.shared[code[0]], tuple([self.locals[x] for x in code[1:]]))
        return join(self.policy, self.scope, parts)

    def _encode(self, system: System) -> Code:
        return self._code(split(system))

    def _code(self, parts: Parts) -> Code:
        ids = [self.intern(x) for x in parts.locals]
        return (self._share(parts.shared, self._owing(ids)), *ids)

    def _owing(self, locals_: Sequence[int]) -> bool:
        return any(self.facts[x] & OWING for x in locals_)

    # Shared parts

    def _share(self, raw: Shared, owing: bool) -> int:
        known = self._raw_shared.get((raw, owing))
        if known is None:
            found = reduce.shared(raw, self.on, self.scope, owing=owing)
            if self.closed:
                found = reduce.closed_shared(found)
            known = self._shared_ids.get(found)
            if known is None:
                known = self._shared_ids[found] = len(self.shared)
                self.shared.append(found)
                self.waiting.append(found.fence.waiting is not None)
                self.budget_of.append(self._budget(found.budget))
            self._raw_shared[raw, owing] = known
        return known

    def intern_shared(self, found: Shared, *, owing: bool = False) -> int:
        """Return the number of a shared part, reduced. `owing`: some group's result is in the outbox."""
        return self._share(found, owing)

    def core(self, shared: int) -> int:
        """Return the same shared part with nothing of its budget spent."""
        return self.budgeted(shared, self._full)

    def budgeted(self, shared: int, budget: int) -> int:
        """Return the same shared part with this budget left."""
        known = self._budgeted.get((shared, budget))
        if known is None:
            found = self._share(self.shared[shared]._replace(budget=self.budgets[budget]), True)
            known = self._budgeted[shared, budget] = found
        return known

    def spent(self, budget: int, fault: int) -> int:
        """Return what is left of a budget after a fault, -1 when none of it is left before."""
        known = self._spent.get((budget, fault))
        if known is None:
            left = self.budgets[budget]
            after = (*left[:fault], left[fault] - 1, *left[fault + 1 :])
            known = self._spent[budget, fault] = self._budget(after) if left[fault] else -1
        return known

    def _budget(self, budget: Budget) -> int:
        return numbered(self._budget_ids, self.budgets, budget)

    # Groups

    def intern(self, found: Local) -> int:
        """Return the number of a group, reduced."""
        return self.grouped(self.group_of(found))

    def group_of(self, found: Local) -> Group:
        """Return the group by the numbers of its parts, as they are."""
        return Group(self.head(found._replace(siblings=())), tuple([self.sibling(x) for x in found.siblings]))

    def grouped(self, group: tuple[int, tuple[int, ...]]) -> int:
        """Return the number of the group that has these parts (a `Group`), reduced."""
        known = self._group_ids.get(group)
        if known is None:
            like = self._reduced(Group(*group))
            known = self._group_ids.get(like)
            if known is None:
                known = self._group_ids[like] = self._new(like)
            self._group_ids[group] = known
        return known

    def _new(self, group: Group) -> int:
        new, head, seen = len(self.locals), self.heads[group.head], 0
        for x in group.siblings:
            seen |= self.seen_of[x]
        self.locals.append(head._replace(siblings=tuple([self.siblings[x] for x in group.siblings])))
        self.groups.append(group)
        self.facts.append(seen)
        self.absent.append(head.status is None)
        if self.on.groups and not self.closed and head.status is None and new:
            raise FactoringError("a group that was not admitted has left something behind: groups are not equal")
        return new

    def _reduced(self, group: Group) -> Group:
        """Return the group without what nothing reads, its siblings in canonical order."""
        siblings = [self._reduced_sibling(x, group.head) for x in group.siblings]
        head, instead = self._reduced_head(group.head, all(self._over[x] for x in siblings))
        if instead is not None:
            siblings = [instead] * len(siblings)
        pool = sorted([c for x in siblings for c in self._given_up[x]]) if self.on.pool else []
        if not pool or pool[0] == pool[-1]:
            return Group(head, tuple(sorted(siblings) if self.on.siblings else siblings))
        bare = [self._dealt(x, (self._gone,) * len(self._given_up[x])) for x in siblings]
        if self.on.siblings:
            bare.sort()
        dealt, at = [], 0
        for x in bare:
            size = len(self._given_up[x])
            dealt.append(self._dealt(x, tuple(pool[at : at + size])))
            at += size
        return Group(head, tuple(dealt))

    def _reduced_head(self, head: int, over: bool) -> tuple[int, int | None]:
        known = self._reduced_heads.get((head, over))
        if known is None:
            found, instead = reduce.group(self.heads[head], self.on, over=over)
            if self.closed:
                found, closed = reduce.closed_group(found, over=over)
                instead = closed or instead
            known = self.head(found), None if instead is None else self.sibling(instead)
            self._reduced_heads[head, over] = known
        return known

    def _reduced_sibling(self, sibling: int, head: int) -> int:
        key = sibling, self.heads[head].status is not None
        known = self._reduced_siblings.get(key)
        if known is None:
            found = reduce.sibling(self.siblings[sibling], self.on, self.scope, started=key[1])
            known = self._reduced_siblings[key] = self.sibling(reduce.closed_sibling(found) if self.closed else found)
        return known

    def _dealt(self, sibling: int, pool: tuple[int, ...]) -> int:
        """Return the sibling with these given-up attempts instead of its own."""
        key = sibling, pool
        known = self._dealt_ids.get(key)
        if known is None:
            rest, given_up = iter(pool), self._given_up[sibling]
            cells = [self.cells[next(rest) if x in given_up else x] for x in self.cells_of[sibling]]
            known = self._dealt_ids[key] = self.sibling(self.siblings[sibling]._replace(cells=tuple(cells)))
        return known

    # Parts of groups

    def head(self, found: Local) -> int:
        """Return the number of a group without its siblings."""
        return numbered(self._head_ids, self.heads, found)

    def sibling(self, found: Sibling) -> int:
        """Return the number of a sibling, as it is."""
        known = self._sibling_ids.get(found)
        if known is None:
            known = self._sibling_ids[found] = len(self.siblings)
            cells = tuple([self._cell(x) for x in found.cells])
            self.siblings.append(found)
            self.cells_of.append(cells)
            self.seen_of.append(of_sibling(found))
            self._over.append(reduce.over(found))
            self._given_up.append(tuple([x for x in cells if reduce.given_up(self.cells[x])]))
        return known

    def of_cells(self, cells: tuple[int, ...]) -> int:
        """Return the number of the sibling that has these cells."""
        known = self._of_cells.get(cells)
        if known is None:
            known = self._of_cells[cells] = self.sibling(Sibling(tuple([self.cells[x] for x in cells])))
        return known

    def _cell(self, found: Cell) -> int:
        return numbered(self._cell_ids, self.cells, found)
