"""`stranded prove`: every state of a scope, every property decided, the shortest history of each violation."""

import atexit
import gc
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from protocol.policy import Policy, named, spell
from protocol.scope import Scope
from state_machines.commands.options import POLICY, Printer, lines, scope_options
from state_machines.commands.progress import telling
from state_machines.explore import TooMany, Watcher, explore_system
from state_machines.prove import Bounds, Proof, Shortest, prove_anyhow
from state_machines.reduce import NONE
from state_machines.resources import memory


@click.command()
@click.argument("policies", nargs=-1, type=POLICY, metavar="[POLICY]…")
@scope_options
@click.option("--max-states", type=click.IntRange(1), metavar="N", help="give up before a level goes beyond N states")
@click.option("--max-memory", type=click.IntRange(1), metavar="MIB", help="give up beyond so much memory")
@click.option("--fair", is_flag=True, help="decide fairness too, over real systems: for small scopes (slow)")
@click.option(
    "--design", type=click.Choice(["acknowledge", "lease"]), default="acknowledge", help="Gym's design (docs/lease.md)"
)
@click.option("--raw", is_flag=True, help="also count every state without any reduction, one by one (slow)")
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of text")
def prove(
    policies: tuple[Policy, ...],
    scope: Scope,
    max_states: int | None,
    max_memory: int | None,
    fair: bool,
    design: str,
    raw: bool,
    as_json: bool,
) -> int:
    """Explore every state of a scope and decide each property exactly.

    POLICY is a name of `stranded policies`, axis=value pairs, or module:object. The default is prompt_group. Histories
    end at their first violation, so what lies beyond one is not explored.

    The default scope is large: seconds for most of the named policies, a minute for prompt_group_repaired, a quarter of
    an hour and 11 GB for prompt_group_reconciled (docs/small-scope.md). --groups 1 --siblings 2 takes seconds for every
    policy.

    Exit code: 0 everything holds, 1 findings, 2 bad usage, 3 not exhausted: what was not decided is unknown.
    """
    if raw and design != "acknowledge":
        raise click.UsageError("--raw counts the states of the acknowledging design; with --design every state is raw")
    atexit.register(gc.freeze)  # the process ends with the proof: looking through everything once more frees nothing
    proofs, counts, bounds = [], [], Bounds(max_states, max_memory)
    chosen = policies or (named("prompt_group"),)
    for policy in chosen:
        with progress(policy) as watch:
            if fair or design != "acknowledge":
                proofs.append(plainly(policy, scope, bounds, watch, fair=fair, design=design))
            else:
                proofs.append(prove_anyhow(policy, scope, bounds, watch=watch))
        counts.append(count_raw(policy, scope, max_states) if raw and proofs[-1].exhaustive else None)
        if not as_json:
            print_proof(lines(), proofs[-1], counts[-1], lassos=design == "acknowledge")
        if proofs[-1].stopped == "interrupted":
            break
    later = [Proof(policy, scope, stopped=NOT_BEGUN, fair=fair) for policy in chosen[len(proofs) :]]
    proofs, counts = proofs + later, counts + [None] * len(later)
    if later and not as_json:
        unknown = "; ".join(spell(x.policy) for x in later)
        lines().print(f"not begun, so unknown: {unknown}", style="yellow", markup=False)
    if as_json:
        click.echo(json.dumps({"proofs": [to_json(*x) for x in zip(proofs, counts, strict=True)]}, indent=1))
    if any(proof.findings for proof in proofs):
        return 1
    return 0 if all(proof.exhaustive for proof in proofs) else 3


NOT_BEGUN: Final = "not begun"


@contextmanager
def progress(policy: Policy) -> Iterator[Watcher | None]:
    """Give a callback that shows on one line how far a proof is and how fast; None off a terminal."""
    with telling(spell(policy)) as say:
        if say is None:
            yield None
            return

        began = time.monotonic()

        def watch(*, states: int, transitions: int, depth: int, recoveries: int = 0) -> None:
            judged = f" + {recoveries:,} for recoveries" if recoveries else ""
            rate = states / max(time.monotonic() - began, 0.001)
            far = f"{states:,} states{judged}, {transitions:,} transitions, depth {depth}"
            say(f"{far}, {rate:,.0f} states/s, {memory() >> 20:,} MiB")

        yield watch


def plainly(policy: Policy, scope: Scope, bounds: Bounds, watch: Watcher | None, *, fair: bool, design: str) -> Proof:
    """Return the proof over real systems, under a design of Gym."""
    from state_machines.designs import design as in_place
    from state_machines.prove_plainly import prove_plainly

    with in_place(design):
        return prove_plainly(policy, scope, bounds, watch=watch, fair=fair)


def count_raw(policy: Policy, scope: Scope, bound: int | None) -> int | None:
    """Return the number of states that the protocol reaches, also beyond violations; None when there are too many."""
    try:
        return len(explore_system(policy, scope, NONE, max_states=bound).graph.states)
    except (TooMany, KeyboardInterrupt):
        return None


def to_json(proof: Proof, raw: int | None) -> dict[str, Any]:
    """Return the JSON object of one proof."""
    return {
        "policy": spell(proof.policy),
        "scope": proof.scope.sizes(),
        "exhaustive": proof.exhaustive,
        "stopped": proof.stopped,
        "properties": proof.decided(),
        "findings": [
            {
                "property": x.verdict.property,
                "cause": x.verdict.cause,
                "length": x.length,
                "shortest": True,
                "events": [event.to_json() for event in x.events],
            }
            for x in proof.findings
        ],
        "states": {"raw": raw, "reduced": proof.states, "recovery": proof.closed},
        "transitions": proof.transitions,
        "depth": proof.depth,
        "seconds": round(proof.seconds, 3),
        "peak_memory": proof.peak_memory,
        "real_steps": proof.real_steps,
    }


def print_proof(to: Printer, proof: Proof, raw: int | None, *, lassos: bool = True) -> None:
    """Print one proof: each property, the shortest history of each cause, and what was visited.

    `lassos`: an unfair history is followed by how a fair run never settles, which the tables know of one design only.
    """
    to.print(spell(proof.policy), style="bold", markup=False)
    for name, verdict in proof.decided().items():
        style = {"holds": "green", "violated": "bold red", "unknown": "yellow"}[verdict]
        words = {"holds": "holds in this scope", "violated": "violated", "unknown": "unknown"}[verdict]
        to.print(f"  {name:20} {words}", style=style, markup=False)
    for finding in proof.findings:
        to.print(f"\n  {finding.verdict}, shortest history: {finding.length} events", style="bold", markup=False)
        to.print(f"  {finding.verdict.sentence}", markup=False, soft_wrap=True)
        for number, event in enumerate(finding.events, 1):
            to.print(f"    {number:2}  {event}", markup=False, soft_wrap=True)
        if lassos and not finding.verdict.ends:
            to.print(f"  {lasso(proof, finding)}", markup=False, soft_wrap=True)
    counted = "" if raw is None else f" ({raw:,} without reductions)"
    recoveries = "" if proof.closed is None else f"{proof.closed:,} verdicts of recoveries, "
    states = "1 state" if proof.states == 1 else f"{proof.states:,} states"
    to.print(
        f"\n  {states}{counted}, {proof.transitions:,} transitions, depth {proof.depth}, "
        f"{recoveries}{proof.seconds:.1f} s, {proof.peak_memory >> 20:,} MiB",
        style="dim",
        markup=False,
        soft_wrap=True,
    )
    if not proof.exhaustive:
        to.print(f"  not exhausted: {proof.stopped}; what was not found is unknown", style="yellow", markup=False)


def lasso(proof: Proof, finding: Shortest) -> str:
    """Return how a fair run never settles after an unfair history."""
    from state_machines.replay import replay
    from state_machines.report.listing import unfair
    from state_machines.verdict import Judge

    return unfair(replay(proof.policy, proof.scope, finding.events, Judge(fair=True)))
