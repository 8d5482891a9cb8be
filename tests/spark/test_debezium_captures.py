"""Captured events decoded and compared with what PostgreSQL held at the end."""

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.table import Table
from tests.decoding import to_changes
from tests.records import captured, kafka_rows, whole_rows
from tests.truth import comparable, truth_key, truth_rows, truth_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame

    Rows = Callable[[SparkSession, Iterable[Mapping[str, Any]]], DataFrame]

CAPTURES = ("small", "small_with_schemas")
DECLARED = {
    "c_smallint": "smallint",
    "c_num122": "decimal(12,2)",
    "c_num": "string",
    "c_float4": "float",
    "c_bytea": "binary",
    "c_date": "date",
    "c_ts": "timestamp_ntz",
    "c_ts3": "timestamp_ntz",
    "c_tstz": "timestamp",
    "c_ints": "array<int>",
}


def replayed(
    spark: SparkSession, capture: str, name: str, columns: dict[str, str], rows: "Rows"
) -> list[dict[str, Any]]:
    """The last state of every key by order of arrival, left-out values from the state before."""
    keys = truth_key(capture, name)
    source = {"format": "debezium", "path": "shop"}
    table = Table.model_validate(
        {"table": name, "keys": keys, "source": source, "columns": columns}
    )
    changes = to_changes(rows(spark, captured(capture, name)), table).orderBy("_arrival").collect()
    held: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in [row.asDict() for row in changes]:
        apply(held, change, keys)
    return list(held.values())


def apply(
    held: dict[tuple[Any, ...], dict[str, Any]], change: dict[str, Any], keys: list[str]
) -> None:
    key = tuple(change[k] for k in keys)
    if change["_operation"] == "upsert":
        before = held.get(key, {})
        held[key] = change | {c: before.get(c) for c in change["_absent"] or []}
    elif change["_operation"] == "delete":
        held.pop(key, None)
    elif change["_operation"] == "truncate":
        held.clear()


def as_truth(rows: list[dict[str, Any]], capture: str, name: str) -> list[dict[str, Any]]:
    schema, keys = truth_schema(capture, name), truth_key(capture, name)
    return sorted((comparable(r, schema) for r in rows), key=lambda r: [str(r[k]) for k in keys])


@pytest.mark.parametrize("name", ["kitchen_sink", "kitchen_sink_full"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_every_type_is_read_as_postgresql_holds_it(
    spark: SparkSession, capture: str, name: str
) -> None:
    found = replayed(spark, capture, name, {}, whole_rows)

    assert as_truth(found, capture, name) == as_truth(truth_rows(capture, name), capture, name)


@pytest.mark.parametrize("capture", CAPTURES)
def test_declared_columns_come_out_in_their_declared_types(
    spark: SparkSession, capture: str
) -> None:
    found = replayed(spark, capture, "kitchen_sink", DECLARED, whole_rows)

    expected = as_truth(truth_rows(capture, "kitchen_sink"), capture, "kitchen_sink")
    assert as_truth(found, capture, "kitchen_sink") == expected
    assert {type(row["c_date"]).__name__ for row in found} == {"date", "NoneType"}
    assert {type(row["c_num122"]).__name__ for row in found} == {"Decimal"}


@pytest.mark.parametrize("name", ["customers", "orders", "staging", "Mixed_Case"])
def test_plain_tables_end_as_postgresql_holds_them(spark: SparkSession, name: str) -> None:
    columns = {"customers": {"joined": "date", "created_at": "timestamp"}}.get(name, {})

    found = replayed(spark, "small", name, columns, kafka_rows)

    assert as_truth(found, "small", name) == as_truth(truth_rows("small", name), "small", name)


def test_a_scale_that_changes_in_the_stream_is_read_by_each_record_s_own_schema(
    spark: SparkSession,
) -> None:
    found = replayed(spark, "small_with_schemas", "products", {}, whole_rows)

    prices = {row["sku"]: str(row["price"]) for row in found}
    assert prices == {str(r["sku"]): str(r["price"]) for r in truth_rows("small", "products")}
