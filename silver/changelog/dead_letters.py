"""`silver.T_dead_letters`: what could not be applied, with its raw record, place and reason.

A dead letter is identified by its feed and its order of arrival there: writing the same one again
adds nothing.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.storage import names
from lakehouse.words import NTZ_FORMAT, TIME_FORMAT
from silver.changelog import schema_changes
from silver.changelog.order import Placed
from silver.contract import DEAD_LETTER_COLUMNS
from silver.run import Run, SilverTable
from silver.state.batch import rejected
from silver.state.epochs import Epoch
from silver.state.summary import Summary
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import column, has_key
from silver.storage.statements import execute

SAME = "t._feed = s._feed AND t._arrival = s._arrival"
_CLASS = "dead_letter:"
EXACT_TIMES = {"timestampFormat": TIME_FORMAT, "timestampNTZFormat": NTZ_FORMAT}


def record(
    spark: SparkSession,
    target: Target,
    table: Table,
    rows: DataFrame,
    run_id: str,
    epochs: Sequence[Epoch] = (),
) -> None:
    """Adds the rejected rows of a part of the log to the table's dead letters.

    Known ones get their place in order as it is now. What is no UTF-8 in `raw` is replaced, so that
    any client can read it; bronze has the record as it came.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        rows: rows of the change log.
        run_id: the run that rejected them.
        epochs: the table's full snapshots, which decide on the place in order.
    """
    name = ensure(spark, target, table)
    letters = rejected(rows, table, list(epochs)).select(
        F.col("_reason").alias("reason"),
        F.col("_message").alias("message"),
        F.col("_rule").alias("rule"),
        F.make_valid_utf8("_raw").alias("raw"),
        F.col("_position").alias("position"),
        F.lit(run_id).alias("run_id"),
        F.current_timestamp().alias("at"),
        F.lit(None).cast("timestamp").alias("resolved_at"),
        F.lit(None).cast("string").alias("resolved_by"),
        _key(table).alias("_key"),
        "_sequence",
        "_order",
        "_source_time",
        "_feed",
        "_arrival",
        "_batch",
    )
    text = (
        f"MERGE INTO {name} t USING {{rows}} s ON {SAME}"
        " WHEN MATCHED AND NOT (t._order <=> s._order) THEN UPDATE SET t._order = s._order"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    execute(spark, text, letters)


def resolve_files(
    spark: SparkSession, target: Target, table: Table, files: Sequence[str], run_id: str
) -> None:
    """Marks the dead letters of dropped files as resolved; `files` begin their `_arrival`s."""
    begins = " OR ".join(f"startswith(_arrival, {names.literal(file)})" for file in files)
    spark.sql(
        f"UPDATE {ensure(spark, target, table)} SET resolved_at = current_timestamp(),"
        f" resolved_by = {names.literal(run_id)} WHERE resolved_at IS NULL AND ({begins})"
    )


def keep(
    run: Run, table: SilverTable, placed: Placed, summary: Summary, state: TableState
) -> TableState:
    """Keeps the dead letters among the log rows that a run applies, known ones once.

    `summary` counts them. Returns the state with the columns whose values were of an incompatible
    kind.
    """
    own = table.spark, table.target, table.config
    if not (summary.rejected or (placed.recomputes and table.letters.exists)):
        return state
    record(*own, placed.judged, run.id, placed.new.epochs)
    if schema_changes.INCOMPATIBLE not in summary.rejected:
        return state
    misfits = schema_changes.find_misfits(placed.judged, state)
    return schema_changes.note(state, misfits, run.id)


def count_too_many(
    spark: SparkSession, target: Target, tables: Sequence[Table], entries: Sequence[Entry]
) -> list[tuple[Table, int]]:
    """Tables that got dead letters and have more than `max_dead_letters` now, and how many."""
    got = {e.table for e in entries if any(n.startswith(_CLASS) and e.counts[n] for n in e.counts)}
    counts = []
    for table in tables:
        if table.table not in got:
            continue
        name = ensure(spark, target, table)
        unresolved = spark.table(name).where("resolved_at IS NULL").count()
        if unresolved > table.max_dead_letters:
            counts.append((table, unresolved))
    return counts


def _key(table: Table) -> Column:
    """The key as JSON with all digits of its times; null unless all of it could be read."""
    if not table.keys:
        return F.lit(None).cast("string")
    keys = F.to_json(F.struct(*[column(k) for k in table.keys]), EXACT_TIMES)
    return F.when(has_key(table), keys)


def ensure(spark: SparkSession, target: Target, table: Table) -> str:
    """Creates the dead letter table of a table when it is missing; returns its SQL name."""
    return layout.ensure(spark, target, _kept_in(table), [], DEAD_LETTER_COLUMNS)[0]


def _kept_in(table: Table) -> str:
    return f"{table.table}_dead_letters"
