"""A run shows what its change log has, and merges that when it pays."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Memory
from lakehouse.storage import names
from tests.helpers.going_on import GoingOnLake, record, table
from tests.helpers.oracle import Event


def upsert(key: int, at: int, a: str | None = None) -> Event:
    values = (("a", a or f"a{at}"), ("b", f"b{at}"))
    return Event("upsert", 100 + at, key, values, position=at, time=at)


def delete(key: int, at: int) -> Event:
    return Event("delete", 100 + at, key, position=at, time=at)


def values(lake: GoingOnLake) -> dict[int, str]:
    return {key: row["a"] for key, row in lake.shown().items()}


def merged(lake: GoingOnLake) -> dict[int, str]:
    rows = lake.spark.table(names.table_name(lake.target, "silver", "t")).where("NOT _deleted")
    return {row["id"]: row["a"] for row in rows.collect()}


FIRST = [upsert(1, 1), upsert(2, 2), upsert(3, 9), upsert(4, 4)]
SECOND = [upsert(1, 11), delete(2, 12), upsert(3, 5), upsert(5, 13), upsert(5, 14), delete(6, 15)]
BEFORE = {1: "a1", 2: "a2", 3: "a9", 4: "a4"}
AFTER = {1: "a11", 3: "a9", 4: "a4", 5: "a14"}


@pytest.mark.slow
@pytest.mark.parametrize("among", [1, None])
def test_changes_are_shown_from_the_log_until_they_are_merged(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch, among: int | None
) -> None:
    """By a run that goes on as by one that ends; another run goes on where one was killed."""
    monkeypatch.setattr("silver.freshness.FEW_TABLES", 0)
    lake = GoingOnLake(spark, target)
    lake.memory = Memory(among)
    lake.tick(FIRST)
    assert lake.tick(SECOND).counts == {"records": 6, "pending": 6}
    assert (merged(lake), values(lake)) == (BEFORE, AFTER)
    lake.memory = Memory(among)
    assert lake.tick([upsert(4, 20), upsert(1, 3)]).counts == {"records": 2, "pending": 2}
    then = AFTER | {4: "a20"}
    assert (merged(lake), values(lake)) == (BEFORE, then)
    counts = lake.merge().counts
    assert (counts.pop("pending"), sum(counts.values())) == (-8, 8)
    assert (merged(lake), values(lake), lake.waits()) == (then, then, False)


@pytest.mark.slow
def test_rows_with_an_order_of_their_own_are_shown_too(spark: SparkSession, target: Target) -> None:
    """A change that comes again never wins; what may tie with a merged row is merged at once."""
    lake = GoingOnLake(spark, target, rows_table())
    lake.land([row(1, 1, "a"), row(2, 1, "b")])
    lost, won = row(1, 5, "lost"), row(1, 5, "won")
    assert lake.land([lost, won]).counts == {"records": 2, "pending": 2}
    assert lake.land([lost]).counts == {"records": 1, "pending": 1}
    assert values(lake) == {1: "won", 2: "b"}
    lake.merge()
    lake.memory = Memory(among=1)
    assert merged(lake) == values(lake) == {1: "won", 2: "b"}
    assert lake.land([row(2, 5, "c")]).counts.get("pending", 0) == 0
    assert merged(lake) == values(lake) == {1: "won", 2: "c"}


def rows_table() -> Table:
    source = {"format": "rows", "path": "t"}
    columns = {"id": "int", "a": "string", "b": "string", "at": "bigint"}
    given = {"table": "t", "source": source, "keys": ["id"], "columns": columns}
    return Table.model_validate(given | {"sequence_by": "at"})


def row(key: int, at: int, a: str) -> dict[str, Any]:
    return {"id": key, "a": a, "b": "b", "at": at}


@pytest.mark.slow
def test_a_run_that_ends_merges_few_tables_at_once(spark: SparkSession, target: Target) -> None:
    lake = GoingOnLake(spark, target)
    lake.memory = Memory()
    lake.tick(FIRST)
    assert "pending" not in lake.tick(SECOND).counts
    assert merged(lake) == values(lake) == AFTER


@pytest.mark.slow
def test_a_dead_letter_is_counted_by_the_run_that_finds_it(
    spark: SparkSession, target: Target
) -> None:
    lake = GoingOnLake(spark, target)
    lake.tick(FIRST)
    bad = {"topic": "t", "partition": 0, "offset": 90, "value": {"op": "?", "after": {"id": 1}}}
    found = lake.land([record(upsert(1, 11)), bad]).counts
    assert found == {"records": 2, "pending": 1, "dead_letter:unknown_operation": 1}
    assert lake.tick([upsert(2, 12)]).counts == {"records": 1, "pending": 1}
    assert lake.merge().counts == {"records": 0, "pending": -2, "updated": 2}


@pytest.mark.slow
def test_what_waits_is_merged_in_one_go_when_it_gets_much(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silver.freshness.MOST_PENDING", 7)
    lake = GoingOnLake(spark, target)
    lake.tick(FIRST)
    lake.tick(SECOND)
    before = versions(lake)
    counts = lake.tick([upsert(4, 20), upsert(1, 3)]).counts
    assert (counts["records"], counts["pending"]) == (2, -6)
    assert merged(lake) == values(lake) == AFTER | {4: "a20"}
    assert versions(lake) - before == 1


def versions(lake: GoingOnLake) -> int:
    return lake.spark.sql(
        f"DESCRIBE HISTORY {names.table_name(lake.target, 'silver', 't')}"
    ).count()


@pytest.mark.slow
def test_what_is_shown_is_applied_before_what_cannot_be(
    spark: SparkSession, target: Target
) -> None:
    lake = GoingOnLake(spark, target)
    lake.tick(FIRST)
    lake.tick(SECOND)
    truncate = Event("truncate", 116, position=16, time=16)
    counts = dict(lake.tick([truncate, upsert(7, 17)]).counts)
    assert counts.pop("pending") == -6
    assert (counts.pop("records"), counts.pop("truncate")) == (2, 1)
    assert merged(lake) == values(lake) == {7: "a17"}
    assert lake.tick([upsert(4, 10), upsert(8, 18)]).counts == {"records": 2, "pending": 2}
    assert values(lake) == {7: "a17", 8: "a18"}


@pytest.mark.slow
def test_a_run_that_was_killed_before_it_showed_what_waits_is_continued(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = GoingOnLake(spark, target)
    lake.tick(FIRST)
    with monkeypatch.context() as patch:
        patch.setattr("silver.merge.pending_view.publish_views", _killed)
        with pytest.raises(KeyboardInterrupt):
            lake.tick(SECOND)
    assert values(lake) == BEFORE
    assert lake.apply(Memory(among=1)).counts == {"records": 6, "pending": 6}
    assert (merged(lake), values(lake)) == (BEFORE, AFTER)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_table_that_gets_another_column_is_merged_at_once(
    spark: SparkSession, target: Target
) -> None:
    lake = GoingOnLake(spark, target, table(columns={"id": "int", "a": "string"}))
    lake.tick(FIRST)
    lake.tick([upsert(1, 11)])
    assert merged(lake)[1] == "a1"
    moved = Event("upsert", 130, 2, (("a", "x"), ("b", "y"), ("c", "z")), position=30, time=30)
    lake.tick([moved])
    assert (merged(lake)[1], merged(lake)[2]) == ("a11", "x")
    late = Event("upsert", 115, 2, (("a", "old"), ("b", "y"), ("c", "z")), position=15, time=15)
    assert lake.tick([late]).counts == {"records": 1, "pending": 1}
    assert values(lake)[2] == "x"
