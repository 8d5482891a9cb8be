"""What a run remembers is what the lake would tell, and less work to know."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze import job as bronze
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Arrived, Memory
from silver import job as silver
from silver import reconciliation, table_runs
from silver.changelog import bronze_rows
from silver.state.table_state import read_states
from tests.helpers.arrivals import silver as stored
from tests.helpers.lake import quiet, rows, settle
from tests.helpers.landed import failures, land
from tests.spark.groups.test_consistency_groups import Source, shop
from tests.spark.groups.test_consistency_groups import land as land_files


def table(name: str = "t", **options: Any) -> Table:
    given = {"table": name, "source": {"format": "rows", "path": name}, "keys": ["id"]}
    return Table.model_validate(given | {"sequence_by": "v"} | options)


def drop(target: Target, name: str, file: str, records: Sequence[dict[str, Any]]) -> None:
    folder = Path(target.landing, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("".join(f"{json.dumps(record)}\n" for record in records))


AT_ONCE = pytest.param({}, marks=pytest.mark.slow, id="at once")
WAITING = pytest.param({"max_staleness": "1 day"}, id="waiting")


def check(spark: SparkSession, target: Target, tables: list[Table], memory: Memory) -> None:
    """What is remembered of every table is what the ledger tells of it."""
    stored = read_states(spark, target)
    assert {t.table: memory.tables[t.table] for t in tables} == {
        t.table: stored[t.table] for t in tables
    }


@pytest.mark.parametrize("options", [AT_ONCE, WAITING])
def test_what_is_remembered_is_what_the_ledger_tells(
    spark: SparkSession, target: Target, options: dict[str, Any]
) -> None:
    one, memory = table(**options), Memory()
    batches: list[list[Any]] = [
        [{"id": 1, "v": 1, "w": "a"}, {"id": 2, "v": 1, "w": "b"}],
        [{"id": 1, "v": 2}, {"id": 1, "v": 2}, "no JSON"],
        [{"id": 2, "v": 3, "w": "c"}],
    ]
    for number, records in enumerate(batches, 1):
        land(spark, target, one, number, records)
        assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []
        check(spark, target, [one], memory)


@pytest.mark.slow
def test_of_a_group_is_remembered_what_waits_as_well(spark: SparkSession, target: Target) -> None:
    source, memory, tables = Source(), Memory(), shop()
    late = source.order(2, 1, ended=False)
    for number, lines in enumerate([source.order(1, 2), late, source.order(3, 1)], 1):
        land_files(target, str(number), lines)
        assert failures(bronze.ingest(spark, target, tables, "run", quiet, memory)) == []
        assert failures(silver.apply(spark, target, tables, "run", quiet, memory)) == []
        check(spark, target, tables, memory)


def test_a_second_round_asks_the_lake_nothing(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, memory = table(), Memory()
    drop(target, "t", "1.jsonl", [{"id": 1, "v": 1}])
    assert failures(bronze.ingest(spark, target, [one], "run", quiet, memory)) == []
    assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []

    def asked(*_: object) -> None:
        raise AssertionError("the lake was asked")

    drop(target, "t", "2.jsonl", [{"id": 1, "v": 2}, {"id": 2, "v": 2}])
    with monkeypatch.context() as patch:
        patch.setattr(table_runs, "read_states", asked)
        patch.setattr(bronze_rows, "_run_queries", asked)
        assert failures(bronze.ingest(spark, target, [one], "run", quiet, memory)) == []
        assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []
    settle(spark, target, [one])
    assert sorted((row["id"], row["v"]) for row in rows(spark, target, "t")) == [(1, 2), (2, 2)]


@pytest.mark.slow
def test_the_write_of_a_run_tells_what_became_of_all_its_records(
    spark: SparkSession, target: Target
) -> None:
    one, memory = table(apply_as_deletes="gone = 'true'"), Memory()
    land(spark, target, one, 1, [{"id": 1, "v": 1}, {"id": 2, "v": 1}])
    assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []
    changes = [{"id": 1, "v": 2}, {"id": 2, "v": 2, "gone": True}, {"id": 3, "v": 1}]
    for number, records in enumerate([[*changes, {"id": 4, "v": 1, "gone": True}], changes], 2):
        land(spark, target, one, number, records)
    (entry,) = silver.apply(spark, target, [one], "run", quiet, memory)
    told = {"inserted": 1, "updated": 1, "deleted": 1, "delete_unknown": 1, "duplicate": 3}
    assert (entry.message, entry.counts) == (None, {"records": 7, "incomplete": 4} | told)
    land(spark, target, one, 4, changes)
    (entry,) = silver.apply(spark, target, [one], "run", quiet, memory)
    assert (entry.message, entry.counts) == (None, {"records": 3, "incomplete": 2, "duplicate": 3})


def test_what_a_killed_run_wrote_has_come_before(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table()
    land(spark, target, one, 1, [{"id": 1, "v": 1}, {"id": 2, "v": 1}])
    assert failures(silver.apply(spark, target, [one], "run", quiet)) == []
    land(spark, target, one, 2, [{"id": 1, "v": 2}, {"id": 3, "v": 1}])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(reconciliation, "count_outcomes", killed)
        silver.apply(spark, target, [one], "run", quiet)
    land(spark, target, one, 3, [{"id": 2, "v": 3}])
    (entry,) = silver.apply(spark, target, [one], "run", quiet)
    assert entry.counts == {"records": 3, "updated": 1, "duplicate": 2}
    assert {row["id"]: row["v"] for row in stored(spark, target, "t", "id")} == {1: 2, 2: 3, 3: 1}


def killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_table_that_failed_is_asked_for_again(spark: SparkSession, target: Target) -> None:
    good, memory = table(), Memory()
    bad = table(keys=["v"])
    land(spark, target, good, 1, [{"id": 1, "v": 1}])
    assert failures(silver.apply(spark, target, [good], "run", quiet, memory)) == []
    land(spark, target, good, 2, [{"id": 2, "v": 2}])
    assert len(failures(silver.apply(spark, target, [bad], "run", quiet, memory))) == 1
    assert memory.tables == {}
    (entry,) = silver.apply(spark, target, [good], "run", quiet, memory)
    assert entry.counts["inserted"] == 1


def test_a_feed_that_was_watched_from_later_on_is_asked_for(
    spark: SparkSession, target: Target
) -> None:
    """Of a batch that came before it was watched its memory tells nothing."""
    source = {"format": "rows", "path": "f"}
    one = table("a", source=source | {"topic": "a"})
    land(spark, target, one, 1, [{"topic": "a", "offset": 1, "key": "1", "value": {"v": 1}}])
    (feed,) = bronze_rows.feeds_of(one)
    told = {feed: Arrived(2, {"b": 2}, since=1)}
    found = bronze_rows.find_arrived(spark, target, [one], {"a": {feed: 0}}, told)
    assert bronze_rows.has_new(one, {feed: 0}, found)
    found = bronze_rows.find_arrived(spark, target, [one], {"a": {feed: 1}}, told)
    assert found == told
    assert not bronze_rows.has_new(one, {feed: 1}, found)
