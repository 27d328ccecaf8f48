"""The store: one transaction for each shard, each shard once, and one sentence for every file that cannot be used."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from shard_work import history

from state_machines.campaign import plan as plans
from state_machines.campaign.shard import Found, Outcome
from state_machines.campaign.store import StoreError, create, read, summary


def plan(count: int = 4, seed: str = "[0]") -> plans.Plan:
    return plans._plan(
        {
            "policies": ["sibling"],
            "seeds": {"random": 1} if seed == "random" else [0],
            "budget": {"examples": count, "shard_examples": 1},
        },
        "night",
    )


def found(length: int, seed: int = 0) -> tuple[Found, ...]:
    return (history(plan().shards()[0], length, seed),)


def done(shard, findings=()) -> Outcome:
    return Outcome(shard.key, 1, 10, 20, 0.5, False, findings, "here:1")


def test_a_shard_is_kept_once_however_often_it_is_reported(tmp_path):
    shard = plan().shards()[0]
    with create(tmp_path / "s", plan()) as store:
        assert store.put(shard, done(shard, found(5)))
        assert not store.put(shard, done(shard, found(3)))
        kept = store.summary()
    assert (kept.done, kept.examples, kept.findings[0].length, kept.findings[0].shards) == (1, 1, 5, 1)


def test_of_a_cause_the_shortest_history_is_kept_whatever_the_order(tmp_path):
    shards = plan().shards()
    lengths = (7, 4, 4, 9)
    results = []
    for number, order in enumerate([(0, 1, 2, 3), (3, 2, 1, 0)]):
        with create(tmp_path / f"{number}", plan()) as store:
            for i in order:
                store.put(shards[i], done(shards[i], found(lengths[i], i)))
            results.append(store.summary().findings)
    assert results[0] == results[1]
    assert [(kept.length, kept.trace, kept.shards) for kept in results[0]] == [(4, found(4, 1)[0].trace, 4)]


def test_a_failed_transaction_leaves_nothing_of_its_shard(tmp_path):
    shard = plan().shards()[0]
    with create(tmp_path / "s", plan()) as store:
        broken = done(shard, (*found(5), Found("fair", None, 3, "{}")))  # a cause that is not null is the schema's
        assert not store.put(shard, broken)
        assert store.summary().findings == ()
        assert store.put(shard, done(shard))


def test_a_closed_store_is_one_file_and_reading_it_leaves_no_other(tmp_path):
    with create(tmp_path / "s", plan()) as store:
        store.give_up(plan().shards()[0], 3, "why")
        assert {path.name for path in tmp_path.iterdir()} == {"s", "s-wal", "s-shm", "s.lock"}
    assert summary(tmp_path / "s").shards == 4
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_store_can_be_read_while_it_is_written(tmp_path):
    shard = plan().shards()[0]
    with create(tmp_path / "s", plan()) as store:
        store.put(shard, done(shard))
        assert summary(tmp_path / "s").done == 1


def test_what_is_written_during_a_look_is_not_half_of_it(tmp_path, monkeypatch):
    shard = plan().shards()[0]
    with create(tmp_path / "s", plan()) as store, read(tmp_path / "s") as other:
        check = other.plan

        def writes_in_between():
            store.put(shard, done(shard, found(5)))
            return check()

        monkeypatch.setattr(other, "plan", writes_in_between)
        seen = other.summary()
        assert (seen.done, seen.findings, seen.cells[0].done) == (0, (), 0)
        assert (store.summary().done, len(store.summary().findings)) == (1, 1)


def test_random_seeds_are_kept_with_the_store(tmp_path):
    with create(tmp_path / "s", plan(seed="random")) as store:
        seeds = store.plan().seeds
    with create(tmp_path / "s", plan(seed="random")) as store:
        assert store.plan().seeds == seeds
        assert len(seeds) == 1


def refused(path: Path, words: str, opener=lambda path: create(path, plan())) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=words) as error:
        opener(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not path.with_name(f"{path.name}.lock").exists()


def test_another_plan_is_refused(tmp_path):
    create(tmp_path / "s", plan(3)).close()
    refused(tmp_path / "s", "belongs to another plan")


def test_a_damaged_store_is_refused_and_not_touched(tmp_path):
    shard = plan().shards()[0]
    with create(tmp_path / "s", plan()) as store:
        store.put(shard, done(shard))
    data = bytearray((tmp_path / "s").read_bytes())
    data[4096:] = b"\x5a" * (len(data) - 4096)
    (tmp_path / "s").write_bytes(data)
    refused(tmp_path / "s", "is damaged")
    refused(tmp_path / "s", "is damaged", read)


def test_a_truncated_store_is_refused_and_not_touched(tmp_path):
    create(tmp_path / "s", plan()).close()
    os.truncate(tmp_path / "s", 5000)
    refused(tmp_path / "s", "is damaged")
    refused(tmp_path / "s", "is damaged", read)


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path):
    (tmp_path / "s").write_text("my notes\n" * 1000)
    refused(tmp_path / "s", "is damaged or not a campaign's store")


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path):
    with sqlite3.connect(tmp_path / "s") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    refused(tmp_path / "s", "another program's database")
    refused(tmp_path / "s", "another program's database", read)


def test_a_store_of_a_later_version_is_refused(tmp_path):
    create(tmp_path / "s", plan()).close()
    with sqlite3.connect(tmp_path / "s") as later:
        later.execute("PRAGMA user_version = 4")
    later.close()
    refused(tmp_path / "s", "version 4 of the store's format")


def test_an_empty_file_becomes_a_store_and_cannot_be_read_as_one(tmp_path):
    (tmp_path / "s").touch()
    refused(tmp_path / "s", "is empty", read)
    create(tmp_path / "s", plan()).close()
    assert summary(tmp_path / "s").done == 0


def test_a_directory_and_a_missing_store_are_refused(tmp_path):
    (tmp_path / "d").mkdir()
    refused(tmp_path / "d", "cannot be opened")
    refused(tmp_path / "s", "does not exist", read)


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path):
    with create(tmp_path / "s", plan()), pytest.raises(StoreError, match="in use by another campaign"):
        create(tmp_path / "s", plan())
    create(tmp_path / "s", plan()).close()


def test_a_store_locked_by_another_program_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("state_machines.campaign.store_file.BUSY", 0.1)
    create(tmp_path / "s", plan()).close()
    other = sqlite3.connect(tmp_path / "s", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    refused(tmp_path / "s", "locked by another process")
    other.close()


FILL = """
import resource, signal, sys
from pathlib import Path
from tests_store import done, found, plan
from state_machines.campaign.store import StoreError, create
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with create(Path(sys.argv[1]), plan(5000)) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        for count, shard in enumerate(plan(5000).shards()):
            store.put(shard, done(shard, found(5, count)))
    except StoreError as error:
        print(count, error)
"""


def test_when_the_disk_is_full_one_sentence_says_so_and_every_earlier_shard_is_kept(tmp_path):
    path = tmp_path / "s"
    program = FILL.replace("tests_store", Path(__file__).stem)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    run = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, env=environment
    )
    count, sentence = run.stdout.strip().split(" ", 1)
    assert "the disk is full or failing" in sentence
    assert "\n" not in sentence
    assert int(count) > 10
    assert summary(path).done == int(count)
    with create(path, plan(5000)) as store:  # with room again the campaign goes on
        shard = plan(5000).shards()[int(count)]
        assert store.put(shard, done(shard))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE finding SET trace = replace(trace, '\"events\"', 'x')",
        "UPDATE finding SET trace = '{}'",
        "UPDATE finding SET length = 'abc'",
        "UPDATE finding SET length = length + 1",
        "UPDATE finding SET policy = x'00'",
        "UPDATE finding SET property = 'nonsense'",
        "UPDATE found_in SET property = 'nonsense'",
        "DELETE FROM found_in",
        "UPDATE plan SET shards = 'x'",
        "UPDATE plan SET json = replace(json, '\"name\"', '\"game\"')",
        "UPDATE plan SET json = json_set(json, '$.examples', 'x')",
        "UPDATE plan SET json = json_set(json, '$.scopes', 7)",
        "UPDATE result SET examples = -1",
        "UPDATE result SET scope = 'groups=7'",
        "DELETE FROM plan",
    ],
)
def test_a_row_that_no_campaign_has_written_is_one_sentence(tmp_path, statement):
    shard = plan().shards()[0]
    with create(tmp_path / "s", plan()) as store:
        store.put(shard, done(shard, found(5)))
    with sqlite3.connect(tmp_path / "s") as edited:
        edited.execute(statement)
    edited.close()

    def look(path):
        with read(path) as store:
            store.summary()
            store.cells()

    refused(tmp_path / "s", "is damaged", look)


def test_a_store_of_other_code_is_shown_and_not_continued(tmp_path, monkeypatch):
    create(tmp_path / "s", plan()).close()
    monkeypatch.setattr("state_machines.source.code", lambda: "stranded 9")
    refused(tmp_path / "s", "holds what stranded .*, protocol .* decided, and this is stranded 9")
    assert summary(tmp_path / "s").code.startswith("stranded 0.")
