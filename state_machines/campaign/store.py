"""A campaign's memory: one SQLite file, written by one process, one transaction for each shard.

Whatever ends the process, the file holds every shard that was reported before, each once (the shard's key is unique),
and for each cause the shortest history so far. Nothing is ever written into a file that is not a store of this plan.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

from protocol.policy import spell
from state_machines import source
from state_machines.campaign.cells import Cell, FoundHere, Key, cells, counted, spell_scope
from state_machines.campaign.plan import Plan
from state_machines.campaign.plan import from_json as plan_from_json
from state_machines.campaign.rows import GivenUp, Kept, agree, checked
from state_machines.campaign.rows import kept as kept_row
from state_machines.campaign.shard import Outcome, Shard
from state_machines.campaign.store_file import (
    APPLICATION,
    VERSION,
    StoreError,
    check,
    connect,
    damaged,
    is_store,
    lock_path,
    sentences,
    take_lock,
)

SCHEMA: Final = """
CREATE TABLE plan (json TEXT NOT NULL, shards INTEGER NOT NULL, code TEXT NOT NULL);
CREATE TABLE result (
    shard TEXT PRIMARY KEY, mode TEXT NOT NULL, policy TEXT NOT NULL, scope TEXT NOT NULL, target TEXT NOT NULL,
    examples INTEGER NOT NULL, states INTEGER NOT NULL, steps INTEGER NOT NULL, seconds REAL NOT NULL,
    unknown INTEGER NOT NULL, worker TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) WITHOUT ROWID;
CREATE TABLE found_in (
    mode TEXT NOT NULL, policy TEXT NOT NULL, scope TEXT NOT NULL, target TEXT NOT NULL, property TEXT NOT NULL,
    cause TEXT NOT NULL, length INTEGER NOT NULL, shards INTEGER NOT NULL,
    PRIMARY KEY (mode, policy, scope, target, property, cause)
) WITHOUT ROWID;
CREATE TABLE finding (
    policy TEXT NOT NULL, target TEXT NOT NULL, property TEXT NOT NULL, cause TEXT NOT NULL, length INTEGER NOT NULL,
    trace TEXT NOT NULL, shard INTEGER NOT NULL, shards INTEGER NOT NULL,
    PRIMARY KEY (policy, target, property, cause)
) WITHOUT ROWID;
CREATE TABLE given_up (shard TEXT PRIMARY KEY, title TEXT NOT NULL, tries INTEGER NOT NULL, error TEXT NOT NULL);
"""

RESULT: Final = """
INSERT INTO result (shard, mode, policy, scope, target, examples, states, steps, seconds, unknown, worker, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FOUND_IN: Final = """
INSERT INTO found_in VALUES (?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT DO UPDATE SET shards = shards + 1, length = min(length, excluded.length)
"""
# Between histories of one length the lowest shard's is kept, so that the order of completion does not matter.
FINDING: Final = """
INSERT INTO finding VALUES (?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (policy, target, property, cause) DO UPDATE SET
    shards = shards + 1,
    length = CASE WHEN (excluded.length, excluded.shard) < (length, shard) THEN excluded.length ELSE length END,
    trace = CASE WHEN (excluded.length, excluded.shard) < (length, shard) THEN excluded.trace ELSE trace END,
    shard = CASE WHEN (excluded.length, excluded.shard) < (length, shard) THEN excluded.shard ELSE shard END
"""


@frozen
class Summary:
    """What a campaign has done so far. `seconds` is the work of all workers together."""

    plan: Plan
    shards: int
    done: int
    examples: int
    states: int
    steps: int
    seconds: float
    unknown: int
    findings: tuple[Kept, ...]
    given_up: tuple[GivenUp, ...]
    cells: tuple[Cell, ...] = ()
    code: str = ""  # what decided it

    @property
    def finished(self) -> bool:
        return self.done == self.shards


def totals(summary: Summary) -> str:
    """Return what the whole campaign did, in one line."""
    given_up = f", {counted(len(summary.given_up), 'shard')} given up" if summary.given_up else ""
    return (
        f"{summary.done:,} of {counted(summary.shards, 'shard')}{given_up}, {counted(summary.examples, 'example')},"
        f" {counted(summary.states, 'state')}, {counted(len(summary.findings), 'cause')}"
    )


def all_done(summary: Summary) -> str:
    """Return the sentence of a campaign with nothing left to run."""
    return "the only shard is done" if summary.shards == 1 else f"all {summary.shards:,} shards are done"


class Store:
    """An open store. Use `create` to write a campaign's, `read` to look at one."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path, self._db, self._lock = path, connection, lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. A written one becomes a single file again, to copy and to read from read-only places."""
        with suppress(sqlite3.Error):
            if self._lock is not None:
                self._db.execute("PRAGMA busy_timeout = 0")
                self._db.execute("PRAGMA journal_mode = DELETE")
        with suppress(sqlite3.Error):
            self._db.close()
        if self._lock is not None:
            with suppress(OSError):
                lock_path(self.path).unlink()
            os.close(self._lock)
            self._lock = None

    def put(self, shard: Shard, outcome: Outcome) -> bool:
        """Keep what a shard did, in one transaction. Returns False, and changes nothing, when it was kept before."""
        policy, target = spell(shard.policy), shard.target
        cell = (shard.mode, policy, spell_scope(shard.scope), target)
        counts = (outcome.examples, outcome.states, outcome.steps, outcome.seconds, outcome.unknown)
        try:
            with self._writing():
                self._db.execute(RESULT, (shard.key, *cell, *counts, outcome.worker, outcome.reason))
                for f in outcome.findings:
                    key = (policy, target, f.property, f.cause)
                    self._db.execute(FINDING, (*key, f.length, f.trace, shard.number))
                    self._db.execute(FOUND_IN, (*cell, f.property, f.cause, f.length))
                self._db.execute("DELETE FROM given_up WHERE shard = ?", (shard.key,))
        except sqlite3.IntegrityError:
            return False
        return True

    def give_up(self, shard: Shard, tries: int, error: str) -> None:
        """Keep that a shard failed every time. The next run of the campaign tries it again."""
        with self._writing():
            row = (shard.key, shard.title, tries, error)
            self._db.execute("INSERT OR REPLACE INTO given_up VALUES (?, ?, ?, ?)", row)

    def done(self) -> frozenset[str]:
        """Return the keys of all shards done."""
        with sentences(self.path):
            return frozenset(key for (key,) in self._db.execute("SELECT shard FROM result"))

    def plan(self) -> Plan:
        """Return the plan that the store belongs to, with the seeds drawn for it."""
        with sentences(self.path):
            row = self._db.execute("SELECT json FROM plan").fetchone()
        try:
            return plan_from_json(row[0])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StoreError(damaged(self.path)) from None

    def code(self) -> str:
        """Return which code began the store: another one may decide otherwise."""
        with sentences(self.path):
            return str(self._db.execute("SELECT code FROM plan").fetchone()[0])

    def summary(self) -> Summary:
        """Return what the campaign has done so far."""
        with self._reading():
            sums = "count(*), total(examples), total(states), total(steps), total(seconds), total(unknown)"
            totals = self._db.execute(f"SELECT {sums} FROM result").fetchone()  # noqa: S608 - a constant
            done, examples, states, steps, seconds, unknown = totals
            found = self._db.execute(
                "SELECT policy, target, property, cause, length, trace, shards FROM finding"
                " ORDER BY policy, target, property, cause"
            ).fetchall()
            shards, code = self._db.execute("SELECT shards, code FROM plan").fetchone()
            causes = "SELECT DISTINCT policy, target, property, cause FROM found_in"
            agree(found, self._db.execute(causes))
            return Summary(
                self.plan(),
                shards,
                done,
                int(examples),
                int(states),
                int(steps),
                seconds,
                int(unknown),
                tuple(map(kept_row, found)),
                tuple(GivenUp(*row) for row in self._db.execute("SELECT * FROM given_up ORDER BY title")),
                self.cells(),
                code,
            )

    def cells(self) -> tuple[Cell, ...]:
        """Return what is known of each policy, scope, target and mode of the plan."""
        with self._reading():
            done = self._db.execute(
                "SELECT mode, policy, scope, target, count(*), total(unknown), total(examples), total(states),"
                " max(reason) FROM result GROUP BY mode, policy, scope, target"
            ).fetchall()
            found: dict[Key, tuple[FoundHere, ...]] = {}
            for *key, where, cause, length, shards in self._db.execute("SELECT * FROM found_in"):
                cell: Any = tuple(key)
                found[cell] = (*found.get(cell, ()), FoundHere(checked(where), cause, length, shards))
            return cells(self.plan(), done, found)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Several looks at one moment, whatever a campaign writes in between."""
        with sentences(self.path):
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction: all of it or nothing. A repeated key passes as IntegrityError, the rest as StoreError."""
        with sentences(self.path):
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise


def create(path: Path, plan: Plan) -> Store:
    """Open the store of a campaign for writing; a new one when there is none. Raises StoreError.

    A store belongs to one plan: with another one it is refused. At most one process writes.
    """
    ours = source.code()
    lock = take_lock(path)
    connection = None
    try:
        with sentences(path):
            connection = connect(f"{path.absolute().as_uri()}?mode=rwc")
            if is_store(connection, path):
                check(connection, path)
            else:
                _initialise(connection, plan.drawn(), ours)
        store = Store(path, connection, lock)
        if not store.plan().same_as(plan):
            raise StoreError(
                f"{path} belongs to another plan ({store.plan().name}): give a changed plan a store of its own, --store"
            )
        theirs = store.code()
        if theirs != ours:
            raise StoreError(
                f"{path} holds what {theirs} decided, and this is {ours}: --show shows it, and a new"
                " campaign needs a store of its own, --store"
            )
        with sentences(path):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the machine may cost shards, never the file
    except BaseException:
        if connection is not None:
            connection.close()
        Store(path, sqlite3.connect(":memory:"), lock).close()
        raise
    return store


def read(path: Path) -> Store:
    """Open a store to look at it; nothing can be written. Raises StoreError."""
    if not path.is_file():
        raise StoreError(f"{path} does not exist; a store is the .sqlite file that `stranded campaign` writes")
    with sentences(path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        try:
            connection = connect(uri)
            empty = not is_store(connection, path)
        except sqlite3.OperationalError:
            if path.with_name(f"{path.name}-wal").exists() or os.access(path.parent, os.W_OK):
                raise
            connection = connect(f"{uri}&immutable=1")  # a closed store in a directory that cannot be written
            empty = not is_store(connection, path)
        try:
            if empty:
                raise StoreError(f"{path} is empty: no campaign has written it")
            check(connection, path)
        except BaseException:
            connection.close()
            raise
    return Store(path, connection, None)


def summary(path: Path) -> Summary:
    """Return what the campaign in a store has done so far. Raises StoreError."""
    with read(path) as store:
        return store.summary()


def _initialise(connection: sqlite3.Connection, plan: Plan, code: str) -> None:
    shards = len(plan.shards())
    connection.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO plan VALUES (?, ?, ?)", (plan.to_json(), shards, code))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


__all__ = ["GivenUp", "Kept", "Store", "StoreError", "Summary", "all_done", "create", "read", "summary", "totals"]
