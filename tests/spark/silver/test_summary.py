"""What the write of a batch tells of it, beside what a look at the log tells afterwards."""

from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake
from silver.changelog import log
from silver.run import SilverTable
from silver.state.key_ranges import list_bounded_keys
from silver.state.summary import summarize
from tests.helpers import core
from tests.helpers.oracle import Event

WHOLE, PART = (("a", "a"), ("b", "b")), (("a", "c"),)
STREAMED = [
    Event("upsert", 3, 1, WHOLE, position=1),
    Event("upsert", 4, 1, PART, position=2),
    Event("delete", 5, 1, position=3),
    Event("upsert", 6, 2, PART, old_key=1, position=4),
    Event("truncate", 7, position=5),
]


def taken(lsn: int, position: int, last: bool) -> Event:
    """A row of the full snapshot at a place in the write-ahead log."""
    return Event("upsert", lsn, position, WHOLE, position=position, snapshot=f"s:{lsn}", last=last)


@pytest.mark.parametrize(
    ("events", "tells"),
    [
        (STREAMED, True),
        ([taken(1, 1, False), taken(1, 2, True), *STREAMED], True),
        ([taken(1, 1, True), taken(2, 2, False)], False),
    ],
)
def test_a_write_tells_what_the_log_holds_or_nothing(
    spark: SparkSession, target: Target, events: list[Event], tells: bool
) -> None:
    config = core.table()
    rows = local_rows(spark, [core.change(e, at, 1) for at, e in enumerate(events)], core.SCHEMA)
    before = datetime.now(timezone.utc)
    told = log.append_batch(SilverTable(Lake(spark, target), config), rows, 1).summary()
    written = log.read_log(SilverTable.at(spark, target, config))
    found = summarize(written, list_bounded_keys(config, written.schema))
    assert found.came is None
    counted = told and told.replace(came=None, first_order=None, last_order=None)
    assert counted == (found if tells else None)
    if told is not None:
        assert told.first_order and told.last_order and told.first_order <= told.last_order
        assert told.came is not None
        came = datetime.fromtimestamp(told.came / 1_000_000, timezone.utc)
        assert before - timedelta(seconds=1) < came < datetime.now(timezone.utc)
