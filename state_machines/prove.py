"""Every property of one policy in one scope, decided: it holds, or here is the shortest history that exists.

Histories end at their first violation, so exploration does not look beyond one: it goes breadth first through the
states in which everything still holds, and the first state met for a property and cause is at the end of a shortest
history. Whether a state is recoverable is decided by the probe of `recovery`, over all its SYSTEM continuations.
"""

import gc
import time
from collections.abc import Callable, Iterator
from itertools import accumulate, count
from typing import Final, NamedTuple

import numpy as np
from attrs import define, frozen

from protocol.events import Event
from protocol.findings import Property
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import enabled, step
from state_machines.batches import Batch
from state_machines.closures import CHUNK, Closures, Yes
from state_machines.explore import NOBODY, Watcher
from state_machines.factor import FactoringError
from state_machines.levels import Levels
from state_machines.names import Ints, Names, Rows, TooWide, pack
from state_machines.reduce import ALL, Reductions
from state_machines.resources import available, memory
from state_machines.successors import Code, Successors
from state_machines.verdict import Verdict

LIVENESS: Final = (Property.RECOVERABLE, Property.UNBLOCKED, Property.REOPENS)
RECOVERIES: Final = 20  # how many times the bound on states the recoveries that are asked for at once may lead to
EARLY: Final = 1 << 6  # states of which every level is judged before the next
MANY: Final = 1 << 20  # states that are judged at once at most, while nothing is broken


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
    """When to give up: more states, or more memory in MiB (None: what the machine has free)."""

    max_states: int | None = None
    max_memory: int | None = None


class Stopped(Exception):
    """A bound was reached; the text says which."""


@define
class Proof:
    """What exploration decided.

    `states` and `transitions` are those visited, after reduction; `closed` the states that recoveries went through
    (None: not counted). `exhaustive` says that nothing is left; otherwise `stopped` says why, and what was not found is
    unknown.
    """

    policy: Policy
    scope: Scope
    findings: tuple[Shortest, ...] = ()
    states: int = 0
    transitions: int = 0
    closed: int | None = 0
    depth: int = 0
    seconds: float = 0.0
    peak_memory: int = 0
    real_steps: int = 0
    exhaustive: bool = False
    stopped: str | None = None
    fair: bool = False

    def decided(self) -> dict[str, str]:
        """Return for every property `holds`, `violated` or `unknown`; fairness only where it was decided too."""
        broken = {finding.verdict.property for finding in self.findings}
        clean = "holds" if self.exhaustive else "unknown"
        names = [x.value for x in Property if self.fair or x is not Property.FAIR]
        return {name: "violated" if name in broken else clean for name in names}

    @property
    def clean(self) -> bool:
        return self.exhaustive and not self.findings

    def shortest(self, verdict: Verdict) -> int | None:
        """Return the length of the shortest history of a verdict, None when there is none or it was not reached."""
        return next((x.length for x in self.findings if x.verdict == verdict), None)


class Chunk(NamedTuple):
    """States in the order in which they were reached, the number of the state before each, and the label between."""

    rows: Rows
    parents: Ints
    vias: Ints


class _Broken(Exception):
    """A state that was judged late is broken, so that what lies beyond it should not have been explored."""


class Explorer:
    """One exploration, level by level. `prove` runs it to its end.

    A level is an array of codes. States are numbered in the order in which a breadth-first search meets them.

    After the first levels many are judged at once, which is much faster, as long as nothing is broken. When something
    is, what was explored is dropped, but for the tables, and from then on every level is judged before the next.
    """

    def __init__(self, policy: Policy, scope: Scope, on: Reductions = ALL) -> None:
        self.policy, self.scope = policy, scope
        self.successors = Successors(policy, scope, on)
        self.batch = Batch(self.successors)
        self.closures = Closures(policy, scope)
        self.levels = Levels(self.batch, self.closures)
        self._begin(late=True)

    def _begin(self, *, late: bool) -> None:
        self.late, self.judged = late, 0
        self.chunks: list[Chunk] = []
        self.states, self.transitions, self.depth = 0, 0, 0
        self.found: dict[Verdict, tuple[int, int, Code]] = {}

    def run(self, bounds: Bounds = Bounds(), watch: Watcher | None = None) -> None:
        """Explore until nothing is left. Raises Stopped, TooWide or KeyboardInterrupt; what is known by then stays."""
        look = self._looker(bounds, watch)
        try:
            try:
                self._explore(look)
            except Stopped:
                self._judge(beyond=True)
                raise
        except _Broken:
            self._begin(late=False)
            self._explore(look)

    def _looker(self, bounds: Bounds, watch: Watcher | None) -> Callable[[int], None]:
        """Return what is called with the number of states, now and then: it tells `watch`, and stops at a bound."""
        most = bounds.max_states or 0
        enough = memory() + available() if bounds.max_memory is None else bounds.max_memory << 20

        calls = count()

        def look(states: int, most: int = most, where: str = "", pending: int = 0) -> None:
            if watch is not None:
                done = len(self.closures) + pending
                watch(states=self.states, transitions=self.transitions, depth=self.depth, recoveries=done)
            if bounds.max_states is not None and states > most:
                raise Stopped(f"more than {most:,} states{where}")
            if next(calls) % 16 == 0 and memory() > enough:
                raise Stopped(f"more than {enough >> 20:,} MiB of memory")

        self.closures.guard = lambda pending: look(
            pending, most * RECOVERIES, f" in recoveries at once, {RECOVERIES} times {most:,}", pending
        )
        return look

    def _explore(self, look: Callable[[int], None]) -> None:
        start = np.array([self.successors.encode(initial(self.policy, self.scope))], np.int32)
        visited = Names()
        visited.add(pack(start))
        frontier, first = self._admit(Chunk(start, np.array([NOBODY]), np.array([0])))
        while len(frontier):
            level = []
            for at in range(0, len(frontier), CHUNK):
                look(len(visited))
                level.append(self._expand(frontier[at : at + CHUNK], first[at : at + CHUNK], visited))
            look(len(visited))
            frontier, first = self._admit(Chunk(*map(np.concatenate, zip(*level, strict=True))))
            self.depth += bool(len(frontier))
        self._judge(beyond=True)

    def _expand(self, rows: Rows, numbers: Ints, visited: Names) -> Chunk:
        """Return what is new after these states, and add it to what was visited."""
        edges = self.batch.expand(rows)
        self.transitions += len(edges.labels)
        broken = np.array([label.unsafe is not None for label in self.successors.labels], np.bool_)[edges.labels]
        for label, at in zip(*np.unique(edges.labels[broken], return_index=True), strict=True):
            unsafe = self.successors.labels[label].unsafe
            assert unsafe is not None
            k = np.flatnonzero(broken)[at]
            code = tuple(edges.rows[k].tolist())
            self.found.setdefault(Verdict(unsafe, unsafe), (int(numbers[edges.sources[k]]), int(label), code))
        sound = np.flatnonzero(~broken)
        names, where = np.unique(pack(edges.rows[sound]), return_index=True)
        new = visited.find(names) < 0
        visited.add(names[new])
        kept = sound[np.sort(where[new])]
        return Chunk(edges.rows[kept], numbers[edges.sources[kept]], edges.labels[kept])

    def _admit(self, reached: Chunk) -> tuple[Rows, Ints]:
        """Number and judge the states of one level, and return those from which to go on, with their numbers."""
        numbers = np.arange(self.states, self.states + len(reached.rows))
        self.chunks.append(
            reached._replace(parents=reached.parents.astype(np.uint32), vias=reached.vias.astype(np.uint16))
        )
        self.states += len(numbers)
        waiting = self.states - self.judged
        if self.late and self.states > EARLY and waiting < min(3 * self.judged, MANY):
            return reached.rows, numbers
        broken = self._judge(beyond=False)[waiting - len(numbers) :]
        return reached.rows[~broken], numbers[~broken]

    def _judge(self, *, beyond: bool) -> Yes:
        """Judge what was not judged yet; return what is broken.

        Raises _Broken when something is and exploration has gone `beyond` it.
        """
        waiting = [chunk for chunk, at in zip(self.chunks, self._firsts(), strict=True) if at >= self.judged]
        if not waiting:
            return np.zeros(0, np.bool_)
        reached = Chunk(*map(np.concatenate, zip(*waiting, strict=True)))
        broken, verdicts = self.levels.judge(reached.rows)
        if verdicts and (beyond or len(waiting) > 1):
            raise _Broken
        for verdict, at in verdicts.items():
            where = int(reached.parents[at]), int(reached.vias[at]), tuple(reached.rows[at].tolist())
            self.found.setdefault(verdict, where)
        self.judged, self.late = self.states, self.late and not verdicts
        return broken

    # Histories

    def history(self, parent: int, label: int, last: Code) -> tuple[Event, ...]:
        """Return real events that go through the states on the way to `parent` and then, by `label`, to `last`."""
        if parent == NOBODY:
            return ()
        route, vias = [last], [label]
        for chunk, first in zip(self.chunks[::-1], self._firsts()[::-1], strict=True):
            if parent != NOBODY and first <= parent:
                at = parent - first
                route.append(tuple(chunk.rows[at].tolist()))
                vias.append(int(chunk.vias[at]))
                parent = int(chunk.parents[at])
        system, events = initial(self.policy, self.scope), []
        for code, via in zip(route[-2::-1], vias[-2::-1], strict=True):
            event, system = self._walk(system, code, via)
            events.append(event)
        return tuple(events)

    def _firsts(self) -> list[int]:
        """Return the number of the first state of each chunk."""
        sizes = [len(chunk.rows) for chunk in self.chunks]
        return list(accumulate(sizes, initial=0))[:-1]

    def _walk(self, system: System, code: Code, label: int) -> tuple[Event, System]:
        wanted = self.successors.labels[label]
        for event in enabled(system):
            if event.name == wanted.name:
                after = step(system, event)
                if self.successors.encode(after) == code:
                    return event, after
        raise AssertionError(f"no real event {wanted.name} leads from {system} to {code}")

    def findings(self) -> Iterator[Shortest]:
        """Yield what was found after states that are known to be sound, shortest histories first."""
        sound = {verdict: x for verdict, x in self.found.items() if x[0] < self.judged or x[0] == NOBODY}
        found = [Shortest(verdict, self.history(*x)) for verdict, x in sound.items()]
        yield from sorted(found, key=lambda x: (x.length, x.verdict))


def prove(
    policy: Policy,
    scope: Scope,
    bounds: Bounds = Bounds(),
    *,
    on: Reductions = ALL,
    watch: Watcher | None = None,
) -> Proof:
    """Return what holds for `policy` in `scope`. An interruption or a bound ends it with what is known by then.

    Raises FactoringError when the tables do not describe the policy.
    """
    started, stopped = time.perf_counter(), None
    explorer = Explorer(policy, scope, on)
    collecting = gc.isenabled()
    gc.disable()  # what is learned stays, and looking through it again and again takes a sixth of the time
    try:
        explorer.run(bounds, watch)
    except KeyboardInterrupt:
        stopped = "interrupted"
    except MemoryError:
        stopped = "out of memory"
    except (Stopped, TooWide) as error:
        stopped = str(error)
    finally:
        if collecting:
            gc.enable()
    return Proof(
        policy,
        scope,
        tuple(explorer.findings()),
        explorer.states,
        explorer.transitions,
        len(explorer.closures),
        explorer.depth,
        time.perf_counter() - started,
        memory(peak=True),
        explorer.successors.real_steps + explorer.closures.successors.real_steps,
        stopped is None,
        stopped,
    )


def prove_anyhow(policy: Policy, scope: Scope, bounds: Bounds, *, watch: Watcher | None = None) -> Proof:
    """Return what `prove` does, or, where its tables do not describe the policy, the same from real systems."""
    try:
        return prove(policy, scope, bounds, watch=watch)
    except FactoringError:
        from state_machines.prove_plainly import prove_plainly

        return prove_plainly(policy, scope, bounds, watch=watch, fair=False)
