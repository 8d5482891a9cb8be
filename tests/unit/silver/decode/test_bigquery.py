from decimal import Decimal
from typing import Any

import pytest

from silver.decode.values.sequences import literal_sequence
from tests.helpers.builders import table
from tests.helpers.flat_records import ARRIVED_AT, Line, decoded


def change(
    key: int, sequence: str | None = None, kind: str = "UPSERT", **row: object
) -> dict[str, Any]:
    number = {} if sequence is None else {"_CHANGE_SEQUENCE_NUMBER": sequence}
    return {"ID": key, **row, "_CHANGE_TYPE": kind, **number}


def test_the_documented_modifications_are_upserts_and_a_delete() -> None:
    lines: list[Line] = [
        change(100, kind="DELETE", Name=None, Salary=None),
        change(101, Name="Tal", Salary=8000),
        change(105, Name="Izumi", Salary=6000),
    ]
    found = decoded(table("bigquery", ["ID"]), lines)
    assert found.columns.names == ["ID", "Name", "Salary"]
    assert found.values("ID", "Name", "Salary") == [
        (100, None, None),
        (101, "Tal", 8000),
        (105, "Izumi", 6000),
    ]
    assert found.told("operation", "absent", "reason", "source_time") == [
        ("delete", None, None, ARRIVED_AT),
        ("upsert", None, None, ARRIVED_AT),
        ("upsert", None, None, ARRIVED_AT),
    ]


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
    example: str, first: str, second: str, latest: str
) -> None:
    lines: list[Line] = [change(1, first, text="first"), change(1, second.lower(), text="second")]
    found = decoded(table("bigquery", ["ID"]), lines)
    both = zip(found.told("sequence"), found.values("text"), strict=True)
    assert max(both)[1] == latest, example


def test_rows_without_a_sequence_number_leave_the_order_to_arrival() -> None:
    lines: list[Line] = [
        change(1),
        change(1, None) | {"_CHANGE_SEQUENCE_NUMBER": None},
        change(1, "1"),
    ]
    sequences = decoded(table("bigquery", ["ID"]), lines).told("sequence")
    assert sequences == sorted(set(sequences))


def test_a_column_left_out_is_absent_and_a_null_is_carried() -> None:
    lines: list[Line] = [change(1, a=1), change(1, a=None, b=2), change(1, "1", kind="DELETE")]
    columns = {"a": "int", "b": "int", "c": "int"}
    found = decoded(table("bigquery", ["ID"], columns=columns), lines)
    assert found.told("absent") == [["b", "c"], ["c"], None]


BAD: list[tuple[str, str]] = [
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
    ('{"ID": 1, "price": {"a": 1}, "_CHANGE_TYPE": "UPSERT"}', "bad_value"),
    ('{"ID": 1, "_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": ""}', "bad_sequence"),
    ('{"ID": 1, "_CHANGE_TYPE": "DELETE", "_CHANGE_SEQUENCE_NUMBER": "G"}', "bad_sequence"),
    ('{"ID": 1, "_CHANGE_TYPE": "UPSERT"} {', "not_json"),
    ("ID,1", "not_json"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_what_cannot_be_applied_becomes_a_dead_letter(line: str, reason: str) -> None:
    columns = {"ID": "bigint", "a": "int", "price": "decimal(9,2)"}
    found = decoded(table("bigquery", ["ID"], columns=columns), [line])
    assert found.told("reason", "operation", "absent") == [(reason, None, None)]


def test_a_dead_letter_says_why() -> None:
    columns = {"ID": "bigint", "a": "int", "price": "decimal(9,2)"}
    found = decoded(table("bigquery", ["ID"], columns=columns), [line for line, _ in BAD])
    messages = found.told("message")
    said = "The given value is not a valid CHANGE_TYPE. _CHANGE_TYPE: found "
    assert messages[0] == f"{said}nothing, expected UPSERT or DELETE"
    assert messages[2] == f"{said}'INSERT', expected UPSERT or DELETE"
    assert messages[9] == "column price: found '1.005', expected decimal(9,2)"
    expected = "expected 1 to 4 sections of 1 to 16 hex digits"
    assert messages[12] == f"_CHANGE_SEQUENCE_NUMBER: found 'G', {expected}"


def test_a_dead_letter_keeps_its_key_and_sequence() -> None:
    columns = {"ID": "bigint", "a": "int"}
    found = decoded(table("bigquery", ["ID"], columns=columns), [change(7, "1F", a="x")])
    assert found.values("ID", "a") == [(7, None)]
    assert found.told("sequence") == [literal_sequence([0x1F])]


def test_a_delete_is_not_refused_for_values_it_does_not_need() -> None:
    columns = {"ID": "bigint", "a": "int"}
    found = decoded(table("bigquery", ["ID"], columns=columns), [change(1, kind="DELETE", a="x")])
    assert found.told("operation", "reason") == [("delete", None)]


def test_more_columns_or_keys_than_bigquery_allows_are_illegal() -> None:
    wide = {"ID": 1, "_CHANGE_TYPE": "UPSERT"} | {f"c{n}": 1 for n in range(2000)}
    ignoring = table("bigquery", ["ID"], schema_changes={"add_column": "ignore"})
    assert decoded(ignoring, [wide]).told("reason", "message") == [
        ("illegal_change", "2001 columns, at most 2000")
    ]
    del wide["c0"]
    assert decoded(ignoring, [wide]).told("reason") == [None]
    keys = [f"k{n}" for n in range(17)]
    row: Line = dict.fromkeys(keys, 1) | {"_CHANGE_TYPE": "UPSERT"}
    found = decoded(table("bigquery", keys), [row])
    assert found.told("reason", "message") == [("illegal_change", "17 key columns, at most 16")]


def test_undeclared_columns_take_the_type_of_their_values() -> None:
    lines: list[Line] = [
        change(1, n=1, f=1.5, b=True, t="x", o={"k": 1}, a=[1, 2], nothing=None, empty=[]),
        change(2, n=2, f=2, b=None, t="y", o=None, a=["x"], big=12345678901234567890),
    ]
    found = decoded(table("bigquery", ["ID"]), lines)
    assert found.types() == {
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
    assert found.values("o", "a", "f", "big") == [
        ('{"k":1}', "[1,2]", 1.5, None),
        (None, '["x"]', 2.0, Decimal(12345678901234567890)),
    ]


def test_names_that_can_be_no_column_cost_their_rows_and_not_the_batch() -> None:
    lines: list[Line] = [change(1, a=1), change(2, a=1, A=1), change(3, a=2) | {"": 1}]
    found = decoded(table("bigquery", ["ID"], columns={"a": "int"}), lines)
    assert found.told("reason") == [None, "incompatible_schema", "incompatible_schema"]


def test_texts_that_are_hard_to_read_never_fail_the_batch() -> None:
    lines: list[Line] = [
        '{"ID": 1, "ID": 2, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 3, "t": "a\\u0000b", "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 4, "t": "a\tb", "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 5, "t": ' + "[" * 1500 + "]" * 1500 + ', "_CHANGE_TYPE": "UPSERT"}',
        '\ufeff{"ID": 6, "_CHANGE_TYPE": "UPSERT"}',
        '{"ID": 7, "x": NaN, "_CHANGE_TYPE": "UPSERT"}',
        b'{"ID": 7, "t": "\xff", "_CHANGE_TYPE": "UPSERT"}',
        '{\'ID\': 7, "_CHANGE_TYPE": "UPSERT"}',
        "",
        None,
        '{"ID": 8, "price": {"a": 1, "a": 2}, "_CHANGE_TYPE": "UPSERT"}',
    ]
    columns = {"ID": "bigint", "t": "string", "price": "decimal(9,2)"}
    found = decoded(table("bigquery", ["ID"], columns=columns), lines)
    assert found.values("ID", "t")[:3] == [(2, None), (3, "a\x00b"), (4, "a\tb")]
    assert found.told("reason") == [None] * 3 + ["not_json"] * 6 + [None, "bad_value"]
    assert found.told("operation")[9] == "none"


def test_with_sequence_by_the_sequence_number_does_not_count() -> None:
    ordered = table("bigquery", ["ID"], sequence_by="v")
    found = decoded(ordered, [change(1, "9", v=1), change(1, "zz", v=2)])
    assert found.told("operation", "sequence", "reason") == [("upsert", None, None)] * 2
