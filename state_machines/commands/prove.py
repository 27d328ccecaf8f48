"""`stranded prove`: every state of a scope, every property decided, the shortest history of each violation."""

import atexit
import gc
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from protocol.policy import Policy, named, spell
from protocol.scope import Scope
from state_machines.commands.options import POLICY, Printer, lines, scope_options
from state_machines.commands.progress import telling
from state_machines.explore import TooMany, Watcher, explore_system
from state_machines.prove import Bounds, Proof, Shortest, Stopped, prove_anyhow
from state_machines.reduce import NONE
from state_machines.resources import memory


@click.command()
@click.argument("policies", nargs=-1, type=POLICY, metavar="[POLICY]…")
@scope_options
@click.option(
    "--max-states",
    type=click.IntRange(1),
    metavar="N",
    help="give up beyond N states, or 20 N that are looked at for recoveries",
)
@click.option(
    "--max-memory",
    type=click.IntRange(1),
    metavar="MIB",
    help="give up soon after so much memory is taken [what is free]",
)
@click.option("--fair", is_flag=True, help="decide fairness too, over real systems: for small scopes (slow)")
@click.option(
    "--design", type=click.Choice(["acknowledge", "lease"]), default="acknowledge", help="Gym's design (docs/lease.md)"
)
@click.option("--raw", is_flag=True, help="also count all states without reductions, beyond violations too (slow)")
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
    if raw and (fair or design != "acknowledge"):
        raise click.UsageError(
            "--raw counts what exploration without reductions visits; with --fair or --design all is"
        )
    atexit.register(gc.freeze)  # the process ends with the proof: looking through everything once more frees nothing
    proofs, counts, bounds = [], [], Bounds(max_states, max_memory)
    chosen = policies or (named("prompt_group"),)
    for policy in chosen:
        with progress(policy) as watch:
            if fair or design != "acknowledge":
                proofs.append(plainly(policy, scope, bounds, watch, fair=fair, design=design))
            else:
                proofs.append(prove_anyhow(policy, scope, bounds, watch=watch))
        counts.append(NOT_ASKED)
        if raw and proofs[-1].exhaustive:
            with progress(policy) as watch:
                counts[-1] = count_raw(policy, scope, bounds, watch)
        if not as_json:
            print_proof(lines(), proofs[-1], counts[-1], design)
        if INTERRUPTED in (proofs[-1].stopped, counts[-1].stopped):
            break
    later = [Proof(policy, scope, stopped=NOT_BEGUN, fair=fair) for policy in chosen[len(proofs) :]]
    proofs, counts = proofs + later, counts + [NOT_ASKED] * len(later)
    if later and not as_json:
        unknown = "; ".join(spell(x.policy) for x in later)
        lines().print(f"not begun, so unknown: {unknown}", style="yellow", markup=False)
    if as_json:
        click.echo(json.dumps({"proofs": [to_json(*x, design) for x in zip(proofs, counts, strict=True)]}, indent=1))
    if any(proof.findings for proof in proofs):
        return 1
    return 0 if all(proof.exhaustive for proof in proofs) and not any(count.stopped for count in counts) else 3


NOT_BEGUN: Final = "not begun"
INTERRUPTED: Final = "interrupted"


class Raw(NamedTuple):
    """The number of states without reductions, or why they were not counted to the end."""

    states: int | None = None
    stopped: str | None = None


NOT_ASKED: Final = Raw()


@contextmanager
def progress(policy: Policy) -> Iterator[Watcher | None]:
    """Give a callback that shows on one line how far a proof is and how fast; None off a terminal."""
    with telling(spell(policy)) as say:
        if say is None:
            yield None
            return

        began = time.monotonic()

        def watch(*, states: int, transitions: int, depth: int, recoveries: int = 0) -> None:
            judged = f" + {short(recoveries)} for recoveries" if recoveries else ""
            rate = short(states / max(time.monotonic() - began, 0.001))
            far = f"{short(states)} states{judged}, {short(transitions)} transitions, depth {depth}"
            say(f"{far}, {rate} states/s, {memory() >> 20:,} MiB")

        yield watch


def short(number: float) -> str:
    """Return a number in few characters: 950, 12.3k, 4.56M."""
    for unit, word in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{word}"
    return f"{number:.0f}"


def plainly(policy: Policy, scope: Scope, bounds: Bounds, watch: Watcher | None, *, fair: bool, design: str) -> Proof:
    """Return the proof over real systems, under a design of Gym."""
    from state_machines.designs import design as in_place
    from state_machines.prove_plainly import prove_plainly

    with in_place(design):
        return prove_plainly(policy, scope, bounds, watch=watch, fair=fair)


def count_raw(policy: Policy, scope: Scope, bounds: Bounds, watch: Watcher | None) -> Raw:
    """Count the states that the protocol reaches, also beyond violations."""

    def look(*, states: int, transitions: int, depth: int, recoveries: int = 0) -> None:
        if watch is not None:
            watch(states=states, transitions=transitions, depth=depth)
        if bounds.max_memory is not None and memory() > bounds.max_memory << 20:
            raise Stopped(f"more than {bounds.max_memory:,} MiB of memory")

    try:
        return Raw(len(explore_system(policy, scope, NONE, max_states=bounds.max_states, watch=look).graph.states))
    except (TooMany, Stopped) as error:
        return Raw(stopped=str(error))
    except KeyboardInterrupt:
        return Raw(stopped=INTERRUPTED)


def to_json(proof: Proof, raw: Raw, design: str) -> dict[str, Any]:
    """Return the JSON object of one proof. Over real systems every state is raw, and every transition a real step."""
    plain = proof.closed is None
    return {
        "policy": spell(proof.policy),
        "scope": proof.scope.sizes(),
        "design": design,
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
        "states": {
            "raw": proof.states if plain else raw.states,
            "reduced": None if plain else proof.states,
            "recovery": proof.closed,
        },
        "raw_stopped": raw.stopped,
        "transitions": proof.transitions,
        "depth": proof.depth,
        "seconds": round(proof.seconds, 3),
        "peak_memory": proof.peak_memory,
        "real_steps": None if plain else proof.real_steps,
    }


def print_proof(to: Printer, proof: Proof, raw: Raw, design: str) -> None:
    """Print one proof: its scope, each property, the shortest history of each cause, and what was visited.

    An unfair history is followed by how a fair run never settles, which the tables know of the first design only.
    """
    to.print(spell(proof.policy), style="bold", markup=False)
    to.print(f"  {spelled(proof.scope)}{f', design {design}' if design != 'acknowledge' else ''}", markup=False)
    for name, verdict in proof.decided().items():
        style = {"holds": "green", "violated": "bold red", "unknown": "yellow"}[verdict]
        words = {"holds": "holds in this scope", "violated": "violated", "unknown": "unknown"}[verdict]
        to.print(f"  {name:20} {words}", style=style, markup=False)
    for finding in proof.findings:
        to.print(f"\n  {finding.verdict}, shortest history: {finding.length} events", style="bold", markup=False)
        to.print(f"  {finding.verdict.sentence}", markup=False, soft_wrap=True)
        for number, event in enumerate(finding.events, 1):
            to.print(f"    {number:2}  {event}", markup=False, soft_wrap=True)
        if design == "acknowledge" and not finding.verdict.ends:
            to.print(f"  {lasso(proof, finding)}", markup=False, soft_wrap=True)
    counted = "" if raw.states is None else f" ({raw.states:,} without reductions, beyond violations too)"
    recoveries = "" if proof.closed is None else f"{proof.closed:,} more states in recoveries, "
    states = "1 state" if proof.states == 1 else f"{proof.states:,} states"
    to.print(
        f"\n  {states}{counted}, {proof.transitions:,} transitions, depth {proof.depth}, "
        f"{recoveries}{proof.seconds:.1f} s, {proof.peak_memory >> 20:,} MiB",
        style="dim",
        markup=False,
        soft_wrap=True,
    )
    if raw.stopped:
        to.print(f"  states without reductions were not counted: {raw.stopped}", style="yellow", markup=False)
    if not proof.exhaustive:
        to.print(f"  not exhausted: {proof.stopped}; what was not found is unknown", style="yellow", markup=False)


def spelled(scope: Scope) -> str:
    """Return the scope as `--scope` reads it."""
    default = Scope().sizes()
    return ",".join(f"{name}={n}" for name, n in scope.sizes().items() if n or default[name])


def lasso(proof: Proof, finding: Shortest) -> str:
    """Return how a fair run never settles after an unfair history."""
    from state_machines.replay import replay
    from state_machines.report.listing import unfair
    from state_machines.verdict import Judge

    return unfair(replay(proof.policy, proof.scope, finding.events, Judge(fair=True)))
