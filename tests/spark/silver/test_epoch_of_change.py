"""A change's place among full snapshots, however many there were."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from silver.state.epochs import Epoch, epoch_number_column

COLUMNS = (
    "_snapshot string, _topic string, _partition int, _offset bigint, _arrival string,"
    " _sequence string, us bigint"
)

SECOND = 1_000_000


def begun(number: int, offset: int) -> Epoch:
    """A snapshot of a topic's partition 0, the even ones also of 1, that began at an offset."""
    first = {"t/0": f"{offset:020d}"} | ({} if number % 2 else {"t/1": f"{offset * 2:020d}"})
    return Epoch(f"s:{number * 100}", number, number * 100 * SECOND, first, True)


def expected(epochs: list[Epoch], row: tuple[str | None, int, int, int, int]) -> int:
    snapshot, partition, offset, lsn, us = row
    found = 0
    for known in epochs:
        began = known.started or 0
        if snapshot is not None:
            found = known.number if snapshot == known.snapshot else found
            continue
        place = known.first.get(f"t/{partition}")
        begins = us >= began if place is None else f"{offset:020d}" >= place
        redelivered = lsn < int(known.snapshot[2:]) and us < began - 60 * SECOND
        found = known.number if begins and not redelivered else found
    return found


@pytest.mark.parametrize("count", [0, 1, 4, 5, 30, 1000])
def test_a_change_belongs_to_the_newest_snapshot_that_it_came_after(
    spark: SparkSession, count: int
) -> None:
    epochs = [begun(number, number * 10) for number in range(1, count + 1)]
    numbers = sorted({0, 1, 2, 3, 7, count // 2, count - 1, count, count + 1} - {-1})
    changes: list[tuple[str | None, int, int, int, int]] = [
        (f"s:{number * 100}", 0, number * 10, number * 100, number * 100 * SECOND)
        for number in numbers
    ]
    changes += [
        (None, partition, number * 10 + 5, number * 100 + lower, (number * 100 + earlier) * SECOND)
        for number in numbers
        for partition in (0, 1)
        for lower in (-250, 50)
        for earlier in (-250, -59, 50)
    ]
    rows = [
        (s, "t", p, o, f"{at:04d}", f"{max(0, lsn):016X}", us)
        for at, (s, p, o, lsn, us) in enumerate(changes)
    ]
    frame = spark.createDataFrame(rows, COLUMNS).withColumn(
        "_source_time", F.timestamp_micros("us")
    )
    found = (
        frame.select("_arrival", epoch_number_column(epochs).alias("n"))
        .orderBy("_arrival")
        .collect()
    )
    kept = [(s, p, o, max(0, lsn), us) for s, p, o, lsn, us in changes]
    assert [row["n"] for row in found] == [expected(epochs, change) for change in kept]
