"""YDB's document on changefeeds: the records it shows, in every mode, as tables."""

import json
from typing import Any

from lakehouse.storage.lake import Lake
from tests.helpers import flat
from tests.helpers.builders import table

UPDATED = {"key": [1, "one"], "update": {"payload": "lorem ipsum", "date": "2022-02-22"}}
ERASED = {"key": [2, "two"], "erase": {}}
IMAGES = {
    "key": [1, 2, 3],
    "update": {},
    "newImage": {"textColumn": "value1", "intColumn": 101, "boolColumn": True},
    "oldImage": {"textColumn": None, "intColumn": 100, "boolColumn": False},
}
STAMPED = {
    "key": [1],
    "update": {"created": "2022-12-12T00:00:00.000000Z", "customer": "Name123"},
    "ts": [1670792400, 562949953607163],
}
SCHEMA = {
    "schema_version": 1,
    "schema": {"columns": [{"name": "id", "type": "Int64"}], "primary_key": ["id"]},
}


def before(stamp: int, **values: Any) -> dict[str, Any]:
    return {"key": [1, 2, 3], "update": {}, "newImage": values, "ts": [stamp, 1]}


def test_updates_mode_merges_the_columns_that_were_updated(lake: Lake) -> None:
    feed = table("ydb", ["id", "name"], columns={"date": "date", "payload": "string"})
    first = {"key": [1, "one"], "update": {"payload": "before"}}
    doomed = {"key": [2, "two"], "update": {"payload": "gone"}}
    lines = [first, doomed, {"key": [1, "one"], "update": {"date": "2020-01-01"}}, UPDATED, ERASED]
    flat.deliver(lake, feed, [*lines, {"key": [1, "one"], "update": {"payload": "new"}}])
    shown = flat.shown(lake, feed).selectExpr("id", "name", "payload", "string(date)")
    assert flat.rows(shown) == [(1, "one", "new", "2022-02-22")]


def test_image_modes_barriers_and_schema_records(lake: Lake) -> None:
    feed = table("ydb", ["a", "b", "c"], source={"start_sequence": [100, 0]})
    new_and_old = IMAGES | {"ts": [102, 1]}
    new = {name: part for name, part in IMAGES.items() if name != "oldImage"}
    only_new = new | {"key": [4, 5, 6], "ts": [101, 1]}
    old = {"key": [7, 8, 9], "update": {}, "oldImage": {"intColumn": 1}, "ts": [103, 1]}
    erased = {"key": [4, 5, 6], "erase": {}, "oldImage": {"intColumn": 101}, "ts": [104, 1]}
    too_old = before(99, textColumn="left out", intColumn=0, boolColumn=False)
    late = before(101, textColumn="late", intColumn=7, boolColumn=False)
    lines = [new_and_old, late, only_new, old, erased, too_old, {"resolved": [105, 0]}, SCHEMA]
    flat.deliver(lake, feed, lines)
    shown = flat.shown(lake, feed).select("a", "b", "c", "textColumn", "intColumn")
    assert flat.rows(shown) == [(1, 2, 3, "value1", 101)]
    changes = lake.spark.table(lake.name("silver", "t_changes"))
    kinds = changes.orderBy("_arrival").select("_operation", "_reason").collect()
    upsert, delete, nothing = ("upsert", None), ("delete", None), ("none", None)
    want = [upsert, upsert, upsert, (None, "illegal_change"), delete, nothing, nothing, nothing]
    assert [tuple(kind) for kind in kinds] == want


def test_virtual_timestamps_order_what_arrives_out_of_order(lake: Lake) -> None:
    feed = table("ydb", ["id"], columns={"created": "timestamp"}, stored_as_scd_type=2)
    later = {"key": [1], "update": {"customer": "Name456"}, "ts": [1670792401, 1]}
    flat.deliver(lake, feed, [json.dumps(later), json.dumps(STAMPED)])
    history = flat.shown(lake, feed, "t_history")
    versions = flat.rows(history.selectExpr("customer", "string(created)", "is_current"))
    at = "2022-12-12 00:00:00"
    assert versions == [("Name123", at, False), ("Name456", at, True)]
