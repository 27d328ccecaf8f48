"""The console for results."""

from rich.console import Console


class Output(Console):
    """A console that says by its exit code that the reader of a pipe went away: nobody saw a verdict."""

    def on_broken_pipe(self) -> None:
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(141) from None
