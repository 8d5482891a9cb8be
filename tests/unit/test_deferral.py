from datetime import datetime, timedelta, timezone

import pytest

from lakehouse.config.table import Table
from silver.freshness import MOST_PENDING, is_due, may_wait
from silver.state.batch import TableState

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def table(promise: str | int | None) -> Table:
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "keys": ["id"], "source": source, "max_staleness": promise}
    return Table.model_validate(given)


def applied(ago: timedelta) -> TableState:
    return TableState(7, applied_at=int((NOW - ago).timestamp() * 1_000_000))


@pytest.mark.parametrize(
    ("promise", "minutes", "due"),
    [
        ("10 minutes", 4, False),
        ("10 minutes", 5, True),
        (0, 0, True),
        (0, -1, True),
        (None, 0, True),
    ],
)
def test_a_table_is_due_when_it_was_applied_half_its_promise_ago(
    promise: str | int | None, minutes: int, due: bool
) -> None:
    assert is_due(table(promise), applied(timedelta(minutes=minutes)), NOW) is due


def test_a_table_that_was_never_applied_is_due() -> None:
    assert is_due(table("1 day"), TableState(), NOW)


def test_tables_that_are_worked_on_together_are_merged_later() -> None:
    due = [
        is_due(table(None), applied(timedelta(seconds=seconds)), NOW, 4, alone)
        for seconds, alone in ((601, True), (899, False), (901, False))
    ]
    assert due == [True, False, True]


def test_very_much_does_not_wait() -> None:
    assert (may_wait(MOST_PENDING), may_wait(MOST_PENDING + 1)) == (True, False)


@pytest.mark.parametrize(
    ("promise", "seconds", "took", "among", "due"),
    [
        (None, 599, None, 4, False),
        (None, 601, None, 4, True),
        (0, 599, None, 4, False),
        (None, 799, 40.0, 4, False),
        (None, 801, 40.0, 4, True),
        ("10 minutes", 299, 100.0, 4, False),
        ("10 minutes", 301, 100.0, 4, True),
    ],
)
def test_a_run_that_goes_on_merges_as_seldom_as_readers_allow_and_as_it_takes(
    promise: str | int | None, seconds: int, took: float | None, among: int, due: bool
) -> None:
    seen = applied(timedelta(seconds=seconds))._replace(took=took)
    assert is_due(table(promise), seen, NOW, among) is due
