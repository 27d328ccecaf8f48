"""Successors of systems at the speed of table look-ups, with `enabled` and `step` as the only source of the tables.

A state is a code: the shared part, then a number for each group. An event of one group reads its own group, the shared
part, and of the other groups only whether one of them keeps a waiting prepare from its answer; an event of nobody's
group reads a few facts of every group. So transitions are looked up by exactly these, and what is not known yet is put
together by `effects`. A restart reads everything, and takes the real step each time.

A sample of all states is recomputed with the real step; a difference raises FactoringError.
"""

from collections.abc import Collection
from typing import Final

from protocol.events import Owner
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.system import enabled
from state_machines import reduce
from state_machines.coding import Code
from state_machines.effects import Effects, Move, Turn
from state_machines.factor import FactoringError
from state_machines.happenings import SYSTEM_ONLY, UNFACTORED, Label, rule_key
from state_machines.reduce import ALL, Reductions

Learned = tuple[dict[int, tuple[Move, ...]], tuple[Turn, ...]]
SAMPLE: Final = 4093  # one state in so many is recomputed with the real step
FAULTS_ONLY: Final = frozenset({Owner.FAULT})


class Successors(Effects):
    """The transitions of one policy and scope.

    `closed` limits them to SYSTEM events and forgets what no such event reads: that is what a recovery needs.
    """

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL, *, closed: bool = False) -> None:
        self.moves: dict[tuple[int, int, int], tuple[Move, ...]] = {}
        self.turns: dict[tuple[int, int], tuple[Turn, ...]] = {}
        self.sampled = 0
        self.unfactored = not closed and reduce.restarts(scope)
        self._count = 0
        super().__init__(policy, scope, on, closed=closed)

    def of(self, code: Code) -> list[tuple[int, Code]]:
        """Return `(label, successor)` of every transition of `code`, equal ones once or more often."""
        if not self.on.tables:
            return self.real(code)
        found: list[tuple[int, Code]] = []
        every = self.everybody(code)
        try:
            for i in self._positions(code):
                head, tail = code[1:i], code[i + 1 :]
                for label, shared, local in self.moves[code[0], self.seen_outside(code, i), code[i]]:
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

    def learn(self, code: Code, parts: Collection[int] | None = None) -> Learned:
        """Fill the tables with what can happen in `code`.

        `parts` are the positions of groups whose moves are wanted, and 0 for the turns; None for all.
        """
        parts = range(len(code)) if parts is None else parts
        moves: dict[int, tuple[Move, ...]] = {}
        turns: tuple[Turn, ...] = ()
        for i in parts:
            if i:
                moves[i] = self.moves[code[0], self.seen_outside(code, i), code[i]] = self.moves_of(code, i)
        if 0 in parts:
            every = self.everybody(code)
            turns = self.turns[code[0], every] = self.turns_of(code, every)
            if any(self.map(turn.column, x) is None for turn in turns for x in code[1:]):
                self.learn_turns(code, every)
                assert all(self.map(turn.column, x) is not None for turn in turns for x in code[1:])
        return moves, turns

    def whole(self, code: Code) -> list[tuple[int, Code]]:
        """Return the transitions that no table can hold: restarts, by the real step."""
        system = self.decode(code)
        events = [e for e in enabled(system, FAULTS_ONLY) if rule_key(e) in UNFACTORED]
        return [(self.label(system, e, after), self.encode(after)) for e, after in self.steps(system, events)]

    def real(self, code: Code) -> list[tuple[int, Code]]:
        """Return the transitions of `code` by the real `enabled` and `step` alone."""
        system = self.decode(code)
        steps = self.steps(system, enabled(system, self.owners))
        return [(self.label(system, event, after), self.encode(after)) for event, after in steps]

    def verify(self, code: Code, found: list[tuple[int, Code]]) -> None:
        """Raise FactoringError unless `found` are the real transitions of `code`."""
        self.sampled += 1
        real = set(self.real(code))
        if set(found) != real:
            only = [(self.labels[x].name, s) for x, s in set(found) ^ real]
            raise FactoringError(f"tables and the real step disagree in {code}: {sorted(only)[:4]}")

    def everybody(self, code: Code) -> int:
        """Return what can be seen of all groups together."""
        seen = 0
        for x in code[1:]:
            seen |= self.facts[x]
        return seen

    def _positions(self, code: Code) -> list[int]:
        if not self.on.groups:
            return list(range(1, len(code)))
        return [i for i in range(1, len(code)) if i == 1 or code[i] != code[i - 1]]


__all__ = ["SYSTEM_ONLY", "Code", "FactoringError", "Label", "Move", "Successors", "Turn"]
