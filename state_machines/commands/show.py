"""`stranded show`: one history as text, Mermaid, a page, or a regression test."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from protocol.policy import Policy
from state_machines.commands.options import POLICY, out
from state_machines.recovery import Unknown
from state_machines.replay import Replay, replay_trace
from state_machines.trace import Trace, TraceError, load, write

FORMATS: Final = ("text", "mermaid", "html", "pytest")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="write there, not to standard output")
@click.option("--policy", type=POLICY, help="replay under this policy instead of the file's own")
@click.option("--brief", is_flag=True, help="text, mermaid: without what happens next")
def show(files: tuple[Path, ...], form: str, output: Path | None, policy: Policy | None, brief: bool) -> int:
    """Show the histories in FILE….

    text is a timeline for the terminal; mermaid a sequenceDiagram that GitHub renders; html one self-contained page
    with a stepper; pytest a test module, of one file, that passes only when the history no longer fails.

    Exit code: 0 shown, 2 a file that cannot be used, 3 unknown: a state that could not be decided. Of several files
    the worst counts.
    """
    if form == "pytest" and len(files) > 1:
        raise click.UsageError("a test module holds one history: one FILE for each --format pytest")
    codes, texts, sources = [0], [], []
    for number, file in enumerate(files):
        try:
            trace = load(file)
            if form == "html":
                sources.append((str(file), under(trace, policy)))
            elif form == "text" and output is None:
                _print(trace, policy, brief, first=number == 0)
            else:
                texts.append(WRITERS[form](trace, policy, brief))
        except TraceError as error:
            click.echo(f"stranded: {error}", err=True)
            codes.append(2)
        except Unknown as error:
            click.echo(f"stranded: {file}: unknown: {error}", err=True)
            codes.append(3)
    if sources:
        texts.append(_html(sources))
    if texts and output is None:
        click.echo("\n".join(texts), nl=False)
    elif texts and output is not None:
        write(output, "\n".join(texts))
        click.echo(f"{output}", err=True)
    return max(codes, key=(0, 3, 2).index)


def _print(trace: Trace, policy: Policy | None, brief: bool, *, first: bool) -> None:
    from state_machines.report.text import picture
    from state_machines.report.text import show as print_picture

    console = out()
    width = min(console.width, 100) if console.is_terminal else 80
    run = replay_trace(trace, policy)
    if not first:
        click.echo()
    print_picture(console, picture(run, width=width, further=not brief))
    if policy is None and run.verdict is None and trace.verdict is not None:
        click.echo(f"Recorded as {trace.verdict}: {trace.verdict.sentence}. The model alone does not show it.")


def _text(trace: Trace, policy: Policy | None, brief: bool) -> str:
    from state_machines.report.text import timeline

    return timeline(replay_trace(trace, policy), further=not brief)


def _mermaid(trace: Trace, policy: Policy | None, brief: bool) -> str:
    from state_machines.report.mermaid import mermaid

    return mermaid(replay_trace(trace, policy), further=not brief)


def _html(traces: list[tuple[str, Trace]]) -> str:
    from state_machines.report.html import Source, page

    return page([Source(*named) for named in traces])


def _pytest(trace: Trace, policy: Policy | None, brief: bool) -> str:
    from state_machines.report.regression import module

    return module(under(trace, policy))


def under(trace: Trace, policy: Policy | None) -> Trace:
    """Return the trace as it is under another policy: the events that can happen there, and their verdict."""
    if policy is None:
        return trace
    run: Replay = replay_trace(trace, policy)
    return Trace(run.policy, run.scope, run.events, run.verdict, trace.found_by)


WRITERS: Final[dict[str, Callable[[Trace, Policy | None, bool], str]]] = {
    "text": _text,
    "mermaid": _mermaid,
    "pytest": _pytest,
}
