"""`python -m state_machines.mutants` kills every mutant and prints the table of docs/mutants.md."""

import click

from protocol.policy import spell
from state_machines.mutants import DIVERGED, NOTHING, SIDES, Mutant, kill, load
from state_machines.search import Finding


def header() -> str:
    return "| mutant | the rule | the mutant | where | killed by | events |\n|---|---|---|---|---|---|"


def row(changed: Mutant, finding: Finding | None) -> str:
    """Return the line of the table for one mutant; `finding` is None where the observations of Gym kill it."""
    if changed.policy is None or changed.scope is None:
        return f"| {changed.name} | {changed.rule} | {changed.change} | recorded observations | {DIVERGED} | |"
    sizes, base = changed.scope.sizes(), NOTHING.sizes()
    scope = ",".join(f"{name}={size}" for name, size in sizes.items() if size != base[name])
    where = f"`{spell(changed.policy)}`" + (f", `{scope}`" if scope else "")
    killed = ("survives", "") if finding is None else (str(finding.verdict), len(finding.events))
    return f"| {changed.name} | {changed.rule} | {changed.change} | {where} | {killed[0]} | {killed[1]} |"


def table(mutants: dict[str, Mutant]) -> str:
    """Return one table for each side, with what kills each mutant."""
    parts = []
    for side, about in SIDES.items():
        rows = [row(m, kill(m) if m.policy is not None else None) for m in mutants.values() if m.side == side]
        parts.append("\n".join([f"### {side}: {about}", "", header(), *rows]))
    return "\n\n".join(parts)


if __name__ == "__main__":
    click.echo(table(load()))
