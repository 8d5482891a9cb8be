import gzip
import json
import os
import shutil
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import feed_state, job, storage
from bronze.feeds import list_feeds
from bronze.files import batches
from bronze.files.unreadable import unreadable_files
from bronze.job import ingest
from bronze.storage import read_news
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views
from tests.conftest import target_at


def table(called: str = "orders", path: str = "orders", **source: object) -> Table:
    given = {"format": "debezium", "path": path, **source}
    return Table.model_validate({"table": called, "keys": ["id"], "source": given})


def drop(target: Target, path: str, content: bytes | str) -> Path:
    file = Path(target.landing, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def run(lake: Lake, *tables: Table, memory: Memory | None = None) -> list[Entry]:
    return ingest(lake, tables or [table()], "r1", lambda line: None, memory)


def bronze(lake: Lake, columns: Iterable[str], feed: str = "orders") -> list[object]:
    rows = (
        lake.spark.table(lake.name("bronze", feed)).orderBy("_arrival").select(*columns).collect()
    )
    return [tuple(row) if len(row) > 1 else row[0] for row in rows]


def raw(lake: Lake, feed: str = "orders") -> list[object]:
    return bronze(lake, ["_raw"], feed)


def test_a_missing_folder_is_not_made_and_gives_no_records(lake: Lake) -> None:
    entry = run(lake)[0]
    assert (entry.status, entry.counts, entry.batch) == ("ok", {"records": 0}, None)
    assert not Path(lake.target.landing, "orders").exists()


@pytest.fixture(scope="module")
def taken(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A lake that took files of all kinds in one run, a folder for each test below."""
    target = target_at(tmp_path_factory.mktemp("taken"))
    drop(target, "orders/lines/a.json", b'{"a": 1}\r\n\n \t\r\n{"b":"\xff"}\nno json')
    drop(target, "orders/odd/a.json.gz", gzip.compress(b"in gzip\n"))
    drop(target, "orders/odd/x/y/b [1]{2}*é%20.json", "nested")
    for file in (".hidden", "_hidden", "_a=b.json", "a.tmp", "done.tmpx", "tmp", "p"):
        drop(target, f"orders/unfinished/{file}", file)
    for age, file in ((3, "z"), (1, "b"), (1, "a")):
        written = drop(target, f"orders/ages/{file}", f"{file}1\n{file}2")
        then = (
            (datetime.now(timezone.utc) - timedelta(days=30 * age))
            .replace(microsecond=0)
            .timestamp()
        )
        os.utime(written, (then, then))
    run(Lake(spark, target))
    return target


def of_folder(lake: Lake, folder: str) -> DataFrame:
    """The rows of the files in a folder of the feed, in their order of arrival."""
    rows = lake.spark.table(lake.name("bronze", "orders")).orderBy("_arrival")
    return rows.where(F.col("_file").contains(f"/orders/{folder}/"))


def test_lines_are_kept_as_they_are_and_blank_ones_left_out(
    spark: SparkSession, taken: Target
) -> None:
    rows = of_folder(Lake(spark, taken), "lines")
    kept = [bytes(row[0]) for row in rows.selectExpr("cast(_raw as binary)").collect()]
    assert kept == [b'{"a": 1}\r', b'{"b":"\xff"}', b"no json"]


def test_gzip_odd_names_and_nested_folders_are_read(spark: SparkSession, taken: Target) -> None:
    rows = of_folder(Lake(spark, taken), "odd").select("_raw", "_file").collect()
    assert sorted(row["_raw"] for row in rows) == ["in gzip", "nested"]
    assert any(row["_file"].endswith("/orders/odd/x/y/b [1]{2}*é%20.json") for row in rows)


def test_files_still_being_written_are_left_alone(spark: SparkSession, taken: Target) -> None:
    rows = of_folder(Lake(spark, taken), "unfinished").collect()
    assert sorted(row["_raw"] for row in rows) == ["done.tmpx", "p", "tmp"]


def test_arrival_follows_the_time_of_the_files_then_their_names_then_the_lines(
    spark: SparkSession, taken: Target
) -> None:
    rows = of_folder(Lake(spark, taken), "ages").collect()
    assert [row["_raw"] for row in rows] == ["z1", "z2", "a1", "a2", "b1", "b2"]


def test_each_file_is_read_once_in_numbered_batches(lake: Lake) -> None:
    drop(lake.target, "orders/a", "1")
    first = run(lake)[0]
    nothing = run(lake)[0]
    drop(lake.target, "orders/b", "2\n3")
    second = run(lake)[0]
    assert bronze(lake, ["_batch", "_raw"]) == [(1, "1"), (2, "2"), (2, "3")]
    counts = [entry.counts["records"] for entry in (first, nothing, second)]
    assert (counts, nothing.batch, second.batch) == ([1, 0, 2], 1, 2)


def test_back_pressure_cuts_a_run_into_batches(lake: Lake) -> None:
    for file in "abc":
        drop(lake.target, f"orders/{file}", file)
    run(lake, table(max_files_per_trigger=2))
    assert sorted(bronze(lake, ["_batch"])) == [1, 1, 2]


def test_a_lost_checkpoint_neither_loses_nor_repeats_a_line(lake: Lake) -> None:
    limited = table(max_files_per_trigger=1)
    drop(lake.target, "orders/a", "1")
    drop(lake.target, "orders/b", "2")
    run(lake, limited)
    shutil.rmtree(lake.target.checkpoints)
    drop(lake.target, "orders/c", "3")
    run(lake, limited)
    drop(lake.target, "orders/d", "4")
    run(lake, limited)
    assert sorted(raw(lake)) == ["1", "2", "3", "4"]


@pytest.mark.slow
def test_a_remembered_checkpoint_that_is_lost_neither_loses_nor_repeats_a_line(lake: Lake) -> None:
    memory = Memory()
    for file in "ab":
        drop(lake.target, f"orders/{file}", file)
        run(lake, memory=memory)
    shutil.rmtree(lake.target.checkpoints)
    for file in "cd":
        drop(lake.target, f"orders/{file}", file)
        assert run(lake, memory=memory)[0].counts == {"records": 1}
    assert sorted(raw(lake)) == ["a", "b", "c", "d"]


def test_the_notes_are_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("bronze read its notes")

    memory = Memory()
    run(lake, memory=memory)
    monkeypatch.setattr(job, "read_state", asked)
    drop(lake.target, "orders/a", "1")
    assert run(lake, memory=memory)[0].counts == {"records": 1}


def notes(target: Target) -> list[Path]:
    return sorted(Path(target.checkpoints, "bronze", "orders", "taken").glob("*.json"))


@pytest.mark.parametrize("lost", ["the last", "the first", "all"])
def test_notes_that_a_kill_left_unwritten_or_that_are_gone_repeat_no_line(
    lake: Lake, lost: str
) -> None:
    for file in "abc":
        drop(lake.target, f"orders/{file}", file)
        run(lake)
    kept = {"the last": notes(lake.target)[:-1], "the first": notes(lake.target)[1:], "all": []}[
        lost
    ]
    for file in notes(lake.target):
        if file not in kept:
            file.unlink()
    Path(lake.target.checkpoints, "bronze", "orders", "taken", ".9.tmp").touch()
    drop(lake.target, "orders/d", "d")
    for records in (1, 0):
        (entry,) = run(lake)
        assert (entry.status, entry.counts) == ("ok", {"records": records}), entry.message
    assert raw(lake) == ["a", "b", "c", "d"]


def test_many_notes_become_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_state, "MOST_NOTES", 3)
    memory = Memory()
    for file in "abcde":
        drop(lake.target, f"orders/{file}", file)
        run(lake, memory=memory)
    assert len(notes(lake.target)) == 2
    drop(lake.target, "orders/f", "f")
    run(lake)
    assert raw(lake) == list("abcdef")


def test_files_without_a_record_are_read_once_by_a_run(lake: Lake) -> None:
    memory = Memory()
    drop(lake.target, "orders/empty", "")
    assert run(lake, memory=memory)[0].counts == {"records": 0}
    assert not Path(lake.target.lake, "bronze", "orders", "_delta_log", f"{1:020}.json").exists()
    drop(lake.target, "orders/a", "1")
    run(lake, memory=memory)
    assert bronze(lake, ["_batch", "_raw"]) == [(1, "1")]


def test_a_file_that_was_overwritten_is_named_and_not_read_again(lake: Lake) -> None:
    told: list[str] = []
    drop(lake.target, "orders/a", "1")
    run(lake)
    drop(lake.target, "orders/a", "another")
    ingest(lake, [table()], "r", told.append)
    assert "overwritten after they were read, and not read again: file:" in told[0]
    assert raw(lake) == ["1"]


@pytest.mark.parametrize("when", ["before the next run", "after it"])
def test_a_file_is_known_to_be_overwritten_though_a_kill_left_its_note_unwritten(
    lake: Lake, when: str
) -> None:
    told: list[str] = []
    drop(lake.target, "orders/a", "1")
    run(lake)
    (note,) = notes(lake.target)
    note.unlink()
    if when == "after it":
        run(lake)
    drop(lake.target, "orders/a", "another")
    ingest(lake, [table()], "r", told.append)
    ingest(lake, [table()], "r", told.append)
    assert any("overwritten after they were read, and not read" in line for line in told)
    assert raw(lake) == ["1"]


def test_a_lost_bronze_table_is_read_again_from_the_files(lake: Lake) -> None:
    drop(lake.target, "orders/a", "1")
    run(lake)
    shutil.rmtree(Path(lake.target.lake, "bronze", "orders"))
    run(lake)
    assert raw(lake) == ["1"]


@pytest.mark.slow
def test_a_file_that_cannot_be_read_stops_no_other_and_is_taken_once_mended(lake: Lake) -> None:
    drop(lake.target, "orders/a", "1")
    drop(lake.target, "orders/bad.gz", b"this is no gzip file")
    failed = run(lake)[0]
    assert (failed.status, raw(lake)) == ("failed", ["1"])
    assert "bad.gz: IOException: not a gzip file" in str(failed.message)
    (told,) = unreadable_files(lake, [table()])["orders"]
    assert told.startswith("orders/bad.gz cannot be read: IOException: not a gzip file")
    drop(lake.target, "orders/b", "2")
    again = run(lake)[0]
    assert (again.status, again.counts["records"]) == ("failed", 1)
    drop(lake.target, "orders/bad.gz", gzip.compress(b"3"))
    mended = run(lake)[0]
    assert (mended.status, raw(lake)) == ("ok", ["1", "2", "3"])
    assert unreadable_files(lake, [table()]) == {}
    assert run(lake)[0].counts == {"records": 0}


@pytest.mark.slow
def test_an_unreadable_file_that_is_taken_away_fails_no_more(lake: Lake) -> None:
    bad = drop(lake.target, "orders/bad.gz", gzip.compress(os.urandom(9000))[:5000])
    assert run(lake)[0].status == "failed"
    bad.unlink()
    assert run(lake)[0].status == "ok"


def test_one_feed_that_fails_leaves_the_others_alone(lake: Lake) -> None:
    Path(lake.target.landing).mkdir(parents=True)
    Path(lake.target.landing, "no_folder").write_text("a file in its place")
    drop(lake.target, "orders/a", "1")
    entries = run(lake, table("lost", "no_folder"), table())
    assert [entry.status for entry in entries] == ["failed", "ok"]
    assert raw(lake) == ["1"]


def test_tables_of_one_folder_share_a_feed_and_count_their_own_topics(lake: Lake) -> None:
    drop(
        lake.target,
        "shop/a",
        '{"topic":"s.a","offset":1,"key":{"id":1},"value":null}\n'
        '{"topic":"s.b","offset":2,"key":{"id":1},"value":{"op":"c"}}\n'
        '{"topic":"s.b","offset":3,"key":{"id":1},"value":{"op":"c"}}\n'
        '{"topic":"tx","offset":4,"value":{}}',
    )
    entries = run(lake, table("a", "shop", topic="s.a"), table("b", "shop", topic="s.b"))
    counts = [(entry.table, entry.counts) for entry in entries]
    assert counts == [("a", {"records": 1}), ("b", {"records": 2}), ("feed_shop", {"unread:tx": 1})]
    found = bronze(lake, ["_topic", "_offset", "_whole"], "feed_shop")
    assert found == [("s.a", 1, True), ("s.b", 2, True), ("s.b", 3, True), ("tx", 4, True)]
    own = lake.spark.sql(load_views(lake.target, "bronze")["b"].query).orderBy("_arrival").collect()
    assert [row["_offset"] for row in own] == [2, 3]


def whole(*topics: str | None) -> str:
    named = [{} if topic is None else {"topic": topic} for topic in topics]
    return "\n".join(json.dumps({"offset": 1, "value": {}} | topic) for topic in named)


TOPICS: dict[str, tuple[list[Table], list[str]]] = {
    "no topic": ([table()], ["1\n2", "3"]),
    "every topic": ([table()], [whole("a", "a"), whole("a")]),
    "their own and another": (
        [table("a", "orders", topic="a"), table("b", "orders", topic="b")],
        [whole("a", "b", "b"), whole("b", "tx", "tx")],
    ),
    "several others": ([table(topic="a")], [whole("a", "x", "y"), whole("y")]),
    "nothing in it": ([table(topic="a")], ["\n", whole("a")]),
}


FEW = pytest.param(batches.FEW_BYTES, id="by this process", marks=pytest.mark.slow)
MANY = pytest.param(0, id="by Spark")


@pytest.mark.parametrize("few", [FEW, MANY])
@pytest.mark.parametrize("limit", [1, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", TOPICS)
def test_what_a_write_tells_is_what_bronze_holds(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, case: str, limit: int, few: int
) -> None:
    monkeypatch.setattr(batches, "FEW_BYTES", few)
    monkeypatch.setattr(storage, "MOST_TOPICS", 3)  # of "several others", bronze is asked
    tables, contents = TOPICS[case]
    limited = [
        t.model_copy(
            update={"source": t.feeds[0].model_copy(update={"max_files_per_trigger": limit})}
        )
        for t in tables
    ]
    for number, content in enumerate(contents):
        drop(lake.target, f"orders/{number}", content)
    memory, (feed,) = Memory(), list_feeds(limited)
    told = job._read_feed(job._Ingestion(lake, memory.feeds, {}), feed)
    asked = read_news(lake, feed, 0)
    assert (told.batch or 0, told.records) == asked[:2]
    assert memory.feeds[feed.name].newest == asked.batch
    assert set(memory.feeds[feed.name].topics) == set(asked.records)


@pytest.mark.parametrize("few", [FEW, MANY])
def test_bronze_is_not_asked_what_was_just_written(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("bronze was asked")

    monkeypatch.setattr(storage, "read_news", asked)
    monkeypatch.setattr(batches, "FEW_BYTES", few)
    drop(lake.target, "orders/a", "1")
    first = run(lake)[0]
    nothing = run(lake)[0]
    drop(lake.target, "orders/b", "2\n3")
    second = run(lake)[0]
    told = [(entry.status, entry.counts, entry.batch) for entry in (first, nothing, second)]
    assert told == [("ok", {"records": n}, at) for n, at in ((1, 1), (0, 1), (2, 2))]
