import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.feeds import Feed
from bronze.loss import watch
from cdc_lakehouse.cli.work.rounds import Round, do_layer
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import gaps
from lakehouse.run.gaps import Gap
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.job import apply
from silver.maintenance.closed_gaps import close_gaps
from tests.helpers.lakes import quiet

pytestmark = pytest.mark.slow


def table(format: str, **source: object) -> Table:
    feed = {"format": format, "path": "t", "topic": "s.t", **source}
    return Table.model_validate({"table": "t", "keys": ["id"], "source": feed})


def land(target: Target, file: str, *records: dict[str, object]) -> None:
    folder = Path(target.landing, "t")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(
        "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records)
    )


def run(
    lake: Lake, config: Table, memory: Memory | None = None, tell: Callable[[str], None] = quiet
) -> Entry:
    given = Round(lake, "r1", memory=memory)
    (entry,) = do_layer(given, [config], "bronze", tell)
    return entry


def ydb(*offsets: int, partition: int = 0) -> list[dict[str, object]]:
    return [
        {
            "topic": "s.t", "partition": partition, "offset": offset, "key": [offset],
            "value": {"key": [offset], "update": {"v": "x"}, "ts": [offset, 1]},
        }
        for offset in offsets
    ]  # fmt: skip


def change(
    transaction: int, order: int, total: int, key: int = 1, id: str | None = None
) -> dict[str, object]:
    block = {"id": id or f"{transaction}:9", "total_order": total, "data_collection_order": order}
    source = {"connector": "postgresql", "lsn": transaction * 100 + total, "txId": transaction,
              "ts_ms": 1, "schema": "s", "table": "t"}  # fmt: skip
    value = {
        "before": None,
        "after": {"id": key},
        "source": source,
        "transaction": block,
        "op": "c",
    }
    return {"topic": "s.t", "offset": transaction * 10 + order, "key": {"id": key}, "value": value}


def still_open(lake: Lake) -> list[tuple[int, int]]:
    return [(gap.first, gap.last) for gap in gaps.open_gaps(lake)]


def test_offsets_that_follow_one_another_are_no_gap(lake: Lake) -> None:
    land(lake.target, "a", *ydb(5, 6), *ydb(0, 1, partition=1))
    assert run(lake, table("ydb")).message is None
    land(lake.target, "b", *ydb(7), *ydb(2, partition=1))
    assert run(lake, table("ydb")).status == "ok"
    assert gaps.open_gaps(lake) == []


def test_offsets_that_differ_by_more_than_one_are_data_loss(lake: Lake) -> None:
    land(lake.target, "a", *ydb(5, 6))
    run(lake, table("ydb"))
    land(lake.target, "b", *ydb(9, 10))
    entry = run(lake, table("ydb"))
    assert (entry.status, entry.counts["records"]) == ("failed", 2)
    assert "offsets 7 to 8 of s.t/0 are gone at the source" in str(entry.message)
    assert "lakehouse rebootstrap t" in str(entry.message)
    assert gaps.open_gaps(lake) == [
        Gap(table="t", feed="feed_t", topic="s.t", partition=0, first=7, last=8)
    ]
    assert run(lake, table("ydb")).status == "failed"
    assert run(lake, table("ydb", on_data_loss="continue")).status == "ok"


def test_a_topic_that_was_created_again_begins_anew(lake: Lake) -> None:
    for file, offsets in (("a", (50, 51)), ("b", (0, 1)), ("c", (2,))):
        land(lake.target, file, *ydb(*offsets))
        assert run(lake, table("ydb")).status == "ok"
    land(lake.target, "d", *ydb(4))
    assert run(lake, table("ydb")).status == "failed"
    assert still_open(lake) == [(3, 3)]


def test_a_gap_is_closed_when_what_was_missing_turns_up(lake: Lake) -> None:
    land(lake.target, "a", *ydb(1, 4))
    assert run(lake, table("ydb")).status == "failed"
    land(lake.target, "b", *ydb(2, 3))
    assert run(lake, table("ydb")).status == "ok"
    assert still_open(lake) == []


def test_a_hole_in_a_transaction_is_data_loss(lake: Lake) -> None:
    land(lake.target, "a", change(7, 1, 1), change(7, 2, 4), change(8, 1, 3), change(8, 4, 9))
    assert run(lake, table("debezium")).status == "ok"
    land(lake.target, "b", change(9, 1, 10))
    entry = run(lake, table("debezium"))
    assert entry.status == "failed"
    assert "changes 2 to 3 of transaction 8 of s.t are gone" in str(entry.message)
    assert still_open(lake) == [(2, 3)]


def test_a_transaction_may_come_in_two_batches(lake: Lake) -> None:
    land(lake.target, "a", change(7, 1, 1), change(7, 2, 2))
    assert run(lake, table("debezium")).status == "ok"
    land(lake.target, "b", change(7, 3, 3))
    assert run(lake, table("debezium")).status == "ok"
    land(lake.target, "c", change(7, 5, 5))
    assert run(lake, table("debezium")).status == "ok"
    land(lake.target, "d", change(8, 1, 6))
    assert run(lake, table("debezium")).status == "failed"
    assert still_open(lake) == [(4, 4)]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_part_of_a_transaction_that_comes_with_the_next_files_is_not_gone(
    lake: Lake, remembers: bool
) -> None:
    config, memory, told = table("debezium"), Memory() if remembers else None, list[str]()
    for file, order in (("a", 1), ("b", 4), ("c", 3), ("d", 2)):
        land(lake.target, file, change(7, order, order))
        if file != "b":
            assert run(lake, config, memory, told.append).status == "ok"
    [part] = [line for line in told if "not whole yet" in line]
    assert "1 transaction not whole yet, such as 7 of s.t" in part
    assert still_open(lake) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0a001f00b3000000", "0a00a100b3000000"),
        ("00000025:00000d98:00a2", "00000025:00000d99:00a2"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "3e11fa47-71ca-11e1-9e33-c80aa9429562:24"),
    ],
)
def test_transactions_are_told_apart_by_their_whole_ids(lake: Lake, one: str, other: str) -> None:
    changes = [change(7, 1, 1, id=one), change(8, 2, 2, id=other)]
    land(lake.target, "a", *changes)
    assert run(lake, table("debezium")).status == "ok"
    land(lake.target, "b", change(9, 1, 3, id=one[:-1] + "0"))
    entry = run(lake, table("debezium"))
    assert f"changes 1 to 1 of transaction {other} of s.t are gone" in str(entry.message)


@pytest.mark.parametrize("began", ["later", "earlier"])
def test_only_a_snapshot_that_began_after_a_gap_closes_it(lake: Lake, began: str) -> None:
    config = table("debezium")
    land(lake.target, "a", change(8, 2, 2))
    run(lake, config)
    land(lake.target, "b", snapshot_row(4_000_000_000_000 if began == "later" else 1_000_000_000))
    run(lake, config)
    assert [e.message for e in apply(lake, [config], "r1", lambda line: None)] == [None]
    close_gaps(lake, [config])
    assert still_open(lake) == ([] if began == "later" else [(1, 1)])


def snapshot_row(milliseconds: int) -> dict[str, object]:
    source = {"connector": "postgresql", "lsn": 99_999, "ts_ms": milliseconds, "snapshot": "last",
              "ts_us": milliseconds * 1000, "schema": "s", "table": "t", "name": "s"}  # fmt: skip
    value = {"before": None, "after": {"id": 1}, "source": source, "op": "r"}
    return {"topic": "s.t", "offset": 500, "key": {"id": 1}, "value": value}


@pytest.mark.parametrize("remembers", [True, False])
def test_what_was_looked_through_is_not_looked_through_again(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch, remembers: bool
) -> None:
    """The run's memory tells how far that is, or the ledger; a lost bronze table begins anew."""
    looked, real = [], watch.find_jumps

    def jumps(lake: Lake, feed: Feed, after: int) -> list[Gap]:
        looked.append(after)
        return real(lake, feed, after)

    monkeypatch.setattr(watch, "find_jumps", jumps)
    config, memory = table("ydb"), Memory() if remembers else None
    for file, offset in (("a", 5), ("b", 6)):
        land(target, file, *ydb(offset))
        entry = run(Lake(spark, target), config, memory)
        run(Lake(spark, target), config, memory)
    assert (looked, entry.positions) == ([0, 1], {"feed_t": 2})
    shutil.rmtree(Path(target.lake, "bronze"))
    land(target, "c", *ydb(9))
    assert run(Lake(spark, target), config).status == "failed"
    assert looked == [0, 1, 0]


def test_bronze_is_not_searched_where_no_change_has_a_number(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("bronze was searched")

    monkeypatch.setattr("bronze.loss.holes._read_orders", refuse)
    for file in ("1.jsonl", "2.jsonl"):
        record = {"op": "c", "after": {"id": 1}, "source": {"lsn": 5}}
        land(lake.target, file, {"topic": "s.t", "offset": 7, "key": {"id": 1}, "value": record})
        assert run(lake, table("debezium")).status == "ok"
