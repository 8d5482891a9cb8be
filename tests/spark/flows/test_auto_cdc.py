"""`auto_cdc` as a function: Databricks' examples, in any order of rows and any cut."""

import random
import shutil
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_lakehouse import (
    AutoCdcError,
    AutoCdcResult,
    auto_cdc,
    auto_cdc_from_snapshot,
    decode_debezium,
)
from cdc_lakehouse.flows import batch, state
from cdc_lakehouse.flows.sequences import sections_sql, value_sql
from tests.spark.flows import flow_examples
from tests.spark.flows.flow_examples import COLUMNS, COMMON, EXAMPLES, FROM_SNAPSHOTS, SNAPSHOTS

UTC = timezone.utc
SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


def _flow(spark: SparkSession, rows: DataFrame, target: Path, **options: Any) -> Any:
    return auto_cdc(spark, rows, str(target), ["userId"], "sequenceNum", **(COMMON | options))


def _rows(spark: SparkSession, place: Path, *columns: str) -> list[tuple[Any, ...]]:
    found = spark.read.format("delta").load(str(place)).select(*columns or ("*",)).collect()
    return sorted((tuple(row) for row in found), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", EXAMPLES)
def test_the_target_has_what_the_example_prints_in_any_order_and_cut(
    spark: SparkSession, tmp_path: Path, case: str, seed: int
) -> None:
    options, changes, want = EXAMPLES[case]
    parts = flow_examples.cut(changes, random.Random(f"{case} {seed}"))
    for part in [*parts, parts[0]]:
        result = _flow(spark, spark.createDataFrame(part, COLUMNS), tmp_path / "users", **options)
    assert _rows(spark, tmp_path / "users") == want
    assert (sum(result), result.rejected) == (len(parts[0]), 0)


@pytest.mark.slow
def test_rejected_rows_are_kept_apart_or_fail_the_call(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "t"
    rows = spark.createDataFrame(
        [(1, "a", "c", "I", 1), (None, "b", "c", "I", 2), (3, "d", "e", "I", None)], COLUMNS
    )
    result = _flow(spark, rows, target, name="backfill")
    assert (result.inserted, result.rejected) == (1, 2)
    letters = _rows(spark, tmp_path / "t_dead_letters", "reason", "flow")
    assert letters == [("NULL_KEY", "backfill"), ("NULL_SEQUENCE", "backfill")]
    text = rows.withColumn("name", F.lit(5)).withColumn("userId", F.lit("no number"))
    assert _flow(spark, text, target).rejected == 3
    refused = [
        (rows.where("userId IS NULL"), "NULL_KEY"),
        (rows.where("sequenceNum IS NULL"), "NULL_SEQUENCE"),
        (text.where("sequenceNum = 1"), "BAD_VALUE"),
    ]
    for source, reason in refused:
        with pytest.raises(AutoCdcError) as error:
            _flow(spark, source, target, on_invalid="fail")
        assert error.value.getCondition() == f"AUTOCDC_MICROBATCH_VALIDATION.{reason}"
    assert _rows(spark, target) == [(1, "a", "c")]


def test_a_source_that_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows, foreign = spark.sql("SELECT 1 AS id, 1D AS real, map(1, 1) AS m"), tmp_path / "foreign"
    rows.drop("m").write.format("delta").save(str(foreign))
    stream = spark.readStream.format("rate").load()
    flows: dict[str, Callable[[], Any]] = {
        "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA": lambda: auto_cdc(
            spark, rows, str(tmp_path / "t"), ["no"], "id"
        ),
        "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA": lambda: auto_cdc(
            spark, rows, str(tmp_path / "t"), [F.col("id")], "id", column_list=[F.col("no")]
        ),
        "AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE": lambda: auto_cdc(
            spark, rows, str(tmp_path / "t"), ["id"], ["id", F.col("m")]
        ),
        "AUTOCDC_TARGET_NOT_EMPTY": lambda: auto_cdc(spark, rows, str(foreign), ["id"], "id"),
        "AUTOCDC_NO_CHECKPOINT": lambda: auto_cdc(spark, stream, "users", ["value"], "value"),
        "AUTOCDC_DEBEZIUM_INPUT": lambda: decode_debezium(rows, ["id"]),
    }
    for condition, flow in flows.items():
        with pytest.raises(AutoCdcError) as refused:
            flow()
        assert refused.value.getCondition() == condition
    assert not (tmp_path / "t").exists()


@pytest.mark.slow
def test_a_late_change_brings_no_deleted_row_back(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "t"
    first = [(1, "a", "x", "I", 1), (2, "b", "x", "I", 1)]
    _flow(spark, spark.createDataFrame(first, COLUMNS), target)
    assert _rows(spark, target) == [(1, "a", "x"), (2, "b", "x")]
    _flow(spark, spark.createDataFrame([(1, None, None, "DELETE", 5)], COLUMNS), target)
    assert _rows(spark, target) == [(2, "b", "x")]
    late = _flow(spark, spark.createDataFrame([(1, "late", "x", "U", 3)], COLUMNS), target)
    assert late.superseded == 1
    new = _flow(spark, spark.createDataFrame([(3, "new", "x", "I", 1)], COLUMNS), target)
    assert new.inserted == 1
    assert _rows(spark, target) == [(2, "b", "x"), (3, "new", "x")]


@pytest.mark.slow
def test_a_late_truncate_takes_the_values_before_it(spark: SparkSession, tmp_path: Path) -> None:
    options = {
        "apply_as_truncates": "operation = 'T'",
        "columns_to_update": "if(operation = 'U', array('city'), null)",
    }
    changes = [(1, "a", "x", "I", 1), (2, "b", "x", "I", 2), (1, None, "y", "U", 7)]
    for part in (changes, [(None, None, None, "T", 5)]):
        result = _flow(spark, spark.createDataFrame(part, COLUMNS), tmp_path / "t", **options)
    assert result.truncates == 1
    assert _rows(spark, tmp_path / "t", "userId", "name", "city") == [(1, None, "y")]


@pytest.mark.slow
def test_a_table_that_is_there_keeps_its_change_data_feed(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{target}` (userId INT, name STRING, city STRING) USING delta"
        " TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    for change in [(1, "a", "x", "I", 1), (1, None, None, "DELETE", 2)]:
        rows = spark.createDataFrame([change], COLUMNS)
        _flow(spark, rows, target)
    reader = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0)
    found = reader.load(str(target)).select("_change_type", "name").collect()
    assert {row["_change_type"] for row in found if row["name"] == "a"} == {"insert", "delete"}
    assert {row["_change_type"] for row in found} == {"insert", "delete"}


def test_a_target_whose_state_is_gone_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1, "a", "x", "I", 1)], COLUMNS)
    _flow(spark, rows, tmp_path / "t")
    shutil.rmtree(tmp_path / "t_auto_cdc")
    with pytest.raises(AutoCdcError, match="AUTOCDC_TARGET_NOT_EMPTY"):
        _flow(spark, rows, tmp_path / "t")


@pytest.mark.slow
def test_a_target_may_have_the_keys_alone(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    for seq in (1, 2):
        rows = spark.createDataFrame([(1, seq), (seq + 1, seq)], ["id", "seq"])
        auto_cdc(spark, rows, target, ["id"], "seq", except_column_list=["seq"])
    assert _rows(spark, tmp_path / "t") == [(1,), (2,), (3,)]


@pytest.mark.slow
def test_nulls_leave_values_as_they_are_where_asked(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "t"
    changes = [(1, "a", "x", "I", 1), (1, None, "y", "U", 2), (1, "b", None, "U", 3)]
    for order in (changes, changes[::-1], [changes[1], changes[2], changes[0]]):
        place = target / str(order[0][4] * 10 + order[1][4])
        for change in order:
            rows = spark.createDataFrame([change], COLUMNS)
            _flow(spark, rows, place, ignore_null_updates=True)
        assert _rows(spark, place) == [(1, "b", "y")]


@pytest.mark.slow
def test_columns_come_and_types_grow(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    first = spark.sql("SELECT 1 AS id, 10 AS n, 1 AS seq")
    auto_cdc(spark, first, target, ["id"], "seq")
    more = spark.sql("SELECT 2 AS id, 3000000000 AS n, 2 AS seq, 'x' AS extra")
    auto_cdc(spark, more, target, ["id"], "seq")
    found = _rows(spark, tmp_path / "t", "id", "n", "seq", "extra")
    assert found == [(1, 10, 1, None), (2, 3000000000, 2, "x")]
    with pytest.raises(AutoCdcError, match="SCD_TYPE_DRIFT"):
        auto_cdc(spark, more, target, ["id"], "seq", stored_as_scd_type=2)


@pytest.mark.slow
def test_batches_that_ended_before_they_were_published_are_published_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, truncates = tmp_path / "t", {"apply_as_truncates": "operation = 'T'"}
    _flow(spark, spark.createDataFrame([(1, "a", "x", "I", 1)], COLUMNS), target)
    cut = [(None, None, None, "T", 2), (2, "b", "x", "I", 3)]
    for rows in (cut, [(3, "c", "x", "I", 4)]):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(batch, "publish_batch", _end)
            _flow(spark, spark.createDataFrame(rows, COLUMNS), target, **truncates)
    _flow(spark, spark.createDataFrame([(4, "d", "x", "I", 5)], COLUMNS), target)
    assert [row[0] for row in _rows(spark, target)] == [2, 3, 4]


@pytest.mark.slow
def test_a_forgotten_delete_leaves_the_number_of_its_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "PACKED_EVERY", 1)
    changes = [(1, "a", "x", "I", 1), (1, None, None, "DELETE", 2), (2, "b", "x", "I", 3)]
    for change in changes:
        rows = spark.createDataFrame([change], COLUMNS)
        _flow(spark, rows, tmp_path / "t", tombstone_retention="0s")
    assert _rows(spark, tmp_path / "t") == [(2, "b", "x")]
    assert _rows(spark, tmp_path / "t_auto_cdc", "userId") == [(2,)]


@pytest.mark.slow
def test_a_call_that_began_before_another_wrote_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "t"
    _flow(spark, spark.createDataFrame([(1, "a", "x", "I", 1)], COLUMNS), target)
    monkeypatch.setattr(state.FlowState, "newest_batch", 0)
    late = spark.createDataFrame([(1, "b", "x", "I", 2), (2, "b", "x", "I", 2)], COLUMNS)
    with pytest.raises(AutoCdcError) as refused:
        _flow(spark, late, target)
    assert refused.value.getCondition() == "AUTOCDC_CONCURRENT_BATCH"
    assert _rows(spark, target, "userId", "name") == [(1, "a")]


def _end(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("case", EXAMPLES)
def test_a_stream_applies_each_change_once(spark: SparkSession, tmp_path: Path, case: str) -> None:
    options, changes, want = EXAMPLES[case]
    arriving = str(tmp_path / "arriving")
    for change in changes:
        rows = spark.createDataFrame([change], COLUMNS)
        rows.write.format("delta").mode("append").save(arriving)
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 3).load(arriving)
    for _ in range(2):
        query = _flow(spark, stream, tmp_path / "t", once=True, **options)
        query.awaitTermination()
    assert _rows(spark, tmp_path / "t") == want


@pytest.mark.slow
def test_a_flow_that_runs_once_is_known_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), f"default.{tmp_path.name}"
    keys, sequence = [F.col("userId")], F.struct("sequenceNum", "userId")
    rows = spark.createDataFrame([(1, "a", "x", "I", 1)], COLUMNS)
    rows.write.format("delta").save(source)
    for name, outcome in (("old", "inserted"), ("old", None), ("new", "duplicate")):
        result = auto_cdc(spark, source, target, keys, sequence, name=name, once=True)
        assert result._asdict() == AutoCdcResult()._asdict() | ({outcome: 1} if outcome else {})
    assert spark.table(target).collect() == rows.collect()


@pytest.mark.slow
@pytest.mark.parametrize("scd", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_snapshots_give_what_the_example_prints(
    spark: SparkSession, tmp_path: Path, scd: Any, seed: int
) -> None:
    chance, target = random.Random(seed), str(tmp_path / "t")
    shuffled = {v: chance.sample(rows, len(rows)) for v, rows in SNAPSHOTS.items()}
    columns = "key INT, value STRING"
    given = [(v, spark.createDataFrame(rows, columns)) for v, rows in shuffled.items()]
    for taken in (given[:1], given[::-1]):
        auto_cdc_from_snapshot(spark, taken, target, ["key"], scd)
    found = [tuple(map(_in_utc, row)) for row in _rows(spark, tmp_path / "t")]
    assert found == FROM_SNAPSHOTS[scd]


def _in_utc(value: Any) -> Any:
    """A timestamp, which Spark gives in local time, as the example has it."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.mark.slow
def test_snapshots_become_changes(spark: SparkSession, tmp_path: Path) -> None:
    target, columns = tmp_path / "t", "id INT, name STRING"
    one = spark.createDataFrame([(1, "a"), (2, "b")], columns)
    two = spark.createDataFrame([(1, "a"), (2, "c"), (3, "d")], columns)
    three = spark.createDataFrame([(1, "a"), (3, "d")], columns)
    results = auto_cdc_from_snapshot(
        spark, [(2, two), (1, one), (3, three)], str(target), ["id"], stored_as_scd_type=2
    )
    assert [sum(result) for result in results] == [2, 2, 1]
    assert _rows(spark, target) == [
        (1, "a", 1, None), (2, "b", 1, 2), (2, "c", 2, 3), (3, "d", 2, None),
    ]  # fmt: skip
    asked: list[Any] = []

    def next_after(newest: Any) -> tuple[DataFrame, int] | None:
        asked.append(newest)
        return (spark.createDataFrame([(1, "z")], columns), 4) if newest < 4 else None

    auto_cdc_from_snapshot(spark, next_after, str(target), ["id"], 2, mode="delta")
    assert asked == [3, 4]
    assert _rows(spark, target) == [
        (1, "a", 1, 4), (1, "z", 4, None), (2, "b", 1, 2), (2, "c", 2, 3), (3, "d", 2, None),
    ]  # fmt: skip


VALUES = [
    ("BIGINT", [-(2**63), -5, 0, 7, 2**63 - 1]),
    ("INT", [-3, 0, 4]),
    ("DATE", [date(1, 1, 1), date(1969, 12, 31), date(2026, 5, 1)]),
    ("STRING", ["", "a", "abcdefgh", "abcdefghi", "b", "zé"]),
    ("DECIMAL(38,10)", [Decimal("-12.5"), Decimal("-0.0000000001"), Decimal(0), Decimal("99.1")]),
    ("TIMESTAMP", [datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 7, UTC)]),
    ("STRUCT<a: STRING, b: INT>", [("", 9), ("abcdefgh", 5), ("abcdefgh", 6), ("abcdefghi", -1)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[kind for kind, _ in VALUES])
def test_order_keys_sort_as_the_values_do_and_give_them_back(
    spark: SparkSession, kind: str, values: list[Any]
) -> None:
    rows = spark.createDataFrame(
        [(at, value) for at, value in enumerate(values)], f"at INT, v {kind}"
    )
    type = rows.schema["v"].dataType
    told = rows.withColumn("o", F.expr(f"unhex(concat({sections_sql('v', type)}, '00ABCD'))"))
    read = told.withColumn("back", F.expr(value_sql("o", type)))
    found = read.orderBy("o").collect()
    assert [row["at"] for row in found] == list(range(len(values)))
    assert [row["back"] for row in found] == [row["v"] for row in found]
