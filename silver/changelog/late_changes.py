"""Changes that come too late: as old as purged tombstones, for a key without a row or tombstone.

`maintain` purges tombstones; the table's state keeps the source time up to which they are gone, its
horizon. A change at or before it whose key has no row in the current table, live or tombstone, and
no pending change, may be older than a delete that is forgotten. It becomes the dead letter
`too_late`, never a row. Tables without a horizon cost nothing; with one, a run looks for older
changes by the statistics of the change log, and looks up keys only where it finds some. A history
keeps its deletes and has no horizon.
"""

from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.statements import execute_with_rows
from silver.changelog import bronze_rows, log
from silver.contract import DELETE, UPSERT
from silver.decode.spark import position_column
from silver.run import SilverTable
from silver.state.table_state import TableState
from silver.storage.row_columns import column, of_keys

TOO_LATE = "too_late"


def reject_late_changes(table: SilverTable, state: TableState) -> bool:
    """Marks late changes in the log's batches above that of `state`, before they are applied.

    The mark stays in the log, so that a table run that is repeated after a kill decides the same.
    A key whose accepted changes are not applied yet counts as having a row.
    Returns whether anything may have been marked.
    """
    config, horizon, after = table.config, state.horizon, state.logged
    if horizon is None or not keeps_tombstones(config):
        return False
    rows, keys = log.read_log(table), [column(key) for key in config.keys]
    old = rows.where((F.col("_batch") > after) & _at_or_before(horizon))
    if old.isEmpty():
        return False
    if state.batch < after:
        waiting = rows.where(F.col("_batch").between(state.batch + 1, after) & _is_sound_change())
        old = of_keys(old, waiting.select(*keys), config, "left_anti")
    if table.kept.exists:
        old = of_keys(old, table.kept.read().select(*keys), config, "left_anti")
    _mark_too_late(table, old, horizon)
    return True


def keeps_tombstones(table: Table) -> bool:
    """Whether the table has tombstones to purge: a current table with keys, not a history."""
    return bool(table.keys) and table.stored_as_scd_type == 1


def _at_or_before(horizon: int) -> Column:
    return _is_sound_change() & (F.col("_source_time") <= F.timestamp_micros(F.lit(horizon)))


def _is_sound_change() -> Column:
    return F.col("_reason").isNull() & F.col("_operation").isin(UPSERT, DELETE)


def _mark_too_late(table: SilverTable, late: DataFrame, horizon: int) -> None:
    """Gives late rows of the log their reason, and record and place as dead letters have them."""
    place = ["_feed", "_arrival"]
    position = position_column().alias("_position")
    raw = bronze_rows.read_all_rows(table).select(*place, "_raw", position)
    until = datetime.fromtimestamp(horizon / 1_000_000, timezone.utc).isoformat()
    message = (
        f"found a change from before {until}, up to which tombstones are purged, of a key without a"
        " row; expected changes no later than tombstone_retention; rebuild takes it in"
    )
    execute_with_rows(
        table.spark,
        f"MERGE INTO {table.log.name} t USING {{rows}} s"
        " ON t._feed = s._feed AND t._arrival = s._arrival WHEN MATCHED THEN UPDATE SET"
        f" t._operation = NULL, t._reason = {names.literal(TOO_LATE)},"
        f" t._message = {names.literal(message)}, t._raw = s._raw, t._position = s._position",
        late.select(*place).join(raw, place),
    )
