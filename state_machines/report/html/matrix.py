"""The matrix of policies and faults, for the page: verdicts by policy and set of faults.

The file is a JSON object whose list `matrix` has an object for each decided combination:

    {"policy": "prompt_group", "faults": "failures", "verdict": "stranded", "causes": ["late_result"]}

`policy` (or `fixed`, the axes that decide) is a word or an object of axes, `faults` a word or a list, `verdict`
is clean, stranded, blocked, unsafe or another such word; `causes` may be missing. Other keys are passed over. Rows and
columns come in the order in which they first appear.
"""

from collections.abc import Iterable
from typing import Any, Final

from attrs import frozen

POLICY: Final = ("policy", "fixed", "axes")
ROWS: Final = ("matrix", "rows", "results", "cells")


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


MISSING: Final = Cell("", "")


def read(data: Any) -> Matrix:
    """Return the table of a matrix file. Raises MatrixError."""
    found = data if isinstance(data, list) else None
    if isinstance(data, dict):
        found = next((data[key] for key in ROWS if isinstance(data.get(key), list)), None)
    if not found:
        raise MatrixError("not the matrix of `stranded matrix --json`: it has no list of verdicts")
    cells: dict[tuple[str, str], Cell] = {}
    for number, entry in enumerate(found, 1):
        policy = next((entry[key] for key in POLICY if key in entry), None) if isinstance(entry, dict) else None
        if policy is None or not {"faults", "verdict"} <= entry.keys():
            raise MatrixError(f"entry {number} of the matrix lacks policy, faults or verdict")
        word = _words(entry["verdict"]).split(",")[0]
        causes = _words(entry.get("causes") or entry.get("cause") or ())
        text = f"{word}: {causes}" if causes else word
        cells[_words(policy) or "any", _words(entry["faults"]) or "none"] = Cell(word, text)
    columns = tuple(dict.fromkeys(faults for _, faults in cells))
    rows = tuple(
        (policy, tuple(cells.get((policy, column), MISSING) for column in columns))
        for policy in dict.fromkeys(policy for policy, _ in cells)
    )
    scope = data.get("scope") if isinstance(data, dict) else None
    return Matrix(f"Scope: {_words(scope)}." if scope else "", columns, rows)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items() if item not in (0, False))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
