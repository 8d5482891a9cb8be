"""Captured events decoded and compared with what PostgreSQL held at the end."""

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.change import Record
from tests.helpers.captures import NOT_FROM_EVENTS, TRUE_NAMES, shop
from tests.helpers.debezium_records import decoded, from_kafka, whole
from tests.helpers.records import captured
from tests.helpers.truth import comparable, truth_key, truth_rows, truth_schema

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
NOT_BY_DECODING_ALONE = {
    ("small", "order_items"): "an interrupted snapshot left rows that are gone at the source",
    ("small_with_schemas", "products"): "a key change takes a value along from the old key",
    ("small_debezium_defaults", "products"): "and the scale changes without a schema to tell it",
    ("small_debezium_defaults", "staging"): "the connector skips truncates by default",
}
Made = Callable[..., list[Record]]


def undeclared(capture: str, name: str, columns: dict[str, str]) -> Table:
    source = {"format": "debezium", "path": "shop"}
    given = {"table": name, "keys": truth_key(capture, name), "columns": columns}
    return Table.model_validate(given | {"source": source})


def replayed(changes: list[dict[str, Any]], keys: list[str]) -> list[dict[str, Any]]:
    """The last state of every key by order of arrival, left-out values from the state before."""
    held: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in changes:
        key = tuple(change[k] for k in keys) or (len(held),)
        if change["_operation"] == "upsert":
            before = held.get(key, {})
            held[key] = change | {c: before.get(c) for c in change["_absent"] or []}
        elif change["_operation"] == "delete" and keys:
            held.pop(key, None)
        elif change["_operation"] == "truncate":
            held.clear()
    return list(held.values())


def as_truth(rows: list[dict[str, Any]], capture: str, name: str) -> list[dict[str, Any]]:
    schema, keys = truth_schema(capture, name), truth_key(capture, name)
    found = [comparable(row, schema) for row in rows]
    return sorted(found, key=lambda row: [str(row[k]) for k in keys or row])


def check(of: Table, capture: str, name: str, made: Made) -> list[dict[str, Any]]:
    """Compares the table at the end of the capture with the truth; returns its rows."""
    changes = decoded(of, made(*captured(capture, name)))
    assert {change["_reason"] for change in changes} <= {None}
    found = replayed(changes, of.keys)
    assert as_truth(found, capture, name) == as_truth(truth_rows(capture, name), capture, name)
    return found


@pytest.mark.parametrize("made", [whole, from_kafka])
@pytest.mark.parametrize("name", ["kitchen_sink", "kitchen_sink_full"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_every_type_is_read_as_postgresql_holds_it(capture: str, name: str, made: Made) -> None:
    check(undeclared(capture, name, {}), capture, name, made)


@pytest.mark.parametrize("capture", CAPTURES)
def test_declared_columns_come_out_in_their_declared_types(capture: str) -> None:
    of = undeclared(capture, "kitchen_sink", DECLARED)

    found = check(of, capture, "kitchen_sink", whole)

    assert {type(row["c_date"]).__name__ for row in found} == {"date", "NoneType"}
    assert {type(row["c_num122"]).__name__ for row in found} - {"NoneType"} == {"Decimal"}


@pytest.mark.parametrize("name", ["customers", "orders", "staging", "Mixed_Case"])
def test_plain_tables_end_as_postgresql_holds_them(name: str) -> None:
    columns = {"customers": {"joined": "date", "created_at": "timestamp"}}.get(name, {})

    check(undeclared("small", name, columns), "small", name, from_kafka)


@pytest.mark.parametrize("made", [whole, from_kafka])
@pytest.mark.parametrize("capture", [*CAPTURES, "small_debezium_defaults", "edge_slot"])
def test_the_shop_s_tables_end_as_postgresql_holds_them(capture: str, made: Made) -> None:
    checked = set()
    for table in shop():
        name = TRUE_NAMES.get(table.table, table.table)
        records = captured(capture, name)
        outside = name in NOT_FROM_EVENTS or (capture, name) in NOT_BY_DECODING_ALONE
        if records and table.keys and not outside:
            check(table, capture, name, made)
            checked.add(name)
    assert checked >= ({"staging"} if capture == "edge_slot" else {"customers", "kitchen_sink"})


@pytest.mark.parametrize("made", [whole, from_kafka])
def test_every_record_of_every_table_can_be_applied(made: Made) -> None:
    for capture in [*CAPTURES, "small_debezium_defaults"]:
        for table in shop():
            name = TRUE_NAMES.get(table.table, table.table)
            reasons = {row["_reason"] for row in decoded(table, made(*captured(capture, name)))}
            retyped = capture == "small_with_schemas" and name == "accounts"
            assert reasons - {"incompatible_schema" if retyped else None} <= {None}, name


def test_a_scale_that_changes_in_the_stream_is_read_by_each_record_s_own_schema() -> None:
    of = undeclared("small", "products", {})

    changes = decoded(of, whole(*captured("small_with_schemas", "products")))

    prices = {row["sku"]: f"{row['price']:.4f}" for row in replayed(changes, of.keys)}
    truth = {str(r["sku"]): f"{r['price']:.4f}" for r in truth_rows("small", "products")}
    assert prices == truth


def test_a_column_that_comes_back_in_another_type_is_incompatible() -> None:
    of = undeclared("small", "accounts", {"id": "int"})

    found = decoded(of, whole(*captured("small_with_schemas", "accounts")))

    reasons = [row["_reason"] for row in found if row["_reason"]]
    assert reasons == ["incompatible_schema"]


def test_transaction_markers_carry_no_change() -> None:
    records = [r for r in captured("small") if r["topic"] == "shop.transaction"]

    found = decoded(undeclared("small", "orders", {}), whole(*records))

    assert records
    assert {(row["_operation"], row["_reason"]) for row in found} == {("none", None)}
