"""When what waits in the change log is merged."""

from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.freshness import LEAST_PENDING, MOST_PENDING, is_due, is_much
from silver.run import SilverTable
from silver.state.summary import Summary
from silver.state.table_state import TableState

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def table(promise: str | int | None = None, **options: Any) -> SilverTable:
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "keys": ["id"], "source": source, "max_staleness": promise}
    config = Table.model_validate(given | options)
    return SilverTable(Lake(cast("SparkSession", None), Target(root=".")), config)


def micros(ago: timedelta) -> int:
    return int((NOW - ago).timestamp() * 1_000_000)


def state(applied: timedelta, waits: timedelta = timedelta(0), **known: Any) -> TableState:
    times = {"applied_at": micros(applied), "waiting_since": micros(waits)}
    return TableState(batch=7, waits=Summary(records=5), **(times | known))


def ending(tables: int = 20) -> Memory:
    memory = Memory()
    memory.worked_on = tables
    return memory


def going_on(among: int, alone: bool = True) -> Memory:
    memory = Memory(among)
    memory.note_together(["t"] if alone else ["t", "other"])
    return memory


@pytest.mark.parametrize(
    ("waited", "due"), [(timedelta(minutes=59), False), (timedelta(minutes=60), True)]
)
def test_a_run_that_ends_merges_what_has_waited_for_an_hour(waited: timedelta, due: bool) -> None:
    assert is_due(table(), state(timedelta(days=1), waited), NOW, ending()) is due


def test_what_has_just_come_waits_in_a_run_of_many_tables() -> None:
    fresh = TableState(batch=7, applied_at=micros(timedelta(days=1)), waits=Summary(records=5))
    assert not is_due(table(), fresh, NOW, ending())


def test_a_run_that_ends_merges_few_tables_at_once() -> None:
    due = [is_due(table(), state(timedelta(0)), NOW, ending(tables)) for tables in (4, 5)]
    assert due == [True, False]
    assert not is_due(table("1 day"), state(timedelta(0)), NOW, ending(1))


@pytest.mark.parametrize("options", [{"stored_as_scd_type": 2}, {"consistency_group": "shop"}])
def test_what_no_reader_can_see_in_the_log_is_merged_at_once(options: dict[str, Any]) -> None:
    known = state(timedelta(0))
    assert is_due(table(**options), known, NOW, ending())
    assert is_due(table("10 minutes", **options), known, NOW, ending())
    assert is_due(table(**options), known, NOW, going_on(1))


def test_a_run_that_goes_on_lets_such_a_table_lag_for_half_of_its_promise() -> None:
    history = table("10 minutes", stored_as_scd_type=2)
    due = [is_due(history, state(timedelta(minutes=m)), NOW, going_on(1)) for m in (4, 5)]
    assert due == [False, True]


@pytest.mark.parametrize(
    ("promise", "minutes", "due"),
    [("10 minutes", 4, False), ("10 minutes", 5, True), (0, 5, False), (None, 5, False)],
)
def test_a_table_is_due_when_it_was_applied_half_its_promise_ago(
    promise: str | int | None, minutes: int, due: bool
) -> None:
    assert is_due(table(promise), state(timedelta(minutes=minutes)), NOW, ending()) is due


def test_a_table_that_was_never_applied_is_due() -> None:
    assert is_due(table("1 day"), TableState(), NOW, ending())


def test_a_run_that_is_told_to_merges_everything() -> None:
    memory = Memory()
    memory.merge_all = True
    assert is_due(table("1 day"), state(timedelta(0)), NOW, memory)


def test_tables_that_are_worked_on_together_are_merged_later() -> None:
    due = [
        is_due(table(), state(timedelta(seconds=seconds)), NOW, going_on(4, alone))
        for seconds, alone in ((601, True), (899, False), (901, False))
    ]
    assert due == [True, False, True]


@pytest.mark.parametrize(
    ("waiting", "rows", "much"),
    [
        (MOST_PENDING, 10**9, False),
        (MOST_PENDING + 1, 10**9, True),
        (LEAST_PENDING, 10, False),
        (LEAST_PENDING + 1, 10, True),
        (50_000, 100_000, False),
        (50_001, 100_000, True),
    ],
)
def test_very_much_does_not_wait(waiting: int, rows: int, much: bool) -> None:
    assert is_much(TableState(waits=Summary(records=waiting), size=rows)) is much


@pytest.mark.parametrize(
    ("promise", "seconds", "took", "due"),
    [
        (None, 599, None, False),
        (None, 601, None, True),
        (0, 599, None, False),
        (None, 799, 40.0, False),
        (None, 801, 40.0, True),
        ("10 minutes", 299, 100.0, False),
        ("10 minutes", 301, 100.0, True),
    ],
)
def test_a_run_that_goes_on_merges_as_seldom_as_readers_allow_and_as_it_takes(
    promise: str | int | None, seconds: int, took: float | None, due: bool
) -> None:
    known = state(timedelta(seconds=seconds), took=took)
    assert is_due(table(promise), known, NOW, going_on(4)) is due
