"""Fairness of the protocol, decided over the tables of `successors`: the same answers as `fairness`, many times faster.

`FairProbe` answers for the codes of a `recovery.Probe`, and remembers every answer. It follows all SYSTEM events, as
`fairness.components` does, and knows two short cuts:

- a state from which ready cannot be reached never settles;
- at rest no event changes the shared part, so each group goes on alone but for the flush that all debts share. When
  every run of each group alone ends settled, no debt is refused for good, and every fair run of all of them does too.

A loop is asked about on real systems, because codes do not tell siblings apart and weak fairness does. What a code
forgets is a finalize that is still to come, which changes nothing about where a fair run ends.
"""

from protocol import properties as p
from protocol.events import Event
from protocol.snapshot import MAX_CONSECUTIVE_FAILURES
from protocol.state import System
from state_machines import reduce
from state_machines.factor import FactoringError
from state_machines.fairness import LIMIT, Fairness, Lasso, components, follow, nearest, of_system, rank
from state_machines.recovery import Probe, SystemRecovery, Unknown
from state_machines.successors import Code

Edges = list[tuple[int, Code]]


class _Never(Exception):
    """A state was met of which it is known that it may never settle."""


class FairProbe:
    """Whether every weakly fair run from a state settles, by the codes of a probe."""

    def __init__(self, probe: Probe) -> None:
        self.probe, self.successors = probe, probe.successors
        self.verdicts: dict[Code, bool] = {}
        self._well: dict[Code, bool] = {}
        self._trapped: dict[Code, bool] = {}
        counted = self.successors.scope.snapshots >= MAX_CONSECUTIVE_FAILURES
        self.real = of_system(probe.limit or LIMIT) if counted else None

    def holds(self, system: System) -> bool:
        """Return whether every fair run from `system` settles for good. Raises Unknown at the limit of the probe."""
        if self.real is None and not self.probe.refused:
            try:
                return self.fair(self.code(system))
            except FactoringError:
                self.probe.refused = True
        if self.real is None:
            self.real = of_system(self.probe.limit or LIMIT)
        return self.real.holds(system)

    def fair(self, code: Code) -> bool:
        """Return the same of a code. Codes do not count failed snapshots: not where these may end the run."""
        assert self.real is None
        known = self._known(code)
        return self._decide(code) if known is None else known

    def code(self, system: System) -> Code:
        """Return the code of `system`."""
        return self.successors.encode(system)

    def lost(self, system: System) -> tuple[tuple[Event, ...], System] | None:
        """Return the shortest way from `system` to where it is decided that it will not settle, and the state there.

        None when every fair run settles. Of several the one whose cause is preferred.
        """
        if self.holds(system):
            return None
        return nearest(system, follow, self._lost, self._unfair, self.rank)

    def lasso(self, system: System) -> Lasso[System, Event] | None:
        """Return a way by which a fair run never settles: to where that is decided, and on to an end or a fair loop."""
        lost = self.lost(system)
        if lost is None:
            return None
        way, at = lost
        seen = {at}
        stack = [(at, iter(follow(at)))]
        events = list(way)
        while (loop := self._stays(stack[-1][0])) is None:
            for event, after in stack[-1][1]:
                if after not in seen and self._unfair(after):
                    seen.add(after)
                    events.append(event)
                    stack.append((after, iter(follow(after))))
                    break
            else:
                stack.pop()
                events.pop()
        return Lasso(tuple(events), loop, stack[-1][0])

    def _unfair(self, system: System) -> bool:
        return not self.holds(system)

    def _lost(self, system: System) -> bool:
        can = self.probe.can
        return not (can(system, "ready") and can(system, "reopened")) or self._stays(system) is not None

    def cause(self, system: System) -> p.Cause:
        """Return what keeps a state that is lost from being settled."""
        return p.unsettled_by(system) if self.probe.can(system, "ready") else p.cause(system)

    def rank(self, system: System) -> int:
        return rank(self.cause(system))

    def trapped(self, code: Code) -> bool:
        """Return whether a fair run may stay where `code` is and not settle: at an end, or in a loop."""
        known = self._trapped.get(code)
        if known is None:
            known = self._trapped[code] = self._traps(self._around(code))
        return known

    def _stays(self, system: System) -> tuple[Event, ...] | None:
        """Return the loop in which a fair run may stay from here and not settle; empty at an end; else None."""
        if self.real is not None:
            lasso = self.real.lasso(system) if self.real.stays(system) else None
            return None if lasso is None else lasso.loop
        code = self.code(system)
        if p.settled(system) or not self.trapped(code):
            return None
        around = self._confined(set(self._around(code))).lasso(system)
        return None if around is None or around.prefix else around.loop

    # Decisions

    def _known(self, code: Code) -> bool | None:
        known = self.verdicts.get(code)
        if known is None:
            if not self.probe.reaches(code, "ready"):
                known = False
            elif self._rests(code[0]) and all(self._ends_well((code[0], x)) for x in code[1:]):
                known = True
            else:
                return None
            self.verdicts[code] = known
        return known

    def _decide(self, root: Code) -> bool:
        rows: dict[Code, Edges] = {}
        limit = self.probe.limit

        def edges(code: Code) -> Edges:
            found = rows.get(code)
            if found is None:
                if limit is not None and len(rows) >= limit:
                    raise Unknown(len(rows))
                found = rows[code] = self.successors.of(code)
            return found

        def enter(code: Code) -> bool:
            known = self._known(code)
            if known is False:
                raise _Never
            return known is None

        open_: list[Code] = []
        try:
            for members in components(root, edges, enter, open_):
                if self._traps(members):
                    open_ += members
                    raise _Never
                self.verdicts.update(dict.fromkeys(members, True))
        except _Never:
            self.verdicts.update(dict.fromkeys(open_, False))
        return self.verdicts[root]

    def _traps(self, members: list[Code]) -> bool:
        """Whether a fair run may stay in a component and not settle."""
        first = members[0]
        if len(members) == 1:
            leads = [after for _, after in self.successors.of(first)]
            if not leads:
                return not p.settled(self.successors.decode(first))
            if first not in leads:
                return False
        return not self._confined(set(members)).holds(self.successors.decode(first))

    def _confined(self, codes: set[Code]) -> Fairness[System, Event]:
        """Return the decision on real systems, for which to leave `codes` is to settle."""

        def inside(system: System) -> bool:
            return self.code(system) in codes

        return Fairness(
            lambda system: follow(system) if inside(system) else (),
            lambda system: not inside(system) or p.settled(system),
            limit=self.probe.limit or LIMIT,
        )

    def _around(self, code: Code) -> list[Code]:
        """Return the component of `code`. A loop changes no group: what happens in a group is never undone."""

        def edges(at: Code) -> Edges:
            return [(label, after) for label, after in self.successors.of(at) if after[1:] == code[1:]]

        *_, own = components(code, edges, lambda after: True)
        return own

    def _ends_well(self, code: Code) -> bool:
        """Whether every run of one group at rest comes to an end, repeats aside, and that end is settled."""
        known = self._well.get(code)
        if known is None:
            self._well[code] = False  # what comes back here has no end
            leads = {after for _, after in self.successors.of(code)}
            further = leads - {code}
            if further:
                known = all(after[0] == code[0] and self._ends_well(after) for after in further)
            else:
                known = not leads and p.settled(self.successors.decode(code))
            self._well[code] = known
        return known

    def _rests(self, shared: int) -> bool:
        return reduce.at_rest(self.successors.shared[shared])


class SystemFairness:
    """Decides fairness for systems of any policy and scope; one memo for each pair of them."""

    def __init__(self, recovery: SystemRecovery) -> None:
        self.recovery = recovery
        self._probes: dict[int, FairProbe] = {}

    def of(self, system: System) -> FairProbe:
        """Return the probe of the system's policy and scope."""
        probe = self.recovery.probe(system.policy, system.scope)
        found = self._probes.get(id(probe))
        if found is None:
            found = self._probes[id(probe)] = FairProbe(probe)
        return found

    def holds(self, system: System) -> bool:
        """Return whether every fair run from `system` settles for good. Raises Unknown at the limit."""
        return self.of(system).holds(system)

    def lasso(self, system: System) -> Lasso[System, Event] | None:
        """Return how a fair run from `system` never settles, or None when every one does."""
        return self.of(system).lasso(system)

    def cause(self, system: System) -> p.Cause | None:
        """Return why a fair run from `system` may never settle, or None when every one does."""
        probe = self.of(system)
        lost = probe.lost(system)
        return None if lost is None else probe.cause(lost[1])
