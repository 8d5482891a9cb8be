"""Tables of so many columns that Spark must not conclude from one what holds of the others."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold import job as gold
from gold.views import agreement
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from silver.storage.stages import add_plan_barrier
from tests.helpers import lakes
from tests.helpers.builders import table

COLUMNS = 24
LONG = 180.0
BAD = {"type": "expect_column_values_to_not_be_in_set", "column": "c0", "value_set": ["bad"]}
DEBEZIUM: dict[str, Any] = {"format": "debezium"}
ROWS: dict[str, Any] = {"format": "rows", "sequence_by": "at"}

Line = Callable[[int, str, int], dict[str, object]]


def row(key: int, text: str, at: int) -> dict[str, object]:
    return {"id": key, "at": at} | {f"c{number}": text for number in range(COLUMNS)}


def event(key: int, text: str, at: int) -> dict[str, object]:
    source = {"connector": "postgresql", "name": "s", "ts_ms": at, "lsn": at, "txId": at}
    return {"before": None, "after": row(key, text, at), "source": source, "op": "c", "ts_ms": at}


def of(options: dict[str, Any], rules: list[dict[str, Any]]) -> Table:
    return table(keys=["id"], expectations=rules, **options)


def in_time(work: Callable[[], Any]) -> Any:
    """What the work gives; fails where it does not end: of some plans the optimizer never does."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(LONG)
    assert done, "it failed or did not end"
    return done[0]


def test_a_filter_of_a_condition_of_all_columns_is_planned(spark: SparkSession) -> None:
    texts = spark.createDataFrame([row(1, "1", 1), row(2, "a", 2)])
    names = [name for name in texts.columns if name.startswith("c")]
    numbers = {name: F.col(name).try_cast("int") for name in names}
    faults = [F.when(number.isNull(), F.lit(name)) for name, number in numbers.items()]
    fault = F.coalesce(*faults).alias("fault")
    decoded = texts.select("id", fault, *[n.alias(name) for name, n in numbers.items()])
    sound = add_plan_barrier(decoded).where("fault IS NULL")
    assert [found["id"] for found in in_time(sound.join(texts.select("id"), "id").collect)] == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "line"),
    [(DEBEZIUM, event), (DEBEZIUM | {"stored_as_scd_type": 2}, event), (ROWS, row)],
    ids=["debezium", "history", "rows"],
)
def test_a_wide_table_is_verified_and_its_dead_letters_are_replayed(
    lake: Lake, options: dict[str, Any], line: Line
) -> None:
    strict, loose = of(options, [BAD]), of(options, [])
    changes = [line(1, "old", 1), line(2, "kept", 2), line(1, "new", 3), line(3, "bad", 4)]
    lakes.arrive(lake, strict, changes)
    lakes.settle(lake, [strict])
    more = agreement.build_gold_laws(lake, strict)
    laws = in_time(lambda: verify(lake, strict, more))
    assert {law.law: law.first for law in laws if not law.holds} == {}
    done = in_time(lambda: replay_table(SilverTable(lake, loose), F.lit(True), "replay"))
    assert (done.tried, done.resolved) == (1, 1)
    gold.publish(lake, [loose], "run", lakes.quiet)
    shown = sorted((found["id"], found["c9"]) for found in lakes.rows(lake, "t"))
    assert shown == [(1, "new"), (2, "kept"), (3, "bad")]
