"""The `stranded` command as click sees it. Subcommands are imported when they are asked for."""

import importlib
from typing import Final

import click

COMMANDS: Final[dict[str, str]] = {
    "hunt": "look for histories that leave Gym permanently not ready, and shrink them",
    "replay": "run a saved history again, under its own policy or another",
    "policies": "the named policies and the axes they are made of",
    "prove": "explore every state of a scope and decide each property exactly",
    "matrix": "all combinations of policy axes and faults, and the smallest repairs",
    "hazards": "the catalogue of known hazards: list it, or replay one",
    "compare": "one history under two or more policies, side by side",
    "show": "one history as text, Mermaid, a page, or a regression test",
    "report": "many findings as one self-contained page",
    "export": "the state graph as DOT, a trace as ITF JSON",
    "gym": "start the reference Gym, a server that speaks Gym's HTTP surface",
    "doctor": "say why a Gym is not ready and what would release it",
    "campaign": "hunt and prove many policies and scopes, over hours and machines",
    "diff": "compare two campaigns: new, gone and shorter findings",
}


class Commands(click.Group):
    """A group whose commands are loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f"state_machines.commands.{name}"), name)  # type: ignore[no-any-return]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="stranded")
def stranded() -> None:
    """Find, prove and show histories that strand Gym: results that nobody will ever acknowledge."""
