"""The designs of Gym side by side: acknowledgements (the default), and the later one with a lease (`protocol.lease`).

`python -m state_machines.designs` decides both over every kind of fault and prints the table of docs/lease.md.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import click

from protocol import lease
from protocol import policy as policies
from protocol import system as rules
from protocol.events import Owner
from protocol.policy import Policy
from protocol.scope import Fault, Scope
from protocol.state import System, initial
from state_machines.mutants import small, swapped
from state_machines.report.onward import onward
from state_machines.search import search

FAULTS: Final = ("", *(f"{fault.value}=1" for fault in Fault))
REPAIRED: Final = "prompt_group_repaired,restart=adopt,drain=reschedule,resume_retry=at_once"
POLICIES: Final = {
    "acknowledge": (
        "sibling",
        "prompt_group",
        "prompt_group_repaired,restart=adopt,drain=reschedule,resume_retry=at_once",
    ),
    "lease": ("sibling", "prompt_group", "prompt_group,give_up=retire,resume_retry=at_once"),
}


@contextmanager
def design(name: str) -> Iterator[None]:
    """Run a block in which the core is that of one design: `acknowledge` or `lease`.

    As with mutants, only `state_machines.search` and `fairness` may be used inside, and hunts whose walk is
    judged by `search.Decider`: the tables of `successors` assume the default design.
    """
    with ExitStack() as stack:
        for old, new in lease.CHANGES if name == "lease" else ():
            stack.enter_context(swapped(old, new))
        if name == "lease":  # it calls the core's, so the table holds it and the module does not
            stack.enter_context(_resumed())
        onward.cache_clear()
        stack.callback(onward.cache_clear)
        yield


@contextmanager
def _resumed() -> Iterator[None]:
    from protocol.events import Resume

    before = rules.RULES[Resume]
    rules.RULES[Resume] = rules.Rule(before.candidates, before.guard, lease.resume)
    try:
        yield
    finally:
        rules.RULES[Resume] = before


def decided(name: str, policy: Policy, scope: Scope) -> tuple[str, ...]:
    """Return the verdicts of a policy in a scope under a design, each with the length of its shortest history."""
    with design(name):
        return tuple(map(str, search(policy, scope)))


def leaks(policy: Policy, scope: Scope) -> int | None:
    """Return the length of the shortest history of the lease design after which a run of a group that has ended is left
    at Gym for good, or None. For good: nothing of the pair's own frees it, however it goes on."""
    with design("lease"):
        from state_machines.recovery import Recovery

        frees = Recovery(
            lambda system: rules.enabled(system, frozenset({Owner.SYSTEM})),
            lambda system, event: rules.step(system, event),
            lambda system: not lease.left(system),
        )
        start = initial(policy, scope)
        depth: dict[System, int] = {start: 0}
        for system in (queue := [start]):
            if lease.left(system) and not frees.reaches(system):
                return depth[system]
            for event in rules.enabled(system):
                after = rules.step(system, event)
                if after not in depth:
                    depth[after] = depth[system] + 1
                    queue.append(after)
    return None


def rows() -> Iterator[str]:
    """Yield the lines of the table: a fault, and the verdicts of each policy of each design."""
    columns = [(name, policy) for name, spelled in POLICIES.items() for policy in spelled]
    yield "| fault | " + " | ".join(f"{name}: `{policy}`" for name, policy in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for fault in FAULTS:
        cells = []
        for name, policy in columns:
            found = decided(name, policies.parse(policy), scope_of(fault))
            cells.append("<br>".join(found) or "clean")
        yield f"| {fault or 'none'} | " + " | ".join(cells) + " |"


def scope_of(fault: str) -> Scope:
    """Return the scope of a row: two siblings, but one where a fault kind would make it large."""
    large = ("lost_requests", "trainer_restarts", "gym_restarts", "null_results", "disconnects")
    return small(fault + (",siblings=1" if fault.startswith(large) else ""))


if __name__ == "__main__":
    for line in rows():
        click.echo(line)
