"""What exploration may forget, because nothing that can still happen would ever read it.

Each reduction is a function from parts to parts that are *bisimilar*: the same events with the same effects, the same
verdicts, the same causes. (`coding` applies them, sorts siblings, and deals out what was given up.) `Reductions`
switches each one off; `tests/prove/test_prove_verdicts.py` shows that verdicts and shortest lengths do not depend on
it. None of them applies where a restart could read what it drops.
"""

from typing import Final

from attrs import evolve, frozen

from protocol.executions import Execution, State
from protocol.fence import NOT_ENTERED, Fence, Reply
from protocol.scope import Fault, Scope
from protocol.snapshot import MAX_CONSECUTIVE_FAILURES, SnapshotState, Step
from protocol.trainer import GIVEN_UP, AttemptStatus, Entry, GroupStatus, Seen
from state_machines.factor import Cell, Local, Shared, Sibling


@frozen
class Reductions:
    """Which reductions are on.

    `siblings`, `groups`: no rule looks at an index, so permuted systems are equal. `history`: an attempt that is over
    on both sides, with nothing in flight and nothing owed, is only a number. `pool`: what was given up in a group is
    one pool; whose attempt it was, and which, nobody asks again. `store`: recorded replies that no call
    can ask for again, checkpoint ids that no call will carry, a manifest that nothing reads, the index of a boundary.
    `tables`: successors are looked up group by group. They need `store`: a recorded reply counts what all groups hold.
    """

    siblings: bool = True
    groups: bool = True
    history: bool = True
    pool: bool = True
    store: bool = True
    tables: bool = True


ALL: Final = Reductions()
NONE: Final = Reductions(False, False, False, False, False, False)

OVER: Final = frozenset({GroupStatus.FINALIZED, GroupStatus.DROPPED})
GONE: Final = Cell(entry=Entry(AttemptStatus.FAILED, Seen.FAILURE))
OWNED: Final = Cell(entry=Entry(AttemptStatus.SEALED, Seen.RESULT))
EMPTY: Final = Cell()


def restarts(scope: Scope) -> bool:
    """Return whether something in this scope can fall back to what was published."""
    return bool(scope.trainer_restarts or scope.gym_restarts or scope.restarts)


def applicable(wanted: Reductions, scope: Scope) -> Reductions:
    """Return the reductions that are sound in `scope`.

    A trainer that falls back may meet at Gym what its ledger has forgotten, and admits the group of the lowest number
    first: there groups are not interchangeable, and nothing of the history is over.
    """
    history, pool = wanted.history and not restarts(scope), wanted.pool and not restarts(scope)
    groups = wanted.groups and not (scope.trainer_restarts or scope.restarts)
    return Reductions(wanted.siblings, groups, history, pool, wanted.store, wanted.tables and wanted.store)


def sibling(found: Sibling, on: Reductions, scope: Scope, *, started: bool) -> Sibling:
    """Return the sibling of a group without what is over and what nothing reads. `started`: the group was admitted."""
    if on.store:
        keep = restarts(scope)
        found = Sibling(_trimmed([_stored(c, keep) for c in found.cells]), found.published)
    if on.history and started:
        found = Sibling(tuple([_over(c) for c in found.cells]), found.published)
    return found


def _trimmed(cells: list[Cell]) -> tuple[Cell, ...]:
    """Return the cells without those at the end of which nothing is left: no system has any."""
    while cells and cells[-1] == EMPTY:
        cells.pop()
    return tuple(cells)


def _stored(cell: Cell, keep: bool) -> Cell:
    """Only whether there is a boundary matters to anybody, not which; what is on disk is read by a restart alone."""
    execution = cell.execution
    if execution is not None and execution.boundary:
        execution = Execution(execution.state, 0, execution.client, execution.receipt)
        cell = cell._replace(execution=execution)
    if not keep:
        return cell if cell.saved is None else cell._replace(saved=None)
    if cell.saved or cell.durable or cell.continuation:
        saved, durable, continuation = (None if x is None else 0 for x in (cell.saved, cell.durable, cell.continuation))
        cell = cell._replace(saved=saved, durable=durable, continuation=continuation)
    return cell


def _over(cell: Cell) -> Cell:
    entry = cell.entry
    if entry is None or entry.status in (AttemptStatus.RESERVED, AttemptStatus.DISPATCHED):
        return cell
    if cell.execution is not None or cell.message is not None or cell.owed or cell.retiring:
        return cell
    if cell.continuation is not None:
        return cell
    return GONE if entry.status in GIVEN_UP else OWNED


def given_up(cell: Cell) -> bool:
    """Return whether the ledger has given up the attempt: then nothing looks at whose it was."""
    return cell.entry is not None and cell.entry.status in GIVEN_UP


def over(found: Sibling) -> bool:
    """Return whether nothing is left of a sibling but that it was."""
    return all(c in (GONE, OWNED) for c in found.cells)


def group(head: Local, on: Reductions, *, over: bool) -> tuple[Local, Sibling | None]:
    """Return the head of a group (`over`: so are all its siblings), and what each sibling is then, if it changes."""
    if on.history and over and head.status in OVER:
        return Local(GroupStatus.DROPPED, None, ()), Sibling((GONE,))
    return head, None


def shared(found: Shared, on: Reductions, scope: Scope, *, owing: bool) -> Shared:
    """Return the shared part without what nothing reads. `owing`: somebody's result is in the outbox."""
    if not on.store:
        return found
    snapshot = found.snapshot
    published = tuple(n for n in snapshot.published if n == snapshot.number)
    left = scope.snapshots - 1 - snapshot.number
    may_still_fail = left + (snapshot.step is not Step.IDLE)
    failures = snapshot.failures if snapshot.failures + may_still_fail >= MAX_CONSECUTIVE_FAILURES else 0
    if (published, failures) != (snapshot.published, snapshot.failures):
        snapshot = evolve(snapshot, published=published, failures=failures)
    current = snapshot.checkpoint_id if snapshot.step is not Step.IDLE else None
    fence = found.fence
    if fence.retired or fence.recorded:
        retired = tuple(x for x in fence.retired if not _spent(x, current))
        recorded = tuple((x, op, Reply(r.status, r.code)) for x, op, r in fence.recorded if not _spent(x, current))
        fence = Fence(fence.phase, fence.active, retired, recorded, fence.waiting)
    return Shared(
        found.open,
        fence,
        found.manifest if found.manifest == current else None,
        found.draining or not owing,
        snapshot,
        found.durable,
        found.budget,
    )


def _spent(checkpoint_id: str, current: str | None) -> bool:
    """Whether no call will carry this id again: ids of snapshots are counted and never used twice (trainer.md)."""
    return checkpoint_id != current and checkpoint_id.startswith("c")


# What a recovery may forget on top: it consists of SYSTEM events only, so nothing is admitted, nothing fails, and
# nobody restarts. What was seen of an attempt that was given up names its cause, and changes nothing that happens.


def closed_group(head: Local, *, over: bool) -> tuple[Local, Sibling | None]:
    """Return the same as far as SYSTEM events can tell: a group that is over everywhere is as good as none."""
    if head.status is None or head.status not in (GroupStatus.READY_TO_FINALIZE, *OVER):
        return Local(head.status, None, ()), None
    return (Local(None, None, ()), Sibling()) if over else (Local(GroupStatus.DROPPED, None, ()), None)


def closed_sibling(found: Sibling) -> Sibling:
    """Return the sibling as far as SYSTEM events can tell."""
    return Sibling(_trimmed([_unseen(c) for c in found.cells]))


REST: Final = Shared(True, NOT_ENTERED, None, True, SnapshotState(), False, (0,) * len(Fault))


def at_rest(found: Shared) -> bool:
    """Return whether no SYSTEM event changes the shared part: no snapshot is under way, and no prepare waits.

    Then each group goes on as if it were alone, but for a flush, which all debts share and which may then only fail.
    """
    return found.snapshot.step is Step.IDLE and found.fence.waiting is None


def retained(found: Local) -> list[Local]:
    """Return, each as a group of its own, the results that Gym retains of attempts that the ledger gave up or forgot.

    What can become of such a result depends on nobody else, and never on more than Gym at rest allows. What the ledger
    forgot of a group that it still generates is none of them: when what it waits for fails, it asks for it again.
    """
    size = len(found.siblings)
    alone = []
    for cell in {cell for sibling in found.siblings for cell in sibling.cells}:
        if cell.execution is None or cell.execution.state is not State.COMPLETED:
            continue
        if cell.entry is None and found.status is not GroupStatus.GENERATING:
            alone.append(Local(None, None, (Sibling((cell,)),) + (Sibling(),) * (size - 1)))
        elif given_up(cell):
            alone.append(Local(GroupStatus.DROPPED, None, (Sibling((cell,)),) + (Sibling((GONE,)),) * (size - 1)))
    return alone


def _unseen(cell: Cell) -> Cell:
    if cell.saved is not None or cell.durable is not None:
        cell = cell._replace(saved=None, durable=None)
    if cell.entry is None or cell.entry.status not in GIVEN_UP:
        return cell
    return _over(cell._replace(entry=GONE.entry))


def closed_shared(found: Shared) -> Shared:
    """Return the shared part as far as SYSTEM events can tell."""
    snapshot = found.snapshot
    failures = MAX_CONSECUTIVE_FAILURES if snapshot.ended else 0
    return found._replace(
        draining=found.draining or snapshot.step is Step.IDLE,
        snapshot=evolve(snapshot, published=(), failures=failures),
        durable=False,
        budget=(0,) * len(found.budget),
    )
