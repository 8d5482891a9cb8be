"""A table with `max_staleness`: applied no oftener than it must be, read as fresh as promised."""

import time
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold import job as gold
from gold.views import reads
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver import job
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.conftest import target_at
from tests.helpers.arrivals import applied, arrive, silver
from tests.helpers.lakes import quiet, rows
from tests.helpers.sums import sums


def table(promise: str | int, **options: Any) -> Table:
    given = {
        "table": "t",
        "source": {"format": "rows", "path": "t"},
        "keys": ["id"],
        "columns": {"id": "int", "v": "string", "w": "string", "seq": "bigint", "op": "string"},
        "sequence_by": "seq",
        "apply_as_deletes": "op = 'd'",
        "max_staleness": promise,
    }
    return Table.model_validate(given | options)


def change(key: int, seq: int, op: str = "u", **more: str) -> dict[str, Any]:
    return {"id": key, "seq": seq, "v": f"v{seq}", "w": f"w{seq}", "op": op} | more


FIRST = [change(1, 1), change(2, 2), change(3, 3)]
SECOND = [change(2, 5), change(3, 6, "d"), change(4, 7)]
BEFORE = [(1, "v1"), (2, "v2"), (3, "v3")]
AFTER = [(1, "v1"), (2, "v5"), (4, "v7")]


def come(lake: Lake, config: Table, batch: int, lines: list[dict[str, Any]]) -> Entry:
    """A batch arrives, and a run does what it does with it."""
    arrive(lake, config, lines, batch)
    entry = applied(lake, config, merges=False)
    publish(lake, config)
    return entry


def publish(lake: Lake, config: Table) -> None:
    failed = [e.message for e in gold.publish(lake, [config], "run", quiet) if e.message]
    assert failed == []


def shown(lake: Lake) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in rows(lake, "t"))


def kept(lake: Lake) -> list[tuple[int, str]]:
    found = silver(lake, "t", "id")
    return [(row["id"], row["v"]) for row in found if not row["_deleted"]]


@pytest.fixture(scope="module")
def waiting(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A lake in which the second batch waits to be applied."""
    target = target_at(tmp_path_factory.mktemp("waiting"))
    come(Lake(spark, target), table("1 day"), 1, FIRST)
    entry = come(Lake(spark, target), table("1 day"), 2, SECOND)
    assert entry.counts == {"records": 3, "pending": 3}
    assert kept(Lake(spark, target)) == BEFORE
    return target


def test_a_change_that_waits_within_the_promise_is_not_shown(
    spark: SparkSession, waiting: Target
) -> None:
    publish(Lake(spark, waiting), table("1 day"))
    assert shown(Lake(spark, waiting)) == BEFORE


def test_what_waits_for_longer_than_promised_is_merged_by_the_reader(
    spark: SparkSession, waiting: Target
) -> None:
    publish(Lake(spark, waiting), table("1 second"))
    time.sleep(1)
    assert shown(Lake(spark, waiting)) == AFTER


def test_a_promise_of_nothing_always_shows_what_only_the_log_has(
    spark: SparkSession, waiting: Target
) -> None:
    publish(Lake(spark, waiting), table(0))
    assert shown(Lake(spark, waiting)) == AFTER


def test_an_idle_run_leaves_what_waits_alone(spark: SparkSession, waiting: Target) -> None:
    assert applied(Lake(spark, waiting), table("1 day"), merges=False).counts == {}
    assert kept(Lake(spark, waiting)) == BEFORE


def test_reads_are_noted_as_plain_ones_and_run_time_merges(
    spark: SparkSession, waiting: Target
) -> None:
    began = datetime.now(timezone.utc)
    reads.record_query(Lake(spark, waiting), [table("1 day")], "SELECT * FROM gold.t", began)
    reads.record_query(Lake(spark, waiting), [table(0)], "SELECT * FROM gold.t", began)
    reads.record_query(Lake(spark, waiting), [table(0)], "SELECT * FROM gold.other", began)
    noted = (
        spark.table(names.table_name(waiting, "gold", "pipeline_reads")).orderBy("bytes").collect()
    )
    assert [(r["table"], r["kind"]) for r in noted] == [("t", "plain_read"), ("t", "runtime_merge")]
    assert 0 < noted[0]["bytes"] < noted[1]["bytes"]


@pytest.mark.slow
def test_what_waited_is_applied_and_accounted_for(lake: Lake) -> None:
    config = table("1 day")
    come(lake, config, 1, FIRST)
    come(lake, config, 2, SECOND)
    third = come(lake, config, 3, [change(5, 9), change(2, 8)])
    assert third.counts == {"records": 2, "pending": 2}
    arrive(lake, config, [change(6, 10)], 4)
    last = applied(lake, config.model_copy(update={"max_staleness": None}))
    assert last.counts["pending"] == -5
    after = [(1, "v1"), (2, "v8"), (4, "v7"), (5, "v9"), (6, "v10")]
    assert kept(lake) == shown(lake) == after
    beside, classes = sums(lake)
    assert beside["records"] == 9
    assert classes == {
        "inserted": 6, "updated": 1, "deleted": 1, "superseded": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_a_run_that_was_killed_before_anything_waits_is_continued(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table("1 day")
    come(lake, config, 1, FIRST)
    arrive(lake, config, SECOND, 2)
    with monkeypatch.context() as patch:
        patch.setattr("silver.merge.pending_view.publish_views", _killed)
        with pytest.raises(KeyboardInterrupt):
            applied(lake, config, merges=False)
    assert applied(lake, config, merges=False).counts == {"records": 3, "pending": 3}
    publish(lake, table(0))
    assert (kept(lake), shown(lake)) == (BEFORE, AFTER)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"stored_as_scd_type": 2}, {"on_delete": "flag"}])
def test_what_no_view_can_fold_is_merged_by_a_run_that_ends(
    lake: Lake, more: dict[str, Any]
) -> None:
    config = table("1 day", **more)
    come(lake, config, 1, FIRST)
    assert "pending" not in come(lake, config, 2, SECOND).counts
    assert {key: v for key, v in shown(lake) if key != 3} == dict(AFTER)


@pytest.mark.slow
def test_a_history_lags_as_promised_in_a_run_that_goes_on(lake: Lake) -> None:
    config, memory = table("1 day", stored_as_scd_type=2), Memory(among=1)
    for batch, lines in enumerate((FIRST, SECOND), 1):
        arrive(lake, config, lines, batch)
        (entry,) = job.apply(lake, [config], "run", quiet, memory)
        publish(lake, config)
    assert entry.counts == {"records": 3, "pending": 3}
    assert shown(lake) == BEFORE
    assert applied(lake, config).counts["pending"] == -3
    publish(lake, config)
    assert shown(lake) == AFTER


@pytest.mark.slow
def test_a_replay_applies_what_waits_first(lake: Lake) -> None:
    rule = {"type": "expect_column_values_to_not_be_null", "column": "v"}
    config = table("1 day", expectations=[rule])
    come(lake, config, 1, FIRST)
    come(lake, config, 2, [change(2, 5), change(4, 7) | {"v": None}])
    assert len(silver(lake, "t_dead_letters", "_arrival")) == 1
    replayed = replay_table(SilverTable(lake, table("1 day")), F.lit(True), "replay")
    assert (replayed.tried, replayed.resolved) == (1, 1)
    publish(lake, config)
    assert [row["v"] for row in silver(lake, "t", "id")] == ["v1", "v5", "v3", None]
    _, classes = sums(lake)
    assert classes == {"inserted": 4, "updated": 1}
