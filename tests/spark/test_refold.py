"""The whole log folded anew: a full snapshot that began before what is applied already."""

from typing import Any

from pyspark.sql import SparkSession

from lakehouse.names import exists
from lakehouse.target import Target
from tests import lake
from tests.builders import table


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
