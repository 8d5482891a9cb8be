from datetime import date
from decimal import Decimal

from pyspark.sql import SparkSession

from silver.contract import CHANGE_COLUMNS
from silver.decode.sequences import literal_sequence as literal
from tests.builders import ARRIVED_AT, at, bronze_rows, decoded, table
from tests.decoding import to_changes

UPDATES_MODE = '{"key": [1, "one"], "update": {"payload": "lorem ipsum", "date": "2022-02-22"}}'
ERASE = '{"key": [2, "two"], "erase": {}}'
IMAGES = """{"key": [1, 2, 3], "update": {},
 "newImage": {"textColumn": "value1", "intColumn": 101, "boolColumn": true},
 "oldImage": {"textColumn": null, "intColumn": 100, "boolColumn": false}}"""
STAMPED = """{"key": [1], "update": {"created": "2022-12-12T00:00:00.000000Z",
 "customer": "Name123"}, "ts": [1670792400, 562949953607163]}"""
STEP = 1670792400890


def test_the_documented_update_and_erase_are_decoded_and_typed(spark: SparkSession) -> None:
    documents = table("ydb", ["id", "name"], columns={"date": "date"})
    found = to_changes(bronze_rows(spark, [UPDATES_MODE, ERASE]), documents)
    assert decoded(found, "id", "name", "date", "payload", "_operation", "_reason") == [
        (1, "one", date(2022, 2, 22), "lorem ipsum", "upsert", None),
        (2, "two", None, None, "delete", None),
    ]
    business = ["id", "name", "date", "payload"]
    assert found.columns == [*business, *(column.name for column in CHANGE_COLUMNS)]


def test_the_documented_images_give_the_complete_new_row(spark: SparkSession) -> None:
    images = table("ydb", ["a", "b", "c"], columns={"later": "string"})
    found = to_changes(bronze_rows(spark, [IMAGES]), images)
    names = ("a", "b", "c", "boolColumn", "intColumn", "textColumn", "later", "_absent")
    assert decoded(found, *names) == [(1, 2, 3, True, 101, "value1", None, None)]


def test_the_documented_virtual_timestamp_gives_order_time_and_transaction(
    spark: SparkSession,
) -> None:
    stamped = table("ydb", ["id"], columns={"created": "timestamp"})
    in_milliseconds = {"key": [2], "update": {"customer": "b"}, "ts": [STEP, 7]}
    found = to_changes(bronze_rows(spark, [STAMPED, in_milliseconds]), stamped)
    assert decoded(found, "_sequence", "_transaction", "_source_time") == [
        (literal([1670792400, 562949953607163]), "1670792400/562949953607163", at(1670792400)),
        (literal([STEP, 7]), f"{STEP}/7", at(STEP / 1000)),
    ]
    assert decoded(found, "created", "customer")[0] == (at(1670803200), "Name123")


def test_an_update_carries_only_its_columns_and_a_replacement_carries_all(
    spark: SparkSession,
) -> None:
    partial = table("ydb", ["id"], columns={"a": "int", "b": "int"})
    lines = [
        {"key": [1], "update": {"a": 1}},
        {"key": [1], "update": {"a": None, "b": 2}},
        {"key": [1], "reset": {"a": 3}},
        {"key": [1], "reset": {}},
    ]
    assert decoded(to_changes(bronze_rows(spark, lines), partial), "a", "b", "_absent") == [
        (1, None, ["b"]),
        (None, 2, None),
        (3, None, None),
        (None, None, None),
    ]


def test_what_cannot_be_applied_becomes_a_dead_letter_that_says_why(spark: SparkSession) -> None:
    pairs = table("ydb", ["a", "b"], columns={"a": "bigint", "b": "bigint", "qty": "int"})
    cases: list[tuple[str, str]] = [
        ('{"key": [1, 2], "update": {"qty": 1}, "erase": {}}', "illegal_change"),
        ('{"key": [1, 2]}', "illegal_change"),
        ('{"key": [1, 2], "update": {}, "oldImage": {"qty": 1}}', "illegal_change"),
        ('{"key": [1, 2], "update": {}}', "illegal_change"),
        ('{"key": [1, 2], "update": 5}', "illegal_change"),
        ('{"key": [1, 2], "erase": {"qty": 1}}', "illegal_change"),
        ('{"update": {"qty": 1}}', "no_key"),
        ('{"key": [], "erase": {}}', "no_key"),
        ('{"key": [1, null], "erase": {}}', "no_key"),
        ('{"key": [1], "erase": {}}', "bad_value"),
        ('{"key": [1, 2, 3], "erase": {}}', "bad_value"),
        ('{"key": [1, "x"], "erase": {}}', "bad_value"),
        ('{"key": [1, 2], "update": {"qty": "many"}}', "bad_value"),
        ('{"key": [1, 2], "erase": {}, "ts": [1]}', "bad_sequence"),
        ('{"key": [1, 2], "erase": {}, "ts": [-1, 2]}', "bad_sequence"),
        ('{"key": [1, 2], "erase": {}', "not_json"),
        ('{"key": [1, 2], "erase": {}}{"key": [1, 3], "erase": {}}', "not_json"),
        ("[1]", "not_json"),
    ]
    found = to_changes(bronze_rows(spark, [line for line, _ in cases]), pairs)
    assert decoded(found, "_raw", "_reason") == cases
    assert decoded(found, "_operation") == [None] * len(cases)
    messages = decoded(found, "_message")
    assert "OLD_IMAGE" in messages[2]
    assert messages[12] == "column qty: found 'many', expected int"


def test_a_whole_record_with_anything_behind_it_is_no_record(spark: SparkSession) -> None:
    whole = '{"topic": "t", "offset": 1, "value": {"key": [1], "erase": {}}}'
    without = '{"topic": "t", "offset": 2, "value": null}'
    barrier = '{"topic": "t", "offset": 3, "value": {"resolved": [5, 0]}}'
    broken = [
        whole + ', "x": 1}',
        whole + whole,
        without + "}",
        whole.replace('e"', ""),
        barrier + "x",
    ]
    found = to_changes(
        bronze_rows(spark, [whole, without, barrier, *broken], whole=True), table("ydb", ["id"])
    )
    assert decoded(found, "_reason") == [None] * 3 + ["not_json"] * len(broken)
    assert decoded(found, "_operation") == ["delete", "none", "none"] + [None] * len(broken)


def test_an_erase_in_mode_old_image_can_be_applied(spark: SparkSession) -> None:
    line = {"key": [1], "erase": {}, "oldImage": {"qty": 1}}
    found = to_changes(bronze_rows(spark, [line]), table("ydb", ["id"]))
    assert decoded(found, "id", "_operation", "_reason") == [(1, "delete", None)]


def test_barriers_and_null_values_are_no_changes(spark: SparkSession) -> None:
    lines = ['{"resolved": [1670792500000, 0]}', None]
    found = to_changes(bronze_rows(spark, lines), table("ydb", ["id"]))
    assert decoded(found, "_operation", "_reason") == [("none", None)] * 2
    assert decoded(found, "_sequence")[0] == literal([1670792500000, 0])


def test_without_timestamps_the_offset_of_a_whole_record_is_the_order(spark: SparkSession) -> None:
    value = {"key": [1], "update": {"a": 1}}
    lines = [
        {"topic": "t", "partition": 3, "offset": 12, "key": None, "value": value},
        {"topic": "t", "partition": 3, "offset": 13, "value": '{"key": [1], "erase": {}}'},
        {"topic": "t", "partition": 3, "offset": 14, "value": None},
    ]
    found = to_changes(bronze_rows(spark, lines, whole=True), table("ydb", ["id"]))
    assert decoded(found, "_operation", "_sequence", "_position") == [
        ("upsert", literal([12]), "t/3/12"),
        ("delete", literal([13]), "t/3/13"),
        ("none", literal([14]), "t/3/14"),
    ]
    plain = to_changes(bronze_rows(spark, [value]), table("ydb", ["id"]))
    assert decoded(plain, "_sequence", "_source_time", "_position") == [
        (literal([0]), at(ARRIVED_AT.timestamp()), "/landing/t/1.jsonl:0")
    ]


def test_records_before_the_start_sequence_are_no_changes(spark: SparkSession) -> None:
    lines = [
        {"key": [1], "erase": {}, "ts": [100, 4]},
        {"key": [1], "update": {}, "ts": [99, 9]},
        {"key": [1], "erase": {}, "ts": [100, 5]},
    ]
    late = table("ydb", ["id"], source={"start_sequence": [100, 5]})
    found = to_changes(bronze_rows(spark, lines), late)
    assert decoded(found, "_operation") == ["none", "none", "delete"]
    assert decoded(found, "_reason") == [None, None, None]


def test_every_kind_of_value_becomes_its_declared_type(spark: SparkSession) -> None:
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
    found = to_changes(bronze_rows(spark, [line]), table("ydb", ["id"], columns=columns))
    assert decoded(found, *columns, "_reason") == [
        (
            Decimal(18446744073709551615),
            Decimal("1234567890123.123456789"),
            date(2022, 2, 22),
            at(1645524000),
            b"\x00\x01\xff",
            '{"b":1,"a":[true]}',
            0.1,
            None,
        )
    ]


def test_columns_named_like_keys_inside_an_image_are_left_alone(spark: SparkSession) -> None:
    line = {"key": [1], "update": {}, "newImage": {"id": 99, "a": 1}}
    found = to_changes(bronze_rows(spark, [line]), table("ydb", ["id"]))
    assert decoded(found, "id", "a") == [(1, 1)]
