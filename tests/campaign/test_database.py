"""Where failures are remembered: one URL, shared between workers, never in the way of a hunt."""

import shutil
import socket
import subprocess
import time

import pytest

from protocol.policy import named
from protocol.scope import parse
from state_machines import database as databases
from state_machines.campaign.shard import Shard, outcome_from_json
from state_machines.campaign.work import run
from state_machines.database import DatabaseError, open_database
from state_machines.hunt import hunt

SERVER = shutil.which("redis-server")


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def redis_server(tmp_path):
    """A real Redis server: its URL and its process."""
    if SERVER is None:
        pytest.skip("redis-server is not installed (Debian package redis-server)")
    pytest.importorskip("redis", reason="redis is not installed (extra stranded[redis])")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [SERVER, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < until, "redis-server did not start"
            time.sleep(0.02)
    yield f"redis://127.0.0.1:{port}/0", process
    process.kill()
    process.wait()


def test_none_and_no_url_are_no_database():
    assert open_database("none") is open_database(None) is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", None),
        ("ftp://x", "'ftp://x' names no database"),
        ("dir:", "dir: names no directory"),
        ("/tmp/x", "'/tmp/x' names no database"),
        (",", "',' names no database"),
        ("redis://host:port", "redis://host:port is no Redis address"),
    ],
)
def test_a_url_that_names_no_database_is_one_sentence(url, sentence):
    if sentence is None:
        assert open_database(url) is None
        return
    with pytest.raises(DatabaseError) as error:
        open_database(url)
    assert str(error.value).startswith(sentence)


def test_what_one_worker_saves_in_a_directory_another_fetches(tmp_path):
    url = f"dir:{tmp_path / 'shared'}"
    open_database(url).save(b"key", b"value")
    assert list(open_database(url).fetch(b"key")) == [b"value"]


def test_a_read_only_database_is_read_and_never_written(tmp_path):
    shared, mine = f"dir:{tmp_path / 'shared'}", f"dir:{tmp_path / 'mine'}"
    open_database(shared).save(b"key", b"value")
    both = open_database(f"{mine},read-only+{shared}")
    both.save(b"key", b"other")
    assert set(open_database(f"{mine},read-only+{shared}").fetch(b"key")) == {b"value", b"other"}
    open_database(f"{mine},read-only+{shared}").delete(b"key", b"value")
    assert list(open_database(shared).fetch(b"key")) == [b"value"]
    assert list(open_database(mine).fetch(b"key")) == [b"other"]


def test_a_directory_that_cannot_be_used_costs_one_warning(tmp_path, warnings):
    (tmp_path / "file").touch()
    database = open_database(f"dir:{tmp_path / 'file'}", warnings.append)
    database.save(b"key", b"value")
    assert list(database.fetch(b"key")) == []
    (warning,) = warnings
    assert warning.startswith(f"the database dir:{tmp_path / 'file'} cannot be reached ([Errno 20] Not a directory")
    assert warning.endswith("the hunt goes on without it")


def test_what_one_worker_saves_in_redis_another_fetches(redis_server, warnings):
    url, _ = redis_server

    def another():
        return open_database(url, warnings.append)

    another().save(b"key", b"value")
    assert list(another().fetch(b"key")) == [b"value"]
    another().move(b"key", b"elsewhere", b"value")
    assert list(another().fetch(b"key")) == []
    assert list(another().fetch(b"elsewhere")) == [b"value"]
    another().delete(b"elsewhere", b"value")
    assert list(another().fetch(b"elsewhere")) == []
    assert warnings == []


def test_redis_can_be_shared_read_only(redis_server):
    url, _ = redis_server
    open_database(url).save(b"key", b"value")
    reader = open_database(f"read-only+{url}")
    reader.save(b"key", b"other")
    reader.delete(b"key", b"value")
    assert list(open_database(url).fetch(b"key")) == [b"value"]


def test_redis_that_goes_away_costs_one_warning_and_is_asked_again_later(redis_server, warnings, monkeypatch):
    url, process = redis_server
    database = databases._one(url, warnings.append)
    database.save(b"key", b"value")
    process.kill()
    process.wait()
    for _ in range(3):
        assert list(database.fetch(b"key")) == []
        database.save(b"key", b"value")
    assert len(warnings) == 1
    assert "cannot be reached" in warnings[0]
    monkeypatch.setattr(databases, "REST", -1.0)
    database._rests_until = 0.0
    again = subprocess.Popen(process.args, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while list(database.fetch(b"key")) != [b"value"]:  # it starts empty; a save goes through once it is up
            database.save(b"key", b"value")
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        again.kill()
        again.wait()
    assert len(warnings) == 1


def test_an_unreachable_redis_is_one_warning_when_it_is_checked(warnings):
    pytest.importorskip("redis", reason="redis is not installed (extra stranded[redis])")
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{taken.getsockname()[1]}"
        databases.check(url, warnings.append)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"the database {url} cannot be reached")
    assert "\n" not in warnings[0]


def test_by_default_the_warning_goes_to_standard_error(tmp_path, capsys):
    (tmp_path / "file").touch()
    databases.check(f"dir:{tmp_path / 'file'}")
    assert capsys.readouterr().err.count("stranded: the database dir:") == 1


def test_a_hunt_forgets_only_what_failed_in_none_of_its_runs(tmp_path):
    def another():
        return open_database(f"dir:{tmp_path}")

    for value in (b"stale", b"failed", b"failed late"):
        another().save(b"key", value)
    database = another()
    for not_failing in ([b"stale", b"failed late"], [b"stale", b"failed"], [b"stale", b"failed", b"failed late"]):
        assert set(database.fetch(b"key")) == {b"stale", b"failed", b"failed late"}
        if not_failing == [b"stale", b"failed"]:
            database.save(b"key", b"failed late")  # Hypothesis saves a failure that is new in a run
        for value in not_failing:
            database.delete(b"key", value)
    assert set(another().fetch(b"key")) == {b"failed", b"failed late"}


LOST = parse("groups=1,siblings=2,snapshots=0,failures=0")


@pytest.mark.parametrize("kind", ["dir", "redis"])
def test_what_one_worker_finds_the_next_hunt_of_any_worker_replays_first(kind, request, tmp_path):
    url = f"dir:{tmp_path}" if kind == "dir" else request.getfixturevalue("redis_server")[0]
    policy = named("sibling")
    shard = Shard(0, "hunt", policy, LOST, "model", 1, 50, None)
    (first,) = outcome_from_json(run(shard.to_json(), url)).findings
    met = []
    found = hunt(policy, LOST, seed=2, examples=1, database=open_database(url), certify=False, progress=met.append)
    assert [finding.verdict.cause for finding in found.findings] == [first.cause] == ["lost_reply"]
    assert (met[0].examples, met[0].findings) == (1, 1), "the first history was not the remembered one"
    nothing = hunt(policy, LOST, seed=2, examples=1, database=None, certify=False)
    assert nothing.findings == (), "the seed finds it by itself, so that this test shows nothing"


@pytest.mark.slow
def test_later_hunts_find_all_that_earlier_ones_found(tmp_path):
    policy, scope, known = named("prompt_group"), parse(""), set()
    for seed in range(4):
        found = hunt(policy, scope, seed=seed, examples=60, certify=False, database=open_database(f"dir:{tmp_path}"))
        assert found.verdicts >= known
        known = found.verdicts
    assert len(known) > 2
