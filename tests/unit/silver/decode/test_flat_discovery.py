"""Which columns flat rows have, however they are cut, and which rows are mismatched."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode import columns as columns_module
from silver.decode.columns import Columns, Shape, known_columns
from silver.decode.expressions.names import FAULT
from tests.helpers.builders import table
from tests.helpers.flat_records import Line, decode_records, decoded, discovery, record

ROWS = table("rows", ["id"], sequence_by="at", columns={"id": "bigint"})
LEARNED: dict[str, T.DataType] = {"id": T.LongType(), "a": T.IntegerType()}


def known(config: Table, **learned: T.DataType) -> Columns:
    return known_columns(config, learned)


def settled(config: Table, columns: Columns, lines: list[Line]) -> tuple[Columns, list[Shape]]:
    seen = discovery(config, columns)
    for number, line in enumerate(lines):
        seen.look(record(line, number), f"file:{number}")
    return seen.settle()


def test_discoveries_of_parts_settle_to_the_columns_of_the_whole() -> None:
    lines: list[Line] = [
        {"id": 1, "at": 1, "z": 1, "b": [1]},
        {"id": 2, "at": 2, "z": 1.5, "B": [2]},
        {"id": 3, "at": 3, "y": None, "b": [None]},
        "no JSON",
    ]
    whole = settled(ROWS, known(ROWS), lines)
    assert {c.name: c.type.simpleString() for c in whole[0].columns} == {
        "id": "bigint",
        "at": "bigint",
        "b": "array<bigint>",
        "z": "double",
        FAULT: "string",
    }
    for order in permutations(range(len(lines))):
        parts = []
        for number in order:
            part = discovery(ROWS, known(ROWS))
            part.look(record(lines[number], number), f"file:{number}")
            parts.append(pickle.loads(pickle.dumps(part)))
        for other in parts[1:]:
            parts[0].merge(other)
        assert parts[0].settle() == whole


UNLIKE: list[tuple[str, dict[str, Any], bool, str | None]] = [
    ("a new column", {"b": 1}, True, None),
    ("a new column that is null", {"b": None}, False, None),
    ("a name of the layers", {"_b": 1}, False, None),
    ("a member of an expression", {"_op": "D"}, True, None),
    ("another case", {"A": 1}, False, None),
    ("both cases", {"a": 1, "A": 1}, False, "incompatible_schema"),
    ("both cases, one of them null", {"a": 1, "A": None}, False, None),
    ("both cases, the known one null", {"A": 1, "a": None}, False, None),
    ("both cases, null", {"A": None, "a": None}, False, None),
    ("no name, and null", {"": None}, False, None),
    ("no name", {"": 1}, False, "incompatible_schema"),
    ("a misfit of a learned column", {"a": "x"}, False, "incompatible_schema"),
    ("a column left out", {"left_out": 1}, False, None),
    ("nothing new", {"a": None}, False, None),
]


@pytest.mark.parametrize(("case", "row", "mismatched", "reason"), UNLIKE)
def test_a_row_is_mismatched_that_shows_what_the_columns_do_not_know(
    case: str, row: dict[str, Any], mismatched: bool, reason: str | None
) -> None:
    options: dict[str, Any] = {"sequence_by": "id", "apply_as_deletes": "_op = 'D'"}
    config = table("rows", ["id"], except_column_list=["left_out"], **options)
    columns, _ = settled(config, known(config, **LEARNED), [])
    loose = Columns(columns.columns)
    [change] = decode_records(config, loose, [record({"id": 1} | row)])
    assert (change.mismatched, change.reason) == (mismatched, reason), case


def test_new_columns_that_the_table_ignores_make_no_row_mismatched_once_they_are_told() -> None:
    config = table("rows", ["id"], sequence_by="id", schema_changes={"add_column": "ignore"})
    columns, shapes = settled(config, known(config, **LEARNED), [{"id": 1, "b": 2}])
    assert columns.names == ["id", "a", FAULT]
    assert [one.fields for one in shapes] == [{"id": "bigint", "a": "int"}, {"b": None}]
    for announced, mismatched in ((None, False), ({"id": "bigint"}, True), ({"b": None}, False)):
        loose = Columns(columns.columns, announced=announced)
        [change] = decode_records(config, loose, [record({"id": 1, "b": 2})])
        assert (change.mismatched, change.reason) == (mismatched, None)


def test_the_shapes_tell_where_each_new_column_shows_first() -> None:
    lines: list[Line] = [{"id": 1, "a": 1}, {"id": 2, "c": 1}, {"id": 3, "b": "x", "c": 2}]
    announced = {"id": "bigint", "a": "int"}
    columns = Columns(known(ROWS, **LEARNED).columns, announced=announced)
    found, shapes = settled(ROWS, columns, lines)
    assert found.announced == announced
    assert [(one.fields, one.first_position, one.complete) for one in shapes] == [
        ({"c": "bigint"}, "file:1", False),
        ({"b": "string"}, "file:2", False),
        ({"id": "bigint", "a": "int", "b": "string", "c": "bigint"}, "file:1", False),
    ]


def test_of_a_source_that_is_not_known_yet_all_columns_are_one_shape() -> None:
    _, shapes = settled(ROWS, known(ROWS), [{"id": 1, "at": 1, "_op": "x"}])
    assert [one.fields for one in shapes] == [{"id": "bigint", "at": "bigint"}]


@pytest.mark.parametrize("cut", ["one", "each"])
def test_new_columns_beyond_the_room_are_those_that_came_last(
    monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    monkeypatch.setattr(columns_module, "MOST_COLUMNS", 4)
    wide = {"id": 9} | {f"w{at}": 1 for at in range(5)}
    given = [{"id": 1, "z": 1}, wide, {"id": 2, "y": 2}, {"id": 3, "a": 3}, {"id": 4, "z": 4}]
    lines: list[Line] = [row | {"at": at} for at, row in enumerate(given, start=1)]
    batches = [lines] if cut == "one" else [[line] for line in lines]
    learned: dict[str, T.DataType] = {}
    reasons = []
    for batch in batches:
        found = decoded(ROWS, batch, learned=learned)
        reasons += found.told("reason")
        learned = {c.name: c.type for c in found.columns.columns if not c.name.startswith("_")}
    assert sorted(learned) == ["at", "id", "y", "z"]
    assert reasons == [None, "incompatible_schema", None, "incompatible_schema", None]


def test_rubbish_of_many_names_does_not_fill_the_memory() -> None:
    seen: Any = discovery(ROWS, known(ROWS))
    for number in range(40):
        row = {"id": 1} | {f"{number}.{at}": 1 for at in range(1_000)}
        seen.look(record(row, number), f"file:{number}")
    assert len(seen.seen) <= 10_000
    columns, _ = seen.settle()
    assert len(columns.columns) == 2_000 + 1
    assert {name.partition(".")[0] for name in columns.names if "." in name} == {"0", "1"}


def test_fields_that_are_left_out_because_of_their_names_are_known() -> None:
    lines: list[Line] = [{"id": 1, "at": 1, "_rank": 2, "_null": None, "__op": "c"}]
    reads = table("rows", ["id"], sequence_by="_rank", columns={"id": "bigint"})

    assert settled(ROWS, known(ROWS), lines)[0].left_out == ("_rank",)
    assert settled(reads, known(reads), lines)[0].left_out == ()


def test_fields_that_a_declared_struct_has_not_are_known() -> None:
    types = {"id": "bigint", "s": "struct<a: int, b: struct<c: int>>", "l": "array<struct<a: int>>"}
    config = table("rows", ["id"], sequence_by="at", columns=types)
    lines: list[Line] = [
        {"id": 1, "at": 1, "s": {"A": 1, "x": 2, "null": None}, "l": [{"a": 1, "y": 1}]},
        {"id": 2, "at": 2, "S": '{"b": {"c": 1, "z": 3}}', "l": "no JSON"},
    ]

    assert settled(config, known(config), lines)[0].left_out == ("l.y", "s.b.z", "s.x")
    assert settled(config, known(config), lines[1:])[0].left_out == ("s.b.z",)


@pytest.mark.parametrize(
    ("format", "form"),
    [
        ("rows", lambda row: {"id": 1, "at": 1, **row}),
        ("bigquery", lambda row: {"id": 1, "_CHANGE_TYPE": "UPSERT", **row}),
        ("snapshot", lambda row: {"id": 1, **row}),
        ("ydb", lambda row: {"key": [1], "update": {}, "newImage": row}),
    ],
)
def test_a_field_that_a_struct_has_not_makes_a_row_mismatched_until_it_is_known(
    format: str, form: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    source = {"mode": "full"} if format == "snapshot" else {}
    order = {"sequence_by": "at"} if format == "rows" else {}
    types = {"id": "bigint", "s": "struct<a: int>"} | ({"at": "int"} if order else {})
    config = table(format, ["id"], source, columns=types, **order)
    first, second = (form({"s": {"a": 1, **more}}) for more in ({}, {"y": 2}))
    before, after = (
        replace(settled(config, known(config), lines)[0], settled=False)
        for lines in ([first], [first, second])
    )

    def mismatched(columns: Columns) -> list[bool]:
        found = decode_records(config, columns, [record(line) for line in (first, second)])
        return [change.mismatched for change in found]

    assert after.left_out == ("s.y",)
    assert mismatched(before) == [False, True]
    assert mismatched(after) == [False, False]
    assert mismatched(replace(before, settled=True)) == [False, False]
