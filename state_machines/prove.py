"""Every property of one policy in one scope, decided: it holds, or here is the shortest history that exists.

Histories end at their first violation, so exploration does not look beyond one: it goes breadth first through the
states in which everything still holds, and the first state met for a property and cause is at the end of a shortest
history. Whether a state is recoverable is decided by the probe of `recovery`, over all its SYSTEM continuations.
"""

import time
from array import array
from collections.abc import Iterator
from typing import Final

from attrs import define, frozen

from protocol import properties as p
from protocol.events import Event
from protocol.findings import Property
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import enabled, step
from state_machines.explore import NOBODY, Watcher
from state_machines.recovery import Probe, Unknown
from state_machines.reduce import ALL, Reductions
from state_machines.resources import memory
from state_machines.successors import OWING, Code, Successors
from state_machines.verdict import Verdict

LIVENESS: Final = (Property.RECOVERABLE, Property.UNBLOCKED, Property.REOPENS)
DECIDED: Final = tuple(x.value for x in Property if x is not Property.FAIR)
EVERY: Final = 1024  # states between two looks at the bounds


@frozen
class Shortest:
    """A violation with the shortest history that exists for its property and cause."""

    verdict: Verdict
    events: tuple[Event, ...]

    @property
    def length(self) -> int:
        return len(self.events)


@frozen
class Bounds:
    """When to give up: more states, or more memory in MiB."""

    max_states: int | None = None
    max_memory: int | None = None


@define
class Proof:
    """What exploration decided.

    `states` and `transitions` are those visited, after reduction; `closed` the states that recoveries went through.
    `exhaustive` says that nothing is left; otherwise `stopped` says why, and what was not found is unknown.
    """

    policy: Policy
    scope: Scope
    findings: tuple[Shortest, ...] = ()
    states: int = 0
    transitions: int = 0
    closed: int = 0
    depth: int = 0
    seconds: float = 0.0
    peak_memory: int = 0
    real_steps: int = 0
    exhaustive: bool = False
    stopped: str | None = None

    def decided(self) -> dict[str, str]:
        """Return for every property `holds`, `violated` or `unknown`. Fairness is decided elsewhere."""
        broken = {finding.verdict.property for finding in self.findings}
        clean = "holds" if self.exhaustive else "unknown"
        return {name: "violated" if name in broken else clean for name in DECIDED}

    @property
    def clean(self) -> bool:
        return self.exhaustive and not self.findings

    def shortest(self, verdict: Verdict) -> int | None:
        """Return the length of the shortest history of a verdict, None when there is none or it was not reached."""
        return next((x.length for x in self.findings if x.verdict == verdict), None)


class Explorer:
    """One exploration, resumable level by level. `prove` runs it to its end."""

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL, limit: int | None = 2_000_000) -> None:
        self.policy, self.scope = policy, scope
        self.successors = Successors(policy, scope, on)
        self.probe = Probe(policy, scope, limit)
        self.codes: list[Code] = []
        self.ids: dict[Code, int] = {}
        self.parents, self.vias = array("I"), array("H")
        self.transitions, self.depth = 0, 0
        self.found: dict[Verdict, tuple[int, int, Code]] = {}
        self.undecided = 0
        self._closed_local: dict[int, int] = {}
        self._closed_shared: dict[tuple[int, bool], int] = {}
        self._preparing: dict[int, bool] = {}
        self._good: dict[Code, bool] = {}

    # Verdicts

    def closed(self, code: Code) -> Code:
        """Return the code of the same state for the probe."""
        locals_, into, mine = self._closed_local, self.probe.successors, self.successors
        groups, owing = [], False
        for x in code[1:]:
            known = locals_.get(x)
            if known is None:
                known = locals_[x] = into.intern(mine.locals[x])
            groups.append(known)
            owing = owing or bool(mine.facts[x] & OWING)
        shared = self._closed_shared.get((code[0], owing))
        if shared is None:
            shared = self._closed_shared[code[0], owing] = into.intern_shared(mine.shared[code[0]], owing=owing)
        return into.sort((shared, *groups))

    def verdict(self, code: Code) -> Verdict | None:
        """Return the first liveness property that does not hold in a state. Raises Unknown."""
        closed = self.closed(code)
        preparing = self._preparing.get(code[0])
        if preparing is None:
            preparing = self._preparing[code[0]] = p.preparing(self.successors.decode(code))
        if not self.probe.reaches(closed, "ready"):
            return Verdict(Property.RECOVERABLE.value, p.cause(self.successors.decode(code)).value)
        if preparing and not self.probe.reaches(closed, "committed"):
            return Verdict(Property.UNBLOCKED.value, p.blocked_by(self.successors.decode(code)).value)
        if not self.probe.reaches(closed, "reopened"):
            return Verdict(Property.REOPENS.value, p.closed_by(self.successors.decode(code)).value)
        return None

    # Exploration

    def run(self, bounds: Bounds = Bounds(), watch: Watcher | None = None) -> str | None:
        """Explore until nothing is left, and return None; or the reason to stop before. Raises KeyboardInterrupt."""
        start = self.successors.encode(initial(self.policy, self.scope))
        frontier = self._admit([(start, NOBODY, 0)])
        while frontier:
            following: list[tuple[Code, int, int]] = []
            for count, (code, index) in enumerate(frontier):
                self._expand(code, index, following)
                if not count % EVERY:
                    if watch is not None:
                        watch(states=len(self.codes), transitions=self.transitions, depth=self.depth)
                    reason = self._beyond(bounds, len(following))
                    if reason is not None:
                        self._admit(following)
                        return reason
            frontier = self._admit(following)
            self.depth += bool(frontier)
        if self.undecided:
            return f"{self.undecided:,} states need more than {self.probe.limit:,} states to be decided"
        return None

    def _expand(self, code: Code, index: int, following: list[tuple[Code, int, int]]) -> None:
        labels, ids = self.successors.labels, self.ids
        for label, after in self.successors.of(code):
            self.transitions += 1
            unsafe = labels[label].unsafe
            if unsafe is not None:
                self.found.setdefault(Verdict(unsafe, unsafe), (index, label, after))
            elif after not in ids:
                ids[after] = len(self.codes)
                self.codes.append(after)
                self.parents.append(index)
                self.vias.append(label)
                following.append((after, index, label))

    def _admit(self, reached: list[tuple[Code, int, int]]) -> list[tuple[Code, int]]:
        """Judge the states that were reached at one depth, and return those from which to go on."""
        kept = []
        for code, parent, label in reached:
            if parent == NOBODY:
                self.ids[code] = 0
                self.codes.append(code)
                self.parents.append(NOBODY)
                self.vias.append(0)
            try:
                verdict = self.verdict(code)
            except Unknown:
                self.undecided += 1
                verdict = None
            if verdict is None:
                kept.append((code, self.ids[code]))
            elif verdict not in self.found:
                self.found[verdict] = (parent, label, code)
        return kept

    def _beyond(self, bounds: Bounds, waiting: int) -> str | None:
        if bounds.max_states is not None and len(self.codes) > bounds.max_states:
            return f"more than {bounds.max_states:,} states"
        if bounds.max_memory is not None and memory() > bounds.max_memory << 20:
            return f"more than {bounds.max_memory:,} MiB of memory"
        return None

    # Histories

    def history(self, parent: int, label: int, last: Code) -> tuple[Event, ...]:
        """Return real events that go through the states on the way to `parent` and then, by `label`, to `last`."""
        if parent == NOBODY:
            return ()
        route, vias = [last], [label]
        while parent != NOBODY:
            route.append(self.codes[parent])
            vias.append(self.vias[parent])
            parent = self.parents[parent]
        system, events = initial(self.policy, self.scope), []
        for code, via in zip(route[-2::-1], vias[-2::-1], strict=True):
            event, system = self._walk(system, code, via)
            events.append(event)
        return tuple(events)

    def _walk(self, system: System, code: Code, label: int) -> tuple[Event, System]:
        wanted = self.successors.labels[label]
        for event in enabled(system):
            if event.name == wanted.name:
                after = step(system, event)
                if self.successors.encode(after) == code:
                    return event, after
        raise AssertionError(f"no real event {wanted.name} leads from {system} to {code}")

    def findings(self) -> Iterator[Shortest]:
        """Yield what was found, shortest histories first."""
        found = [Shortest(verdict, self.history(*where)) for verdict, where in self.found.items()]
        yield from sorted(found, key=lambda x: (x.length, x.verdict))


def prove(
    policy: Policy,
    scope: Scope,
    bounds: Bounds = Bounds(),
    *,
    on: Reductions = ALL,
    watch: Watcher | None = None,
) -> Proof:
    """Return what holds for `policy` in `scope`. An interruption or a bound ends it with what is known by then."""
    started = time.perf_counter()
    explorer = Explorer(policy, scope, on)
    try:
        stopped = explorer.run(bounds, watch)
    except KeyboardInterrupt:
        stopped = "interrupted"
    except MemoryError:
        stopped = "out of memory"
    return Proof(
        policy,
        scope,
        tuple(explorer.findings()),
        len(explorer.codes),
        explorer.transitions,
        sum(map(len, explorer.probe.verdicts.values())),
        explorer.depth,
        time.perf_counter() - started,
        memory(peak=True),
        explorer.successors.real_steps + explorer.probe.successors.real_steps,
        stopped is None,
        stopped,
    )
