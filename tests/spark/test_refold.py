"""The whole log folded anew: a full snapshot that began before what is applied already."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.names import exists
from lakehouse.target import Target
from tests import core, lake, oracle
from tests.builders import table
from tests.oracle import Event


def record(offset: int, op: str, text: str, snapshot: str = "false") -> dict[str, Any]:
    """A whole record of one row; the snapshot's rows share a place in the write-ahead log."""
    lsn = 100 if op == "r" else 100 + offset
    source = {"connector": "postgresql", "snapshot": snapshot, "lsn": lsn, "ts_us": lsn}
    value = {"before": None, "after": {"id": offset % 10, "text": text}, "source": source, "op": op}
    return {"topic": "s.t", "partition": 0, "offset": offset, "key": None, "value": value}


def test_a_table_without_dead_letters_gets_none_when_it_is_folded_anew(
    spark: SparkSession, target: Target
) -> None:
    config = table("debezium", ["id"], {"topic": "s.t"}, columns={"id": "int", "text": "string"})
    lake.arrive(spark, target, config, [record(11, "u", "newest")], whole=True)
    lake.settle(spark, target, [config])
    taken = [record(1, "r", "old", "first"), record(2, "r", "b", "last")]
    lake.arrive(spark, target, config, taken, batch=2, whole=True)
    lake.settle(spark, target, [config])
    found = {row["id"]: row["text"] for row in lake.rows(spark, target, "t")}
    assert found == {1: "newest", 2: "b"}
    assert not exists(spark, target, "silver", "t_dead_letters")


BROKEN_OFF = [
    Event("upsert", 1, 3, (("a", "before"), ("b", "x")), position=1, time=1),
    Event("upsert", 90, 1, (("a", "s1"), ("b", "x")), position=2, time=2, snapshot="s:90"),
    Event("upsert", 91, 1, (("a", "v1"), ("b", "x")), position=9, time=9),
    Event("upsert", 95, 2, (("a", "s2"), ("b", "y")), position=12, time=12, snapshot="s:95"),
]
TAKEN_AGAIN = [
    Event("upsert", 90, 4, (("a", "s4"), ("b", "y")), None, 5, 5, snapshot="s:92", last=True),
]


@pytest.mark.parametrize("scd", [1, 2])
@pytest.mark.parametrize(
    ("events", "cut"), [(BROKEN_OFF, 4), (BROKEN_OFF, 3), ([*BROKEN_OFF[:3], *TAKEN_AGAIN], 3)]
)
def test_a_snapshot_without_an_end_is_in_force_where_the_stream_follows_it(
    spark: SparkSession, target: Target, scd: int, events: list[Event], cut: int
) -> None:
    """Whether a newer snapshot comes later, or one that the stream followed in truth."""
    config = core.table(scd)
    core.deliver(spark, target, config, events[:cut], 0, 0)
    if events[cut:]:
        core.deliver(spark, target, config, events[cut:], cut, 1)
    want = oracle.outcome({*events}, core.COLUMNS, core.COLUMNS)
    got = core.outcome(spark, target, config)
    assert got.current == want.current
    assert scd == 1 or got.history == want.history
