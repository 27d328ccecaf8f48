"""Tables that leave nothing out: on a terminal long words are folded, in a file or pipe a table is as wide as it is."""

from rich.console import Console
from rich.table import Table


def whole_table(*columns: str) -> Table:
    """Return a table whose cells are folded and never cut off."""
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_whole(screen: Console, table: Table) -> None:
    """Print a table with every word of it: as wide as it needs to be where there is no terminal."""
    if not screen.is_terminal:
        unbounded = screen.options.update(width=100_000)
        screen.width = max(screen.width, screen.measure(table, options=unbounded).maximum)
    screen.print(table, soft_wrap=False)
