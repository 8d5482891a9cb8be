"""Drives silver's order and apply with changes that are decoded already."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehouse.config.table import Table
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake
from silver.changelog import log
from silver.changelog.batch import Batch
from silver.contract import GATED_COLUMNS
from silver.run import Run, SilverTable, be_silent
from silver.state.summary import summarize
from silver.state.table_state import TableState
from silver.table_run import TableResult, run_table, write_batch
from tests.helpers.oracle import Event, Outcome

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
COLUMNS = ["a", "b"]
STATES: dict[str, dict[int, TableState]] = {}
"""What is known of the table of each lake after each of its batches."""
SCHEMA = "id int, a string, b string, " + ", ".join(f"{c.name} {c.type}" for c in GATED_COLUMNS)


def table(scd: int = 1, **options: Any) -> Table:
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "source": source, "keys": ["id"], "stored_as_scd_type": scd}
    return Table.model_validate(given | options)


def deliver(lake: Lake, config: Table, events: list[Event], arrived: int, done: int) -> int:
    """Appends one batch to the change log and applies it; returns its number."""
    rows = [change(e, arrived + at, done + 1) for at, e in enumerate(events)]
    of = SilverTable(lake, config)
    log.append_batch(of, local_rows(lake.spark, rows, SCHEMA), done + 1)
    apply_pending(of, done, done + 1)
    return done + 1


def one_pass(
    lake: Lake, config: Table, state: TableState, delivered: Iterable[tuple[Event, int]]
) -> TableResult:
    """One run over events with their arrivals."""
    of, number = SilverTable(lake, config), state.batch + 1
    rows = [change(event, arrival, number) for event, arrival in delivered]
    written = log.append_batch(of, local_rows(lake.spark, rows, SCHEMA), number)
    after = state.with_logged(number, written.summary(config, state.whole))
    return run_table(Run("run", be_silent), Batch.of_log(of, state, after))


def apply_pending(of: SilverTable, done: int, newest: int) -> None:
    """Applies the log's batches up to `newest`; a kept state tells what is known at `done`."""
    states = STATES.setdefault(of.target.lake, {})
    before = summarize(log.read_log(of).where(f"_batch <= {done}"))
    known = states.get(done, TableState()).whole
    state = TableState(
        done, partial=before.incomplete > 0, key_changes=before.key_changes > 0, whole=known
    )
    batch = Batch.of_log(of, state, state.replace(logged=newest))
    write_batch(batch)
    states[newest] = state.replace(batch=newest, whole=batch.table_changes)


def change(event: Event, arrival: int, batch: int) -> dict[str, Any]:
    given = dict(event.values)
    absent = [c for c in COLUMNS if c not in given] if event.operation == "upsert" else []
    return {
        "id": event.key,
        "a": given.get("a"),
        "b": given.get("b"),
        "_operation": event.operation,
        "_sequence": f"{event.sequence:016X}",
        "_absent": absent or None,
        "_old_key": None if event.old_key is None else f'{{"id": {event.old_key}}}',
        "_snapshot": event.snapshot,
        "_snapshot_last": event.last if event.snapshot else None,
        "_source_time": START + timedelta(seconds=event.time),
        "_offset": event.position,
        "_position": f"t/0/{event.position}",
        "_arrival": f"{arrival:08X}",
        "_feed": "t",
        "_feed_batch": batch,
    }


def outcome(lake: Lake, config: Table) -> Outcome:
    """What the lake holds, in the oracle's terms."""
    if config.stored_as_scd_type == 2:
        return _from_history(lake)
    rows = lake.spark.table(lake.name("silver", "t")).collect()
    current = {r["id"]: {c: r[c] for c in COLUMNS} for r in rows if not r["_deleted"]}
    return Outcome(current, {r["id"] for r in rows if r["_deleted"]})


def _from_history(lake: Lake) -> Outcome:
    rows = lake.spark.table(lake.name("silver", "t_history")).collect()
    shown = [r for r in rows if r["_shown"]]
    current = {r["id"]: {c: r[c] for c in COLUMNS} for r in shown if r["_is_current"]}
    lines = [
        (r["id"], seconds(r["_valid_from"]), seconds(r["_valid_to"]), *[r[c] for c in COLUMNS])
        for r in shown
    ]
    return Outcome(current, set(), sorted(lines, key=repr))


def seconds(time: datetime | None) -> int | None:
    return (
        None if time is None else int((time.replace(tzinfo=timezone.utc) - START).total_seconds())
    )
