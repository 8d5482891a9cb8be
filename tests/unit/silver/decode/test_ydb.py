from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.columns import known_columns, shown_by, with_shown
from silver.decode.protocols.ydb import YdbDecoder, YdbDiscovery
from silver.decode.values.sequences import literal_sequence
from tests.helpers.builders import table
from tests.helpers.flat_records import ARRIVED_AT, decoded, micros, record

UPDATES_MODE = '{"key": [1, "one"], "update": {"payload": "lorem ipsum", "date": "2022-02-22"}}'
ERASE = '{"key": [2, "two"], "erase": {}}'
IMAGES = """{"key": [1, 2, 3], "update": {},
 "newImage": {"textColumn": "value1", "intColumn": 101, "boolColumn": true},
 "oldImage": {"textColumn": null, "intColumn": 100, "boolColumn": false}}"""
STAMPED = """{"key": [1], "update": {"created": "2022-12-12T00:00:00.000000Z",
 "customer": "Name123"}, "ts": [1670792400, 562949953607163]}"""
STEP = 1670792400890
DAY = (date(2022, 2, 22) - date(1970, 1, 1)).days


def test_the_documented_update_and_erase_are_decoded_and_typed() -> None:
    documents = table("ydb", ["id", "name"], columns={"date": "date"})
    found = decoded(documents, [UPDATES_MODE, ERASE])
    assert found.columns.names == ["id", "name", "date", "payload"]
    assert found.values("id", "name", "date", "payload") == [
        (1, "one", DAY, "lorem ipsum"),
        (2, "two", None, None),
    ]
    assert found.told("operation", "reason") == [("upsert", None), ("delete", None)]


def test_the_documented_images_give_the_complete_new_row() -> None:
    images = table("ydb", ["a", "b", "c"], columns={"later": "string"})
    found = decoded(images, [IMAGES])
    names = ("a", "b", "c", "boolColumn", "intColumn", "textColumn", "later")
    assert found.values(*names) == [(1, 2, 3, True, 101, "value1", None)]
    assert found.told("absent") == [None]


def test_the_documented_virtual_timestamp_gives_order_time_and_transaction() -> None:
    stamped = table("ydb", ["id"], columns={"created": "timestamp"})
    in_milliseconds = {"key": [2], "update": {"customer": "b"}, "ts": [STEP, 7]}
    found = decoded(stamped, [STAMPED, in_milliseconds])
    assert found.told("sequence", "transaction", "source_time") == [
        (
            literal_sequence([1670792400, 562949953607163]),
            "1670792400/562949953607163",
            1670792400 * 1_000_000,
        ),
        (literal_sequence([STEP, 7]), f"{STEP}/7", STEP * 1_000),
    ]
    assert found.values("created", "customer")[0] == (micros("2022-12-12T00:00:00"), "Name123")


@pytest.mark.parametrize(
    ("count", "time"),
    [
        (1_670_792_400, 1_670_792_400_000_000),
        (1_670_792_400_890, 1_670_792_400_890_000),
        (1_670_792_400_890_123, 1_670_792_400_890_123),
        (1_670_792_400_890_123_456, 1_670_792_400_890_123),
        (2**64 - 1, ARRIVED_AT),
    ],
)
def test_the_unit_of_a_virtual_timestamp_is_told_by_its_size(count: int, time: int) -> None:
    found = decoded(table("ydb", ["id"]), [{"key": [1], "erase": {}, "ts": [count, 1]}])
    assert found.told("source_time", "reason") == [(time, None)]


def test_an_update_carries_only_its_columns_and_a_replacement_carries_all() -> None:
    partial = table("ydb", ["id"], columns={"a": "int", "b": "int"})
    lines = [
        {"key": [1], "update": {"a": 1}},
        {"key": [1], "update": {"a": None, "b": 2}},
        {"key": [1], "reset": {"a": 3}},
        {"key": [1], "reset": {}},
        {"key": [1], "update": {"a": 1}, "newImage": None},
    ]
    found = decoded(partial, lines)
    assert found.values("a", "b") == [(1, None), (None, 2), (3, None), (None, None), (1, None)]
    assert found.told("absent") == [["b"], None, None, None, ["b"]]


def test_nulls_to_ignore_are_absent_in_a_complete_row_too() -> None:
    sparse = table("ydb", ["id"], columns={"a": "int", "b": "int"}, ignore_null_updates=["a"])
    lines = [{"key": [1], "reset": {"b": None}}, {"key": [1], "update": {"a": None}}]
    assert decoded(sparse, lines).told("absent") == [["a"], ["a", "b"]]


BAD: list[tuple[str, str]] = [
    ('{"key": [1, 2], "update": {"qty": 1}, "erase": {}}', "illegal_change"),
    ('{"key": [1, 2]}', "illegal_change"),
    ("{}", "illegal_change"),
    ('{"key": [1, 2], "update": {}, "oldImage": {"qty": 1}}', "illegal_change"),
    ('{"key": [1, 2], "update": {}}', "illegal_change"),
    ('{"key": [1, 2], "update": 5}', "illegal_change"),
    ('{"key": [1, 2], "erase": {"qty": 1}}', "illegal_change"),
    ('{"key": [1, 2], "erase": 0}', "illegal_change"),
    ('{"update": {"qty": 1}}', "no_key"),
    ('{"key": [], "erase": {}}', "no_key"),
    ('{"key": 1, "erase": {}}', "no_key"),
    ('{"key": [1], "erase": {}}', "bad_value"),
    ('{"key": [1, 2, 3], "erase": {}}', "bad_value"),
    ('{"key": [1, "x"], "erase": {}}', "bad_value"),
    ('{"key": [1, 2], "update": {"qty": "many"}}', "bad_value"),
    ('{"key": [1, 2], "erase": {}, "ts": [1]}', "bad_sequence"),
    ('{"key": [1, 2], "erase": {}, "ts": 1}', "bad_sequence"),
    ('{"key": [1, 2], "erase": {}, "ts": [-1, 2]}', "bad_sequence"),
    ('{"key": [1, 2], "erase": {}, "ts": [1, true]}', "bad_sequence"),
    ('{"key": [1, 2], "erase": {}, "ts": [1, 18446744073709551616]}', "bad_sequence"),
    ('{"key": [1, 2], "erase": {}', "not_json"),
    ('{"key": [1, 2], "erase": {}}{"key": [1, 3], "erase": {}}', "not_json"),
    ("[1]", "not_json"),
    ("", "not_json"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_what_cannot_be_applied_becomes_a_dead_letter(line: str, reason: str) -> None:
    pairs = table("ydb", ["a", "b"], columns={"a": "bigint", "b": "bigint", "qty": "int"})
    assert decoded(pairs, [line]).told("reason", "operation", "absent") == [(reason, None, None)]


def test_a_dead_letter_says_why() -> None:
    pairs = table("ydb", ["a", "b"], columns={"a": "bigint", "b": "bigint", "qty": "int"})
    lines = [
        '{"key": [1, 2], "update": {}, "oldImage": {"qty": 1}}',
        '{"key": [1, 2], "update": {"qty": "many"}}',
        '{"key": [1], "erase": {}}',
        '{"key": [1, 2], "erase": {}, "ts": [1]}',
        '{"before": null, "after": {"a": 1}, "op": "c"}',
    ]
    messages = decoded(pairs, lines).told("message")
    assert "OLD_IMAGE" in messages[0]
    assert messages[1:] == [
        "column qty: found 'many', expected int",
        "key with 1 components, expected the 2 of a, b",
        "ts: found [1], expected [step, txId]",
        "0 of update, reset and erase, expected exactly one; the record has before, after, op",
    ]


def test_a_dead_letter_keeps_the_key_and_the_sequence_that_could_be_read() -> None:
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})
    found = decoded(typed, [{"key": [7], "update": {"qty": "x"}, "ts": [5, 6]}])
    assert found.values("id", "qty") == [(7, None)]
    assert found.told("sequence") == [literal_sequence([5, 6])]


def test_an_update_of_keys_alone_is_a_change_of_a_table_that_has_no_other_columns() -> None:
    keys = known_columns(table("ydb", ["id"], columns={"id": "int"}), {})
    change = YdbDecoder(table("ydb", ["id"]), keys).decode(record({"key": [1], "update": {}}))
    assert (change.operation, list(change.values)) == ("upsert", [1])


WRITES: dict[str, Any] = {"key": [1], "update": {"qty": 5}, "ts": [1, 1]}
KEYS_ALONE: dict[str, Any] = {"key": [2], "update": {}, "ts": [1, 2]}


def test_a_row_of_keys_alone_can_be_written_where_other_updates_have_columns() -> None:
    found = decoded(table("ydb", ["id"], columns={"id": "int", "qty": "int"}), [WRITES, KEYS_ALONE])

    assert found.told("operation", "absent") == [("upsert", None), ("upsert", ["qty"])]
    assert found.values("id", "qty") == [(1, 5), (2, None)]


@pytest.mark.parametrize(
    "other",
    [
        {"key": [1], "erase": {}},
        {"key": [1], "reset": {"qty": 5}},
        {"key": [1], "update": {}, "newImage": {"qty": 5}},
        {"key": [1], "update": {}, "oldImage": {"qty": 5}},
        {"key": [1], "update": 5},
    ],
)
def test_an_update_without_columns_is_not_guessed_at_elsewhere(other: dict[str, Any]) -> None:
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})

    assert decoded(typed, [other, KEYS_ALONE]).told("reason")[1] == "illegal_change"


def test_an_update_with_its_old_row_alone_does_not_say_what_was_written() -> None:
    old = {"key": [2], "update": {}, "oldImage": {"qty": 5}}
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})

    assert decoded(typed, [WRITES, old]).told("reason") == [None, "illegal_change"]


def test_the_mode_that_earlier_batches_showed_is_known() -> None:
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})
    shown = shown_by(decoded(typed, [WRITES]).columns)
    known = known_columns(typed, {})

    unknown = YdbDecoder(typed, known)
    assert [unknown.decode(record(line)).mismatched for line in (KEYS_ALONE, WRITES)] == [
        False,
        True,
    ]
    knows = YdbDecoder(typed, with_shown(known, shown))
    change = knows.decode(record(KEYS_ALONE))
    assert (change.operation, change.absent, change.mismatched) == ("upsert", ["qty"], False)
    assert not knows.decode(record(WRITES)).mismatched


ERASES: dict[str, Any] = {"key": [4], "erase": {}, "ts": [1, 4]}
NEW_ROW: dict[str, Any] = {"key": [3], "update": {}, "newImage": {"qty": 6}, "ts": [1, 3]}
RESETS: dict[str, Any] = {"key": [5], "reset": {}, "ts": [1, 5]}


@pytest.mark.parametrize(
    ("mode", "applied"),
    [
        ("updates", [KEYS_ALONE, WRITES, RESETS]),
        ("new_image", [NEW_ROW]),
        ("new_and_old_images", [NEW_ROW]),
        ("old_image", []),
        ("keys_only", []),
    ],
)
def test_the_declared_mode_says_which_updates_tell_what_they_wrote(
    mode: str, applied: list[dict[str, Any]]
) -> None:
    lines = [KEYS_ALONE, WRITES, RESETS, *([] if mode == "updates" else [NEW_ROW]), ERASES]
    typed = table("ydb", ["id"], {"feed_mode": mode}, columns={"id": "int", "qty": "int"})
    one = YdbDecoder(typed, known_columns(typed, {}))

    for line in lines:
        change = one.decode(record(line))
        fine = line in applied or line is ERASES
        assert change.reason == (None if fine else "illegal_change"), line
        assert fine or f"source.feed_mode: {mode}" in str(change.message)
        assert not change.mismatched


def test_an_update_that_may_be_of_a_row_of_keys_alone_names_the_way_out() -> None:
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})

    [change] = decoded(typed, [KEYS_ALONE]).changes
    assert "declare source.feed_mode: updates" in str(change.message)


def test_a_replacement_with_its_old_row_alone_does_not_say_what_was_written() -> None:
    old = RESETS | {"oldImage": {"qty": 5}}
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})

    assert decoded(typed, [RESETS, old]).told("reason") == [None, "illegal_change"]


def test_one_of_several_feeds_says_nothing_of_the_others_mode() -> None:
    feeds = [{"format": "ydb", "path": path} for path in ("a", "b")]
    both: dict[str, Any] = {"table": "t", "keys": ["id"], "sources": feeds}
    typed = Table.model_validate(both | {"columns": {"id": "int", "qty": "int"}})
    found = decoded(typed, [WRITES, KEYS_ALONE])

    assert found.told("reason") == [None, "illegal_change"]
    earlier = with_shown(known_columns(typed, {}), {"feed mode": "UPDATES"})
    one = YdbDecoder(typed, earlier)
    changes = [one.decode(record(line)) for line in (WRITES, KEYS_ALONE)]
    assert [change.reason for change in changes] == [None, "illegal_change"]
    assert not any(change.mismatched for change in changes)


def test_discoveries_of_two_tasks_know_the_mode() -> None:
    typed = table("ydb", ["id"], columns={"id": "int", "qty": "int"})
    one, other = (YdbDiscovery(typed, known_columns(typed, {})) for _ in range(2))
    other.look(record(WRITES), "0")
    one.merge(other)

    assert one.settle()[0].feed_mode == "UPDATES"


def test_a_whole_record_with_anything_behind_it_is_no_record() -> None:
    whole = '{"topic": "t", "offset": 1, "value": {"key": [1], "erase": {}}}'
    without = '{"topic": "t", "offset": 2, "value": null}'
    barrier = '{"topic": "t", "offset": 3, "value": {"resolved": [5, 0]}}'
    broken = [
        whole + ', "x": 1}',
        whole + whole,
        without + "}",
        whole.replace('e"', ""),
        barrier + "x",
        '{"topic": "t", "offset": 4, "value": "no object"}',
        '{"topic": "t", "offset": 5, "value": [1]}',
    ]
    found = decoded(table("ydb", ["id"]), [whole, without, barrier, *broken], whole=True)
    assert found.told("reason") == [None] * 3 + ["not_json"] * len(broken)
    assert found.told("operation") == ["delete", "none", "none"] + [None] * len(broken)


def test_an_erase_in_mode_old_image_can_be_applied() -> None:
    found = decoded(table("ydb", ["id"]), [{"key": [1], "erase": {}, "oldImage": {"qty": 1}}])
    assert found.values("id") == [1]
    assert found.told("operation", "reason") == [("delete", None)]


def test_barriers_schema_records_and_null_values_are_no_changes() -> None:
    lines = ['{"resolved": [1670792500000, 0]}', '{"tableChanges": []}', '{"newSchema": 1}', None]
    found = decoded(table("ydb", ["id"]), lines)
    assert found.told("operation", "reason") == [("none", None)] * 4
    assert found.told("sequence")[0] == literal_sequence([1670792500000, 0])


def test_without_timestamps_the_offset_of_a_whole_record_is_the_order() -> None:
    value = {"key": [1], "update": {"a": 1}}
    lines: list[Any] = [
        {"topic": "t", "partition": 3, "offset": 12, "key": None, "value": value},
        {"topic": "t", "partition": 3, "offset": 13, "value": '{"key": [1], "erase": {}}'},
        {"topic": "t", "partition": 3, "offset": 14, "value": None},
        {"topic": "t", "partition": 3, "offset": -1, "value": {"key": [1], "erase": {}}},
    ]
    found = decoded(table("ydb", ["id"]), lines, whole=True)
    assert found.told("operation", "sequence") == [
        ("upsert", literal_sequence([12])),
        ("delete", literal_sequence([13])),
        ("none", literal_sequence([14])),
        (None, None),
    ]
    assert found.told("message")[3] == "offset: found -1, expected one from 0"
    plain = decoded(table("ydb", ["id"]), [value])
    assert plain.told("sequence", "source_time") == [(literal_sequence([0]), ARRIVED_AT)]


def test_without_a_time_of_its_own_a_change_has_its_records() -> None:
    found = decoded(table("ydb", ["id"]), [{"key": [1], "erase": {}}], timestamp=5)
    assert found.told("source_time") == [5]


def test_records_before_the_start_sequence_are_no_changes() -> None:
    lines = [
        {"key": [1], "erase": {}, "ts": [100, 4]},
        {"key": [1], "update": {}, "ts": [99, 9]},
        {"key": [1], "erase": {}, "ts": [100, 5]},
    ]
    late = table("ydb", ["id"], source={"start_sequence": [100, 5]})
    assert decoded(late, lines).told("operation", "reason") == [
        ("none", None),
        ("none", None),
        ("delete", None),
    ]
    other = table("ydb", ["id"], source={"start_sequence": [100, 5], "topic": "other"})
    assert decoded(other, lines[:1], topic="this").told("operation") == ["delete"]


def test_every_kind_of_value_becomes_its_declared_type() -> None:
    columns = {
        "id": "decimal(20,0)",
        "price": "decimal(22,9)",
        "day": "date",
        "second": "timestamp",
        "bytes": "binary",
        "document": "string",
        "ratio": "double",
    }
    update = {
        "price": "1234567890123.123456789",
        "day": "2022-02-22",
        "second": "2022-02-22T10:00:00Z",
        "bytes": "AAH/",
        "document": {"b": 1, "a": [True]},
        "ratio": 0.1,
    }
    line = {"key": [18446744073709551615], "update": update}
    found = decoded(table("ydb", ["id"], columns=columns), [line])
    assert found.told("reason") == [None]
    assert found.values(*columns) == [
        (
            Decimal(18446744073709551615),
            Decimal("1234567890123.123456789"),
            DAY,
            1645524000 * 1_000_000,
            b"\x00\x01\xff",
            '{"b":1,"a":[true]}',
            0.1,
        )
    ]


def test_columns_named_like_keys_inside_an_image_are_left_alone() -> None:
    line = {"key": [1], "update": {}, "newImage": {"id": 99, "a": 1}}
    found = decoded(table("ydb", ["id"]), [line])
    assert found.values("id", "a") == [(1, 1)]


def test_a_null_in_a_column_that_must_have_a_value_is_a_dead_letter_where_it_is_carried() -> None:
    strict = table("ydb", ["id"], columns={"a": {"type": "int", "nullable": False}, "b": "int"})
    lines = [
        {"key": [1], "update": {"a": None}},
        {"key": [1], "update": {"b": 1}},
        {"key": [1], "reset": {"b": 1}},
        {"key": [1], "erase": {}},
    ]
    found = decoded(strict, lines)
    assert found.told("reason") == ["bad_value", None, "bad_value", None]
    wanted = "column a: found null, expected a value (nullable: false)"
    assert found.told("message") == [wanted, None, wanted, None]


def test_a_key_without_a_type_takes_that_of_its_values_and_the_next_ones_must_fit() -> None:
    found = decoded(table("ydb", ["id"]), [{"key": [1], "erase": {}}])
    assert found.types() == {"id": "bigint"}
    learned: dict[str, T.DataType] = {"id": T.LongType()}
    texts = decoded(table("ydb", ["id"]), [{"key": ["x"], "erase": {}}], learned=learned)
    assert texts.told("reason", "message") == [
        ("bad_value", "column id: found 'x', expected bigint")
    ]


def test_a_key_part_may_be_null_unless_the_table_says_that_it_cannot() -> None:
    columns = {"tenant": "string", "id": {"type": "bigint", "nullable": False}}
    lines = [
        '{"key": [null, 1], "update": {"name": "b"}, "ts": [1, 2]}',
        '{"key": [null, 2], "erase": {}, "ts": [1, 4]}',
        '{"key": ["t", null], "erase": {}, "ts": [1, 5]}',
    ]

    found = decoded(table("ydb", ["tenant", "id"], columns=columns), lines)

    assert found.values("tenant", "id") == [(None, 1), (None, 2), (None, None)]
    assert found.told("operation", "reason") == [
        ("upsert", None),
        ("delete", None),
        (None, "no_key"),
    ]


def test_a_key_part_that_does_not_fit_is_no_null() -> None:
    of = table("ydb", ["tenant", "id"], columns={"tenant": "int", "id": "int"})

    found = decoded(of, ['{"key": ["x", 1], "update": {"name": "b"}, "ts": [1, 2]}'])

    assert found.told("reason") == ["bad_value"]
    assert found.values("tenant", "id") == [(None, None)]


@pytest.mark.parametrize(("format", "keys"), [("ydb", {"a", "b"}), ("rows", {"b"})])
def test_which_keys_may_be_null(format: str, keys: set[str]) -> None:
    columns = {"a": "int", "b": {"type": "int", "nullable": True}, "c": "int"}
    more = {"sequence_by": "c"} if format == "rows" else {}
    assert table(format, ["a", "b"], columns=columns, **more).nullable_keys == keys
