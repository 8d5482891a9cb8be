from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from silver.contract import CHANGE_COLUMNS
from silver.decode.sequences import literal_sequence as literal
from tests.builders import ARRIVED_AT, at, bronze_rows, decoded, table
from tests.decoding import to_changes


def change(
    key: int, sequence: str | None = None, kind: str = "UPSERT", **row: object
) -> dict[str, Any]:
    number = {} if sequence is None else {"_CHANGE_SEQUENCE_NUMBER": sequence}
    return {"ID": key, **row, "_CHANGE_TYPE": kind, **number}


def test_the_documented_modifications_are_upserts_and_a_delete(spark: SparkSession) -> None:
    lines = [
        change(100, kind="DELETE", Name=None, Salary=None),
        change(101, Name="Tal", Salary=8000),
        change(105, Name="Izumi", Salary=6000),
    ]
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"]))
    assert decoded(found, "ID", "Name", "Salary", "_operation", "_absent", "_reason") == [
        (100, None, None, "delete", None, None),
        (101, "Tal", 8000, "upsert", None, None),
        (105, "Izumi", 6000, "upsert", None, None),
    ]
    assert found.columns == ["ID", "Name", "Salary", *(column.name for column in CHANGE_COLUMNS)]


@pytest.mark.parametrize(
    ("example", "first", "second", "latest"),
    [
        ("example 1", "77", "7B", "second"),
        ("example 2", "FFF/B", "FFF/ABC", "second"),
        ("example 3", "BA/FFFFFFFF", "ABC", "second"),
        ("example 4", "FFF/ABC", "ABC", "first"),
    ],
)
def test_the_documented_comparisons_name_the_latest_record(
    spark: SparkSession, example: str, first: str, second: str, latest: str
) -> None:
    lines = [change(1, first, text="first"), change(1, second.lower(), text="second")]
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"]))
    assert max(decoded(found, "_sequence", "text"))[1] == latest, example


def test_rows_without_a_sequence_number_leave_the_order_to_arrival(spark: SparkSession) -> None:
    lines = [change(1), change(1, None) | {"_CHANGE_SEQUENCE_NUMBER": None}, change(1, "1")]
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"]))
    sequences = [sequence for sequence, reason in decoded(found, "_sequence", "_reason")]
    assert sequences == sorted(set(sequences))


def test_a_column_left_out_is_absent_and_a_null_is_carried(spark: SparkSession) -> None:
    lines = [change(1, a=1), change(1, a=None, b=2), change(1, "DELETE", kind="DELETE")]
    columns = {"a": "int", "b": "int", "c": "int"}
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"], columns=columns))
    assert decoded(found, "_absent")[:2] == [["b", "c"], ["c"]]


def test_what_cannot_be_applied_becomes_a_dead_letter_that_says_why(spark: SparkSession) -> None:
    cases: list[tuple[str, str]] = [
        ('{"ID": 1}', "unknown_operation"),
        ('{"ID": 1, "_CHANGE_TYPE": null}', "unknown_operation"),
        ('{"ID": 1, "_CHANGE_TYPE": "INSERT"}', "unknown_operation"),
        ('{"ID": 1, "_CHANGE_TYPE": "upsert"}', "unknown_operation"),
        ('{"ID": null, "_CHANGE_TYPE": "UPSERT"}', "no_key"),
        ('{"_CHANGE_TYPE": "DELETE"}', "no_key"),
        ('{"ID": "x", "_CHANGE_TYPE": "DELETE"}', "bad_value"),
        ('{"ID": 1, "a": "x", "_CHANGE_TYPE": "UPSERT"}', "bad_value"),
        ('{"ID": 1, "a": 3000000000, "_CHANGE_TYPE": "UPSERT"}', "bad_value"),
        ('{"ID": 1, "price": 1.005, "_CHANGE_TYPE": "UPSERT"}', "bad_value"),
        ('{"ID": 1, "_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": ""}', "bad_sequence"),
        ('{"ID": 1, "_CHANGE_TYPE": "DELETE", "_CHANGE_SEQUENCE_NUMBER": "G"}', "bad_sequence"),
        ('{"ID": 1, "_CHANGE_TYPE": "UPSERT"} {', "not_json"),
        ("ID,1", "not_json"),
    ]
    columns = {"ID": "bigint", "a": "int", "price": "decimal(9,2)"}
    found = to_changes(
        bronze_rows(spark, [line for line, _ in cases]), table("bigquery", ["ID"], columns=columns)
    )
    assert decoded(found, "_raw", "_reason") == cases
    assert decoded(found, "_operation") == [None] * len(cases)
    messages = decoded(found, "_message")
    assert messages[2] == (
        "The given value is not a valid CHANGE_TYPE. "
        "_CHANGE_TYPE: found 'INSERT', expected UPSERT or DELETE"
    )
    assert messages[9] == "column price: found '1.005', expected decimal(9,2)"


def test_a_delete_is_not_refused_for_values_it_does_not_need(spark: SparkSession) -> None:
    columns = {"ID": "bigint", "a": "int"}
    found = to_changes(
        bronze_rows(spark, [change(1, kind="DELETE", a="x")]),
        table("bigquery", ["ID"], columns=columns),
    )
    assert decoded(found, "_operation", "_reason") == [("delete", None)]


def test_more_columns_or_keys_than_bigquery_allows_are_illegal(spark: SparkSession) -> None:
    wide = {"ID": 1, "_CHANGE_TYPE": "UPSERT"} | {f"c{n}": 1 for n in range(2000)}
    ignoring = table("bigquery", ["ID"], schema_changes={"add_column": "ignore"})
    found = to_changes(bronze_rows(spark, [wide]), ignoring)
    assert decoded(found, "_reason", "_message") == [
        ("illegal_change", "2001 columns, at most 2000")
    ]
    keys = [f"k{n}" for n in range(17)]
    row = dict.fromkeys(keys, 1) | {"_CHANGE_TYPE": "UPSERT"}
    found = to_changes(bronze_rows(spark, [row]), table("bigquery", keys))
    assert decoded(found, "_reason") == ["illegal_change"]


def test_undeclared_columns_take_the_type_of_their_values(spark: SparkSession) -> None:
    lines = [
        change(1, n=1, f=1.5, b=True, t="x", o={"k": 1}, a=[1, 2], nothing=None, empty=[]),
        change(2, n=2, f=2, b=None, t="y", o=None, a=["x"], big=12345678901234567890),
    ]
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"]))
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert {name: types[name] for name in found.columns[: found.columns.index("_operation")]} == {
        "ID": "bigint",
        "a": "string",
        "b": "boolean",
        "big": "decimal(38,0)",
        "empty": "array<string>",
        "f": "double",
        "n": "bigint",
        "o": "string",
        "t": "string",
    }
    assert decoded(found, "o", "a", "big") == [
        ('{"k":1}', "[1,2]", None),
        (None, '["x"]', Decimal(12345678901234567890)),
    ]


def test_names_that_differ_in_case_only_cost_their_rows_and_not_the_batch(
    spark: SparkSession,
) -> None:
    lines = [change(1, a=1), change(2, A=1), change(3, a=2) | {"": 1}]
    columns = {"a": "int"}
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"], columns=columns))
    assert decoded(found, "_reason") == [None, "incompatible_schema", "incompatible_schema"]


def test_the_time_column_gives_the_source_time_and_arrival_where_it_is_missing(
    spark: SparkSession,
) -> None:
    timed = table("bigquery", ["ID"], source={"time_column": "at"})
    lines = [change(1, at="2024-01-01T00:00:00Z"), change(2)]
    found = to_changes(bronze_rows(spark, lines), timed)
    assert decoded(found, "_source_time") == [at(1704067200), at(ARRIVED_AT.timestamp())]


def test_texts_that_are_hard_to_read_never_fail_the_batch(spark: SparkSession) -> None:
    lines = [
        '{"ID": 1, "ID": 2, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 3, "t": "a\\u0000b", "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 4, "t": "a\tb", "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 5, "t": ' + "[" * 1500 + "]" * 1500 + ', "_CHANGE_TYPE": "UPSERT"}',
        '\ufeff{"ID": 6, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 7, "x": NaN, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 8, "price": {"a": 1, "a": 2}, "_CHANGE_TYPE": "UPSERT"}',
        "",
        None,
    ]
    columns = {"ID": "bigint", "t": "string", "price": "decimal(9,2)"}
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"], columns=columns))
    assert decoded(found, "ID", "t", "_reason")[:3] == [
        (2, None, None),
        (3, "a\x00b", None),
        (4, "a\tb", None),
    ]
    assert decoded(found, "_reason")[3:] == ["not_json"] * 5 + [None]
    assert decoded(found, "_operation")[8] == "none"


def test_sequence_by_orders_rows_in_place_of_the_sequence_number(spark: SparkSession) -> None:
    lines = [change(1, "9", v=1), change(1, "zz", v=2), change(1, "1", v=None)]
    ordered = table("bigquery", ["ID"], sequence_by="v")
    found = to_changes(bronze_rows(spark, lines), ordered)
    assert decoded(found, "_sequence", "_reason") == [
        (literal([1]), None),
        (literal([2]), None),
        (None, "bad_sequence"),
    ]
    assert decoded(found, "_message")[2].startswith("sequence_by: found null (bigint), expected")
