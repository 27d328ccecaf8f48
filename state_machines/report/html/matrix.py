"""The matrix of policies and faults, for the page: a heading, rows and cells of words."""

from typing import Any

from attrs import frozen


class MatrixError(ValueError):
    """A file that is not the matrix of `stranded matrix --json`, in one sentence."""


@frozen
class Cell:
    """One verdict: the word that colours it, and the words that stand there."""

    word: str
    text: str


@frozen
class Matrix:
    """A table: `columns` over the cells, each row named."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def read(data: Any) -> Matrix:
    """Return the table of a matrix file. Raises MatrixError."""
    raise MatrixError("not the matrix of `stranded matrix --json`")
