from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.work.rounds import Round, do_layer, write_entries_together
from lakehouse.config.table import Table
from lakehouse.config.target import Layer, Target
from lakehouse.run import ledger
from lakehouse.run.memory import Memory
from tests.helpers import lake

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def entry(table: str, **more: object) -> ledger.Entry:
    given = {"run_id": "r1", "layer": "silver", "table": table, "batch": 3, **more}
    return ledger.Entry.model_validate(given | {"started_at": BEGIN, "ended_at": BEGIN})


def test_the_ledger_is_empty_before_the_first_run(spark: SparkSession, target: Target) -> None:
    assert ledger.read_entries(spark, target).count() == 0


def test_entries_are_read_back_as_written(spark: SparkSession, target: Target) -> None:
    ledger.append_entries(spark, target, [entry("a", counts={"inserted": 2})])
    ledger.append_entries(spark, target, [entry("b", batch=None, status="failed", message="why")])
    shown = ledger.read_entries(spark, target).selectExpr(
        "table", "batch", "status", "counts['inserted']", "message", "string(started_at)"
    )
    at = "2026-01-02 03:04:05.678901"
    assert sorted(tuple(row) for row in shown.collect()) == [
        ("a", 3, "ok", 2, None, at),
        ("b", None, "failed", None, "why", at),
    ]


def test_many_entries_are_one_commit(spark: SparkSession, target: Target) -> None:
    ledger.append_entries(spark, target, [entry("a"), entry("b")])
    before = ledger.read_entries(spark, target).count()
    log = spark.sql(f"DESCRIBE HISTORY delta.`{target.lake}/silver/_runs`")
    assert (before, log.where("operation <> 'CREATE TABLE'").count()) == (2, 1)


def test_a_dozen_commits_write_no_checkpoint(spark: SparkSession, target: Target) -> None:
    for _ in range(12):
        ledger.append_entries(spark, target, [entry("a")])
    log = Path(target.lake, "silver", "_runs") / "_delta_log"
    assert len([*log.glob("*.json")]) > 12
    assert [*log.glob("*.checkpoint*")] == []


def test_what_waits_is_written_with_what_comes(spark: SparkSession, target: Target) -> None:
    memory = Memory()
    memory.waiting.append(entry("a", layer="bronze"))
    ledger.append_with_waiting(spark, target, [entry("a")], memory)
    ledger.append_with_waiting(spark, target, [], memory)
    log = spark.sql(f"DESCRIBE HISTORY delta.`{target.lake}/silver/_runs`")
    assert (layers(spark, target), memory.pop_deferred()) == (["bronze", "silver"], [])
    assert log.where("operation <> 'CREATE TABLE'").count() == 1


def test_what_could_not_be_written_waits_on(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError("the disk is full")

    memory, both = Memory(), [entry("a", layer="bronze"), entry("b", layer="bronze")]
    memory.waiting.extend(both)
    monkeypatch.setattr(ledger, "append_entries", failing)
    with pytest.raises(OSError, match="full"):
        ledger.append_with_waiting(spark, target, [entry("a")], memory)
    assert memory.pop_deferred() == both


def test_a_round_tells_of_bronze_with_silver(spark: SparkSession, target: Target) -> None:
    source = {"format": "rows", "path": "t"}
    given = {"table": "t", "source": source, "keys": ["id"], "sequence_by": "v"}
    tables, memory = [Table.model_validate(given)], Memory()

    def work(layer: Layer, number: int) -> None:
        Path(target.landing, "t").mkdir(parents=True, exist_ok=True)
        Path(target.landing, "t", str(number)).write_text(f'{{"id": {number}, "v": 1}}')
        done = do_layer(Round(spark, target, "r", memory=memory), tables, layer, lake.quiet)
        assert [one.message for one in done] == [None]

    with write_entries_together(spark, target, ["bronze", "silver"], memory):
        work("bronze", 1)
        assert layers(spark, target) == []
        work("silver", 1)
        assert layers(spark, target) == ["bronze", "silver"]
        work("bronze", 2)
        assert layers(spark, target) == ["bronze", "silver"]
    assert layers(spark, target) == ["bronze", "bronze", "silver"]
    with write_entries_together(spark, target, ["bronze"], memory):
        work("bronze", 3)
        assert layers(spark, target) == ["bronze", "bronze", "bronze", "silver"]


def layers(spark: SparkSession, target: Target) -> list[str]:
    done = ledger.read_entries(spark, target).where("status <> 'begun'")
    return sorted(row["layer"] for row in done.collect())
