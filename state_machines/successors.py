"""Successors of systems at the speed of table look-ups, with `enabled` and `step` as the only source of the tables.

A state is a tuple of small integers: the shared part, then one for each group. An event of one group reads its own
group, the shared part, and of the other groups only whether one of them keeps a waiting prepare from its answer; an
event of nobody's group reads a few facts of every group. So the effect of an event is looked up by exactly these, and
the real `step` runs once for each combination that occurs.

That an event reads and writes nothing else is an assumption about the protocol. It is checked, not trusted: whatever
the real step does to a part that the table does not foresee raises FactoringError, every state for which the real step
runs compares what the tables already knew, and a sample of all other states is recomputed with the real step.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, TypeVar

from attrs import frozen

from protocol import properties
from protocol.events import Event, Owner, RestartBoth, RestartGym, RestartTrainer
from protocol.policy import Policy
from protocol.runs import group_of
from protocol.scope import Scope
from protocol.state import System
from protocol.system import OF_A_GROUP, OF_NOBODY, enabled, step
from state_machines import reduce
from state_machines.factor import Cell, FactoringError, Local, Parts, Shared, Sibling, join, split
from state_machines.facts import FIRST, OWING, WAIT_FACTS, facts
from state_machines.reduce import ALL, Reductions
from state_machines.watched import Lessons, Watched

K = TypeVar("K")
T = TypeVar("T")
Code = tuple[int, ...]
Learned = tuple[dict[int, tuple["Move", ...]], tuple["Turn", ...]]
SYSTEM_ONLY: Final = frozenset({Owner.SYSTEM})
EVERYBODY: Final = frozenset(Owner)
UNFACTORED: Final = (RestartTrainer, RestartGym, RestartBoth)  # they read and write everything

SAMPLE: Final = 4093  # one state in so many is recomputed with the real step


@frozen
class Label:
    """What exploration knows of a transition. `unsafe` is the safety property that it breaks, if any."""

    name: str
    rescues: bool
    in_time: bool
    unsafe: str | None = None


class Move(NamedTuple):
    """A transition of one group: the label, the shared part and the group's part after it."""

    label: int
    shared: int
    local: int


class Turn(NamedTuple):
    """A transition of nobody's group: the label, the shared part after it, and the column that maps each group."""

    label: int
    shared: int
    column: int


Happened = tuple[int, Code, Event]  # a transition of nobody's group before it has a column
OF_KIN: Final = (
    *("shared", "locals", "facts", "absent", "waiting", "labels", "_shared_ids", "_local_ids", "_raw_shared"),
    *("_raw_locals", "_label_ids", "_ranks", "_checked", "_lessons"),
)  # no policy changes what a part is called


class Successors:
    """The transitions of one policy and scope, over interned parts.

    `closed` limits them to SYSTEM events and forgets what no such event reads: that is what a recovery needs.
    """

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL, *, closed: bool = False) -> None:
        self.policy, self.scope, self.closed = policy, scope, closed
        self.on = ALL if closed and on == ALL else reduce.applicable(on, scope)
        self.owners = SYSTEM_ONLY if closed else EVERYBODY
        self.shared: list[Shared] = []
        self.locals: list[Local] = []
        self.facts: list[int] = []
        self.absent: list[bool] = []
        self.waiting: list[bool] = []
        self.labels: list[Label] = []
        self.moves: dict[tuple[int, int, int], tuple[Move, ...]] = {}
        self.turns: dict[tuple[int, int], tuple[Turn, ...]] = {}
        self.columns: list[dict[int, int]] = []
        self.real_steps = 0
        self.sampled = 0
        self._column_of: dict[tuple[int, int, Event], int] = {}
        self._shared_ids: dict[Shared, int] = {}
        self._local_ids: dict[Local, int] = {}
        self._raw_shared: dict[tuple[Shared, bool], int] = {}
        self._raw_locals: dict[Local, int] = {}
        self._label_ids: dict[Label, int] = {}
        self._ranks: dict[Cell | Sibling, int] = {}
        self._checked: set[int] = set()  # parts whose round trip was seen: shared ones, and ~local
        self._count = 0
        self.unfactored = not closed and bool(scope.trainer_restarts or scope.gym_restarts or scope.restarts)
        self._lessons: dict[tuple[Code, frozenset[int]], Lessons] = {}
        if isinstance(policy, Watched):
            vars(self).update(policy.kin.setdefault((scope, self.on, closed), {x: getattr(self, x) for x in OF_KIN}))
        self.empty = self._local(Local(None, None, (Sibling(),) * scope.siblings))
        assert self.empty == 0

    # Systems and codes

    def encode(self, system: System) -> Code:
        """Return the code of `system`, the same for all systems that the reductions identify."""
        code = self._encode(system)
        return self.sort(code)

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
        parts = split(system)
        ids = [self._raw_locals.get(x, -1) for x in parts.locals]
        for i, x in enumerate(ids):
            if x < 0:
                ids[i] = self._local(parts.locals[i])
        owing = any(self.facts[x] & OWING for x in ids)
        key = (parts.shared, owing)
        shared = self._raw_shared.get(key)
        if shared is None:
            shared = self._raw_shared[key] = self._share(parts.shared, owing)
        return (shared, *ids)

    def _share(self, found: Shared, owing: bool) -> int:
        found = reduce.shared(found, self.on, self.scope, owing=owing)
        if self.closed:
            found = reduce.closed_shared(found)
        known = self._shared_ids.get(found)
        if known is None:
            known = self._shared_ids[found] = len(self.shared)
            self.shared.append(found)
            self.waiting.append(found.fence.waiting is not None)
        return known

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
            self.facts.append(facts(found))
            self.absent.append(found.status is None)
            if self.on.groups and not self.closed and found.status is None and known:
                raise FactoringError("a group that was not admitted has left something behind: groups are not equal")
        self._raw_locals[raw] = known
        return known

    def _rank(self, part: Cell | Sibling) -> int:
        return self._ranks.setdefault(part, len(self._ranks))

    def intern(self, found: Local) -> int:
        """Return the number of a group, reduced."""
        return self._local(found)

    def intern_shared(self, found: Shared, *, owing: bool = False) -> int:
        """Return the number of a shared part, reduced. `owing`: some group's result is in the outbox."""
        return self._share(found, owing)

    def label_id(self, label: Label) -> int:
        known = self._label_ids.get(label)
        if known is None:
            known = self._label_ids[label] = len(self.labels)
            self.labels.append(label)
        return known

    # Transitions

    def of(self, code: Code) -> list[tuple[int, Code]]:
        """Return `(label, successor)` of every transition of `code`, equal ones once or more often."""
        if not self.on.tables:
            return self.real(code)
        found: list[tuple[int, Code]] = []
        every = self._everybody(code)
        try:
            for i in self._positions(code):
                head, tail = code[1:i], code[i + 1 :]
                for label, shared, local in self.moves[code[0], self._seen_by(code, i), code[i]]:
                    found.append((label, self.sort((shared, *head, local, *tail))))
            for label, shared, column in self.turns[code[0], every]:
                into = self.columns[column]
                found.append((label, self.sort((shared, *[into[x] for x in code[1:]]))))
        except KeyError:
            self.learn(code)
            return self.of(code)
        if self.unfactored:
            found += self.whole(code)
        self._count += 1
        if self._count % SAMPLE == 0:
            self.verify(code, found)
        return found

    def whole(self, code: Code) -> list[tuple[int, Code]]:
        """Return the transitions that no table can hold: restarts, by the real step."""
        system = self.decode(code)
        events = [e for e in enabled(system, frozenset({Owner.FAULT})) if isinstance(e, UNFACTORED)]
        return [(self._label(system, e, after), self.encode(after)) for e, after in self._steps(system, events)]

    def real(self, code: Code) -> list[tuple[int, Code]]:
        """Return the transitions of `code` by the real `enabled` and `step` alone."""
        system = self.decode(code)
        steps = self._steps(system, enabled(system, self.owners))
        return [(self._label(system, event, after), self.encode(after)) for event, after in steps]

    def verify(self, code: Code, found: list[tuple[int, Code]]) -> None:
        """Raise FactoringError unless `found` are the real transitions of `code`."""
        self.sampled += 1
        real = set(self.real(code))
        if set(found) != real:
            only = [(self.labels[x].name, s) for x, s in set(found) ^ real]
            raise FactoringError(f"tables and the real step disagree in {code}: {sorted(only)[:4]}")

    def learn(self, code: Code, parts: Collection[int] | None = None) -> Learned:
        """Run the real step on `code` and fill the tables with what each part of it shows.

        `parts` are the positions of groups whose moves are wanted, and 0 for the turns; None for all.
        """
        parts = range(len(code)) if parts is None else parts
        if isinstance(self.policy, Watched):
            lessons = self._lessons.setdefault((code, frozenset(parts)), [])
            found, of_nobody = self.policy.once(lessons, lambda: self._look(code, parts))
        else:
            found, of_nobody = self._look(code, parts)
        every = self._everybody(code)
        turns = tuple(Turn(label, into[0], self._column(event, code, into, every)) for label, into, event in of_nobody)
        for i, x in found.items():
            self._remember(self.moves, (code[0], self._seen_by(code, i), code[i]), x)
        if 0 in parts:
            self._remember(self.turns, (code[0], every), turns)
        return found, turns

    def _look(self, code: Code, parts: Collection[int]) -> tuple[dict[int, tuple[Move, ...]], list[Happened]]:
        """Return the moves of each group of `parts`, and what nobody's events lead to, by the real step."""
        system = self.decode(code)
        if code[0] not in self._checked or not self._checked.issuperset({~x for x in code[1:]}):
            if self._encode(system) != code:
                raise FactoringError(f"{code} does not survive the round trip through its system")
            self._checked.update((code[0], *[~x for x in code[1:]]))
        kinds = None if 0 in parts and len(parts) > 1 else OF_NOBODY if 0 in parts else OF_A_GROUP
        moves: dict[int, list[Move]] = {i: [] for i in parts if i}
        of_nobody: list[Happened] = []
        possible = enabled(system, self.owners, kinds)
        events = [e for e in possible if _part(e) in parts and not isinstance(e, UNFACTORED)]
        for event, after in self._steps(system, events):
            label, into, at = self._label(system, event, after), self._encode(after), _part(event)
            if not at:
                of_nobody.append((label, into, event))
                continue
            if into[1:at] != code[1:at] or into[at + 1 :] != code[at + 1 :]:
                raise FactoringError(f"{event} has touched another group in {code}")
            moves[at].append(Move(label, into[0], into[at]))
        return {i: tuple(x) for i, x in moves.items()}, of_nobody

    def _remember(self, table: dict[K, tuple[T, ...]], key: K, found: tuple[T, ...]) -> None:
        known = table.setdefault(key, found)
        if set(known) != set(found):
            raise FactoringError(f"two systems that look the same from {key} differ in what can happen")

    def _column(self, event: Event, code: Code, into: Code, every: int) -> int:
        key = (code[0], every, event)
        column = self._column_of.get(key)
        if column is None:
            column = self._column_of[key] = len(self.columns)
            self.columns.append({})
        for before, after in zip(code[1:], into[1:], strict=True):
            if self.columns[column].setdefault(before, after) != after:
                raise FactoringError(f"{event} does two things to the same group in {code}")
        return column

    def _steps(self, system: System, events: Sequence[Event]) -> list[tuple[Event, System]]:
        self.real_steps += len(events)
        return [(event, step(system, event)) for event in events]

    def _label(self, before: System, event: Event, after: System) -> int:
        unsafe = None
        if not self.closed:
            broken = properties.unsafe(before, event, after)
            if broken:  # what was broken before is not this transition's doing
                standing = properties.unsafe(before, event, before)
                unsafe = next((v.property.value for v in broken if v not in standing), None)
        rescues, in_time = properties.rescues(event), properties.commits_in_time(event)
        return self.label_id(Label(event.name, rescues, in_time, unsafe))

    # What is seen

    def _positions(self, code: Code) -> list[int]:
        if not self.on.groups:
            return list(range(1, len(code)))
        return [i for i in range(1, len(code)) if i == 1 or code[i] != code[i - 1]]

    def _everybody(self, code: Code) -> int:
        seen = 0
        for x in code[1:]:
            seen |= self.facts[x]
        return seen

    def _seen_by(self, code: Code, at: int) -> int:
        """Return what an event of the group at `at` can see of the other groups."""
        seen = 0
        if self.waiting[code[0]]:
            for i, x in enumerate(code[1:], 1):
                if i != at:
                    seen |= self.facts[x]
            seen &= WAIT_FACTS
        if self.locals[code[at]].status is None and self._first(code) == at:
            seen |= FIRST
        return seen

    def _first(self, code: Code) -> int:
        return next((i for i, x in enumerate(code[1:], 1) if self.locals[x].status is None), 0)


def _part(event: Event) -> int:
    """Return the position in a code of the group that an event is about; 0 for an event of nobody's group."""
    group = group_of(event)
    return 0 if group is None else group + 1
