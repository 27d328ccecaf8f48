"""The system as a product: one part for every prompt group, and the few things that all of them share.

`split` cuts a System into `Parts`, `join` puts it together again, and `join(split(system)) == system` for every
system (`tests/prove/test_prove_tables.py`). Everything that exploration saves rests on this cut: parts repeat far more
often than systems do. Nothing here knows a rule of the protocol; it only knows where each field of the state belongs,
and `COVERED` makes an unknown field an error instead of a loss.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

from attrs import fields

from protocol.executions import Execution, Gym
from protocol.fence import Fence
from protocol.identity import Attempt, Receipt, locate, model_receipt, rollout_id
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.snapshot import SnapshotState
from protocol.state import System
from protocol.trainer import Entry, Group, GroupStatus, Published, Trainer
from protocol.wire import Kind, Message, Wire, message


class FactoringError(AssertionError):
    """The product does not describe the system: a field, a receipt or a transition that this module does not know."""


class Cell(NamedTuple):
    """All that both sides and the wire know of one attempt.

    `execution` carries `ISSUED` in the place of its own receipt. `saved` is the boundary that Gym has on disk,
    `durable` the one that the published snapshot records.
    """

    entry: Entry | None = None
    execution: Execution | None = None
    message: tuple[Kind, int] | None = None
    buried: bool = False
    acknowledged: bool = False
    owed: bool = False
    retiring: bool = False
    continuation: int | None = None
    saved: int | None = None
    durable: int | None = None


class Sibling(NamedTuple):
    """The attempts of one sibling, by index, and the entries that the published ledger has of it."""

    cells: tuple[Cell, ...] = ()
    published: tuple[Entry, ...] | None = None


class Local(NamedTuple):
    """One prompt group: its status in the ledger (None: not admitted) and in the published one, and its siblings."""

    status: GroupStatus | None
    published: GroupStatus | None
    siblings: tuple[Sibling, ...]


class Shared(NamedTuple):
    """What belongs to no group. `durable`: a snapshot has been published that a restart would fall back to."""

    open: bool
    fence: Fence
    manifest: str | None
    draining: bool
    snapshot: SnapshotState
    durable: bool
    budget: tuple[int, ...]


class Parts(NamedTuple):
    """A system, cut."""

    shared: Shared
    locals: tuple[Local, ...]


ISSUED: Final[Receipt] = model_receipt(Attempt("p0_g0", 0))
NO_CELL: Final = Cell()
BLANK: Final = NO_CELL[1:]
Grid = list[list[list[Any]]]  # the fields of a cell, by sibling and index
COVERED: Final[dict[type, set[str]]] = {
    System: {"policy", "scope", "gym", "trainer", "wire", "budget"},
    Gym: {"open", "executions", "tombstones", "acknowledged", "fence", "continuations", "manifest", "saved"},
    Execution: {"state", "boundary", "client", "receipt"},
    Trainer: {"groups", "outbox", "retiring", "draining", "snapshot", "durable"},
    Group: {"status", "siblings"},
    Published: {"groups", "records"},
    Wire: {"messages"},
    Message: {"attempt", "kind", "copies"},
}


def check_covered(covered: dict[type, set[str]] = COVERED) -> None:
    """Raise FactoringError when a class of the state has a field that `split` does not cut, or lacks one."""
    for kind, names in covered.items():
        found = {field.name for field in fields(kind)}
        if found != names:
            raise FactoringError(f"{kind.__name__}: split knows {sorted(names)}, the state has {sorted(found)}")


check_covered()


def split(system: System) -> Parts:
    """Return the parts of `system`. Raises FactoringError for a receipt that the model's agent never issues."""
    gym, trainer, durable = system.gym, system.trainer, system.trainer.durable
    size = system.scope.siblings
    grid: list[Grid] = [
        [[[entry, *BLANK] for entry in entries] for entries in group.siblings] if group else [[] for _ in range(size)]
        for group in trainer.groups
    ]
    for attempt, execution in gym.executions:
        _cell(grid, attempt)[1] = execution if execution.receipt is None else _anonymous(attempt, execution)
    for m in system.wire.messages:
        _cell(grid, m.attempt)[2] = (m.kind, m.copies)
    for attempt in gym.tombstones:
        _cell(grid, attempt)[3] = True
    for receipt in gym.acknowledged:
        _cell(grid, _issued(receipt))[4] = True
    for receipt in trainer.outbox:
        _cell(grid, _issued(receipt))[5] = True
    for attempt in trainer.retiring:
        _cell(grid, attempt)[6] = True
    for attempt, boundary in gym.continuations:
        _cell(grid, attempt)[7] = boundary
    for attempt, boundary in gym.saved:
        _cell(grid, attempt)[8] = boundary
    for attempt, boundary in () if durable is None else durable.records:
        _cell(grid, attempt)[9] = boundary
    shared = Shared(
        gym.open,
        gym.fence,
        gym.manifest,
        trainer.draining,
        trainer.snapshot,
        durable is not None,
        system.budget,
    )
    found = []
    for g, group in enumerate(trainer.groups):
        old = None if durable is None else durable.groups[g]
        siblings = [
            Sibling(tuple([Cell._make(cell) for cell in row]), None if old is None else old.siblings[s])
            for s, row in enumerate(grid[g])
        ]
        statuses = None if group is None else group.status, None if old is None else old.status
        found.append(Local(*statuses, tuple(siblings)))
    return Parts(shared, tuple(found))


def join(policy: Policy, scope: Scope, parts: Parts) -> System:
    """Return the system of these parts."""
    shared = parts.shared
    groups: list[Group | None] = []
    durable_groups: list[Group | None] = []
    executions, tombstones, acknowledged, continuations, saved = [], [], [], [], []
    outbox, retiring, messages, records = [], [], [], []
    for g, local in enumerate(parts.locals):
        ledger = []
        for s, sibling in enumerate(local.siblings):
            entries = []
            for i, cell in enumerate(sibling.cells):
                attempt = _attempt(g, s, i)
                if cell.entry is not None:
                    entries.append(cell.entry)
                if cell.execution is not None:
                    executions.append((attempt, _named(attempt, cell.execution)))
                if cell.message is not None:
                    messages.append(message(attempt, *cell.message))
                if cell.buried:
                    tombstones.append(attempt)
                if cell.acknowledged:
                    acknowledged.append(model_receipt(attempt))
                if cell.owed:
                    outbox.append(model_receipt(attempt))
                if cell.retiring:
                    retiring.append(attempt)
                if cell.continuation is not None:
                    continuations.append((attempt, cell.continuation))
                if cell.saved is not None:
                    saved.append((attempt, cell.saved))
                if cell.durable is not None:
                    records.append((attempt, cell.durable))
            ledger.append(tuple(entries))
        groups.append(None if local.status is None else Group(local.status, tuple(ledger)))
        if local.published is None:
            durable_groups.append(None)
        else:
            durable_groups.append(Group(local.published, tuple(s.published or () for s in local.siblings)))
    gym = Gym(
        shared.open,
        tuple(executions),
        tuple(tombstones),
        tuple(acknowledged),
        shared.fence,
        tuple(continuations),
        shared.manifest,
        tuple(saved),
    )
    trainer = Trainer(
        tuple(groups),
        tuple(outbox),
        tuple(retiring),
        shared.draining,
        shared.snapshot,
        Published(tuple(durable_groups), tuple(records)) if shared.durable else None,
    )
    return System(policy, scope, gym, trainer, Wire(tuple(messages)), shared.budget)


def _cell(grid: "list[Grid]", attempt: Attempt) -> list[Any]:
    g, s = locate(attempt.rollout)
    if g >= len(grid) or s >= len(grid[g]):
        raise FactoringError(f"{attempt} is outside the scope")
    row = grid[g][s]
    while len(row) <= attempt.index:
        row.append([None, *BLANK])
    return row[attempt.index]


@lru_cache(maxsize=4096)
def _attempt(group: int, sibling: int, index: int) -> Attempt:
    return Attempt(rollout_id(group, sibling), index)


@lru_cache(maxsize=4096)
def _issued(receipt: Receipt) -> Attempt:
    attempt = receipt.attempt
    if receipt != model_receipt(attempt):
        raise FactoringError(f"{receipt} is not the receipt of {attempt}")
    return attempt


@lru_cache(maxsize=4096)
def _anonymous(attempt: Attempt, execution: Execution) -> Execution:
    if execution.receipt != model_receipt(attempt):
        raise FactoringError(f"{execution.receipt} is not the receipt of {attempt}")
    return Execution(execution.state, execution.boundary, execution.client, ISSUED)


@lru_cache(maxsize=4096)
def _named(attempt: Attempt, execution: Execution) -> Execution:
    if execution.receipt is None:
        return execution
    return Execution(execution.state, execution.boundary, execution.client, model_receipt(attempt))
