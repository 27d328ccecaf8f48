"""`stranded show`: one history as text, Mermaid, a page, or a regression test."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from protocol.policy import Policy
from state_machines.commands.options import POLICY, out
from state_machines.recovery import Unknown
from state_machines.replay import Replay, replay_trace
from state_machines.trace import Trace, load, write

FORMATS: Final = ("text", "mermaid", "html", "pytest")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="write there, not to standard output")
@click.option("--policy", type=POLICY, help="replay under this policy instead of the file's own")
@click.option("--brief", is_flag=True, help="text, mermaid: without what happens next")
def show(file: Path, form: str, output: Path | None, policy: Policy | None, brief: bool) -> int:
    """Show the history in FILE.

    text is a timeline for the terminal; mermaid a sequenceDiagram that GitHub renders; html one self-contained page
    with a stepper; pytest a test module that passes only when the history no longer fails.
    """
    trace = load(file)
    try:
        return _show(trace, file, form, output, policy, brief)
    except Unknown as error:
        click.echo(f"stranded: {file}: unknown: {error}", err=True)
        return 3


def _show(trace: Trace, file: Path, form: str, output: Path | None, policy: Policy | None, brief: bool) -> int:
    if form == "text" and output is None:
        from state_machines.report.text import picture
        from state_machines.report.text import show as print_picture

        console = out()
        width = min(console.width, 100) if console.is_terminal else 80
        run = replay_trace(trace, policy)
        print_picture(console, picture(run, width=width, further=not brief))
        if policy is None and run.verdict is None and trace.verdict is not None:
            click.echo(f"Recorded as {trace.verdict}: {trace.verdict.sentence}. The model alone does not show it.")
        return 0
    text = WRITERS[form](trace, policy, file, brief)
    if output is None:
        click.echo(text, nl=False)
    else:
        write(output, text)
        click.echo(f"{output}", err=True)
    return 0


def _text(trace: Trace, policy: Policy | None, file: Path, brief: bool) -> str:
    from state_machines.report.text import timeline

    return timeline(replay_trace(trace, policy), further=not brief)


def _mermaid(trace: Trace, policy: Policy | None, file: Path, brief: bool) -> str:
    from state_machines.report.mermaid import mermaid

    return mermaid(replay_trace(trace, policy), further=not brief)


def _html(trace: Trace, policy: Policy | None, file: Path, brief: bool) -> str:
    from state_machines.report.html import Source, page

    return page([Source(str(file), under(trace, policy))])


def _pytest(trace: Trace, policy: Policy | None, file: Path, brief: bool) -> str:
    from state_machines.report.regression import module

    return module(under(trace, policy))


def under(trace: Trace, policy: Policy | None) -> Trace:
    """Return the trace as it is under another policy: the events that can happen there, and their verdict."""
    if policy is None:
        return trace
    run: Replay = replay_trace(trace, policy)
    return Trace(run.policy, run.scope, run.events, run.verdict, trace.found_by)


WRITERS: Final[dict[str, Callable[[Trace, Policy | None, Path, bool], str]]] = {
    "text": _text,
    "mermaid": _mermaid,
    "html": _html,
    "pytest": _pytest,
}
