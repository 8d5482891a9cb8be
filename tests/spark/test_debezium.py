"""One Debezium record at a time: what each becomes."""

import base64
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.table import LearnedColumn, Table
from tests.decoding import to_changes
from tests.records import plain_rows, whole_rows

ZERO = "0" * 16
PLACEHOLDER = "__debezium_unavailable_value"


def table(keys: tuple[str, ...] = ("id",), **options: object) -> Table:
    source = {"format": "debezium", "path": "shop"}
    given = {"columns": {"id": "bigint", "name": "string"}} | options
    return Table.model_validate({"table": "t", "keys": list(keys), "source": source, **given})


def event(op: str | None, /, **parts: object) -> dict[str, Any]:
    source = {"connector": "postgresql", "name": "shop", "lsn": 10, "ts_us": 5_000_000}
    return {"before": None, "after": None, "source": source, "op": op} | parts


def record(value: object, **parts: object) -> dict[str, Any]:
    return {"topic": "s.t", "partition": 0, "offset": 7, "key": None, "value": value} | parts


def decoded(spark: SparkSession, of: Table, *lines: object) -> list[dict[str, Any]]:
    changes = to_changes(plain_rows(spark, lines), of).orderBy("_arrival")
    return [row.asDict(recursive=True) for row in changes.collect()]


def decoded_records(
    spark: SparkSession, of: Table, *records: dict[str, Any]
) -> list[dict[str, Any]]:
    changes = to_changes(whole_rows(spark, records), of).orderBy("_arrival")
    return [row.asDict(recursive=True) for row in changes.collect()]


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_operations_of_the_envelope(spark: SparkSession) -> None:
    row = {"id": 1, "name": "a"}
    lines: list[object] = [event(op, after=row) for op in "cur"] + [
        event("d", before=row),
        event("t"),
    ]
    lines += [event("m"), {"ts_ms": 1}, {"status": "BEGIN", "id": "5:9"}, None, "", "null"]

    found = decoded(spark, table(), *lines)

    assert column(found, "_operation") == [*["upsert"] * 3, "delete", "truncate", *["none"] * 6]
    assert column(found, "_reason") == [None] * len(lines)


def test_what_cannot_be_read_is_told_and_the_rest_flows_on(spark: SparkSession) -> None:
    good = event("c", after={"id": 1, "name": "a"})
    deep = '{"op":"c","after":{"id":2,"name":' + "[" * 1500 + "]" * 1500 + "}}"
    lines: list[object] = [
        *("not json", '{"op":', "[1]", "5", '{"op":"c","after":5}', json.dumps(good) + " rest"),
        *("{'op':'c','after':{'id':1}}", '{"op":"c","after":{"id":NaN,"name":"a"}}'),
        *(deep, "\x00", event("x"), event("c"), event("c", after={"name": "b"})),
        event("c", after={"id": "abc", "name": "b"}),
        event("c", after={"id": 3}, source={"lsn": -1}),
        event("c", after={"id": 3}, source={"lsn": None}),
        "\ufeff" + json.dumps(good) + " \r\n",
        json.dumps(good | {"after": {"id": 4, "name": "x" * 5_000_000}}),
        '{"op":"c","op":"u","source":{"lsn":9},"after":{"id":5,"id":6,"name":"tw\\u0000ice"}}',
    ]

    found = decoded(spark, table(), *lines)

    assert column(found, "_reason") == [
        *["not_json"] * 10,
        *("unknown_operation", "illegal_change", "no_key", "bad_value", "bad_sequence"),
        *("bad_sequence", None, None, None),
    ]
    assert found[13]["_message"] == "column id: found abc, expected bigint"
    assert column(found[16:], "id") == [1, 4, 6]
    assert column(found[:16], "_operation") == [None] * 16


def test_a_record_with_anything_behind_it_is_no_record(spark: SparkSession) -> None:
    """Be it the end of another one: Spark reads the first object of a text, and no further."""
    good = json.dumps(event("c", after={"id": 1, "name": "}, {"}))
    block = json.dumps({"schema": {"fields": [{}, {}]}, "payload": event("c", after={"id": 1})})
    tails = ("}", "\t}", " rest}", ', "x": 1}', f",{good}", f" x{good}", f'"{good}', f"]{good}")
    whole = [good, block, good.replace("}, {", "} {"), good.replace("}, {", "{")]

    found = decoded(spark, table(), *whole, *[good + tail for tail in tails])
    blocks = decoded(spark, table(), *[block + tail for tail in tails])

    assert column(found, "_reason") == [None] * 4 + ["not_json"] * len(tails)
    assert column(blocks, "_reason") == ["not_json"] * len(tails)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"lsn": 255}, f"{255:016X}/{3:016X}"),
        ({"lsn": None, "sequence": '[null,"16"]'}, f"{16:016X}/{3:016X}"),
        ({"lsn": None, "sequence": '["16",null]'}, f"{16:016X}/{3:016X}"),
        ({"file": "bin.000007", "pos": 5, "row": 2}, f"{7:016X}/{5:016X}/{2:016X}"),
        ({"commit_scn": "9", "scn": "8"}, f"{9:016X}/{8:016X}/{3:016X}"),
        (
            {"commit_lsn": "0000002a:00000d50:0003", "change_lsn": "0000002a:00000d50:0002"},
            "0000002A00000D50/00030000002A0000/0D50000200000000",
        ),
    ],
)
def test_sequence_by_connector(spark: SparkSession, source: dict[str, Any], expected: str) -> None:
    transaction = {"id": "4:9", "total_order": 3}

    line = event("u", after={"id": 1}, source=source, transaction=transaction)
    [found] = decoded(spark, table(), line)

    assert found["_sequence"] == expected
    assert (found["_transaction"], found["_transaction_order"]) == ("4", 3)


def test_an_event_without_a_source_is_ordered_by_arrival_and_may_name_its_key_pk(
    spark: SparkSession,
) -> None:
    of = table(columns={"id": "string", "amt": "decimal(10,2)"})
    lines = [{"op": "c", "pk": "P", "after": {"id": "P", "amt": 1500}}, {"op": "d", "pk": "P"}]

    found = decoded(spark, of, *lines)

    first, second = column(found, "_sequence")
    assert first.split("/")[0] == ZERO
    assert first < second
    assert column(found, "id") == ["P", "P"]
    assert [str(found[0]["amt"]), found[1]["amt"]] == ["1500.00", None]


def test_only_op_r_tells_a_snapshot_and_an_incremental_one_has_no_id(spark: SparkSession) -> None:
    kinds = [("r", "last"), ("u", "true"), ("r", "incremental")]
    source = {"name": "shop", "lsn": 10}
    lines = [event(op, after={"id": 1}, source=source | {"snapshot": s}) for op, s in kinds]

    found = decoded(spark, table(), *lines)

    assert column(found, "_snapshot") == ["shop:10", None, None]
    assert column(found, "_snapshot_last") == [True, False, False]


def test_of_a_delete_only_the_key_is_read(spark: SparkSession) -> None:
    [found] = decoded(spark, table(), event("d", before={"id": 1, "name": "invented"}))

    assert (found["id"], found["name"]) == (1, None)


def test_a_placeholder_is_absent_where_one_can_occur(spark: SparkSession) -> None:
    row = {"id": 1, "name": PLACEHOLDER}
    moved = {"__debezium.oldkey": {"schema": {"type": "struct"}, "payload": {"id": 9}}}
    records = [
        record(event("u", after=row)),
        record(event("c", after=row)),
        record(event("c", after=row), headers=moved),
        record(event("r", after=row)),
        record(event("u", after=row, before={"id": 1, "name": "x"})),
    ]

    found = decoded_records(spark, table(), *records)

    assert column(found, "_absent") == [["name"], None, ["name"], None, None]
    assert column(found, "name") == [None, PLACEHOLDER, None, PLACEHOLDER, PLACEHOLDER]
    assert column(found, "_old_key") == [None, None, '{"id":9}', None, None]


@pytest.mark.parametrize(
    ("type", "token"),
    [
        ("binary", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("binary", PLACEHOLDER.encode().hex()),
        ("array<string>", [PLACEHOLDER]),
        ("array<int>", list(PLACEHOLDER.encode())),
    ],
)
def test_a_placeholder_has_a_form_for_each_type(
    spark: SparkSession, type: str, token: object
) -> None:
    of = table(columns={"id": "bigint", "large": type})

    [found] = decoded(spark, of, event("u", after={"id": 1, "large": token}))

    assert (found["large"], found["_absent"]) == (None, ["large"])


def test_new_columns_come_last_by_name_with_the_types_of_their_values(spark: SparkSession) -> None:
    after = {"id": 1, "b": 2, "a": ["x"], "c": None, "d": {"k": 1}, "e": 1.5, "f": True}

    [found] = decoded(spark, table(), event("c", after=after))

    assert list(found)[:8] == ["id", "name", "a", "b", "d", "e", "f", "_operation"]
    assert column([found], "a") == [["x"]]
    assert [found[c] for c in "bdef"] == [2, '{"k":1}', 1.5, True]


def test_new_columns_can_be_ignored(spark: SparkSession) -> None:
    of = table(schema_changes={"add_column": "ignore"})

    [found] = decoded(spark, of, event("c", after={"id": 1, "b": 2}))

    assert "b" not in found


def test_a_value_of_another_kind_than_learned_is_incompatible(spark: SparkSession) -> None:
    learned = {"id": LearnedColumn(type="bigint"), "name": LearnedColumn(type="bigint")}
    of = table().model_copy(update={"columns": learned})

    [found] = decoded(spark, of, event("c", after={"id": 1, "name": "text"}))

    assert found["_reason"] == "incompatible_schema"


def test_a_key_less_table_shows_the_old_row(spark: SparkSession) -> None:
    of = table(keys=(), columns={"id": "bigint", "at": "timestamp"})
    old, new = {"id": 1, "at": "2024-01-01T00:00:00Z"}, {"id": 2, "at": None}
    lines = [event("d", before=old), event("u", before=old, after=new), event("u", after=new)]

    found = decoded(spark, of, *lines)

    assert column(found, "id") == [1, 2, 2]
    assert column(found, "_reason") == [None, None, "no_key"]
    assert json.loads(found[1]["_old_key"]) == {"id": 1, "at": "2024-01-01T00:00:00.000Z"}


def test_a_batch_without_any_change_is_decoded(spark: SparkSession) -> None:
    found = decoded(spark, table(columns={}), "junk", None)

    assert column(found, "_reason") == ["not_json", None]


def test_names_that_differ_in_case_only_are_one_column(spark: SparkSession) -> None:
    [found] = decoded(spark, table(), event("c", after={"ID": 1, "Name": "a"}))

    assert (found["id"], found["name"]) == (1, "a")
    assert "Name" not in found
