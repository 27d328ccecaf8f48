"""The verdicts by their definitions, with nothing but `enabled` and `step`: slow, and hard to get wrong."""

from collections import deque

from protocol import properties as p
from protocol.events import Event
from protocol.policy import Policy
from protocol.scope import Scope
from protocol.state import System, initial
from protocol.system import enabled, step
from state_machines.verdict import Verdict

# Every kind of fault, once or twice, at one group of two.
FAULTS = (
    "failures",
    "lost_replies",
    "lost_requests",
    "lost_acknowledges",
    "lost_receipts",
    "lost_prepares",
    "lost_commits",
    "lost_resumes",
    "lost_retires",
    "duplicates",
    "drain_deaths",
    "refusals",
    "disconnects",
    "null_results",
    "commit_failures",
)


class Naive:
    """Every state, and every verdict's shortest history length. `whole` is False where there are more than `most`."""

    whole = True

    def __init__(self, policy: Policy, scope: Scope, most: int | None = None) -> None:
        start = initial(policy, scope)
        self.ids: dict[System, int] = {start: 0}
        self.states = [start]
        self.rows: list[list[tuple[Event, int]]] = []
        for system in self.states:
            if most is not None and len(self.states) > most:
                self.whole = False
                return
            row = []
            for event in enabled(system):
                after = step(system, event)
                if after not in self.ids:
                    self.ids[after] = len(self.states)
                    self.states.append(after)
                row.append((event, self.ids[after]))
            self.rows.append(row)
        self.ready = self.can(p.ready, p.rescues)
        self.committed = self.can(p.committed, p.commits_in_time)
        self.reopened = self.can(p.reopened, p.rescues)

    def can(self, goal, allowed):
        good = [goal(system) for system in self.states]
        before: list[list[int]] = [[] for _ in self.states]
        for i, row in enumerate(self.rows):
            for event, j in row:
                if allowed(event):
                    before[j].append(i)
        todo = [i for i, yes in enumerate(good) if yes]
        while todo:
            for i in before[todo.pop()]:
                if not good[i]:
                    good[i] = True
                    todo.append(i)
        return good

    def verdict(self, i: int) -> Verdict | None:
        system = self.states[i]
        if not self.ready[i]:
            return Verdict("recoverable", p.cause(system).value)
        if p.preparing(system) and not self.committed[i]:
            return Verdict("unblocked", p.blocked_by(system).value)
        if not self.reopened[i]:
            return Verdict("reopens", p.closed_by(system).value)
        return None

    def findings(self) -> dict[Verdict, int]:
        found: dict[Verdict, int] = {}
        depth, queue = {0: 0}, deque([0])
        while queue:
            i = queue.popleft()
            verdict = self.verdict(i)
            if verdict is not None:
                found.setdefault(verdict, depth[i])
                continue
            for event, j in self.rows[i]:
                broken = p.unsafe(self.states[i], event, self.states[j])
                if broken:
                    name = broken[0].property.value
                    found.setdefault(Verdict(name, name), depth[i] + 1)
                elif j not in depth:
                    depth[j] = depth[i] + 1
                    queue.append(j)
        return found
