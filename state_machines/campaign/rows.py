"""What a store's rows hold, checked as they are read: a file that was damaged or edited is not believed.

SQLite checks its pages and not what is in them. Here every value must have its column's type, and every finding must be
what its own trace says.
"""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from attrs import frozen

from protocol.policy import spell
from protocol.properties import Property
from state_machines.trace import from_data
from state_machines.verdict import WORDS

LARGEST: Final = 1e15  # of any number in a store
PROPERTIES: Final = frozenset({*WORDS, *(x.value for x in Property)})


class BadRow(ValueError):
    """A row that no campaign has written."""


@frozen
class Kept:
    """The shortest history of one cause so far, and how many shards found the cause."""

    policy: str
    target: str
    property: str
    cause: str
    length: int
    trace: str
    shards: int


@frozen
class GivenUp:
    """A shard that failed every time it was tried."""

    shard: str
    title: str
    tries: int
    error: str


def kept(row: tuple[Any, ...]) -> Kept:
    """Return a finding that agrees with its own trace. Raises BadRow."""
    found = Kept(*row)
    try:
        trace = from_data(json.loads(found.trace))
    except (ValueError, RecursionError):
        raise BadRow(found.policy) from None
    verdict = trace.verdict
    if verdict is None or (found.property, found.cause) != (verdict.property, verdict.cause):
        raise BadRow(found.policy)
    if (found.policy, found.length) != (spell(trace.policy), len(trace.events)):
        raise BadRow(found.policy)
    checked(found.property)
    return found


def agree(findings: Iterable[tuple[Any, ...]], causes: Iterable[tuple[str, ...]]) -> None:
    """Look whether each cause that was found somewhere has its shortest history, and no other. Raises BadRow."""
    if {row[:4] for row in findings} != set(causes):
        raise BadRow("finding")


def checked(name: str) -> str:
    """Return the name of a property. Raises BadRow for any other word."""
    if name not in PROPERTIES:
        raise BadRow(name)
    return name


def check_types(connection: sqlite3.Connection) -> None:
    """Look at every value: its column's type, and numbers neither negative nor out of all bounds. Raises BadRow.

    A store has one plan.
    """
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    ).fetchall()
    for (table,) in tables:
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
        wrong = " OR ".join(_wrong(name, kind) for name, kind in columns)
        if connection.execute(f'SELECT 1 FROM "{table}" WHERE {wrong} LIMIT 1').fetchone():  # noqa: S608 - its own names
            raise BadRow(table)
    if connection.execute("SELECT count(*) FROM plan").fetchone() != (1,):
        raise BadRow("plan")


def _wrong(name: str, kind: str) -> str:
    if kind == "TEXT":
        return f"typeof({name}) <> 'text'"
    return f"typeof({name}) <> '{kind.lower()}' OR {name} NOT BETWEEN 0 AND {LARGEST}"
