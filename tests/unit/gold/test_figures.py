"""What is known of a table: the sum of its ledger entries, rendered as of any moment."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gold.status.figures import Figures, Group, count_waiting, find_percentile, render_record
from gold.status.measure import find_unmeasured
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from silver.state.table_state import GroupState, SchemaChange, TableState, WaitingTransaction

NOW = datetime(2026, 3, 4, 12, tzinfo=timezone.utc)


def table(**options: Any) -> Table:
    given = {"table": "orders", "keys": ["id"], "source": {"format": "debezium", "path": "shop"}}
    return Table.model_validate(given | options)


def entry(minutes_ago: float, layer: str = "silver", **more: Any) -> Entry:
    ended = NOW - timedelta(minutes=minutes_ago)
    times = {"started_at": ended - timedelta(minutes=1), "ended_at": ended}
    return Entry.model_validate({"run_id": "r", "layer": layer, "table": "orders"} | times | more)


def add(*entries: Entry, known: Figures | None = None) -> Figures:
    figures = known or Figures()
    for each in entries:
        figures.add_entry(each)
    return figures


def shown(known: Figures, now: datetime = NOW, **options: Any) -> dict[str, Any]:
    return render_record(Target(root="/lake"), table(**options), known, 0, now)


def test_the_outcomes_of_all_runs_add_up() -> None:
    runs = [{"records": 3, "inserted": 3}, {"records": 2, "updated": 1, "duplicate": 1}]
    known = add(*(entry(9 - n, counts=counts, batch=n) for n, counts in enumerate(runs)))
    record = shown(known)
    assert record["counts"] == {"records": 5, "inserted": 3, "updated": 1, "duplicate": 1}
    assert (record["accounted"], record["applied_batch"]) == (True, 1)
    assert not shown(add(entry(1, counts={"records": 2, "inserted": 1})))["accounted"]


def test_a_failure_of_any_layer_shows_until_that_layer_is_done() -> None:
    broken = add(entry(9, "bronze", status="failed", message="no broker"), entry(8), entry(7))
    assert shown(broken)["last_failure"] == "bronze: no broker"
    later = add(entry(6, status="failed", message="no space"), known=broken)
    assert shown(later)["last_failure"] == "no space"
    mended = add(entry(5), entry(4, "bronze"), known=later)
    assert shown(mended)["last_failure"] is None


def test_a_change_that_a_failed_run_left_waits_since_the_first_failure() -> None:
    known = add(entry(60), entry(40, status="failed", message="a"), entry(20, status="failed"))
    assert shown(known)["staleness_seconds"] == 41 * 60
    assert shown(known, max_staleness="30 minutes")["stale"]
    assert not shown(known, max_staleness="1 hour")["stale"]
    assert shown(add(entry(10), known=known))["staleness_seconds"] == 0


def test_ages_grow_between_two_looks() -> None:
    since = NOW - timedelta(minutes=5)
    known = Figures(pending=1, waiting_since=since, watermark=since)
    before, after = (
        shown(known, at, max_staleness="9 minutes") for at in (NOW, NOW.replace(hour=13))
    )
    assert (before["lag_seconds"], before["staleness_seconds"], before["stale"]) == (
        300,
        300,
        False,
    )
    assert (after["lag_seconds"], after["staleness_seconds"], after["stale"]) == (3900, 3900, True)


def test_pending_changes_that_gold_shows_do_not_wait() -> None:
    state = TableState(pending=4, waiting_since=int((NOW.timestamp() - 60) * 1e6))
    known = add(entry(1, state=state.to_text()))
    assert (shown(known)["pending_changes"], shown(known)["staleness_seconds"]) == (4, 0)
    assert shown(known, max_staleness="1 hour")["staleness_seconds"] == 60
    assert shown(known, stored_as_scd_type=2)["staleness_seconds"] == 60
    merged = add(entry(0, state=TableState().to_text()), known=known)
    assert shown(merged, stored_as_scd_type=2)["staleness_seconds"] == 0


def test_the_recommended_promise_is_twice_the_p95_and_seven_minutes() -> None:
    old = entry(60 * 24 * 8, counts={"records": 1}, duration_ms=900_000)
    waits = entry(30, counts={"records": 2, "pending": 2}, duration_ms=900_000)
    runs = [entry(20 - n, counts={"records": 1}, duration_ms=1000 * n) for n in range(20)]
    record = shown(add(old, waits, *runs))
    assert record["apply_p95_seconds"] == pytest.approx(18.05)
    assert record["recommended_max_staleness_minutes"] == 8
    assert shown(Figures())["recommended_max_staleness_minutes"] is None


def test_a_percentile_lies_between_two_values_in_proportion() -> None:
    assert find_percentile([4, 1], 0.95) == pytest.approx(3.85)
    assert find_percentile([7], 0.95) == 7
    assert find_percentile([], 0.95) is None


def test_waiting_transactions_are_those_of_the_groups_newest_run() -> None:
    old = Group("g", 1, [["orders"]])
    new = Group("g", 2, [["items", "orders"], ["items"]])
    other = Group("h", 1, [["people"]])
    found = count_waiting([Figures(group=group) for group in (old, new, other, None)])
    assert found == {"items": 2, "orders": 1, "people": 1}


def test_a_state_tells_group_and_schema_changes() -> None:
    change = SchemaChange(
        "2026-01-01T00:00:00Z", "r", "add_column", "c", None, "int", "applied", "p"
    )
    waits = WaitingTransaction("5", None, {"orders": 2, "items": 1}, "its END", False)
    state = TableState(group=GroupState("g", 3, waiting=[waits]), schema_changes=[change])
    known = add(entry(1, state=state.to_text()))
    assert known.group == Group("g", 3, [["items", "orders"]])
    assert [note["column"] for note in shown(known)["drift"]] == ["c"]


def test_more_dead_letters_than_allowed_raise_an_alert_by_the_yaml_of_now() -> None:
    known = Figures(letters={"no_key": 2, "bad_value": 1}, acknowledged=5)
    record = shown(known)
    assert (record["dead_letters_total"], record["dead_letters_alert"]) == (3, True)
    assert record["dead_letters"] == {"bad_value": 1, "no_key": 2}
    assert not shown(known, max_dead_letters=3)["dead_letters_alert"]


def test_a_table_is_measured_once_for_its_entries(tmp_path: Path) -> None:
    known = add(entry(2))
    (asked,) = find_unmeasured([table()], {"orders": known})
    assert asked.starts_anew
    known.measured = known.entries
    assert find_unmeasured([table()], {"orders": known}) == []
    (again,) = find_unmeasured([table()], {"orders": known}, ["orders"])
    assert again.starts_anew
    known.add_entry(entry(1))
    (later,) = find_unmeasured([table()], {"orders": known})
    assert not later.starts_anew
    (first,) = find_unmeasured([table()], {})
    assert first.starts_anew
