from typing import Any

import pytest
from pyspark.sql import types as T

from silver.decode.expressions.names import FAULT, MEMBER, has_expressions, members_read
from silver.decode.protocols.rows import EVERY, OF_KEY, OF_VALUES
from tests.helpers.builders import table
from tests.helpers.flat_records import ARRIVED_AT, Line, decoded


def test_every_row_is_an_upsert_whose_operation_and_order_are_left_to_the_expressions() -> None:
    users = table("rows", ["id"], sequence_by="seq", apply_as_deletes="operation = 'DELETE'")
    lines: list[Line] = [
        {"id": 1, "name": "a", "operation": "INSERT", "seq": 1},
        {"id": 1, "name": None, "operation": "DELETE", "seq": 2},
        None,
    ]
    found = decoded(users, lines)
    assert found.columns.names == ["id", "name", "operation", "seq", FAULT]
    assert found.values("id", "name", "operation", "seq", FAULT) == [
        (1, "a", "INSERT", 1, None),
        (1, None, "DELETE", 2, None),
        (None, None, None, None, None),
    ]
    assert found.told("operation", "sequence", "source_time", "reason") == [
        ("upsert", None, ARRIVED_AT, None),
        ("upsert", None, ARRIVED_AT, None),
        ("none", None, ARRIVED_AT, None),
    ]


def test_long_hex_digits_are_no_base64_and_read_where_the_yaml_says_so() -> None:
    columns = {"id": "int", "data": "binary"}
    lines: list[Line] = [{"id": 1, "seq": 1, "data": d} for d in ("00FF" * 4, "AP8=")]
    plain = table("rows", ["id"], sequence_by="seq", columns=columns)
    told = table(
        "rows", ["id"], {"binary_handling_mode": "hex"}, sequence_by="seq", columns=columns
    )

    assert decoded(plain, lines).told("reason") == ["bad_value", None]
    assert decoded(plain, lines).values("data") == [None, b"\0\xff"]
    assert decoded(told, lines).values("data") == [b"\0\xff" * 4, None]
    assert decoded(told, lines).told("reason") == [None, "bad_value"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", "found an array"),
        ("null", "found null"),
        ("1.5", "found a number"),
        ('{"seq": NaN}', "found NaN, which is no JSON"),
        ('{"id": 1},', "Extra data: line 1 column 10 (char 9)"),
    ],
)
def test_a_text_that_is_no_object_says_why(text: str, why: str) -> None:
    found = decoded(table("rows", ["id"], sequence_by="seq"), [text])
    assert found.told("message") == [f"the row is no JSON object: {why}"]


def test_a_fault_says_which_operations_it_rules_out() -> None:
    users = table("rows", ["id"], sequence_by="seq", columns={"id": "int", "qty": "int"})
    lines: list[Line] = [
        "id,1",
        {"seq": 1, "qty": 1},
        {"id": None, "seq": 1, "qty": "x"},
        {"id": "x", "seq": 1},
        {"id": 1, "seq": 1, "qty": "x"},
        {"id": 1, "seq": 1, "qty": 1},
    ]
    found = decoded(users, lines)
    assert found.values(FAULT) == [EVERY, OF_KEY, OF_KEY, OF_KEY, OF_VALUES, None]
    assert found.told("reason") == ["not_json", "no_key", "no_key", "bad_value", "bad_value", None]
    assert found.told("message")[:3] == [
        "the row is no JSON object: Expecting value: line 1 column 1 (char 0)",
        "key column id: missing or null; the row has seq, qty",
        "key column id: missing or null",
    ]


def test_an_envelope_of_another_program_is_no_row_unless_the_table_is_of_such() -> None:
    canal = {"id": 7, "data": [{"id": 1}], "database": "d", "table": "t", "type": "INSERT", "ts": 1}
    users = table("rows", ["id"], sequence_by="ts", columns={"id": "int", "name": "string"})
    raw = table("rows", ["id"], sequence_by="ts", columns={"id": "int", "data": "string"})
    found = decoded(users, [canal])
    assert found.columns.names == ["id", "name", FAULT]
    assert found.told("reason") == ["illegal_change"]
    assert found.values("id", FAULT) == [(None, EVERY)]
    assert decoded(raw, [canal]).values("id", "data", FAULT) == [(7, '[{"id":1}]', None)]


def test_members_with_an_underscore_are_read_for_the_expressions_that_name_them() -> None:
    users = table("rows", ["id"], sequence_by="_seq", apply_as_deletes="gone or _op = 'D'")
    assert members_read(users) == ["_seq", "_op"]
    found = decoded(users, [{"id": 1, "_seq": 7, "_op": "D", "_own": 5}])
    assert found.columns.names == ["id", f"{MEMBER}_seq", f"{MEMBER}_op", FAULT]
    assert found.values(f"{MEMBER}_seq", f"{MEMBER}_op") == [(7, "D")]
    assert found.told("absent") == [None]
    assert decoded(users, [{"id": 1, "_seq": 1}]).types() == {
        "id": "bigint",
        f"{MEMBER}_seq": "bigint",
        FAULT: "string",
    }


def test_columns_that_the_table_leaves_out_are_read_for_expressions_alone() -> None:
    stock = table(
        "rows",
        ["sku"],
        columns={"qty": "int"},
        sequence_by="seq",
        apply_as_deletes="op = 'D'",
        except_column_list=["op", "seq", "note"],
    )
    found = decoded(stock, [{"sku": "a", "qty": 1, "seq": 2, "op": "D", "note": "x"}])
    assert found.columns.names == ["sku", "qty", f"{MEMBER}seq", f"{MEMBER}op", FAULT]
    assert found.told("absent", "mismatched") == [(None, False)]


@pytest.mark.parametrize(
    ("format", "options", "has"),
    [
        ("rows", {"sequence_by": "seq"}, True),
        ("bigquery", {}, False),
        ("bigquery", {"sequence_by": "seq"}, True),
        ("bigquery", {"source": {"time_column": "at"}}, True),
        ("ydb", {}, False),
        ("ydb", {"sequence_groups": [{"sequence_by": "v", "columns": ["a"]}]}, True),
        ("snapshot", {"source": {"mode": "full"}}, False),
    ],
)
def test_expressions_are_those_of_the_yaml(format: str, options: dict[str, Any], has: bool) -> None:
    assert has_expressions(table(format, ["id"], **options)) is has


def test_texts_of_a_csv_are_typed_as_declared() -> None:
    columns = {"id": "int", "qty": "int", "ok": "boolean", "tags": "array<int>"}
    typed = table("rows", ["id"], columns=columns, source={"file_format": "csv"})
    lines: list[Line] = [
        {"id": "1", "qty": "1.0", "ok": "true", "tags": "[1, 2]", "note": "5"},
        {"id": "2", "qty": "1.5", "ok": "true", "tags": None, "note": None},
        {"id": "3", "qty": None, "ok": "maybe", "tags": None, "note": None},
        {"id": "4", "qty": None, "ok": None, "tags": '[1, "x"]', "note": None},
        {"id": "5", "qty": None, "ok": None, "tags": "1", "note": None},
    ]
    found = decoded(typed, lines)
    assert found.values("id", "qty", "ok", "tags", "note")[0] == (1, 1, True, [1, 2], "5")
    assert found.told("reason") == [None] + ["bad_value"] * 4


def test_ignored_nulls_and_columns_not_named_are_absent() -> None:
    lines: list[Line] = [
        {"id": 1, "seq": 1, "a": None, "b": None, "c": 3},
        {"id": 1, "seq": 2, "a": 1},
    ]
    columns = dict.fromkeys("abc", "int")

    def absent(**options: object) -> list[Any]:
        sparse = table("rows", ["id"], sequence_by="seq", columns=columns, **options)
        return decoded(sparse, lines).told("absent")

    assert absent() == [None, ["b", "c"]]
    assert absent(ignore_null_updates=True) == [["a", "b"], ["b", "c"]]
    assert absent(ignore_null_updates=["b"]) == [["b"], ["b", "c"]]


def test_columns_to_update_names_what_a_row_carries() -> None:
    lines: list[Line] = [
        {"id": 1, "seq": 1, "a": 1, "b": 2, "changed": ["a", "seq"]},
        {"id": 1, "seq": 2, "a": 1, "b": 2, "changed": "a, b"},
        {"id": 1, "seq": 3, "a": 1, "b": 2, "changed": '["b"]'},
        {"id": 1, "seq": 4, "a": 1, "b": 2, "changed": None},
        {"id": 1, "seq": 5, "a": 1, "b": 2},
        {"id": 1, "seq": 6, "a": 1, "b": 2, "changed": ""},
    ]
    sparse = table("rows", ["id"], sequence_by="seq", columns_to_update="changed")
    found = decoded(sparse, lines)
    every = ["a", "b", "seq"]
    assert found.told("absent") == [["b"], ["seq"], ["a", "seq"], None, None, every]
    assert "changed" not in found.columns.names


def test_columns_to_update_can_be_part_of_an_expression() -> None:
    gone = table(
        "rows",
        ["id"],
        sequence_by="seq",
        columns_to_update="changed",
        apply_as_deletes="changed = 'none'",
    )
    found = decoded(gone, [{"id": 1, "seq": 1, "changed": "none"}])
    assert found.values(f"{MEMBER}changed") == ["none"]


def test_learned_columns_keep_their_place_and_new_ones_follow_by_name() -> None:
    known = table("rows", ["id"], columns={"z": "int", "id": "int"})
    line = {"id": 1, "b": 1, "a.b": 2, "a c": 3, "z": 4, "_own": 5}
    found = decoded(known, [line])
    assert found.columns.names == ["id", "z", "a c", "a.b", "b", FAULT]
    assert found.values("id", "z", "a c", "a.b", "b") == [(1, 4, 3, 2, 1)]


def test_a_table_without_keys_has_no_missing_ones() -> None:
    found = decoded(table("rows", []), [{"a": 1}])
    assert found.values("a") == [1]
    assert found.told("operation", "reason") == [("upsert", None)]


def test_values_of_sensitive_columns_are_not_shown_in_messages() -> None:
    secret = table("rows", ["id"], columns={"age": {"type": "int", "sensitive": True}})
    found = decoded(secret, [{"id": 1, "age": "secret"}])
    assert found.told("message") == ["column age: found a value that is not shown, expected int"]


def test_a_value_of_another_kind_than_a_learned_column_is_incompatible() -> None:
    known = table("rows", ["id"], columns={"a": "int"})
    lines: list[Line] = [{"id": 1, "a": "x"}, {"id": 1, "b": "x"}, {"id": 1, "b": 2}]
    learned: dict[str, T.DataType] = {"id": T.LongType(), "b": T.IntegerType()}
    found = decoded(known, lines, learned=learned)
    assert found.told("reason") == ["bad_value", "incompatible_schema", None]


def test_names_of_any_kind_are_columns() -> None:
    odd = ["x`y", "select", "ümlaut", 'q"q', "back\\slash", "$d", "{x}", "a;b=(c)", "-", "1"]
    found = decoded(table("rows", ["k `y"]), [{"k `y": 1} | dict.fromkeys(odd, "text")])
    assert found.columns.names == ["k `y", *sorted(odd), FAULT]
    assert set(found.values(*odd)[0]) == {"text"}


def test_a_misfit_inside_a_struct_is_a_misfit_of_the_column() -> None:
    columns = {
        "point": "struct<x: int, y: decimal(4,1)>",
        "tags": "map<string, int>",
        "days": "array<date>",
    }
    typed = table("rows", ["id"], columns=columns)
    lines: list[Line] = [
        {"id": 1, "point": {"x": 1, "y": 2.5}, "tags": {"a": 1}},
        {"id": 2, "point": {"x": 1, "y": 2.55}},
        {"id": 3, "tags": {"a": "x"}},
        {"id": 4, "days": ["2026-01-31", "2026-02-31"]},
    ]
    assert decoded(typed, lines).told("reason") == [None, *["bad_value"] * 3]


def test_fields_of_a_struct_are_known_without_regard_to_case() -> None:
    of = table("rows", ["id"], sequence_by="id", columns={"s": "struct<City: string, zip: int>"})

    found = decoded(of, [{"id": 1, "s": {"city": "Ulm", "ZIP": 1, "zip": 2}}])

    assert found.values("s") == [{"City": "Ulm", "zip": 2}]


@pytest.mark.parametrize(
    ("number", "type"),
    [
        ("12345678901234567.89", "string"),
        ("-0.000012345678901234567890", "string"),
        ("1.2345678901234567", "double"),
        ("1e300", "double"),
        ("9" * 39, "string"),
        ("1" + "0" * 39, "double"),
    ],
)
def test_a_number_with_more_digits_than_a_double_has_is_text(number: str, type: str) -> None:
    line = f'{{"id": 1, "n": {number}}}'

    found = decoded(table("rows", ["id"], sequence_by="id"), [line])

    assert found.types()["n"] == type
    if type == "string":
        assert found.values("n") == [number]


@pytest.mark.parametrize(
    ("whole", "type"),
    [
        ("9" * 38, "string"),
        ("123456789012345678", "string"),
        (str(2**53 + 1), "string"),
        (str(2**53), "double"),
        ("1" + "0" * 20, "double"),
    ],
)
def test_a_whole_number_beside_a_fraction_keeps_its_digits(whole: str, type: str) -> None:
    lines: list[Line] = [f'{{"id": 1, "n": {whole}}}', '{"id": 2, "n": 0.5}']

    found = decoded(table("rows", ["id"], sequence_by="id"), lines)

    assert found.types()["n"] == type
    assert found.values("n") == ([whole, "0.5"] if type == "string" else [float(whole), 0.5])


@pytest.mark.parametrize("number", ["12345678901234567.89", "123456789012345678"])
def test_no_digit_is_lost_in_a_double_that_nobody_declared(number: str) -> None:
    line = f'{{"id": 1, "n": {number}}}'
    of = table("rows", ["id"], sequence_by="id")
    declared = table("rows", ["id"], sequence_by="id", columns={"n": "double"})

    learned = decoded(of, [line], learned={"n": T.DoubleType()})

    assert learned.told("reason") == ["incompatible_schema"]
    assert decoded(declared, [line]).values("n") == [float(number)]


@pytest.mark.parametrize(
    ("infinity", "expected"),
    [({}, None), ({"infinity": None}, None), ({"infinity": "clamp"}, 253402300799999999)],
)
@pytest.mark.parametrize(
    "moment", ["infinity", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"]
)
def test_a_moment_after_the_year_9999_is_what_its_column_declares(
    infinity: dict[str, object], expected: int | None, moment: str
) -> None:
    columns = {"id": "int", "t": {"type": "timestamp"} | infinity}
    of = table("rows", ["id"], sequence_by="id", columns=columns)

    found = decoded(of, [{"id": 1, "t": moment}])

    assert found.values("t") == [expected]
    assert found.told("reason") == [None if infinity else "bad_value"]


def test_a_whole_record_is_told_to_be_none_of_the_rows() -> None:
    users = table("rows", ["id"], sequence_by="seq", columns={"id": "int", "seq": "int"})
    line = {"topic": "t", "partition": 0, "offset": 1, "payload": '{"id": 1, "seq": 1}'}
    [(reason, message)] = decoded(users, [line]).told("reason", "message")
    assert reason == "no_key"
    assert "expected its value alone (kcat without -J)" in message
