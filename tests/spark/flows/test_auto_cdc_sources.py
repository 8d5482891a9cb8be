"""Sources of `auto_cdc`: orders of several columns, snapshots with history, Debezium records."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse import auto_cdc, auto_cdc_from_snapshot, decode_debezium
from cdc_lakehouse.flows.debezium import CHANGE_COLUMNS


def _rows(spark: SparkSession, place: Path, *columns: str) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(str(place)).select(*columns or ("*",)).collect()
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.slow
def test_a_list_of_columns_orders_by_the_first_that_differs(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns, target = "id INT, name STRING, file INT, line INT", str(tmp_path / "t")
    changes = [(1, "second", 1, 9), (1, "third", 2, 1), (1, "first", 1, 2)]
    for change in changes:
        rows = spark.createDataFrame([change], columns)
        auto_cdc(
            spark, rows, target, ["id"], ["file", "line"],
            stored_as_scd_type=2, except_column_list=["file", "line"],
        )  # fmt: skip
    found = _rows(spark, tmp_path / "t", "name", "__START_AT.line", "__END_AT.line")
    assert found == [("first", 2, 9), ("second", 9, 1), ("third", 1, None)]


@pytest.mark.slow
def test_a_target_may_be_a_path_below_the_working_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for sequence in (1, 2):
        rows = spark.createDataFrame([(1, sequence)], "id INT, seq INT")
        auto_cdc(spark, rows, "lake/t", ["id"], "seq")
    assert _rows(spark, tmp_path / "lake" / "t") == [(1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "tracked",
    [{"track_history_column_list": ["name"]}, {"track_history_except_column_list": ["seen"]}],
    ids=["list", "except"],
)
def test_snapshots_open_a_version_where_a_tracked_column_differs(
    spark: SparkSession, tmp_path: Path, tracked: Any
) -> None:
    columns = "id INT, name STRING, seen INT"
    shown = {1: [(1, "a", 10), (2, "b", 10)], 2: [(1, "a", 20), (2, "c", 20)], 3: [(1, "a", 30)]}
    snapshots = [(v, spark.createDataFrame(rows, columns)) for v, rows in shown.items()]
    auto_cdc_from_snapshot(spark, snapshots, str(tmp_path / "t"), ["id"], 2, **tracked)
    assert _rows(spark, tmp_path / "t") == [
        (1, "a", 30, 1, None), (2, "b", 10, 1, 2), (2, "c", 20, 2, 3),
    ]  # fmt: skip


@pytest.mark.slow
def test_raw_debezium_records_become_changes(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        _event("c", 1, {"id": 1, "name": "a"}),
        _event("d", 3, None, {"id": 1}),
        "not json",
        _event("u", 2, {"id": 1, "name": "b"}),
        _event("c", 4, {"id": 2, "name": "é"}),
    ]
    for part in ([lines[0], lines[2], lines[1]], lines[3:]):
        raw = spark.createDataFrame([(line,) for line in part], "value STRING")
        result = auto_cdc(
            spark, decode_debezium(raw, ["id"]), str(tmp_path / "t"), ["id"], "_sequence",
            apply_as_deletes="_operation = 'delete'", columns_to_update="_columns",
            except_column_list=[*CHANGE_COLUMNS],
        )  # fmt: skip
    assert _rows(spark, tmp_path / "t") == [(2, "é")]
    assert (result.inserted, result.superseded) == (1, 1)
    assert _rows(spark, tmp_path / "t_dead_letters", "reason") == [("NULL_KEY",)]


@pytest.mark.slow
def test_records_with_kafkas_columns_become_changes(spark: SparkSession, tmp_path: Path) -> None:
    taken = _event("c", 1, {"id": 1, "name": "a"}), _event("d", 2, None, {"id": 1})
    events = [(_key(1), taken[0]), (_key(2), _event("c", 3, {"id": 2, "name": "é"}))]
    deleted = [(_key(1), taken[1]), (_key(1), None)]
    for part in (deleted, events):
        rows = [
            (key, value and value.encode(), "s.t", 0, offset)
            for offset, (key, value) in enumerate(part)
        ]
        raw = spark.createDataFrame(
            rows, "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
        )
        auto_cdc(
            spark, decode_debezium(raw, ["id"], {"name": "STRING"}), str(tmp_path / "t"),
            ["id"], "_sequence", apply_as_deletes="_operation = 'delete'",
            columns_to_update="_columns", except_column_list=[*CHANGE_COLUMNS],
        )  # fmt: skip
    assert _rows(spark, tmp_path / "t", "id", "name") == [(2, "é")]


def _key(id: int) -> bytes:
    return json.dumps({"id": id}).encode()


def _event(
    op: str, lsn: int, after: dict[str, Any] | None, before: dict[str, Any] | None = None
) -> str:
    source = {"connector": "postgresql", "lsn": lsn, "ts_ms": lsn, "schema": "s", "table": "t"}
    return json.dumps({"op": op, "before": before, "after": after, "source": source, "ts_ms": lsn})
