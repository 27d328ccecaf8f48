"""Walking a system one event at a time, remembering every step: what is enabled, what follows, and what it breaks.

All of it is pure, so a memo of it changes nothing but the speed: which rule is drawn never depends on what is in it.
"""

from collections.abc import Collection
from typing import Final

from attrs import frozen

from protocol.events import (
    Admit,
    Answer,
    Arrive,
    Boundary,
    Commit,
    CommitFails,
    Deadline,
    Deliver,
    Disconnect,
    DrainDies,
    Duplicate,
    Event,
    Fail,
    Finalize,
    Finish,
    Flush,
    LoseReply,
    LoseRequest,
    NullResult,
    Prepare,
    Publish,
    ReconcileLedger,
    Refuse,
    RestartBoth,
    RestartGym,
    RestartTrainer,
    Resume,
    RetireRun,
    Snapshot,
)
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import enabled, step
from state_machines.search import Decider
from state_machines.verdict import Judge, Unknown, Verdict
from state_machines.witness import witnesses

NODE_LIMIT: Final = 50_000  # states remembered, some 15 kB each; then the memo begins again

# The rules of the machine, each with the events it draws from.
FAMILIES: Final[dict[str, tuple[type[Event], ...]]] = {
    "admit": (Admit,),
    "finish": (Finish,),
    "boundary": (Boundary,),
    "deliver": (Arrive, Deliver),
    "settle": (Finalize, RetireRun, ReconcileLedger),
    "flush": (Flush,),
    "snapshot": (Snapshot,),
    "snapshot_step": (Prepare, Answer, Commit, Publish, Resume),
    "deadline": (Deadline,),
    "fail": (Fail,),
    "lose": (LoseReply, LoseRequest),
    "null_result": (NullResult,),
    "refuse": (Refuse,),
    "disconnect": (Disconnect,),
    "duplicate": (Duplicate,),
    "drain_dies": (DrainDies,),
    "commit_fails": (CommitFails,),
    "restart": (RestartTrainer, RestartGym, RestartBoth),
}
# What a history can do without for a while, and still go somewhere.
OPTIONAL: Final = ("boundary", "deadline", "deliver", "fail", "finish", "flush", "lose", "settle", "snapshot")
FAMILY_OF: Final = {kind: name for name, kinds in FAMILIES.items() for kind in kinds}
UNKNOWN: Final = Verdict("unknown", "unknown")


class Node:
    """A state that was met: its enabled events by family, and the edges that were walked from it."""

    __slots__ = ("_without", "edges", "families", "system", "visitor")

    def __init__(self, system: System) -> None:
        self.system = system
        self.visitor: object = None  # the last hunt that came here
        self.families: dict[str, list[Event]] = {}
        self.edges: dict[Event, Edge] = {}
        self._without: dict[frozenset[str], Collection[str]] = {}
        for event in enabled(system):
            self.families.setdefault(FAMILY_OF[type(event)], []).append(event)

    def without(self, off: frozenset[str]) -> Collection[str]:
        """Return the families of which an event is enabled, without those switched `off` unless nothing else is."""
        found = self._without.get(off)
        if found is None:
            found = self._without[off] = frozenset(self.families.keys() - off) or self.families.keys()
        return found


@frozen(eq=False)
class Edge:
    """A step: where it leads, which property it breaks (`UNKNOWN` when that was not decided), what it witnesses."""

    node: Node
    verdict: Verdict | None
    witnessed: frozenset[str]


class Walk:
    """The part of one policy and scope that was walked so far."""

    def __init__(self, policy: Policy, scope: Scope, judge: Judge | Decider | None = None) -> None:
        self.policy, self.scope = policy, scope
        self.judge: Judge | Decider = judge or Judge()
        self.start = Node(initial(policy, scope))
        self.broken = self._decide(None, None, self.start.system)
        self._nodes: dict[System, Node] = {self.start.system: self.start}

    def follow(self, node: Node, event: Event) -> Edge:
        """Return the edge of an event that is enabled in `node`."""
        edge = node.edges.get(event)
        if edge is None:
            system = step(node.system, event)
            verdict = self._decide(node.system, event, system)
            edge = Edge(self._node(system), verdict, witnesses(node.system, event, system))
            node.edges[event] = edge
        return edge

    def _node(self, system: System) -> Node:
        found = self._nodes.get(system)
        if found is None:
            if len(self._nodes) >= NODE_LIMIT:
                self.start.edges.clear()
                self.judge = self.judge.fresh()
                self._nodes = {self.start.system: self.start}
            found = self._nodes[system] = Node(system)
        return found

    def _decide(self, before: System | None, event: Event | None, system: System) -> Verdict | None:
        try:
            if before is None or event is None:
                return self.judge.state(system)
            return self.judge.step(before, event, system)
        except Unknown:
            return UNKNOWN
