"""The `stranded` command. Subcommands live in `state_machines.commands` and are imported when they are asked for.

Exit codes: 0 nothing found (or: the recorded verdict came out again), 1 findings, 2 bad usage or a file that cannot be
used, 3 unknown. Bad input is one sentence on standard error, never a traceback.
"""

import importlib
import io
import sys
from typing import Any, Final

import click

from protocol.policy import PolicyError
from protocol.scope import ScopeError
from state_machines.trace import TraceError

COMMANDS: Final[dict[str, str]] = {
    "hunt": "look for histories that leave Gym permanently not ready, and shrink them",
    "replay": "run a saved history again, under its own policy or another",
    "policies": "the named policies and the axes they are made of",
    "prove": "explore every state of a scope and decide each property but fairness exactly",
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
        try:
            module = importlib.import_module(f"state_machines.commands.{name}")
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise click.ClickException(
                f"{name} needs {error.name}, which is not installed: pip install 'stranded[{extra}]'"
            ) from None
        return getattr(module, name)  # type: ignore[no-any-return]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


EXTRAS: Final = {"fastapi": "http", "uvicorn": "http", "httpx": "http", "ray": "ray", "redis": "redis"}


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="stranded")
def stranded() -> None:
    """Find, prove and show histories that strand Gym: results that nobody will ever acknowledge."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command and exit. Every error that a user can cause is one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an output that lacks a glyph still gets the rest
    try:
        code = stranded.main(args=arguments, prog_name="stranded", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"stranded: {error.format_message()}", err=True)
        sys.exit(2)
    except (TraceError, PolicyError, ScopeError) as error:
        click.echo(f"stranded: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename!s:.80}: " if error.filename else ""
        click.echo(f"stranded: {where}{error.strerror or error}", err=True)
        sys.exit(2)
    except UnicodeError as error:
        click.echo(f"stranded: a name or a URL that cannot be written: {error!s:.120}", err=True)
        sys.exit(2)
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # the reader of a pipe went away: nobody saw a verdict
            sys.exit(141)
        raise
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
