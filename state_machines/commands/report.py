"""`stranded report`: many findings as one self-contained page."""

import json
from pathlib import Path

import click

from state_machines.commands.options import console
from state_machines.report.html import Source, page
from state_machines.report.html.matrix import Matrix, MatrixError
from state_machines.report.html.matrix import read as read_matrix
from state_machines.report.sources import read
from state_machines.trace import TraceError, write


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR|FILE…")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="the page to write")
@click.option("--matrix", "matrix_file", type=click.Path(path_type=Path), help="the output of stranded matrix --json")
@click.option("--title", default="stranded: findings", show_default=True)
@click.option("--no-duplicates", is_flag=True, help="only the shortest finding of each policy and cause")
def report(paths: tuple[Path, ...], output: Path, matrix_file: Path | None, title: str, no_duplicates: bool) -> int:
    """Write the findings in DIR (its trace files), in trace files or in the output of hunt --json as one page.

    The page needs no network and nothing but a browser. Files that cannot be used are listed on it.
    """
    found = read(paths)
    matrix = None if matrix_file is None else load_matrix(matrix_file)
    sources = shortest(found.sources) if no_duplicates else list(found.sources)
    write(output, page(sources, title=title, problems=found.problems, matrix=matrix))
    for name, reason in found.problems:
        console().print(f"stranded: {name}: {reason}", markup=False, soft_wrap=True)
    count = f"{len(sources)} finding{'' if len(sources) == 1 else 's'}"
    console().print(f"{output}: {count}", markup=False, soft_wrap=True)
    return 0 if sources or not found.problems else 2


def shortest(sources: tuple[Source, ...]) -> list[Source]:
    """Return the shortest finding of each policy and verdict, in the order of the first of each."""
    best: dict[object, Source] = {}
    for source in sources:
        key = (source.trace.policy, source.trace.verdict)
        if key not in best or len(source.trace.events) < len(best[key].trace.events):
            best[key] = source
    return list(best.values())


def load_matrix(path: Path) -> Matrix:
    """Return the matrix in a file. Raises TraceError."""
    try:
        return read_matrix(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, MatrixError) else "truncated or not JSON"
        raise TraceError(f"{path}: {reason}") from None
