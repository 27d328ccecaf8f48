"""The RuleBasedStateMachine of a policy and scope: a rule for every family of events, an invariant for every property.

`machine(policy, scope)` makes one class for each policy and scope, with a name of its own, so that Hypothesis keeps
their failures, seeds and statistics apart. A rule draws an index into the sorted list of its family's enabled events.
Every verdict fails with its own exception type (`verdict.finding_type`), raised by the invariant of its property.
"""

import hashlib
import inspect
import json
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any, ClassVar, Final

import hypothesis
from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.events import Event
from protocol.policy import Policy, spell
from protocol.properties import PROPERTIES, Property
from protocol.scope import Fault, Scope
from protocol.system import RULES
from state_machines.targets.base import Target, TargetError, TargetStopped, check
from state_machines.verdict import Finding, Verdict, finding_type
from state_machines.walk import FAMILIES, OPTIONAL, UNKNOWN, Edge, Walk

NAME: Final = "happen"  # of every rule
INDEX: Final = st.integers(0, 59)  # into a list of enabled events, from its start again when it is shorter
OFF: Final = st.frozensets(st.sampled_from(sorted(OPTIONAL)), max_size=4)
AFTER: Final = st.integers(0, 11)  # events
LIVENESS: Final = (Property.RECOVERABLE, Property.UNBLOCKED, Property.REOPENS, Property.FAIR)
SAFETY: Final = tuple(p for p in Property if p not in LIVENESS)


@define(eq=False)
class Session:
    """What the examples of one hunt share. A verdict in `known` is not reported again: its step is not taken.

    `shortest` are the histories of the verdicts met, the shortest of each; `stopped` says why the target is gone.
    """

    walk: Walk
    target: Target | None = None
    known: set[Verdict] = field(factory=set)
    stopped: TargetError | None = None
    shortest: dict[Verdict, tuple[Event, ...]] = field(factory=dict)
    seen: Counter[str] = field(factory=Counter)
    unknown: bool = False
    states: int = 0
    steps: int = 0
    examples: int = 0
    progress: Callable[["Session"], Any] | None = None

    def met(self, verdict: Verdict, events: Iterable[Event]) -> Finding:
        """Return the failure of a history that ends in `verdict`, and remember the history."""
        history = tuple(events)
        before = self.shortest.get(verdict)
        if before is None or len(history) < len(before):
            self.shortest[verdict] = history
        return finding_type(verdict)(verdict, history)


class HandOver(RuleBasedStateMachine):
    """The rules of every policy and scope; `machine` adds those families that can happen there."""

    policy: ClassVar[Policy]
    scope: ClassVar[Scope]
    session: ClassVar[Session]

    def __init__(self, session: Session | None = None) -> None:
        super().__init__()
        self.run = session or self.session
        self.node = self.run.walk.start
        self.broken = self.run.walk.broken
        self.events: list[Event] = []
        self.off: frozenset[str] = frozenset()
        self.early: frozenset[str] = frozenset()
        self.after = 0
        self.open: Collection[str] = self.node.families.keys()
        self.witnessed: frozenset[str] = frozenset()
        if self.run.target is not None:
            self._with_target(self.run.target.reset, self.policy, self.scope)

    def take(self, family: str, index: int) -> None:
        """Let one of the family's enabled events happen, unless what it breaks is known already."""
        run, node = self.run, self.node
        events = node.families[family]
        event = events[index % len(events)]
        edge = node.edges.get(event) or run.walk.follow(node, event)
        run.steps += 1
        if not edge.witnessed <= self.witnessed:
            self.witnessed |= edge.witnessed
        if edge.verdict is not None:
            if edge.verdict is UNKNOWN:
                run.unknown = True
                return
            if edge.verdict in run.known and edge.verdict.ends:
                return
        self.events.append(event)
        if run.target is not None:
            self._compare(run.target, event, edge)
        self.node = edge.node
        if self.node.visitor is not run:
            self.node.visitor = run
            run.states += 1
        self.broken = edge.verdict
        self.open = edge.node.without(self.off if len(self.events) >= self.after else self.early)

    def _compare(self, target: Target, event: Event, edge: Edge) -> None:
        found = self._with_target(check, target, len(self.events), event, self.node.system, edge.node.system)
        if found is not None and found.verdict not in self.run.known:
            raise self.run.met(found.verdict, self.events)

    def _with_target(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except TargetError as error:
            self.run.stopped = error
            raise TargetStopped(error) from error

    @initialize(off=OFF, snapshot_after=AFTER)
    def begin(self, off: frozenset[str], snapshot_after: int) -> None:
        """Choose what this history does without, as long as anything else can happen, and when a snapshot may begin.

        Swarm testing: a rare order of events is likely once the others are switched off. And a snapshot that may begin
        at once mostly does, before there is anything for it to meet.
        """
        self.off, self.after = off, snapshot_after
        self.early = off | {"snapshot"}
        self.open = self.node.without(self.early if snapshot_after else off)

    @precondition(lambda self: not self.open)
    @rule()
    def happen(self) -> None:
        """Nothing: one rule is always enabled, also when no event is."""

    def teardown(self) -> None:
        run = self.run
        run.examples += 1
        for name in sorted(self.witnessed):
            run.seen[name] += 1
            hypothesis.event(name)
        if run.progress is not None:
            run.progress(run)


def _rule(family: str) -> Any:
    """Return the rule of a family; Hypothesis prints its step as `state.happen(finish=1)`.

    Every rule has the same name because Hypothesis switches names off at random, for a whole example: it would often
    leave no event at all. `HandOver.begin` switches off only what a history can do without.
    """

    def happen(self: HandOver, **index: int) -> None:
        self.take(family, index[family])

    drawn: Any = rule(**{family: INDEX})  # type: ignore[call-overload]
    happen.__name__ = NAME
    happen.__doc__ = f"One of: {', '.join(kind.name for kind in FAMILIES[family])}."
    return precondition(lambda self: family in self.open)(drawn(happen))


def _invariant(prop: Property) -> Any:
    """Return the invariant that a property holds. It says something only when the last step broke it."""
    name = prop.value

    def broken(self: HandOver) -> bool:
        return self.broken is not None and self.broken.property == name

    def holds(self: HandOver) -> None:
        if self.broken is not None and self.broken not in self.run.known:
            raise self.run.met(self.broken, self.events)

    holds.__name__ = holds.__qualname__ = name
    holds.__doc__ = PROPERTIES[prop]
    return precondition(broken)(invariant()(holds))


def steps(scope: Scope) -> int:
    """Return how many events a history has at most: as many as most need to come to their end."""
    return min(10 + 4 * scope.groups * scope.siblings, 60)


def families(scope: Scope) -> list[str]:
    """Return the families of which an event can happen in `scope`: a fault without a budget never does."""
    budget = dict(zip(Fault, scope.budget(), strict=True))
    possible = {
        key[0] if isinstance(key, tuple) else key
        for key, found in RULES.items()
        if found.fault is None or budget[found.fault]
    }
    return [name for name, kinds in FAMILIES.items() if possible & set(kinds)]


@cache
def machine(policy: Policy, scope: Scope) -> type[HandOver]:
    """Return the state machine of `policy` in `scope`, always the same class. Its TestCase fails as Hypothesis does."""
    body: dict[str, Any] = {name: _rule(name) for name in families(scope)}
    body |= {prop.value: _invariant(prop) for prop in (*SAFETY, *LIVENESS)}
    body |= {"policy": policy, "scope": scope, "session": Session(Walk(policy, scope)), "__module__": __name__}
    made = _subclass(machine_name(policy, scope), HandOver, body)
    made.TestCase.settings = settings(
        deadline=None, stateful_step_count=steps(scope), suppress_health_check=list(HealthCheck), print_blob=True
    )
    return made


class Machines:
    """Makes the machines of one run, which share its session: what Hypothesis calls a factory.

    Hypothesis keeps every class of machines for ever, with all that it refers to; so a run has no class of its own. The
    name and signature are the class': they decide where a failure is kept, so that each replays what the other found.
    """

    def __init__(self, kind: type[HandOver], session: Session) -> None:
        self.kind, self.session = kind, session
        self.__name__, self.__signature__ = kind.__name__, inspect.signature(kind)

    def __call__(self) -> HandOver:
        return self.kind(self.session)


def with_session(policy: Policy, scope: Scope, session: Session) -> Any:  # Hypothesis' own types know classes only
    """Return a factory of the same machine, with the same name, for the examples of one run alone."""
    return Machines(machine(policy, scope), session)


def _subclass(name: str, base: type[HandOver], body: dict[str, Any]) -> type[HandOver]:
    return types.new_class(name, (base,), exec_body=lambda namespace: namespace.update(body))


def machine_name(policy: Policy, scope: Scope) -> str:
    """Return the name of the class: the policy's, with a digest unless policy is a named and scope the default one."""
    name = spell(policy)
    words = "".join(word.capitalize() for word in name.partition(",")[0].split("_"))
    if "," not in name and scope == Scope():
        return words
    content = json.dumps([policy.axes(), scope.sizes()], sort_keys=True)
    return f"{words}_{hashlib.sha256(content.encode()).hexdigest()[:8]}"
