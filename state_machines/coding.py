"""Systems as tuples of small integers: every part that occurs has a number, and reduced parts that are equal the same.

A code is the shared part, then one number for each group. A group is known by its head (its status, in the ledger and
in the published one) and its siblings, which have numbers of their own, as have the cells of a sibling. Numbers are
given in the order in which parts are met; nothing about the protocol is decided here.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System
from state_machines import reduce
from state_machines.factor import Cell, FactoringError, Local, Parts, Shared, Sibling, join, split
from state_machines.facts import OWING, facts
from state_machines.reduce import ALL, Reductions
from state_machines.watched import Watched

Code = tuple[int, ...]
Budget = tuple[int, ...]


class Group(NamedTuple):
    """A group by the numbers of its parts."""

    head: int
    siblings: tuple[int, ...]


OF_KIN: Final = (
    *("shared", "locals", "facts", "absent", "waiting", "groups", "siblings", "heads", "cells", "cells_of"),
    *("_shared_ids", "_local_ids", "_group_ids", "_sibling_ids", "_head_ids", "_cell_ids", "_of_cells"),
    *("_reduced_ids", "_raw_shared", "_ranks", "_budgeted", "_cores"),
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
        self._group_ids: dict[Group, int] = {}
        self._sibling_ids: dict[Sibling, int] = {}
        self._head_ids: dict[Local, int] = {}
        self._cell_ids: dict[Cell, int] = {}
        self._raw_shared: dict[tuple[Shared, bool], int] = {}
        self._reduced_ids: dict[tuple[int, bool], int] = {}
        self._of_cells: dict[tuple[int, ...], int] = {}
        self._ranks: dict[Cell | Sibling, int] = {}
        self._budgeted: dict[tuple[int, Budget], int] = {}
        self._cores: dict[int, int] = {}
        self.full: Budget = (0,) * len(scope.budget()) if closed else scope.budget()
        self._begin()
        self.empty = self._local(Local(None, None, (Sibling(),) * scope.siblings))
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
        ids = [self.grouped(self._group(x)) for x in parts.locals]
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
            self._raw_shared[raw, owing] = known
        return known

    def intern_shared(self, found: Shared, *, owing: bool = False) -> int:
        """Return the number of a shared part, reduced. `owing`: some group's result is in the outbox."""
        return self._share(found, owing)

    def core(self, shared: int) -> int:
        """Return the same shared part with nothing of its budget spent."""
        known = self._cores.get(shared)
        if known is None:
            known = self._cores[shared] = self.budgeted(shared, self.full)
        return known

    def budgeted(self, shared: int, budget: Budget) -> int:
        """Return the same shared part with this budget left."""
        known = self._budgeted.get((shared, budget))
        if known is None:
            found = self._share(self.shared[shared]._replace(budget=budget), True)
            known = self._budgeted[shared, budget] = found
        return known

    # Groups

    def intern(self, found: Local) -> int:
        """Return the number of a group, reduced."""
        return self.grouped(self._group(found))

    def _local(self, raw: Local) -> int:
        found = reduce.local(raw, self.on, self.scope)
        if self.closed:
            found = reduce.closed_local(found)
        if self.on.pool:
            found = reduce.pooled(found, self._rank, self._rank if self.on.siblings else None)
        elif self.on.siblings:
            found = found._replace(siblings=tuple(sorted(found.siblings, key=self._rank)))
        known = self._local_ids.get(found)
        if known is None:
            known = self._local_ids[found] = len(self.locals)
            self.locals.append(found)
            self.groups.append(self._group(found))
            self.facts.append(facts(found))
            self.absent.append(found.status is None)
            if self.on.groups and not self.closed and found.status is None and known:
                raise FactoringError("a group that was not admitted has left something behind: groups are not equal")
        return known

    def _rank(self, part: Cell | Sibling) -> int:
        return self._ranks.setdefault(part, len(self._ranks))

    def grouped(self, group: Group) -> int:
        """Return the number of the group that has these parts, reduced."""
        known = self._group_ids.get(group)
        if known is None:
            siblings = [self._reduced(x, group.head) for x in group.siblings]
            like = Group(group.head, tuple(sorted(siblings) if self.on.siblings else siblings))
            known = self._group_ids.get(like)
            if known is None:
                found = tuple([self.siblings[x] for x in like.siblings])
                known = self._local(self.heads[group.head]._replace(siblings=found))
            self._group_ids[group] = self._group_ids[like] = known
        return known

    def _reduced(self, sibling: int, head: int) -> int:
        """Return the sibling of a group with this head, reduced."""
        key = sibling, self.heads[head].status is not None
        known = self._reduced_ids.get(key)
        if known is None:
            found = reduce.sibling(self.siblings[sibling], self.on, self.scope, started=key[1])
            if self.closed:
                found = reduce.closed_sibling(found)
            known = self._reduced_ids[key] = self._sibling(found)
        return known

    def _group(self, found: Local) -> Group:
        head = found._replace(siblings=())
        known = self._head_ids.get(head)
        if known is None:
            known = self._head_ids[head] = len(self.heads)
            self.heads.append(head)
        return Group(known, tuple([self._sibling(x) for x in found.siblings]))

    def _sibling(self, found: Sibling) -> int:
        known = self._sibling_ids.get(found)
        if known is None:
            known = self._sibling_ids[found] = len(self.siblings)
            self.siblings.append(found)
            self.cells_of.append(tuple([self._cell(x) for x in found.cells]))
        return known

    def of_cells(self, cells: tuple[int, ...]) -> int:
        """Return the number of the sibling that has these cells."""
        known = self._of_cells.get(cells)
        if known is None:
            known = self._of_cells[cells] = self._sibling(Sibling(tuple([self.cells[x] for x in cells])))
        return known

    def _cell(self, found: Cell) -> int:
        known = self._cell_ids.get(found)
        if known is None:
            known = self._cell_ids[found] = len(self.cells)
            self.cells.append(found)
        return known
