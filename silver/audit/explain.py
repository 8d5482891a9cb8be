"""Why the row of a key is what it is: its records in order, what was done with each, and the row.

The key's records are read from the change log by one query with the key as filter, together with
the truncates and the ends of snapshots of the table, which concern every key.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from bronze.contract import ROW_MARK
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from lakehouse.words import JSON_OPTIONS, TIME_FORMAT
from silver.audit.outcomes import SNAPSHOT, RecordOutcome, list_outcomes
from silver.audit.replay import KeyRecord
from silver.changelog import bronze_rows, log
from silver.contract import TRUNCATE, UPSERT
from silver.decode.spark import logged_position, position_column
from silver.run import SilverTable
from silver.state.epochs import SNAPSHOT_ID, Epoch, order_of
from silver.state.table_state import TableState, read_state
from silver.storage import layout, one_key
from silver.storage.one_key import Key
from silver.storage.row_columns import column

_READ = (
    "_position", "_arrival", "_batch", "_operation", "_sequence", "_order", "_digest", "_reason",
    "_message", "_old_key", "_snapshot", "_time", "_carried", "_values", "_mine", "_moved",
    "_last", "_replayed", "_feed", "_feed_batch",
)  # fmt: skip


class Explained(NamedTuple):
    """One line of the answer; `values` is JSON text of the columns that the record carries.

    The last line has the operation `row`: the outcome is `current` or `no row`.
    """

    position: str | None
    sequence: str | None
    operation: str | None
    source_time: str | None
    outcome: str
    because: str | None
    values: str | None


def explain(lake: Lake, table: Table, key: Key) -> list[Explained]:
    """The key's records in order of sequence, then its row; before any record the row alone.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    if not lake.exists("silver", f"{table.table}_changes"):
        return [Explained(None, None, "row", None, "no row", "nothing has arrived yet", None)]
    rows = log.read_log(SilverTable(lake, table))
    one_key.check_types(lake.spark, key, rows.schema)
    seen = read_state(lake, table.table)
    key_rows = _read_records(lake, table, rows, key, seen.whole.epochs)
    chosen = [row for row in key_rows if row["_mine"] or row["_operation"] == TRUNCATE]
    positions = _find_positions(SilverTable(lake, table), chosen)
    records = [_build_record(row, positions) for row in chosen]
    records += _list_cutoffs(key_rows, seen)
    outcomes = list_outcomes(records, seen.batch, table.stored_as_scd_type == 2, table.on_truncate)
    return [*map(_build_line, outcomes), _explain_row(lake, table, key, outcomes)]


def _read_records(
    lake: Lake, table: Table, rows: DataFrame, key: Key, epochs: list[Epoch]
) -> Sequence[Row]:
    mine, moved = one_key.is_key(key, rows.schema), one_key.says_key("_old_key", key, rows.schema)
    last = F.coalesce(F.col("_snapshot_last"), F.lit(False))
    marked = rows.withColumns({"_mine": mine | moved, "_moved": moved & ~mine, "_last": last})
    kept = marked.where(F.col("_mine") | F.col("_last") | (F.col("_operation") == TRUNCATE))
    values = [f.name for f in layout.list_source_fields(rows.schema) if f.name not in table.keys]
    own_columns = select_carried(values)
    shown = _with_replays(lake, table, kept).withColumns(
        {
            "_position": F.coalesce("_position", logged_position()),
            "_order": order_of(table, epochs),
            "_snapshot": F.expr(SNAPSHOT_ID),
            "_time": F.date_format("_source_time", TIME_FORMAT),
            "_carried": own_columns,
            "_values": F.when(
                F.col("_operation") == UPSERT, as_json(table, values, select_carried(values))
            ),
        }
    )
    return shown.select(*_READ).collect()


def _with_replays(lake: Lake, table: Table, rows: DataFrame) -> DataFrame:
    """Adds `_replayed`: why the record was a dead letter, who mended it, when it was applied."""
    columns, letters = list[str](), f"{table.table}_dead_letters"
    mended = bronze_rows.mended_sql(lake, table)
    if lake.exists("silver", letters):
        at = F.date_format("resolved_at", TIME_FORMAT)
        text = F.concat(F.lit("rejected at first ("), "reason", F.lit("), replayed "), at)
        kept = lake.spark.table(lake.name("silver", letters)).where("resolved_at IS NOT NULL")
        repairs = kept.select("_feed", "_arrival", text.alias("_applied"))
        rows, columns = rows.join(repairs, ["_feed", "_arrival"], "left"), ["_applied"]
    if mended is not None:
        text = F.concat(F.lit("mended by hand "), F.date_format("_mended_at", TIME_FORMAT))
        repairs = lake.spark.sql(mended).select("_feed", "_arrival", text.alias("_by_hand"))
        rows, columns = rows.join(repairs, ["_feed", "_arrival"], "left"), ["_by_hand", *columns]
    parts = [F.col(name) for name in columns] or [F.lit(None).cast("string")]
    there = F.coalesce(*parts).isNotNull()
    return rows.withColumn("_replayed", F.when(there, F.concat_ws(", ", *parts)))


def _find_positions(table: SilverTable, rows: Sequence[Row]) -> dict[str, str]:
    """Where in which file records lie, by arrival; the log has this of some rows only."""
    unknown = [row for row in rows if row["_position"] is None]
    places: dict[str, str] = {}
    feeds = bronze_rows.feeds_of(table.config).keys() & {row["_feed"] for row in unknown}
    for feed in (feed for feed in feeds if table.lake.exists("bronze", feed)):
        records = [row for row in unknown if row["_feed"] == feed]
        batches = [row["_feed_batch"] for row in records]
        raw = bronze_rows.read_batches(table, feed, min(batches), max(batches))
        wanted = {row["_arrival"].partition(ROW_MARK)[0] for row in records}
        there = raw.where(F.col("_arrival").isin(sorted(wanted)))
        spelled = there.select("_arrival", position_column().alias("position"))
        places |= {row["_arrival"]: row["position"] for row in spelled.collect()}
    return places


def _build_record(row: Row, positions: Mapping[str, str]) -> KeyRecord:
    of_record = row["_arrival"].partition(ROW_MARK)[0]
    return KeyRecord(
        position=row["_position"] or positions.get(of_record) or of_record,
        arrival=row["_arrival"],
        batch=row["_batch"],
        operation=row["_operation"],
        sequence=row["_sequence"],
        order=bytes(row["_order"] or b""),
        digest=row["_digest"] or 0,
        source_time=row["_time"],
        carried=frozenset(row["_carried"]) if row["_operation"] == UPSERT else frozenset(),
        reason=row["_reason"],
        message=row["_message"],
        replayed=row["_replayed"],
        old_key=None if row["_moved"] else row["_old_key"],
        moved=row["_moved"],
        values=row["_values"],
    )


def _list_cutoffs(rows: Sequence[Row], seen: TableState) -> list[KeyRecord]:
    """Full snapshots that are complete and do not show the key, as records of the table."""
    shown = {row["_snapshot"] for row in rows if row["_mine"]}
    ends = {row["_snapshot"]: row["_batch"] for row in rows if row["_last"]}
    return [
        KeyRecord(
            position=f"full snapshot {epoch.snapshot}",
            arrival="",
            batch=ends.get(epoch.snapshot, seen.batch),
            operation=SNAPSHOT,
            order=epoch.cutoff,
        )
        for epoch in seen.whole.epochs
        if epoch.complete and epoch.snapshot not in shown
    ]


def _build_line(outcome: RecordOutcome) -> Explained:
    record = outcome.record
    given = (record.position, record.sequence, record.operation, record.source_time)
    return Explained(*given, outcome.outcome, outcome.because, record.values)


def _explain_row(
    lake: Lake, table: Table, key: Key, outcomes: Sequence[RecordOutcome]
) -> Explained:
    """The row that silver holds of the key."""
    row = _read_live_row(lake, table, key)
    if row is None:
        return Explained(None, None, "row", None, "no row", _explain_missing(outcomes), None)
    by = next((t.record for t in outcomes if t.record.order == bytes(row["_order"])), None)
    position, time = (by.position, by.source_time) if by else (None, None)
    return Explained(position, None, "row", time, "current", None, row["_values"])


def _read_live_row(lake: Lake, table: Table, key: Key) -> Row | None:
    history = table.stored_as_scd_type == 2
    kept = f"{table.table}_history" if history else table.table
    if not lake.exists("silver", kept):
        return None
    rows = lake.spark.table(lake.name("silver", kept))
    values = [f.name for f in layout.list_source_fields(rows.schema) if f.name not in table.keys]
    live = F.col("_is_current") if history else ~F.col("_deleted")
    key_rows = rows.where(one_key.is_key(key, rows.schema) & live)
    return key_rows.select(
        "_order", as_json(table, values, name_array(values)).alias("_values")
    ).first()


def _explain_missing(outcomes: Sequence[RecordOutcome]) -> str:
    """What removed the row."""
    for each in reversed(outcomes):
        if each.outcome in ("applied", "late", "delete_unknown"):
            if each.record.operation != UPSERT:
                return f"deleted by {each.record.position}"
            break
    return "nothing was applied"


HIDDEN = "(sensitive)"


def name_array(columns: Sequence[str]) -> Column:
    """The names as an array."""
    return F.array(*[F.lit(name) for name in columns]).cast("array<string>")


def select_carried(columns: Sequence[str]) -> Column:
    """The given columns without those that the change does not carry."""
    return F.array_except(name_array(columns), F.coalesce("_absent", name_array([])))


def as_json(table: Table, columns: Sequence[str], chosen: Column) -> Column:
    """The values of the columns in the array `chosen` as one JSON object; digits are kept.

    A sensitive value is not shown.
    """
    members = [F.when(F.array_contains(chosen, name), _to_member(table, name)) for name in columns]
    there = F.array_compact(F.array(*members, F.lit(None).cast("string")))
    return F.concat(F.lit("{"), F.array_join(there, ", "), F.lit("}"))


def _to_member(table: Table, name: str) -> Column:
    hidden = F.when(column(name).isNotNull(), F.lit(HIDDEN))
    value = hidden if table.is_sensitive(name) else column(name)
    text = F.to_json(F.struct(value.alias(name)), JSON_OPTIONS)
    return F.substring(text, F.lit(2), F.length(text) - 2)
