"""Mutants: the protocol with one rule skipped, weakened or swapped, each killed by a finding (docs/mutants.md).

A mutant is a function of the core replaced by another one, everywhere the core uses it. `applied(mutant)` does so for
a while; searches inside decide the mutated protocol. The memo of `state_machines.successors` knows nothing of mutants,
so only `state_machines.search` may be used there.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from attrs import evolve, frozen

from protocol import policy as policies
from protocol import scope as scopes
from protocol import system as rules
from protocol.policy import Policy
from protocol.scope import Fault, Scope
from state_machines.search import LIMIT, Finding, first_verdict, search

SIDES: Final = {
    "gym": "executions and acknowledgements",
    "fence": "the control fence",
    "trainer": "the ledger and its debts",
    "wire": "what is between the two",
    "snapshot": "the steps of a snapshot",
    "restart": "what survives",
}
PARTS: Final = ("candidates", "guard", "apply")
DIVERGED: Final = "diverged"  # no policy meets the rule; the recorded observations of the real participant do


@frozen
class Mutant:
    """One rule changed. `policy` and `scope` are where it shows; None: the recorded observations diverge.

    `rule` is the correct one, `change` what the mutant does instead, `of` the function that is replaced.
    """

    name: str
    side: str
    rule: str
    change: str
    of: Callable[..., Any]
    make: Callable[[Callable[..., Any]], Callable[..., Any]]
    policy: Policy | None
    scope: Scope | None


MUTANTS: Final[dict[str, Mutant]] = {}
NOTHING: Final = Scope(1, 2, 2, 1, **{fault.value: 0 for fault in Fault})


def small(text: str = "") -> Scope:
    """Return a small scope: one group of two siblings, two attempts, a snapshot, no faults but those in `text`."""
    return scopes.parse(text, NOTHING)


def mutant(
    name: str,
    of: Callable[..., Any],
    make: Callable[[Any], Any],
    rule: str,
    change: str,
    policy: str | None = None,
    scope: str = "",
) -> None:
    """Register a mutant: `make` takes the original function and returns what replaces it."""
    assert name not in MUTANTS, name
    side = name.partition("-")[0]
    assert side in SIDES, side
    known = (None, None) if policy is None else (policies.parse(policy), small(scope))
    MUTANTS[name] = Mutant(name, side, rule, change, of, make, *known)


@contextmanager
def applied(changed: Mutant | None) -> Iterator[None]:
    """Run a block with a mutant in place of the function it changes, wherever the core holds it."""
    if changed is None:
        yield
        return
    with swapped(changed.of, changed.make(changed.of)):
        yield


@contextmanager
def swapped(old: Callable[..., Any], new: Callable[..., Any]) -> Iterator[None]:
    """Run a block with one function of the core replaced, wherever the core holds it."""
    modules = [m for name, m in sys.modules.items() if name == "protocol" or name.startswith("protocol.")]
    places = [(m, name) for m in modules for name, value in vars(m).items() if value is old]
    table = {key: rule for key, rule in rules.RULES.items() if old in (rule.candidates, rule.guard, rule.apply)}
    owner = _owner(old)
    assert places or table or owner, f"the core does not use {old}"
    try:
        for module, name in places:
            setattr(module, name, new)
        for key, rule in table.items():
            changes: dict[str, Any] = {f: new for f in PARTS if getattr(rule, f) is old}
            rules.RULES[key] = evolve(rule, **changes)
        if owner is not None:
            held = vars(owner[0])[owner[1]]
            setattr(*owner, property(new) if isinstance(held, property) else new)
        yield
    finally:
        for module, name in places:
            setattr(module, name, old)
        rules.RULES.update(table)
        if owner is not None:
            setattr(*owner, held)


def _owner(function: Callable[..., Any]) -> tuple[type, str] | None:
    """Return the class of a method and its name there, or None for a plain function."""
    head, _, name = function.__qualname__.rpartition(".")
    return (getattr(sys.modules[function.__module__], head), name) if head else None


def kill(changed: Mutant, limit: int = LIMIT) -> Finding | None:
    """Return the first finding of a mutant whose history gets another verdict, or none, under the correct protocol.

    Shortest first. None: there is no such finding in its scope, and the mutant survives.
    """
    policy, scope = changed.policy, changed.scope
    assert policy is not None
    assert scope is not None
    findings = search(policy, scope, limit=limit, every=True)
    while True:
        with applied(changed):
            finding = next(findings, None)
            if finding is None:
                return None
            verdict = first_verdict(policy, scope, finding.events)
        if first_verdict(policy, scope, finding.events) != verdict:
            return finding


def load() -> dict[str, Mutant]:
    """Return every mutant by name."""
    from state_machines.mutants import fence, gym, restart, snapshot, trainer, wire  # noqa: F401 - they register themselves

    return MUTANTS
