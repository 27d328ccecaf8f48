"""Exhaustive exploration: every state that a model can reach, who leads to whom, and the shortest way to each.

`explore` works for any pure model that has an initial state, `enabled` and `step`; `explore_system` is the same for the
protocol over the tables of `successors`. Both return a `Graph`: plain arrays that any algorithm can walk, forwards and
backwards. `can_reach` decides EF of a goal for every state at once.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from attrs import define

from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import initial
from state_machines.reduce import ALL, Reductions
from state_machines.successors import Code, Label, Successors

S = TypeVar("S", bound=Hashable)
E = TypeVar("E", bound=Hashable)
NOBODY: Final = 0xFFFFFFFF


class TooMany(Exception):
    """The model has more states than the bound. Carries `graph`, what was explored until then."""

    def __init__(self, graph: "Graph[object, object]", bound: int) -> None:
        super().__init__(f"more than {bound:,} states")
        self.graph = graph


class Watcher(Protocol):
    """Is told how far an exploration is, once in a while. `recoveries`: states looked at to judge the others."""

    def __call__(self, *, states: int, transitions: int, depth: int, recoveries: int = 0) -> None: ...


@define
class Graph(Generic[S, E]):
    """A state graph in compressed rows.

    `states[i]` is a state, `0` the initial one, in the order of their distance from it. The transitions of state `i`
    are `offsets[i]` to `offsets[i + 1]` of `targets` (the state after) and `labels` (an index into `events`).
    `parents[i]` is the state that `i` was first reached from and `vias[i]` the event. `complete` says that no state is
    missing.
    """

    states: list[S]
    events: list[E]
    offsets: "array[int]"
    targets: "array[int]"
    labels: "array[int]"
    parents: "array[int]"
    vias: "array[int]"
    depth: int = 0
    complete: bool = True

    def successors(self, state: int) -> list[tuple[E, int]]:
        """Return `(event, state after)` of every transition of a state."""
        span = range(self.offsets[state], self.offsets[state + 1])
        return [(self.events[self.labels[k]], self.targets[k]) for k in span]

    def path(self, state: int) -> list[E]:
        """Return the shortest events from the initial state to `state`."""
        found = []
        while self.parents[state] != NOBODY:
            found.append(self.events[self.vias[state]])
            state = self.parents[state]
        return found[::-1]

    def route(self, state: int) -> list[int]:
        """Return the states on that way, the initial one first."""
        found = [state]
        while self.parents[state] != NOBODY:
            state = self.parents[state]
            found.append(state)
        return found[::-1]

    def predecessors(self, allowed: Callable[[E], bool] | None = None) -> tuple["array[int]", "array[int]"]:
        """Return `(offsets, sources)`, the same rows backwards, over the transitions whose event is `allowed`."""
        ok = [allowed is None or allowed(event) for event in self.events]
        n = len(self.states)
        offsets = array("Q", bytes(8 * (n + 1)))
        for label, target in zip(self.labels, self.targets, strict=True):
            if ok[label]:
                offsets[target + 1] += 1
        for i in range(n):
            offsets[i + 1] += offsets[i]
        sources, filled = array("I", bytes(4 * offsets[n])), array("Q", offsets)
        for i in range(len(self.offsets) - 1):
            for k in range(self.offsets[i], self.offsets[i + 1]):
                if ok[self.labels[k]]:
                    target = self.targets[k]
                    sources[filled[target]] = i
                    filled[target] += 1
        return offsets, sources

    def has_cycle(self) -> bool:
        """Return whether some state can be reached again from itself; a transition to itself counts."""
        n = len(self.states)
        entering = array("I", bytes(4 * n))
        for target in self.targets:
            entering[target] += 1
        free = [i for i in range(n) if not entering[i]]
        removed = 0
        while free:
            i = free.pop()
            removed += 1
            for k in range(self.offsets[i], self.offsets[i + 1]):
                target = self.targets[k]
                entering[target] -= 1
                if not entering[target]:
                    free.append(target)
        return removed < n


def explore(
    start: S,
    successors: Callable[[S], Iterable[tuple[E, S]]],
    *,
    max_states: int | None = None,
    watch: Watcher | None = None,
    stop: Callable[[S], bool] | None = None,
) -> Graph[S, E]:
    """Return the graph of everything that `start` can reach, breadth first.

    `successors(state)` gives `(event, state after)`; states and events are hashable values. A state for which `stop`
    holds is reached but not left. Raises TooMany when there are more than `max_states`.
    """
    ids: dict[S, int] = {start: 0}
    events: dict[E, int] = {}
    graph: Graph[S, E] = Graph(
        [start], [], array("Q", [0]), array("I"), array("H"), array("I", [NOBODY]), array("H", [0])
    )
    states, targets, labels = graph.states, graph.targets, graph.labels
    i, level_end = 0, 1
    while i < len(states):
        if i == level_end:
            graph.depth, level_end = graph.depth + 1, len(states)
        for event, after in () if stop is not None and stop(states[i]) else successors(states[i]):
            label = events.setdefault(event, len(events))
            known = ids.get(after)
            if known is None:
                known = ids[after] = len(states)
                states.append(after)
                graph.parents.append(i)
                graph.vias.append(label)
            targets.append(known)
            labels.append(label)
        i += 1
        graph.offsets.append(len(targets))
        if watch is not None and not i & 1023:
            watch(states=len(states), transitions=len(targets), depth=graph.depth)
        if max_states is not None and len(states) > max_states:
            graph.events, graph.complete = list(events), False
            raise TooMany(graph, max_states)  # type: ignore[arg-type]
    graph.events = list(events)
    return graph


def explore_model(
    start: S,
    enabled: Callable[[S], Iterable[E]],
    step: Callable[[S, E], S],
    *,
    max_states: int | None = None,
) -> Graph[S, E]:
    """Return the graph of a pure model given as `enabled` and `step`. Raises TooMany."""
    return explore(start, lambda s: [(e, step(s, e)) for e in enabled(s)], max_states=max_states)


def can_reach(graph: Graph[S, E], goal: Callable[[S], bool], allowed: Callable[[E], bool] | None = None) -> "bytearray":
    """Return for every state whether `goal` can be reached from it by `allowed` events: one byte each, 1 for yes.

    Exact only on a complete graph. The work is linear in the transitions.
    """
    good = bytearray(map(goal, graph.states))
    offsets, sources = graph.predecessors(allowed)
    todo = [i for i, yes in enumerate(good) if yes]
    while todo:
        i = todo.pop()
        for k in range(offsets[i], offsets[i + 1]):
            before = sources[k]
            if not good[before]:
                good[before] = 1
                todo.append(before)
    return good


def traps(graph: Graph[S, E], goal: Callable[[S], bool], allowed: Callable[[E], bool] | None = None) -> list[int]:
    """Return the states from which no continuation reaches `goal` (a violation of AG EF goal), the nearest first."""
    good = can_reach(graph, goal, allowed)
    return [i for i, yes in enumerate(good) if not yes]


@define
class SystemGraph:
    """The graph of the protocol in one scope. `graph.states` are codes of `successors`; its events are `Label`s."""

    successors: Successors
    graph: Graph[Code, Label]


def explore_system(
    policy: Policy,
    scope: Scope,
    on: Reductions = ALL,
    *,
    max_states: int | None = None,
    watch: Watcher | None = None,
) -> SystemGraph:
    """Return everything that the protocol can reach, also beyond a violation. Raises TooMany.

    `successors.decode(code)` is a real system of each state.
    """
    found = Successors(policy, scope, on)
    labels = found.labels

    def following(code: Code) -> list[tuple[Label, Code]]:
        return [(labels[label], after) for label, after in found.of(code)]

    graph = explore(found.encode(initial(policy, scope)), following, max_states=max_states, watch=watch)
    return SystemGraph(found, graph)
