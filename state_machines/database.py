"""Where failures are remembered: one URL for Hypothesis' own databases, shared between workers, machines and nights.

`dir:PATH`, `redis://HOST[:PORT][/DB]` (also `rediss://`, `unix://`) or `none`; `read-only+URL` never writes; several by
commas are read together, and all but the read-only ones written. A failure that one worker finds, the next hunt of any
worker replays first. A database that cannot be reached costs one warning, never the hunt.
"""

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase, MultiplexedDatabase, ReadOnlyDatabase

DEFAULT: Final = "dir:.hypothesis/examples"
READ_ONLY: Final = "read-only+"
REDIS: Final = ("redis://", "rediss://", "unix://")
PREFIX: Final = b"stranded:"
TIMEOUT: Final = 2.0  # seconds to wait for Redis
REST: Final = 60.0  # seconds to leave an unreachable database alone before it is asked again

F = TypeVar("F", bound=Callable[..., Any])


class DatabaseError(ValueError):
    """A URL that names no database, in one sentence."""


def open_database(url: str | None, warn: Callable[[str], Any] | None = None) -> ExampleDatabase | None:
    """Return the database that a URL names, for one hunt (`OneHunt`); None for `none` and for no URL.

    `warn` gets one sentence when the database cannot be reached; by default it goes to standard error. Raises
    DatabaseError.
    """
    urls = [part.strip() for part in (url or "none").split(",") if part.strip()]
    parts = [part for part in (_one(one, warn or _to_stderr) for one in urls) if part is not None]
    if not urls:
        raise DatabaseError(f"{url!r} names no database: write dir:PATH, redis://HOST or none")
    return OneHunt(parts[0] if len(parts) == 1 else MultiplexedDatabase(*parts)) if parts else None


def check(url: str | None, warn: Callable[[str], Any] | None = None) -> None:
    """Ask the database for something once, so that its warning comes now and from here. Raises DatabaseError."""
    database = open_database(url, warn)
    if database is not None:
        list(database.fetch(b"check"))


def _one(url: str, warn: Callable[[str], Any]) -> ExampleDatabase | None:
    if url == "none":
        return None
    if url.startswith(READ_ONLY):
        inner = _one(url.removeprefix(READ_ONLY), warn)
        return None if inner is None else ReadOnlyDatabase(inner)
    if url.startswith("dir:"):
        path = url.removeprefix("dir:")
        if not path:
            raise DatabaseError("dir: names no directory: write dir:PATH")
        return Forgiving(lambda: _directory(Path(path)), url, warn)
    if url.startswith(REDIS):
        return Forgiving(_redis(url), url, warn)
    raise DatabaseError(f"{url!r} names no database: write dir:PATH, redis://HOST or none, or {READ_ONLY}URL")


def _directory(path: Path) -> ExampleDatabase:
    if path.exists():
        next(path.iterdir(), None)  # an OSError for a file, or for a directory that cannot be read
    return DirectoryBasedExampleDatabase(path)


def _redis(url: str) -> Callable[[], ExampleDatabase]:
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ModuleNotFoundError:
        raise DatabaseError(f"{url} needs redis, which is not installed: pip install 'stranded[redis]'") from None
    try:
        client = Redis.from_url(
            url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=Retry(NoBackoff(), 0), protocol=2
        )
    except ValueError as error:
        raise DatabaseError(f"{url} is no Redis address: {error}") from None
    return lambda: RedisExampleDatabase(client, key_prefix=PREFIX)


class Forgiving(ExampleDatabase):
    """A database that may be out of reach: then it is empty for a while, and says so once."""

    def __init__(self, connect: Callable[[], ExampleDatabase], name: str, warn: Callable[[str], Any]) -> None:
        super().__init__()
        self._connect, self._name, self._warn = connect, name, warn
        self._warned, self._rests_until = False, 0.0
        self._inner: ExampleDatabase | None = None

    def __repr__(self) -> str:
        return f"<database {self._name}>"

    def _ask(self, what: Callable[[ExampleDatabase], list[bytes] | None]) -> list[bytes]:
        if time.monotonic() < self._rests_until:
            return []
        try:
            if self._inner is None:
                self._inner = self._connect()
            return what(self._inner) or []
        except Exception as error:  # noqa: BLE001 - redis raises its own, the system OSError; neither may end a hunt
            self._rests_until = time.monotonic() + REST
            if not self._warned:
                self._warned = True
                reason = " ".join(str(error).split()) or type(error).__name__
                self._warn(f"the database {self._name} cannot be reached ({reason}): the hunt goes on without it")
            return []

    def fetch(self, key: bytes) -> Iterable[bytes]:
        return self._ask(lambda inner: list(inner.fetch(key)))

    def save(self, key: bytes, value: bytes) -> None:
        self._ask(lambda inner: inner.save(key, value))

    def delete(self, key: bytes, value: bytes) -> None:
        self._ask(lambda inner: inner.delete(key, value))

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        self._ask(lambda inner: inner.move(src, dest, value))


class OneHunt(ExampleDatabase):
    """A database for one hunt, which forgets only what failed in none of the hunt's runs of Hypothesis.

    In a later run what is known is no failure any more, and a history found in such a run may fail in no other.
    So every run gets all that was remembered when the hunt began, and what failed once, or is new, is not removed.
    """

    def __init__(self, inner: ExampleDatabase) -> None:
        super().__init__()
        self._inner = inner
        self._given: dict[bytes, list[bytes]] = {}
        self._removed: set[tuple[bytes, bytes]] = set()
        self._kept: set[bytes] = set()

    def __repr__(self) -> str:
        return f"OneHunt({self._inner!r})"

    def fetch(self, key: bytes) -> Iterable[bytes]:
        if key not in self._given:
            self._given[key] = list(self._inner.fetch(key))
        else:
            self._kept.update(value for value in self._given[key] if (key, value) not in self._removed)
        return list(self._given[key])

    def save(self, key: bytes, value: bytes) -> None:
        self._kept.add(value)
        self._inner.save(key, value)

    def delete(self, key: bytes, value: bytes) -> None:
        if value not in self._kept:
            self._removed.add((key, value))
            self._inner.delete(key, value)

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        self._kept.add(value)
        self._inner.move(src, dest, value)


def silent(_: str) -> None:
    """Say nothing: for workers, whose parent has warned already."""


def _to_stderr(sentence: str) -> None:
    print(f"stranded: {sentence}", file=sys.stderr)  # noqa: T201 - a hunt has no other way to its user


def database_option(command: F) -> F:
    """Add `--database URL` to a command, which gets `database: str`."""
    text = f"where failures are remembered: dir:PATH, redis://HOST, none, {READ_ONLY}URL; several by commas"
    return click.option("--database", metavar="URL", default=DEFAULT, show_default=True, help=text)(command)
