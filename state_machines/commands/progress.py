"""How far a long command is: one line of a terminal, a new line now and then where the cursor cannot go back."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from state_machines.commands.options import console, plain

EVERY: Final = 10.0  # seconds between two lines of a dumb terminal


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None] | None]:
    """Give a function that shows how far `what` is, after the time that it has taken; None off a terminal."""
    if plain(sys.stderr) or not (to := console()).is_terminal:
        yield None
        return
    if to.is_dumb_terminal:
        last = time.monotonic()

        def say(text: str) -> None:
            nonlocal last
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                to.print(f"{what}: {text}", markup=False, soft_wrap=True)

        yield say
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    with Progress(SpinnerColumn(), TimeElapsedColumn(), text, console=to, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda far: bar.update(task, description=f"{far} - {what}")
