"""The file under a store: its lock, how it is recognised, and SQLite's errors as sentences that say what to do."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from state_machines.campaign.rows import BadRow, check_types

APPLICATION: Final = 0x5354524E  # "STRN", SQLite's application_id: what tells a store from anyone else's database
VERSION: Final = 3
BUSY: Final = 5.0  # seconds to wait for another writer's lock


class StoreError(ValueError):
    """A store that cannot be used, in one sentence that says what to do."""


def connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)


def is_store(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a store already; False for an empty one. Raises StoreError for anything else."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise StoreError(f"{path} is another program's database, not a campaign's store; nothing in it was changed")
    if version != VERSION:
        raise StoreError(f"{path} has version {version} of the store's format; this is a reader of version {VERSION}")
    return True


def check(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreError(damaged(path))
    check_types(connection)


def lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def take_lock(path: Path) -> int:
    """Take the writer's lock: a file beside the store, held open. The system lets it go when the process ends."""
    lock = lock_path(path)
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise StoreError(f"{path} is in use by another campaign: wait for it, or give another --store") from None
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), lock.stat()):
                return handle
        os.close(handle)  # its last owner removed it in between: take the new one


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, and rows that are not believed, into one sentence that says what to do."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise StoreError(_sentence(path, error)) from None
    except BadRow:
        raise StoreError(damaged(path)) from None


def _sentence(path: Path, error: Any) -> str:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return (
            f"{path} cannot be written, the disk is full or failing ({error}): make room, run the same command again;"
            " every shard reported before is kept"
        )
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path} is locked by another process: end it, and run the same command again"
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{path} cannot be opened or written ({error})"
    return damaged(path)


def damaged(path: Path) -> str:
    return (
        f"{path} is damaged or not a campaign's store: move it away or give another --store; nothing in it was changed"
    )
