"""Which columns a batch has, and which records show that the known columns are not enough."""

import json
import pickle
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode import columns as columns_module
from silver.decode.change import Record
from silver.decode.columns import DecodedColumn, Shape, known_columns
from silver.decode.debezium.discovery import DebeziumDiscovery
from tests.helpers.debezium_records import (
    Types,
    decoded,
    decoded_with,
    discovered,
    event,
    plain,
    table,
    whole,
    wrapped,
)
from tests.properties.budget import count_examples

INT, LONG, TEXT = T.IntegerType(), T.LongType(), T.StringType()


def field(name: str, type: str) -> dict[str, Any]:
    return {"field": name, "type": type}


def blocks(*versions: dict[str, str]) -> list[Record]:
    """A record with each of the schema blocks, and a row of nulls."""
    made = []
    for version in versions:
        fields = [field(name, type) for name, type in version.items()]
        made.append(wrapped(event("c", after=dict.fromkeys(version)), *fields))
    return plain(*made)


def rows(*given: dict[str, Any]) -> list[Record]:
    return plain(*[event("c", after=row) for row in given])


def types(of: Table, records: list[Record], learned: Types | None = None) -> dict[str, str]:
    columns, _ = discovered(of, records, learned)
    return {column.name: column.type.simpleString() for column in columns.columns}


def test_a_new_column_has_the_widest_type_of_its_versions() -> None:
    records = blocks({"id": "int32", "n": "int32"}, {"id": "int32", "n": "int64"})

    assert types(table(columns={}), records) == {"id": "int", "n": "bigint"}


def test_a_learned_column_widens_unless_told_not_to() -> None:
    learned = {"id": INT, "n": INT}
    kept = table(columns={}, schema_changes={"widen": "ignore"})

    assert types(table(columns={}), blocks({"n": "int64"}), learned)["n"] == "bigint"
    assert types(kept, blocks({"n": "int64"}), learned)["n"] == "int"


def test_a_version_of_another_kind_keeps_the_first_type_and_its_values_do_not_fit() -> None:
    of = table(columns={})
    first = wrapped(
        event("c", after={"id": 1, "v": "a"}), field("id", "int32"), field("v", "string")
    )
    then = wrapped(event("c", after={"id": 2, "v": 5}), field("id", "int32"), field("v", "int32"))
    null = wrapped(
        event("c", after={"id": 2, "v": None}), field("id", "int32"), field("v", "int32")
    )

    found = decoded(of, plain(first, then, null))

    assert types(of, plain(first, then)) == {"id": "int", "v": "string"}
    assert [row["_reason"] for row in found] == [None, "incompatible_schema", None]


def test_a_declared_column_keeps_its_type_whatever_the_blocks_say() -> None:
    of = table(columns={"id": "int", "n": "string"})
    records = blocks({"id": "int64", "n": "int64"})

    assert types(of, records) == {"id": "int", "n": "string"}


def test_a_block_tells_more_than_values() -> None:
    records = [*rows({"id": 1, "a": "x"}), *blocks({"id": "int64", "a": "int32"})]

    assert types(table(columns={}), records) == {"id": "bigint", "a": "int"}


def test_the_order_of_the_blocks_is_that_of_arrival() -> None:
    records = blocks({"id": "int32", "v": "string"}, {"id": "int32", "v": "int32"})
    of = table(columns={})

    assert types(of, records)["v"] == types(of, records[::-1])["v"] == "string"


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, None], "bigint"),
        ([1, 2**63], "decimal(38,0)"),
        ([-(2**63)], "bigint"),
        ([10**38], "double"),
        ([1, 1.5], "double"),
        ([1.0], "double"),
        ([1e300], "double"),
        ([True, False], "boolean"),
        ([True, 1], "string"),
        (["x"], "string"),
        ([1, "x"], "string"),
        ([{"a": 1}], "string"),
        ([[]], "array<string>"),
        ([[None]], "array<string>"),
        ([[], [1]], "array<bigint>"),
        ([[1], [1.5]], "array<double>"),
        ([[1], ["x"]], "string"),
        ([[{"a": 1}]], "string"),
        ([[[1]]], "string"),
        ([[1], 1], "string"),
        ([None], None),
    ],
)
def test_types_of_json_values(values: list[Any], type: str | None) -> None:
    records = rows(*[{"id": 1, "v": value} for value in values])

    found = types(table(), records)

    assert found.get("v") == type
    assert {row["_reason"] for row in decoded(table(), records)} == {None}


def test_types_are_asked_only_of_fields_that_nothing_tells() -> None:
    discovery = DebeziumDiscovery(table(columns={}), known_columns(table(columns={}), {"a": INT}))
    for record in rows({"id": 1, "a": 1, "B": 2, "c": None}):
        discovery.look(record, "p")

    assert set(discovery.shown["full"].values) == {"id", "b"}


def test_fields_that_begin_with_an_underscore_are_left_out() -> None:
    assert types(table(columns={}), rows({"id": 1, "_batch": 1})) == {"id": "bigint"}


def test_fields_that_are_left_out_are_known() -> None:
    row = {"id": 1, "_rank": 1, "__op": "c", "_": 2}

    assert discovered(table(), plain(event("c", after=row)))[0].left_out == ("_", "__op", "_rank")


def test_fields_that_a_declared_struct_has_not_are_left_out_and_known() -> None:
    of = table(columns={"id": "bigint", "place": "struct<city: string>"})
    row = {"id": 1, "Place": '{"city": "Ulm", "zip": "89073"}'}

    assert discovered(of, rows(row))[0].left_out == ("place.zip",)


def test_a_key_that_no_row_shows_is_found_in_record_keys_and_old_rows() -> None:
    of = table(keys=("a", "b"), columns={})
    gone = event("d", before={"B": "x", "other": ""})
    records = whole({"topic": "t", "offset": 1, "key": {"A": 1}, "value": gone})

    assert types(of, records) == {"a": "bigint", "b": "string"}
    [found] = decoded(of, records)
    assert (found["a"], found["b"], found["_reason"]) == (1, "x", None)


def test_a_key_without_any_value_is_a_string_for_now() -> None:
    columns, _ = discovered(table(columns={}), plain(None))

    assert columns.columns == (DecodedColumn("id", TEXT, provisional=True),)


def test_a_table_without_keys_shows_rows_in_before_too() -> None:
    of = table(keys=(), columns={})

    assert types(of, plain(event("d", before={"a": 1}))) == {"a": "bigint"}


def test_known_columns_come_in_order_keys_first_and_new_ones_by_name() -> None:
    of = table(keys=("k",), columns={"d": "int"})
    learned = {"z": TEXT, "k": LONG, "d": TEXT}

    columns, _ = discovered(of, rows({"k": 1, "y": 1, "x": 1}), learned)

    assert columns.names == ["k", "z", "d", "x", "y"]
    assert [c.declared for c in columns.columns] == [False, False, True, False, False]
    assert [c.provisional for c in columns.columns] == [False, False, False, True, True]
    assert columns.settled


def test_new_columns_are_so_many_as_there_is_room_for_and_the_first_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns_module, "MOST_COLUMNS", 3)
    wide = {"id": 9} | {f"w{at}": 1 for at in range(5)}
    given = [{"id": 1, "z": 1}, wide, {"id": 2, "y": 2}, {"id": 3, "a": 3}, {"id": 4, "z": 4}]
    of = table(columns={})

    together = decoded(of, rows(*given))
    known: dict[str, T.DataType] = {}
    apart = []
    for record in rows(*given):
        columns, _ = discovered(of, [record], known)
        apart += decoded_with(of, columns, [record])
        known = {column.name: column.type for column in columns.columns}

    for found in (together, apart):
        reasons = [row["_reason"] for row in found]
        assert reasons == [None, "incompatible_schema", None, "incompatible_schema", None]
    assert list(known) == ["id", "z", "y"]
    assert [row["y"] for row in together] == [None, None, 2, None, None]


def test_of_a_full_table_no_record_is_mismatched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "MOST_COLUMNS", 2)
    columns = known_columns(table(), {})

    [found] = decoded_with(table(), columns, rows({"id": 1, "more": 1}))

    assert (found["_reason"], found["_mismatched"]) == ("incompatible_schema", False)


ROW = {"id": 1, "name": "a"}
PLAIN, BLOCKS = event("c", after=ROW), wrapped(event("c", after=ROW), "id", "name")
MORE, NULL = event("c", after=ROW | {"more": 1}), event("c", after=ROW | {"more": None})
IGNORES: dict[str, Any] = {"schema_changes": {"add_column": "ignore"}}


def test_shapes_come_in_order_of_arrival_with_the_place_of_their_first_record() -> None:
    first, then = rows({"id": 1, "a": 1}, {"id": 2, "b": 1})
    records = [first, then, *blocks({"id": "int64"})]
    of, made = table(columns={}), []
    for part in ([2], [1], [0]):
        discovery = DebeziumDiscovery(of, known_columns(of, {}))
        for at in part:
            discovery.look(replace(records[at], arrival=f"{at}"), f"t/0/{at}")
        made.append(pickle.loads(pickle.dumps(discovery)))
    for other in made[1:]:
        made[0].merge(other)

    columns, shapes = made[0].settle()

    assert columns.names == ["id", "a", "b"]
    assert [replace(shape, times=None) for shape in shapes] == [
        Shape({"id": None, "a": None}, True, "t/0/0"),
        Shape({"id": None, "b": None}, True, "t/0/1"),
        Shape({"id": "bigint"}, True, "t/0/2"),
    ]


def test_an_ignored_field_keeps_its_name_in_the_shape() -> None:
    _, [shape] = discovered(table(columns={}, **IGNORES), rows({"id": 1, "More": 1}))

    assert shape.fields == {"id": None, "More": None}


def test_a_field_that_can_be_no_column_is_in_no_shape() -> None:
    _, [shape] = discovered(table(columns={}), rows({"id": 1, "": 1}))

    assert shape.fields == {"id": None}


@pytest.mark.parametrize("seed", range(count_examples(40)))
def test_what_is_found_does_not_depend_on_how_the_batch_was_cut(seed: int) -> None:
    """Nor does it differ whether a batch is decoded by itself or by all its columns known."""
    random = Random(seed)
    of = table(columns={}, schema_changes={"add_column": random.choice(["apply", "ignore"])})
    records = plain(*[some_line(random) for _ in range(30)])
    whole_batch = discovered(of, records)
    parts = [DebeziumDiscovery(of, known_columns(of, {})) for _ in range(3)]
    for at, record in enumerate(records):
        random.choice(parts).look(record, str(at))
    random.shuffle(parts)
    for part in parts[1:]:
        parts[0].merge(pickle.loads(pickle.dumps(part)))

    assert parts[0].settle() == whole_batch
    columns, _ = whole_batch
    unsettled = replace(columns, settled=False)
    one, other = (decoded_with(of, c, records) for c in (columns, unsettled))
    for found, again in zip(one, other, strict=True):
        assert again["_mismatched"] or {**again, "_mismatched": False} == found


def some_line(random: Random) -> Any:
    names = random.sample(["id", "ID", "a", "b", "B", "c", "", "_x"], random.randint(1, 4))
    values = [1, 2**70, 1.5, "x", True, None, [1], ["x"], {"k": 1}]
    row = {name: random.choice(values) for name in names}
    value = event(random.choice("curd"), after=row, before=row)
    if random.random() < 0.3:
        kinds = ["int32", "int64", "string", "double", "boolean"]
        value = wrapped(value, *[field(name, random.choice(kinds)) for name in names])
    return random.choice([value, value, value, None, json.dumps(value)[:-1]])
