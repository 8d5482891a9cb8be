"""Decoding as Spark runs it: what its tasks and its SQL make of what the decoders read."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.contract import CHANGE_COLUMNS
from silver.decode.change import CHANGE_FIELDS
from silver.decode.facts import FACTS
from silver.decode.spark import decode_known, position_column
from silver.expectations.gate import gate_changes
from tests.helpers.builders import bronze_rows, table
from tests.helpers.debezium_records import EPOCH, whole
from tests.helpers.debezium_records import decoded as decoded_alone
from tests.helpers.decoding import to_changes
from tests.helpers.records import captured, whole_rows
from tests.helpers.truth import truth_key

LAYER = {column.name: column.type for column in CHANGE_COLUMNS}
MOMENT = datetime.fromisoformat("2024-02-29T10:00:00.000001")


def rows_of(changes: DataFrame) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in changes.collect()]
    return sorted(rows, key=lambda row: str(row["_arrival"]))


def comparable(row: dict[str, Any], names: list[str]) -> list[str]:
    """Values as texts: a float has fewer digits than Python's, and no NaN is equal to itself."""
    return [text_of(row[name]) for name in names]


def text_of(value: Any) -> str:
    """A value as text; a decimal without the zeros that its column adds."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(value.normalize() if isinstance(value, Decimal) else value)


@pytest.mark.parametrize("name", ["kitchen_sink", "kitchen_sink_full", "products", "accounts"])
def test_captured_records_come_out_of_spark_as_the_decoder_reads_them(
    spark: SparkSession, name: str
) -> None:
    records = captured("small_with_schemas", name)
    source = {"format": "debezium", "path": "shop"}
    of = Table.model_validate(
        {"table": "t", "keys": truth_key("small_with_schemas", name), "source": source}
    )
    found = rows_of(to_changes(whole_rows(spark, records).repartition(3), of))
    expected = decoded_alone(of, whole(*records))
    for row in expected:
        if row["_source_time"] is not None:
            moment = EPOCH + timedelta(microseconds=row["_source_time"])
            row["_source_time"] = moment.replace(tzinfo=None)
        row["_mismatched"] = row["_mismatched"] or None
    names = [*[name for name in expected[0] if not name.startswith("_")], *CHANGE_FIELDS]
    assert [comparable(row, names) for row in found] == [comparable(r, names) for r in expected]


TYPES: dict[str, tuple[str, Any, Any]] = {
    "tiny": ("tinyint", 127, 127),
    "small": ("smallint", "12", 12),
    "whole": ("int", 1.0, 1),
    "large": ("bigint", 1 << 62, 1 << 62),
    "digits": ("decimal(38,18)", "0.123456789012345678", Decimal("0.123456789012345678")),
    "single": ("float", 0.5, 0.5),
    "double": ("double", 1e300, 1e300),
    "truth": ("boolean", "yes", True),
    "text": ("varchar(20)", {"a": [1, 2.50]}, '{"a":[1,2.5]}'),
    "bytes": ("binary", "AQI=", bytearray(b"\x01\x02")),
    "day": ("date", "0001-01-01", date(1, 1, 1)),
    "moment": ("timestamp", "2024-02-29T12:00:00.000001+02:00", MOMENT),
    "plain": ("timestamp_ntz", "2024-02-29 10:00:00.000001", MOMENT),
    "list": ("array<decimal(4,2)>", ["1.5", None], [Decimal("1.50"), None]),
    "map": ("map<string,int>", {"a": 1, "b": None}, {"a": 1, "b": None}),
    "struct": ("struct<n: bigint, of: array<string>>", {"n": 1}, {"n": 1, "of": None}),
    "free": ("variant", {"a": [1, "x"]}, '{"a":[1,"x"]}'),
    "frees": ("array<variant>", [1, {"a": 2}], '[1,{"a":2}]'),
}


def test_a_value_of_every_type_reaches_its_column(spark: SparkSession) -> None:
    columns = {name: type for name, (type, _, _) in TYPES.items()}
    of = table("rows", ["whole"], columns=columns, sequence_by="large")
    given = {name: value for name, (_, value, _) in TYPES.items()}
    nulls = {"whole": 2, "large": 2} | {n: None for n in TYPES if n not in ("whole", "large")}
    misfit = given | {"list": ["1.555"]}
    changes = to_changes(bronze_rows(spark, [given, nulls, misfit]), of)
    shown = changes.withColumns({n: F.to_json(n) for n in ("free", "frees")})
    found = rows_of(shown)
    assert {n: found[0][n] for n in TYPES} == {n: value for n, (_, _, value) in TYPES.items()}
    assert [n for n in TYPES if found[1][n] is not None] == ["whole", "large"]
    assert [row["_reason"] for row in found] == [None, None, "bad_value"]
    own = {field.name: field.dataType.simpleString() for field in changes.schema}
    texts = {n: type.replace(": ", ":").replace(", ", ",") for n, type in columns.items()}
    assert {name: own[name] for name in columns} == texts | {"text": "string"}


FORMATS: dict[str, tuple[Table, list[Any], list[tuple[Any, ...]]]] = {
    "ydb": (
        table("ydb", ["id"], columns={"id": "int", "a": "string"}),
        [{"key": [1], "update": {"a": "x"}, "ts": [1, 2]}, {"key": [1], "erase": {}, "ts": [2, 0]}],
        [(1, "x", "upsert", None), (1, None, "delete", None)],
    ),
    "bigquery": (
        table("bigquery", ["id"], columns={"a": "string"}),
        [{"id": 1, "a": "x", "_CHANGE_TYPE": "UPSERT"}, {"id": 2, "_CHANGE_TYPE": "INSERT"}],
        [(1, "x", "upsert", None), (2, None, None, "unknown_operation")],
    ),
    "rows": (
        table("rows", ["id"], columns={"a": "string"}, sequence_by="_n", apply_as_deletes="_n > 1"),
        [{"id": 1, "a": "x", "_n": 1}, {"id": 1, "_n": 2}, {"id": 1}],
        [(1, "x", "upsert", None), (1, None, "delete", None), (1, None, None, "bad_sequence")],
    ),
    "snapshot": (
        table("snapshot", ["id"], columns={"a": "string"}, source={"mode": "full"}),
        [{"id": 1, "a": "x"}, "no JSON"],
        [(1, "x", "upsert", None), (None, None, None, "not_json")],
    ),
}


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_comes_out_with_the_columns_of_the_contract(
    spark: SparkSession, format: str
) -> None:
    of, lines, expected = FORMATS[format]
    raw = bronze_rows(spark, lines)
    if format == "snapshot":
        raw = raw.withColumn("_file", F.lit("/landing/here/2024-01-02/1.jsonl"))
    changes = to_changes(raw, of)
    found = rows_of(gate_changes(changes, of))
    names = ("id", "a", "_operation", "_reason")
    assert [tuple(row[n] for n in names) for row in found] == expected
    raws = [row["_raw"] for row in found]
    assert [raw is None for raw in raws] == [row["_reason"] is None for row in found]
    layer = changes.select(*LAYER).schema
    assert {field.name: field.dataType.simpleString() for field in layer} == LAYER
    assert {row["_feed_batch"] for row in found} == {1}


def test_columns_that_a_table_leaves_out_are_neither_shown_nor_named(spark: SparkSession) -> None:
    of = table("rows", ["id"], sequence_by="v", except_column_list=["v", "hidden"])
    lines = [{"id": 1, "v": 1, "hidden": 1, "a": 1}, {"id": 1, "v": 2}]
    changes = to_changes(bronze_rows(spark, lines), of)
    assert [name for name in changes.columns if name not in (*LAYER, FACTS)] == ["id", "a"]
    assert [row["_absent"] for row in rows_of(changes)] == [None, ["a"]]


def test_known_columns_are_enough_to_decode_what_was_decoded_before(spark: SparkSession) -> None:
    of = table("rows", ["id"], sequence_by="_n")
    raw = bronze_rows(spark, [{"id": 1, "_n": 1, "a": 1}, {"id": 2, "_n": 2, "later": 1}])
    learned = [T.StructField("id", T.LongType()), T.StructField("a", T.LongType())]
    found = rows_of(decode_known(raw, of, learned, {}))
    assert [(row["id"], row["a"]) for row in found] == [(1, 1), (2, None)]
    assert "later" not in found[0]


def test_a_record_lies_at_its_offset_or_in_its_file(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('t', 0, 7L, 'f', 1L), (null, null, null, 'f', 5L),"
        " (null, null, null, 'f', shiftleft(3L, 33) + 5L)"
        " AS t(_topic, _partition, _offset, _file, _line)"
    )
    assert [row[0] for row in rows.select(position_column()).collect()] == ["t/0/7", "f:5", "f:3+5"]
