"""What really happens: the real `enabled` and `step`, run on the system of a code, and what is noted of it.

Whatever a real step does to a part that it should not touch raises FactoringError.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from attrs import frozen

from protocol import properties
from protocol.events import Event, Owner, RestartBoth, RestartGym, RestartTrainer
from protocol.identity import locate
from protocol.policy import Policy
from protocol.runs import group_of
from protocol.scope import Scope
from protocol.state import System
from protocol.system import OF_A_GROUP, OF_NOBODY, RULES, RuleKey, enabled, rule_of, step
from state_machines.coding import OF_KIN, Code, Coding, Group, numbered
from state_machines.factor import FactoringError, split
from state_machines.reduce import ALL, Reductions
from state_machines.watched import Lessons, Watched

SYSTEM_ONLY: Final = frozenset({Owner.SYSTEM})
EVERYBODY: Final = frozenset(Owner)
UNFACTORED: Final[frozenset[RuleKey]] = frozenset({RestartTrainer, RestartGym, RestartBoth})  # they touch everything
KEYS: Final = {id(rule): key for key, rule in RULES.items()}
NOBODY: Final = -1  # in the place of a sibling: the group as a whole; of a fault: none


@frozen
class Label:
    """What exploration knows of a transition. `unsafe` is the safety property that it breaks, if any."""

    name: str
    rescues: bool
    in_time: bool
    unsafe: str | None = None


class Happened(NamedTuple):
    """A real step: the rule, the index of the attempt, the label, and the parts after it: of its group, or of all."""

    rule: RuleKey
    attempt: int
    label: int
    fault: int
    core: int
    groups: tuple[Group, ...]


class Happenings(Coding):
    """The real steps of one policy and scope, over coded parts. `closed` limits them to SYSTEM events."""

    kin: tuple[str, ...] = (*OF_KIN, "labels", "_label_ids", "_lessons", "_checked")

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL, *, closed: bool = False) -> None:
        self.owners = SYSTEM_ONLY if closed else EVERYBODY
        self.labels: list[Label] = []
        self.real_steps = 0
        self._label_ids: dict[Label, int] = {}
        self._lessons: dict[tuple[Code, int, int], Lessons] = {}
        self._checked: set[int | tuple[int]] = set()  # parts whose round trip was seen: ~shared, siblings, (head,)
        self._asked: tuple[Code, bool] | None = None
        self._possible: tuple[System, dict[tuple[int, int], list[Event]]]
        super().__init__(policy, scope, on, closed=closed)

    def look(self, code: Code, at: int, unit: int) -> list[Happened]:
        """Return what the events of one sibling (or of a group as a whole, or of nobody's group) really do."""
        if isinstance(self.policy, Watched):
            lessons = self._lessons.setdefault((code, at, unit), [])
            self._asked = None  # what was read to find the events belongs to every lesson
            return self.policy.once(lessons, lambda: self._really(code, at, unit))
        return self._really(code, at, unit)

    def _really(self, code: Code, at: int, unit: int) -> list[Happened]:
        if (code, at > 0) != self._asked:
            system = self.system(code)
            events: dict[tuple[int, int], list[Event]] = {}
            for event in enabled(system, self.owners, OF_A_GROUP if at else OF_NOBODY):
                if rule_key(event) not in UNFACTORED:
                    events.setdefault(where(event)[:2], []).append(event)
            self._asked, self._possible = (code, at > 0), (system, events)
        system, events = self._possible
        found = []
        for event, after in self.steps(system, events.get((at, unit), [])):
            parts = split(after)
            if at and any(parts.locals[i - 1] != self.locals[x] for i, x in enumerate(code) if i not in (0, at)):
                raise FactoringError(f"{event} has touched another group in {code}")
            groups = tuple([self.group_of(x) for x in (parts.locals[at - 1 : at] if at else parts.locals)])
            others = [x for i, x in enumerate(code) if i not in (0, at)] if at else []
            shared = self._share(parts.shared, self._owing([*others, *map(self.grouped, groups)]))
            fault = NOBODY if (rule := rule_of(event)) is None or rule.fault is None else rule.fault.position
            left = self._full if fault == NOBODY else self.spent(self._full, fault)
            if parts.shared.budget != self.budgets[left]:
                raise FactoringError(f"{event} has not spent what its rule says in {code}")
            label, core = self.label(system, event, after), self.core(shared)
            found.append(Happened(rule_key(event), where(event)[2], label, fault, core, groups))
        return found

    def system(self, code: Code) -> System:
        """Return the system of a code, after a check that nothing of its parts is lost on the way."""
        system = self.decode(code)
        siblings = {x for local in code[1:] for x in self.groups[local].siblings}
        heads = {(self.groups[local].head,) for local in code[1:]}
        parts: set[int | tuple[int]] = {~code[0], *siblings, *heads}
        if not self._checked.issuperset(parts):
            if self._encode(system) != code:
                raise FactoringError(f"{code} does not survive the round trip through its system")
            self._checked.update(parts)
        return system

    def steps(self, system: System, events: Sequence[Event]) -> list[tuple[Event, System]]:
        self.real_steps += len(events)
        return [(event, step(system, event)) for event in events]

    def label(self, before: System, event: Event, after: System) -> int:
        unsafe = None
        if not self.closed:
            broken = properties.unsafe(before, event, after)
            if broken:  # what was broken before is not this transition's doing
                standing = properties.unsafe(before, event, before)
                unsafe = next((v.property.value for v in broken if v not in standing), None)
        rescues, in_time = properties.rescues(event), properties.commits_in_time(event)
        return self.label_id(Label(event.name, rescues, in_time, unsafe))

    def label_id(self, label: Label) -> int:
        return numbered(self._label_ids, self.labels, label)


def rule_key(event: Event) -> RuleKey:
    """Return the key of an event's rule."""
    return KEYS[id(rule_of(event))]


def where(event: Event) -> tuple[int, int, int]:
    """Return the position of the group that an event is about (0: nobody's), the sibling, and the attempt's index."""
    attempt = getattr(event, "attempt", None)
    if attempt is not None:
        group, sibling = locate(attempt.rollout)
        return group + 1, sibling, attempt.index
    found = group_of(event)
    return 0 if found is None else found + 1, NOBODY, NOBODY
