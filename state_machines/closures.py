"""What SYSTEM events alone can still reach, for many states at once: the liveness verdicts of an exploration.

`recovery.Probe` answers one question with as little search as it can. Here all questions of a level are asked together:
what they lead to is explored forwards, a batch at a time, not beyond a state that has reached the goal or that never
will; then the answers are carried backwards. Both work on the same codes, and tests compare them.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from protocol import properties as p
from protocol.policy import Policy
from protocol.scope import Scope
from state_machines import reduce
from state_machines.batches import Batch, Column, Ints, Packed, Rows, among, merged, pack, spread
from state_machines.facts import NOT_READY
from state_machines.successors import Successors

Yes = NDArray[np.bool_]
Bits = NDArray[np.uint8]
CHUNK: Final = 1 << 14  # rows expanded at once
FEW: Final = 1 << 12  # states that are looked at before it pays to ask which of them are hopeless


READY, COMMITTED, REOPENED = 1, 2, 4  # the bits of an answer


class Answers:
    """What is known of closed codes, as bits, by their packed form."""

    def __init__(self) -> None:
        self.known: Packed | None = None
        self.bits: Bits = np.empty(0, np.uint8)

    def of(self, packed: Packed) -> tuple[Yes, Bits]:
        """Return which codes are answered, and the answers (0 for the others)."""
        if self.known is None:
            return np.zeros(len(packed), np.bool_), np.zeros(len(packed), np.uint8)
        at = np.searchsorted(self.known, packed)
        at[at == len(self.known)] = 0
        answered = self.known[at] == packed
        return answered, np.where(answered, self.bits[at], 0).astype(np.uint8)

    def add(self, packed: Packed, bits: Bits) -> None:
        """Add the answers of codes that have none."""
        if self.known is not None:
            packed, bits = np.concatenate([self.known, packed]), np.concatenate([self.bits, bits])
        order = np.argsort(packed, kind="stable")
        self.known, self.bits = packed[order], bits[order]

    def __len__(self) -> int:
        return 0 if self.known is None else len(self.known)


class Closures:
    """Decides the goals of `recovery.GOALS` for the closed codes of one policy and scope, and remembers them.

    `guard` is told, once a chunk, how many states a question has led to, and may raise to give it up: nothing is
    remembered of it then.
    """

    def __init__(self, policy: Policy, scope: Scope, guard: Callable[[int], None] = lambda pending: None) -> None:
        self.guard = guard
        self.successors = Successors(policy, scope, closed=True)
        self.batch = Batch(self.successors)
        self._answers, self._alone, self._through = Answers(), Answers(), Answers()
        self._facts: list[tuple[bool, bool, bool]] = []  # of shared parts: committed, reopened, at rest
        self._kept: list[bool] = []
        self._of_shared, self._of_local = Column(self._facts, np.bool_), Column(self._kept, np.bool_)

    def __len__(self) -> int:
        return len(self._answers) + len(self._alone) + len(self._through)

    def of(self, rows: Rows) -> Bits:
        """Return which goals the states can reach.

        `READY`: some continuation makes Gym ready. `COMMITTED`: some continuation commits the snapshot under way
        before its deadline. `REOPENED`: some continuation opens Gym's admission and ends the snapshot; not decided
        where that is to be sought beyond a state that can never be ready (`reopened`).
        """
        return self._decide(rows, self._answers, self._hopeless)

    def reopened(self, rows: Rows) -> Yes:
        """Return which states have a continuation that opens Gym's admission and ends the snapshot, through any."""
        return self._decide(rows, self._through, _nothing) & REOPENED > 0

    def _decide(self, rows: Rows, answers: Answers, hopeless: Callable[[Rows], Yes]) -> Bits:
        packed, where, back = np.unique(pack(rows), return_index=True, return_inverse=True)
        answered, bits = answers.of(packed)
        if not answered.all():
            new = ~answered
            self._explore(rows[where[new]], packed[new], answers, hopeless)
            bits = answers.of(packed)[1]
        found: Bits = bits[back]
        return found

    def _explore(self, rows: Rows, names: Packed, answers: Answers, hopeless: Callable[[Rows], Yes]) -> None:
        """Answer for codes that have no answer, given sorted, and for all that they lead to."""
        found, bits, pending = [names], [], names
        sources, targets, labels = [np.empty(0, np.int64)], [names[:0]], [np.empty(0, np.int64)]
        count, enough = 0, FEW + 4 * len(rows)
        while len(rows):
            bits.append(self._reached(rows))
            inner = np.arange(len(rows)) if len(pending) <= enough else np.flatnonzero(~hopeless(rows))
            fresh: list[Rows] = [rows[:0]]
            found.append(names[:0])
            for at in range(0, len(inner), CHUNK):
                part = inner[at : at + CHUNK]
                edges = self.batch.expand(rows[part])
                into = pack(edges.rows)
                sources.append(part[edges.sources] + count)
                targets.append(into)
                labels.append(edges.labels)
                into, where = np.unique(into, return_index=True)
                new = ~(answers.of(into)[0] | among(into, pending))
                fresh.append(edges.rows[where[new]])
                found[-1] = np.concatenate([found[-1], into[new]])
                pending = merged(pending, into[new])
                self.guard(len(pending))
            count += len(rows)
            rows, names = np.concatenate(fresh), found[-1]
        names, reached = np.concatenate(found), np.concatenate(bits)
        in_time = np.array([label.in_time for label in self.successors.labels], np.bool_)[np.concatenate(labels)]
        _backwards(names, reached, np.concatenate(sources), np.concatenate(targets), in_time, answers)
        answers.add(names, reached)

    # Facts

    def _shared(self, rows: Rows) -> Yes:
        for i in range(len(self._facts), len(self.successors.shared)):
            system = self.successors.decode((i, *[self.successors.empty] * (rows.shape[1] - 1)))
            rests = reduce.at_rest(self.successors.shared[i])
            self._facts.append((p.committed(system), p.reopened(system), rests))
        return self._of_shared()[rows[:, 0]]

    def _reached(self, rows: Rows) -> Bits:
        """Return which goals the states are at. Gym is ready when it is of every group."""
        shared, ready = self._shared(rows), ~_any(self.batch.facts()[rows[:, 1:]] & NOT_READY)
        bits: Bits = (ready * READY + shared[:, 0] * COMMITTED + shared[:, 1] * REOPENED).astype(np.uint8)
        return bits

    def _hopeless(self, rows: Rows) -> Yes:
        """Return which states have a group that can never be ready, whatever the others do.

        Such is one of whose results Gym retains one that nothing releases; and, while nothing shared will change, one
        that cannot be ready alone.
        """
        for i in range(len(self._kept), len(self.successors.locals)):
            self._kept.append(False)  # a result alone is not asked again about itself
            alone = [self.successors.intern(x) for x in reduce.retained(self.successors.locals[i])]
            rest = self.successors.intern_shared(reduce.REST)
            self._kept[i] = bool(alone) and not self._ready_alone(np.array([(rest, x) for x in alone], np.int32)).all()
        lost = _any(self._of_local()[rows[:, 1:]])
        if rows.shape[1] > 2:
            at = np.flatnonzero(~lost & self._shared(rows)[:, 2])
            shared = np.broadcast_to(rows[at, :1], (len(at), rows.shape[1] - 1))
            pairs = np.stack([shared.ravel(), rows[at, 1:].ravel()], axis=1)
            lost[at] = ~self._ready_alone(pairs).reshape(shared.shape).all(axis=1)
        return lost

    def _ready_alone(self, rows: Rows) -> Yes:
        return self._decide(rows, self._alone, _nothing) & READY > 0


def _any(facts: NDArray[Any]) -> Yes:
    found: Yes = np.any(facts, axis=1)
    return found


def _nothing(rows: Rows) -> Yes:
    return np.zeros(len(rows), np.bool_)


def _backwards(names: Packed, bits: Bits, sources: Ints, targets: Packed, in_time: Yes, answers: Answers) -> None:
    """Give each code, in `bits`, every goal that something it leads to has, or that a known code has."""
    answered, known = answers.of(targets)
    order = np.argsort(names, kind="stable")
    inner = np.flatnonzero(~answered)
    at = order[np.searchsorted(names[order], targets[inner])]
    back = np.argsort(at, kind="stable")
    before, allowed = sources[inner][back], in_time[inner][back]
    counts = np.bincount(at, minlength=len(names))
    starts = np.cumsum(counts) - counts
    for goal in (READY, COMMITTED, REOPENED):
        leads = answered & (known & goal > 0) & (in_time if goal == COMMITTED else True)
        bits[sources[leads]] |= goal
        front = np.flatnonzero(bits & goal)
        while len(front):
            edges = spread(starts[front], counts[front])[1]
            into = before[edges[allowed[edges]] if goal == COMMITTED else edges]
            fresh = np.zeros(len(names), np.bool_)
            fresh[into] = True
            front = np.flatnonzero(fresh & (bits & goal == 0))
            bits[front] |= goal
