"""What SYSTEM events alone can still reach, for many states at once: the liveness verdicts of an exploration.

`recovery.Probe` answers one question with as little search as it can. Here all questions of a level are asked together:
what they lead to is explored forwards, a batch at a time, not beyond a state that has reached the goal or that never
will; then the answers are carried backwards. Both work on the same codes, and tests compare them.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol import properties as p
from protocol.policy import Policy
from protocol.scope import Scope
from state_machines import reduce
from state_machines.batches import Batch, Column
from state_machines.facts import NOT_READY
from state_machines.names import Ints, Names, Numbers, Packed, Rows, pack
from state_machines.successors import Successors

Yes = NDArray[np.bool_]
Bits = NDArray[np.uint8]
CHUNK: Final = 1 << 14  # rows expanded at once
FEW: Final = 1 << 12  # states that are looked at before it pays to ask which of them are hopeless


READY, COMMITTED, REOPENED = 1, 2, 4  # the bits of an answer
AT_HOME: Final = READY | REOPENED  # at rest nothing else can be reached from here


class Answers:
    """What is known of closed codes, as bits, by their packed form."""

    def __init__(self) -> None:
        self._names, self._bits = Names(), np.empty(0, np.uint8)

    def of(self, packed: Packed) -> tuple[Yes, Bits]:
        """Return which codes are answered, and the answers (0 for the others)."""
        found = self._names.find(packed)
        answered, bits = found >= 0, np.zeros(len(packed), np.uint8)
        bits[answered] = self._bits[found[answered]]
        return answered, bits

    def add(self, packed: Packed, bits: Bits) -> None:
        """Add the answers of codes that have none, sorted."""
        self._names.add(packed)
        self._bits = np.concatenate([self._bits, bits])

    def __len__(self) -> int:
        return len(self._names)


class Leads(NamedTuple):
    """Which of the states explored some lead to: numbers; the transitions of `sources[i]` begin at `starts[i]`."""

    sources: Numbers
    starts: Ints
    targets: Numbers
    in_time: Yes


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
        met, enough = Names(), FEW + 4 * len(rows)
        met.add(names)
        bits: list[Bits] = []
        leads: list[Leads] = []
        while len(rows):
            first, reached, fresh = sum(map(len, bits)), self._reached(rows), [rows[:0]]
            inner = np.flatnonzero(~((reached & AT_HOME == AT_HOME) & self._shared(rows)[:, 2]))
            if len(met) > enough:
                inner = inner[~hopeless(rows[inner])]
            for at in range(0, len(inner), CHUNK):
                part = inner[at : at + CHUNK]
                edges = self.batch.expand(rows[part])
                sources, into = part[edges.sources], pack(edges.rows)
                in_time = np.array([label.in_time for label in self.successors.labels], np.bool_)[edges.labels]
                answered, known = answers.of(into)
                np.bitwise_or.at(reached, sources[answered], (known & _lets_through(in_time))[answered])
                open_ = np.flatnonzero(~answered)
                names, where = np.unique(into[open_], return_index=True)
                new = met.find(names) < 0
                met.add(names[new])
                fresh.append(edges.rows[open_[where[new]]])
                if len(open_):
                    starts = np.flatnonzero(np.diff(sources[open_], prepend=-1))
                    owners = (sources[open_[starts]] + first).astype(np.int32)
                    leads.append(Leads(owners, starts, met.find(into[open_]), in_time[open_]))
                self.guard(len(met))
            bits.append(reached)
            rows = np.concatenate(fresh)
        found = np.concatenate(bits)
        _backwards(found, leads)
        packed, numbers = met.sorted()
        answers.add(packed, found[numbers])

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


def _lets_through(in_time: Yes) -> Bits:
    """Return which goals transitions carry back: a commit is sought without the deadline."""
    return np.where(in_time, READY | COMMITTED | REOPENED, READY | REOPENED).astype(np.uint8)


def _backwards(bits: Bits, leads: list[Leads]) -> None:
    """Give each state every goal that something it leads to has, again and again until nothing changes."""
    changed = True
    while changed:
        changed = False
        for sources, starts, targets, in_time in reversed(leads):
            carried = np.bitwise_or.reduceat(bits[targets] & _lets_through(in_time), starts)
            if (carried & ~bits[sources]).any():
                bits[sources] |= carried
                changed = True
