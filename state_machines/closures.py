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
CHUNK: Final = 1 << 14  # rows expanded at once


class Answers:
    """The answers to one question, by packed code."""

    def __init__(self) -> None:
        self.known: Packed | None = None
        self.yes: Yes = np.empty(0, np.bool_)

    def of(self, packed: Packed) -> tuple[Yes, Yes]:
        """Return which codes are answered, and the answers."""
        if self.known is None:
            return np.zeros(len(packed), np.bool_), np.zeros(len(packed), np.bool_)
        at = np.searchsorted(self.known, packed)
        at[at == len(self.known)] = 0
        answered = self.known[at] == packed
        return answered, answered & self.yes[at]

    def add(self, packed: Packed, yes: Yes) -> None:
        """Add the answers of codes that have none."""
        if self.known is not None:
            packed, yes = np.concatenate([self.known, packed]), np.concatenate([self.yes, yes])
        order = np.argsort(packed, kind="stable")
        self.known, self.yes = packed[order], yes[order]

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
        self.answers = {name: Answers() for name in ("ready", "committed", "reopened")}
        self._alone = Answers()
        self._facts: list[tuple[bool, bool, bool]] = []  # of shared parts: committed, reopened, at rest
        self._kept: list[bool] = []
        self._of_shared, self._of_local = Column(self._facts, np.bool_), Column(self._kept, np.bool_)

    def __len__(self) -> int:
        return sum(map(len, self.answers.values()))

    def ready(self, rows: Rows) -> Yes:
        """Return which states have a continuation that makes Gym ready."""
        return self._decide(rows, self.answers["ready"], self._is_ready, self._hopeless)

    def committed(self, rows: Rows) -> Yes:
        """Return which states have a continuation that commits the snapshot under way before its deadline."""
        return self._decide(
            rows,
            self.answers["committed"],
            lambda x: self._shared(x)[:, 0],
            lambda x: self._shared(x)[:, 2] | self._hopeless(x),
            in_time=True,
        )

    def reopened(self, rows: Rows) -> Yes:
        """Return which states have a continuation that opens Gym's admission and ends the snapshot."""
        return self._decide(rows, self.answers["reopened"], lambda x: self._shared(x)[:, 1], _nothing)

    def _decide(
        self,
        rows: Rows,
        answers: Answers,
        goal: Callable[[Rows], Yes],
        hopeless: Callable[[Rows], Yes],
        *,
        in_time: bool = False,
    ) -> Yes:
        packed, where, back = np.unique(pack(rows), return_index=True, return_inverse=True)
        answered, yes = answers.of(packed)
        if not answered.all():
            new = ~answered
            self._explore(rows[where[new]], packed[new], answers, goal, hopeless, in_time)
            yes = answers.of(packed)[1]
        return yes[back]

    def _explore(
        self,
        rows: Rows,
        names: Packed,
        answers: Answers,
        goal: Callable[[Rows], Yes],
        hopeless: Callable[[Rows], Yes],
        in_time: bool,
    ) -> None:
        """Answer for codes that have no answer, given sorted, and for all that they lead to."""
        found, yes, pending = [names], [], names
        sources, targets, count = [np.empty(0, np.int64)], [names[:0]], 0
        while len(rows):
            reached = goal(rows)
            yes.append(reached)
            inner = np.flatnonzero(~reached)
            inner = inner[~hopeless(rows[inner])]
            fresh: list[Rows] = [rows[:0]]
            found.append(names[:0])
            for at in range(0, len(inner), CHUNK):
                part = inner[at : at + CHUNK]
                edges = self.batch.expand(rows[part])
                kept = self._in_time()[edges.labels] if in_time else np.ones(len(edges.labels), np.bool_)
                after, owner = edges.rows[kept], part[edges.sources[kept]]
                into = pack(after)
                sources.append(owner + count)
                targets.append(into)
                into, where = np.unique(into, return_index=True)
                new = ~(answers.of(into)[0] | among(into, pending))
                fresh.append(after[where[new]])
                found[-1] = np.concatenate([found[-1], into[new]])
                pending = merged(pending, into[new])
                self.guard(len(pending))
            count += len(rows)
            rows, names = np.concatenate(fresh), found[-1]
        names, good = np.concatenate(found), np.concatenate(yes)
        _backwards(names, good, np.concatenate(sources), np.concatenate(targets), answers)
        answers.add(names, good)

    # Facts

    def _shared(self, rows: Rows) -> Yes:
        for i in range(len(self._facts), len(self.successors.shared)):
            system = self.successors.decode((i, *[self.successors.empty] * (rows.shape[1] - 1)))
            rests = reduce.at_rest(self.successors.shared[i])
            self._facts.append((p.committed(system), p.reopened(system), rests))
        return self._of_shared()[rows[:, 0]]

    def _is_ready(self, rows: Rows) -> Yes:
        """Gym is ready when it is of every group."""
        return ~_any(self.batch.facts()[rows[:, 1:]] & NOT_READY)

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
        return self._decide(rows, self._alone, self._is_ready, _nothing)

    def _in_time(self) -> Yes:
        return np.array([label.in_time for label in self.successors.labels], np.bool_)


def _any(facts: NDArray[Any]) -> Yes:
    found: Yes = np.any(facts, axis=1)
    return found


def _nothing(rows: Rows) -> Yes:
    return np.zeros(len(rows), np.bool_)


def _backwards(names: Packed, good: Yes, sources: Ints, targets: Packed, answers: Answers) -> None:
    """Mark in `good` all that leads to something good, or to a code that is known to be."""
    answered, yes = answers.of(targets)
    good[sources[yes]] = True
    sources, targets = sources[~answered], targets[~answered]
    order = np.argsort(names, kind="stable")
    at = order[np.searchsorted(names[order], targets)]
    back = np.argsort(at, kind="stable")
    before, counts = sources[back], np.bincount(at, minlength=len(names))
    starts = np.cumsum(counts) - counts
    front = np.flatnonzero(good)
    while len(front):
        into = before[spread(starts[front], counts[front])[1]]
        front = np.unique(into[~good[into]])
        good[front] = True
