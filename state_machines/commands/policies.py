"""`stranded policies`: names, axes, one line each."""

import json

import click
from rich.table import Table

from protocol.policy import AXES, NAMED, Policy
from state_machines.commands.options import out


@click.command()
@click.option("--json", "as_json", is_flag=True, help="one JSON object instead of tables")
def policies(as_json: bool) -> int:
    """List the named policies and the axes they are made of."""
    if as_json:
        named = {name: {"axes": policy.axes(), "about": about} for name, (policy, about) in NAMED.items()}
        click.echo(json.dumps({"policies": named, "axes": AXES}, indent=1))
        return 0
    console, default = out(), Policy()
    for name, (policy, about) in NAMED.items():
        console.print(name, style="bold")
        console.print(f"  {about}")
        changed = [f"{axis}={value}" for axis, value in policy.axes().items() if value != default.axes()[axis]]
        console.print(f"  {' '.join(changed) or 'every axis at its default'}", style="dim")
    table = Table("axis", "values (default first)", "decides", title="Axes: NAME,axis=value,… changes a named policy")
    for axis, about in AXES.items():
        value = getattr(default, axis)
        others = [member.value for member in type(value) if member is not value]
        table.add_row(axis, "\n".join([value.value, *others]), about)
    console.print(table)
    return 0
