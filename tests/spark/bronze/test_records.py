import json
from datetime import datetime

import pytest
from pyspark.sql import Row, SparkSession

from bronze.files.batches import with_origin


def shown(spark: SparkSession, *lines: str) -> list[Row]:
    frame = spark.createDataFrame(
        [(place, line) for place, line in enumerate(lines)], "n int, _raw string"
    )
    return with_origin(frame).orderBy("n").drop("n").collect()


def one(spark: SparkSession, record: object) -> Row:
    return shown(spark, json.dumps(record))[0]


def test_a_whole_record_tells_its_origin_in_its_own_text(spark: SparkSession) -> None:
    line = (
        '{"offset":7,"topic":"s.t","partition":3,"timestamp":1767323045678,'
        '"headers":{"a":"b"},"key":{"id":150},"value":{"op":"c"}}'
    )
    row = shown(spark, line)[0].asDict()
    at = datetime.fromisoformat("2026-01-02T03:04:05.678")
    assert row == {
        "_raw": line, "_whole": True, "_topic": "s.t", "_partition": 3, "_offset": 7,
        "_timestamp": at, "_key": '{"id":150}', "_headers": '{"a":"b"}',
    }  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        {"op": "c", "after": {"value": 1}, "offset": 1, "topic": "t"},
        {"schema": None, "payload": {"value": 1}},
        {"key": [1], "update": {"value": 2}},
        {"key": [1], "erase": {}, "value": 2},
        {"key": [1], "newImage": {"value": 2}},
        {"key": "a", "value": "b", "__op": "c"},
        {"key": "a", "value": None, "__deleted": "true"},
        {"ts_ms": 5},
        ["value"],
        "value",
    ],
)
def test_a_bare_change_is_no_whole_record(spark: SparkSession, record: object) -> None:
    row = one(spark, record)
    assert (row["_whole"], row["_topic"], row["_offset"], row["_key"]) == (False, None, None, None)


@pytest.mark.parametrize(
    "record",
    [
        {"value": None},
        {"key": {"id": 1}, "value": None},
        {"topic": "t", "offset": 0},
        {"offset": 0, "key": None, "topic": "t", "value": None},
        {"value": "text"},
    ],
)
def test_a_null_value_is_a_whole_record_too(spark: SparkSession, record: object) -> None:
    assert one(spark, record)["_whole"] is True


def test_a_record_of_kcats_tells_its_origin_under_kcats_names(spark: SparkSession) -> None:
    origin = {"topic": "t", "partition": 1, "offset": 2, "ts": 1767323045678, "headers": ["h", "1"]}
    row = one(spark, origin | {"key": '{"id":1}', "payload": '{"op":"c"}'})
    assert (row["_whole"], row["_partition"], row["_offset"]) == (True, 1, 2)
    assert (row["_key"], row["_headers"]) == ('{"id":1}', '["h","1"]')
    assert row["_timestamp"] == datetime.fromisoformat("2026-01-02T03:04:05.678")
    assert one(spark, origin | {"key": None, "payload": None})["_whole"] is True
    assert one(spark, {"topic": "t", "offset": 2, "payload": "x"})["_whole"] is False


@pytest.mark.parametrize("junk", ["", "value", '{"value":', '"offset" "value"', "{}", "null"])
def test_what_is_no_json_is_no_whole_record(spark: SparkSession, junk: str) -> None:
    assert shown(spark, junk)[0]["_whole"] is False


def test_members_of_a_wrong_kind_are_null_and_fail_nothing(spark: SparkSession) -> None:
    record = {"offset": "x", "partition": 2**40, "timestamp": 2**62, "key": "k", "value": 1}
    row = one(spark, record)
    found = [row[column] for column in ("_offset", "_partition", "_timestamp", "_key", "_whole")]
    assert found == [None, None, None, "k", True]


def test_a_timestamp_may_be_iso_text(spark: SparkSession) -> None:
    row = one(spark, {"timestamp": "2026-01-02T04:04:05.678+01:00", "value": 1})
    assert row["_timestamp"] == datetime.fromisoformat("2026-01-02T03:04:05.678")
