"""The live rows that the snapshot files of a date are compared with."""

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from silver.changelog import log
from silver.contract import DELETE, UPSERT
from silver.decode.protocols.snapshot_files import sequence_of_day
from silver.fold.order_key import make_order, order_literal
from silver.run import SilverTable
from silver.state.table_state import TableState
from silver.storage.layout import list_source_fields, list_value_columns
from silver.storage.row_columns import column


def read_live_rows(table: SilverTable, state: TableState, day: date) -> DataFrame | None:
    """Keys and values of the live rows before a date; None where nothing is logged.

    They are the table's own, or those of the log where the table holds changes from the date on.
    """
    if not table.log.business:
        return None
    sequence = sequence_of_day(day)
    if not table.kept.exists or reaches_sequence(table, state, sequence):
        earlier = log.read_log(table).where(F.col("_sequence") < sequence)
        return select_live_rows(earlier, table.config.keys)
    is_live = "_is_current" if table.config.stored_as_scd_type == 2 else "NOT _deleted"
    kept = table.kept.read()
    return kept.where(is_live).select(*[column(f.name) for f in list_source_fields(kept.schema)])


def reaches_sequence(table: SilverTable, state: TableState, sequence: str) -> bool:
    """Whether a change of this sequence or a later one has been merged into the table."""
    order = make_order(sequence)
    if state.highest is not None:
        return state.highest >= order
    if not table.kept.exists:
        return False
    return not table.kept.read().where(F.col("_order") >= F.expr(order_literal(order))).isEmpty()


def select_live_rows(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keys and values of the live rows after some upserts and deletes of the log."""
    values = list_value_columns(changes.schema, keys)
    content = F.struct(F.col("_operation"), *map(column, values))
    newest = F.max_by(content, F.struct("_sequence", "_arrival")).alias("_change")
    applied = changes.where(F.col("_operation").isin(UPSERT, DELETE))
    live = applied.groupBy(*map(column, keys)).agg(newest).where(f"_change._operation = '{UPSERT}'")
    chosen = [F.col("_change")[value].alias(value) for value in values]
    return live.select(*map(column, keys), *chosen)
