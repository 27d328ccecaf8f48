"""The catalogue of known hazards: each an abstract history that this protocol can express, and a verdict on it.

A hazard is *shown* when a named or spelled policy has it: the catalogue gives the policy and scope, the shortest
history, and a policy that removes it. It is *held off* when no policy has it, because a rule of the protocol forbids
it: then the history is that of the mutant that skips this rule (`state_machines.mutants`).

The histories are in `histories.json` and the sizes of the searches in `states.json`, both recorded by `python -m
state_machines.catalogue`; tests find and count each of them anew.
"""

from typing import Final

from protocol.findings import Cause
from protocol.policy import Policy
from protocol.state import System, initial
from protocol.system import step
from state_machines.catalogue.entry import Entry
from state_machines.catalogue.found import FOUND
from state_machines.catalogue.reported import REPORTED
from state_machines.mutants import applied
from state_machines.replay import Replay
from state_machines.search import Decider, Finding, search
from state_machines.verdict import Verdict

__all__ = ["BY_ID", "ENTRIES", "FOUND", "REPORTED", "Entry", "counted", "find", "replayed", "with_cause"]

ENTRIES: Final = (*REPORTED, *FOUND)
BY_ID: Final = {entry.id: entry for entry in ENTRIES}


def with_cause(cause: Cause) -> tuple[Entry, ...]:
    """Return the entries whose finding has a cause: those that a policy shows, then those that a rule holds off."""
    fitting = [entry for entry in ENTRIES if entry.verdict.cause == cause.value]
    return tuple(sorted(fitting, key=lambda entry: entry.held_by is not None))


def find(entry: Entry, policy: Policy | None = None, *, cured: bool = False) -> Finding | None:
    """Return the shortest finding with the entry's verdict in its scope, or None when there is none.

    Searches everything: nothing is known but the policy and the scope. `policy` takes the place of the entry's own;
    `cured` puts the rule back that the entry's mutant skips.
    """
    with applied(None if cured else entry.mutant):
        findings = search(policy or entry.policy, entry.scope)
        return next((finding for finding in findings if finding.verdict == entry.verdict), None)


def counted(entry: Entry) -> int:
    """Return how many states the whole search of an entry's scope visits, up to where histories end."""
    visited = 0

    def watch(*, states: int, transitions: int, depth: int, **_: object) -> None:
        nonlocal visited
        visited = states

    with applied(entry.mutant):
        for _ in search(entry.policy, entry.scope, watch=watch):
            pass
    return visited


def replayed(entry: Entry) -> Replay:
    """Return the replay of an entry's history, under its mutant if it has one. The verdict is that of the last event,
    unless an earlier one was worse than unfair."""
    with applied(entry.mutant):
        decider = Decider()
        states: list[System] = [initial(entry.policy, entry.scope)]
        verdict: Verdict | None = None
        at = 0
        for number, event in enumerate(entry.events, 1):
            states.append(step(states[-1], event))
            if verdict is None or not verdict.ends:
                met = decider.step(states[-2], event, states[-1])
                verdict, at = (verdict, at) if met is None else (met, number)
    return Replay(entry.policy, entry.scope, entry.events, tuple(states), verdict, at if verdict else None)
