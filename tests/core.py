"""Drives silver's order and apply with changes that are decoded already."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.changelog import log, order
from silver.contract import GATED_COLUMNS
from silver.merge.write import write_batch
from silver.run import Run, SilverTable
from silver.state.summary import summarize
from silver.state.table_state import TableState
from silver.table_run import TableResult, logged_part, run_table
from tests.oracle import Event, Outcome

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
COLUMNS = ["a", "b"]
STATES: dict[str, dict[int, TableState]] = {}
"""What is known of the table of each lake after each of its batches."""
SCHEMA = "id int, a string, b string, " + ", ".join(f"{c.name} {c.type}" for c in GATED_COLUMNS)


def table(scd: int = 1, **options: Any) -> Table:
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "source": source, "keys": ["id"], "stored_as_scd_type": scd}
    return Table.model_validate(given | options)


def deliver(
    spark: SparkSession, target: Target, config: Table, events: list[Event], arrived: int, done: int
) -> int:
    """Appends one batch to the change log and applies it; returns its number."""
    rows = [change(e, arrived + at, done + 1) for at, e in enumerate(events)]
    of = SilverTable(Lake(spark, target), config)
    log.append(of, local_rows(spark, rows, SCHEMA), done + 1)
    apply_pending(spark, target, config, done, done + 1)
    return done + 1


def one_pass(
    spark: SparkSession,
    target: Target,
    config: Table,
    state: TableState,
    delivered: Iterable[tuple[Event, int]],
) -> TableResult:
    """One run over events with their arrivals."""
    of, number = SilverTable(Lake(spark, target), config), state.batch + 1
    rows = [change(event, arrival, number) for event, arrival in delivered]
    written = log.append(of, local_rows(spark, rows, SCHEMA), number)
    after = state.logs_batch(number, written.summary())
    return run_table(Run("run", _be_silent), of, logged_part(of, state, after))


def _be_silent(_: str) -> None:
    """No progress to show."""


def apply_pending(
    spark: SparkSession, target: Target, config: Table, done: int, newest: int
) -> None:
    """Applies the log's batches up to `newest`; a kept state tells what is known at `done`."""
    rows = log.read(spark, target, config).where(f"_batch <= {newest}")
    before = summarize(rows.where(f"_batch <= {done}"))
    known = STATES.get(target.lake, {}).get(done, TableState()).whole
    state = TableState(done, partial=before.incomplete > 0, heirs=before.heirs > 0, whole=known)
    summary = summarize(rows.where(f"_batch > {done}"))
    placed = order.place(config, rows, state, state.replace(logged=newest), summary)
    write_batch(spark, target, config, placed.batch, placed.recomputes)
    STATES.setdefault(target.lake, {})[newest] = state.replace(batch=newest, whole=placed.new)


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


def outcome(spark: SparkSession, target: Target, config: Table) -> Outcome:
    """What the lake holds, in the oracle's terms."""
    if config.stored_as_scd_type == 2:
        return _from_history(spark, target)
    rows = spark.table(names.name(target, "silver", "t")).collect()
    current = {r["id"]: {c: r[c] for c in COLUMNS} for r in rows if not r["_deleted"]}
    return Outcome(current, {r["id"] for r in rows if r["_deleted"]})


def _from_history(spark: SparkSession, target: Target) -> Outcome:
    rows = spark.table(names.name(target, "silver", "t_history")).collect()
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
