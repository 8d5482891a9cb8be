"""`silver.T_dead_letters`: records that cannot be applied, each with its position and reason.

A dead letter is identified by its feed and its order of arrival there: writing the same one again
adds nothing.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.statements import execute_with_rows
from lakehouse.words import EXACT_TIMES
from silver.changelog import schema_changes
from silver.changelog.acknowledged import with_acknowledged
from silver.changelog.batch import Batch, Reach
from silver.contract import DEAD_LETTER_COLUMNS
from silver.run import Run, SilverTable
from silver.state.epochs import order_of
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import column, has_key

SAME = "t._feed = s._feed AND t._arrival = s._arrival"
_CLASS = "dead_letter:"
_OWN = ("_sequence", "_order", "_source_time", "_feed", "_arrival", "_batch")


def keep_dead_letters(run: Run, batch: Batch, state: TableState) -> TableState:
    """Keeps the dead letters among the log rows that a run applies, each of them once.

    Returns the state with the columns that got values of an incompatible type.
    """
    rejected = batch.summary.rejected
    if not (rejected or (batch.reach is Reach.LOG and batch.table.dead_letters.exists)):
        return state
    _record_letters(batch, run.id)
    if schema_changes.INCOMPATIBLE not in rejected:
        return state
    misfits = schema_changes.find_misfits(batch.judged, state)
    return schema_changes.record_changes(state, misfits, run.id)


def _record_letters(batch: Batch, run_id: str) -> None:
    """Adds the rejected rows of a batch to the table's dead letters.

    Letters that are there already get their present order key. Bytes that are no UTF-8 are replaced
    in `raw`, so that any client can read it; bronze has the record as it came.
    """
    table = batch.table.config
    dead = batch.judged.where(F.col("_reason").isNotNull())
    given = {
        "reason": F.col("_reason"),
        "message": F.col("_message"),
        "rule": F.col("_rule"),
        "raw": F.make_valid_utf8("_raw"),
        "position": F.col("_position"),
        "run_id": F.lit(run_id),
        "at": F.current_timestamp(),
        "resolved_at": F.lit(None).cast("timestamp"),
        "resolved_by": F.lit(None).cast("string"),
        "_key": _build_key_json(table),
    }
    ordered = dead.withColumn("_order", order_of(table, batch.epochs))
    letters = ordered.select(*[value.alias(name) for name, value in given.items()], *_OWN)
    text = (
        f"MERGE INTO {ensure_letter_table(batch.table)} t USING {{rows}} s ON {SAME}"
        " WHEN MATCHED AND NOT (t._order <=> s._order) THEN UPDATE SET t._order = s._order"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    execute_with_rows(batch.table.spark, text, letters)


def resolve_files(table: SilverTable, files: Sequence[str], run_id: str) -> None:
    """Marks the dead letters of dropped files as resolved; `files` begin their `_arrival`s."""
    begins = " OR ".join(f"startswith(_arrival, {names.literal(file)})" for file in files)
    table.spark.sql(
        f"UPDATE {ensure_letter_table(table)} SET {resolved_sql(run_id)}"
        f" WHERE resolved_at IS NULL AND ({begins})"
    )


def resolved_sql(run_id: str) -> str:
    """SQL that sets what a dead letter has once a run has resolved it."""
    return f"resolved_at = current_timestamp(), resolved_by = {names.literal(run_id)}"


def count_too_many(
    lake: Lake, tables: Sequence[Table], entries: Sequence[Entry]
) -> list[tuple[Table, int]]:
    """Tables that got dead letters and have more than `max_dead_letters` now, and how many."""
    got = {e.table for e in entries if any(n.startswith(_CLASS) and e.counts[n] for n in e.counts)}
    counts = []
    for table in (table for table in tables if table.table in got):
        letters = SilverTable(lake, table).dead_letters.read()
        open_ = with_acknowledged(lake, letters.where("resolved_at IS NULL"))
        unresolved = open_.where("acknowledged IS NULL").count()
        if unresolved > table.max_dead_letters:
            counts.append((table, unresolved))
    return counts


def _build_key_json(table: Table) -> Column:
    """The key as JSON with all digits of its times; null unless all of it could be read."""
    if not table.keys:
        return F.lit(None).cast("string")
    keys = F.to_json(F.struct(*[column(k) for k in table.keys]), EXACT_TIMES)
    return F.when(has_key(table), keys)


def ensure_letter_table(table: SilverTable) -> str:
    """Creates the dead letter table of a table when it is missing; returns its SQL name."""
    layout.ensure_table(table.dead_letters, [], DEAD_LETTER_COLUMNS)
    return table.dead_letters.name
