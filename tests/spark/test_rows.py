from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.table import LearnedColumn
from silver.decode.sequences import literal_sequence as literal
from tests.builders import ARRIVED_AT, at, bronze_rows, decoded, table
from tests.decoding import to_changes


def test_operations_come_from_the_tables_own_conditions(spark: SparkSession) -> None:
    users = table(
        "rows",
        ["id"],
        sequence_by="seq",
        apply_as_deletes="operation = 'DELETE'",
        apply_as_truncates="operation = 'TRUNCATE'",
    )
    lines = [
        {"id": 1, "name": "a", "operation": "INSERT", "seq": 1},
        {"id": 1, "name": None, "operation": "DELETE", "seq": 2},
        {"id": None, "name": None, "operation": "TRUNCATE", "seq": 3},
        {"id": 2, "name": "b", "operation": None, "seq": 4},
    ]
    found = to_changes(bronze_rows(spark, lines), users)
    assert decoded(found, "id", "name", "operation", "_operation", "_sequence", "_reason") == [
        (1, "a", "INSERT", "upsert", literal([1]), None),
        (1, None, "DELETE", "delete", literal([2]), None),
        (None, None, "TRUNCATE", "truncate", literal([3]), None),
        (2, "b", None, "upsert", literal([4]), None),
    ]


def test_columns_that_a_condition_names_and_the_batch_lacks_are_null(spark: SparkSession) -> None:
    users = table("rows", ["id"], sequence_by="seq", apply_as_deletes="gone or _op = 'D'")
    found = to_changes(bronze_rows(spark, [{"id": 1, "seq": 1, "_op": "D"}]), users)
    assert decoded(found, "_operation") == ["delete"]
    assert "_op" not in found.columns
    found = to_changes(bronze_rows(spark, [{"id": 1, "seq": 1}]), users)
    assert decoded(found, "_operation") == ["upsert"]


@pytest.mark.parametrize(
    ("order", "type", "value", "sequence"),
    [
        ("o", "bigint", 255, literal([255])),
        ("o", "decimal(20,0)", 18446744073709551615, "FFFFFFFFFFFFFFFF"),
        ("o", "timestamp", "1970-01-01T00:00:01.000002Z", literal([1_000_002])),
        ("o", "date", "1970-01-11", literal([10])),
        ("o", "string", "fff/abc", literal([0xFFF, 0xABC])),
        (["day", "o"], "int", 7, literal([1, 7])),
        ("o * 2 + 1", "int", 7, literal([15])),
        ("cast(o as bigint)", "string", "12", literal([12])),
    ],
)
def test_the_sequence_is_a_section_per_column_or_expression(
    spark: SparkSession, order: str | list[str], type: str, value: object, sequence: str
) -> None:
    columns = {"o": type, "day": "date"}
    ordered = table("rows", ["id"], columns=columns, sequence_by=order)
    line = {"id": 1, "o": value, "day": "1970-01-02"}
    found = to_changes(bronze_rows(spark, [line]), ordered)
    assert decoded(found, "_sequence", "_reason") == [(sequence, None)]


def test_an_order_that_is_missing_or_no_order_is_a_dead_letter(spark: SparkSession) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"id": 1, "n": 1, "t": "A"}, "None"),
        ({"id": 1, "n": None, "t": "A"}, "bad_sequence"),
        ({"id": 1, "t": "A"}, "bad_sequence"),
        ({"id": 1, "n": -1, "t": "A"}, "bad_sequence"),
        ({"id": 1, "n": 1, "t": "today"}, "bad_sequence"),
        ({"id": 1, "n": 1, "t": "1/2/3/4"}, "bad_sequence"),
    ]
    ordered = table("rows", ["id"], sequence_by=["n", "t"])
    found = to_changes(bronze_rows(spark, [line for line, _ in cases]), ordered)
    assert [str(reason) for reason in decoded(found, "_reason")] == [why for _, why in cases]
    assert decoded(found, "_message")[3].startswith("sequence_by: found -1 (bigint), A (string)")


def test_a_cast_that_fails_costs_its_row_and_not_the_batch(spark: SparkSession) -> None:
    ordered = table("rows", ["id"], sequence_by="CAST(v AS bigint)")
    lines = [{"id": 1, "v": "x"}, {"id": 2, "v": "2"}]
    found = to_changes(bronze_rows(spark, lines), ordered)
    assert decoded(found, "_reason") == ["bad_sequence", None]


def test_texts_of_a_csv_are_typed_as_declared(spark: SparkSession) -> None:
    columns = {"id": "int", "qty": "int", "ok": "boolean", "tags": "array<int>"}
    typed = table("rows", ["id"], columns=columns, source={"file_format": "csv"})
    lines = [
        {"id": "1", "qty": "1.0", "ok": "true", "tags": "[1, 2]", "note": "5"},
        {"id": "2", "qty": "1.5", "ok": "true", "tags": None, "note": None},
        {"id": "3", "qty": None, "ok": "maybe", "tags": None, "note": None},
        {"id": "4", "qty": None, "ok": None, "tags": '[1, "x"]', "note": None},
        {"id": "5", "qty": None, "ok": None, "tags": "1", "note": None},
    ]
    found = to_changes(bronze_rows(spark, lines), typed)
    assert decoded(found, "id", "qty", "ok", "tags", "note")[0] == (1, 1, True, [1, 2], "5")
    assert decoded(found, "_reason") == [None] + ["bad_value"] * 4


def test_ignored_nulls_and_columns_not_named_are_absent(spark: SparkSession) -> None:
    lines = [{"id": 1, "seq": 1, "a": None, "b": None, "c": 3}, {"id": 1, "seq": 2, "a": 1}]
    columns = dict.fromkeys("abc", "int")

    def absent(**options: object) -> list[Any]:
        sparse = table("rows", ["id"], sequence_by="seq", columns=columns, **options)
        return decoded(to_changes(bronze_rows(spark, lines), sparse), "_absent")

    assert absent() == [None, ["b", "c"]]
    assert absent(ignore_null_updates=True) == [["a", "b"], ["b", "c"]]
    assert absent(ignore_null_updates=["b"]) == [["b"], ["b", "c"]]


def test_columns_to_update_names_what_a_row_carries(spark: SparkSession) -> None:
    lines = [
        {"id": 1, "seq": 1, "a": 1, "b": 2, "changed": ["a", "seq"]},
        {"id": 1, "seq": 2, "a": 1, "b": 2, "changed": "a, b"},
        {"id": 1, "seq": 3, "a": 1, "b": 2, "changed": '["b"]'},
        {"id": 1, "seq": 4, "a": 1, "b": 2, "changed": None},
    ]
    sparse = table("rows", ["id"], sequence_by="seq", columns_to_update="changed")
    found = to_changes(bronze_rows(spark, lines), sparse)
    assert decoded(found, "_absent") == [["b"], ["seq"], ["a", "seq"], None]
    assert "changed" not in found.columns


def test_the_source_time_is_the_time_column_else_a_timestamp_in_the_order_else_arrival(
    spark: SparkSession,
) -> None:
    line = {"id": 1, "seq": 1, "updated": "2024-01-01T00:00:00Z", "made": 1704067201}
    columns = {"updated": "timestamp"}

    def time(order: str | list[str], **source: str) -> object:
        timed = table("rows", ["id"], columns=columns, sequence_by=order, source=source)
        return decoded(to_changes(bronze_rows(spark, [line]), timed), "_source_time")[0]

    assert time("seq") == at(ARRIVED_AT.timestamp())
    assert time(["seq", "updated"]) == at(1704067200)
    assert time("seq", time_column="made") == at(1704067201)


def test_learned_columns_keep_their_place_and_new_ones_follow_by_name(spark: SparkSession) -> None:
    known = table("rows", ["id"], columns={"z": "int", "id": "int"})
    line = {"id": 1, "b": 1, "a.b": 2, "a c": 3, "z": 4, "_own": 5}
    found = to_changes(bronze_rows(spark, [line]), known)
    assert found.columns[:6] == ["id", "z", "a c", "a.b", "b", "_operation"]
    assert decoded(found, "id", "z", "`a c`", "`a.b`", "b") == [(1, 4, 3, 2, 1)]


def test_a_table_without_keys_has_no_missing_ones(spark: SparkSession) -> None:
    found = to_changes(bronze_rows(spark, [{"a": 1}]), table("rows", []))
    assert decoded(found, "a", "_operation", "_reason") == [(1, "upsert", None)]


def test_values_of_sensitive_columns_are_not_shown_in_messages(spark: SparkSession) -> None:
    secret = table("rows", ["id"], columns={"age": {"type": "int", "sensitive": True}})
    found = to_changes(bronze_rows(spark, [{"id": 1, "age": "secret"}]), secret)
    assert decoded(found, "_message") == [
        "column age: found a value that is not shown, expected int"
    ]


def test_a_value_of_another_kind_than_a_learned_column_is_incompatible(spark: SparkSession) -> None:
    known = table("rows", ["id"], columns={"a": "int"})
    learned = known.model_copy(update={"columns": known.columns | {"b": LearnedColumn(type="int")}})
    lines = [{"id": 1, "a": "x"}, {"id": 1, "b": "x"}, {"id": 1, "b": 2}]
    found = to_changes(bronze_rows(spark, lines), learned)
    assert decoded(found, "_reason") == ["bad_value", "incompatible_schema", None]
