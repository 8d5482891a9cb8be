"""The law of the rebuild: decoding bronze again and folding it in memory gives silver's rows.

Nothing is written. The records are decoded anew, put in order and folded by the functions that a
run uses. What the change log says of a record stands: one that it rejects, or that waits for its
transaction, is left out, so that a rule that came later is no difference.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.words import JSON_OPTIONS
from silver.audit.row_checks import key_text
from silver.changelog import bronze_rows, key_changes, log
from silver.contract import sequence_text
from silver.decode.expressions.names import grouped_columns
from silver.decode.spark import decode_known
from silver.fold.order_key import sequence_sql
from silver.groups import group_state
from silver.merge import current, history, keyless
from silver.run import SilverTable
from silver.state.batch import Batch, keyed, ordered
from silver.state.summary import summarize
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import column, digest
from silver.storage.stages import sealed

SAME = "a rebuild from bronze gives the same rows"
_RECORD = ["_feed", "_arrival"]
_VERSION = ("_valid_from", "_valid_to", "_sequence_from", "_sequence_to", "_is_current")
_BOUNDS = {"_sequence_from": "_from_order", "_sequence_to": "_to_order"}


def laws(
    spark: SparkSession, target: Target, table: Table, seen: TableState, sample: int | None
) -> dict[str, DataFrame]:
    """The law for about `sample` keys, chosen by a digest, or for all; none before silver holds it.

    A unit is a key. A table without a key is compared as a whole, a unit being one change. Extracts
    are compared with what was known before them, so the law is not asked of them.
    """
    history = table.stored_as_scd_type == 2
    kept = f"{table.table}_history" if history else table.table
    begun = any(seen.positions.values()) and names.exists(spark, target, "silver", kept)
    if not begun or table.format == "snapshot":
        return {}
    logged = log.read(spark, target, table)
    stored = spark.table(names.name(target, "silver", kept))
    values = [f.name for f in layout.business(stored.schema) if f.name not in table.keys]
    batch = _batch(SilverTable(Lake(spark, target), table), seen, logged, stored, values)
    if not table.keys:
        return {SAME: _without_key(table, batch, stored, values)}
    chosen = _chosen(logged, table, sample, seen.batch)
    part = batch._replace(changes=batch.changes.where(chosen))
    compared = _versions if history else _rows
    return {SAME: compared(part, stored.where(chosen), table, values)}


def _batch(
    silver_table: SilverTable,
    seen: TableState,
    logged: DataFrame,
    stored: DataFrame,
    values: list[str],
) -> Batch:
    """Everything that bronze holds, decoded again and in order, as one batch into an empty table.

    What kinds of changes there are is known from the log.
    """
    spark, target, table = silver_table.spark, silver_table.target, silver_table.config
    raw = bronze_rows.unread(spark, target, table, {}, seen.positions)
    learned = silver_table.log.business
    schemas = bronze_rows.avro_schemas(spark, target, table)
    decoded = sealed(decode_known(raw, table, learned, seen.built, schemas))
    left_out = logged.where(F.col("_reason").isNotNull() | (F.col("_batch") > seen.batch))
    if seen.group is not None and (waits := seen.group.waiting):
        left_out = left_out.unionByName(group_state.held_back(spark, waits, logged))
    accepted = decoded.join(left_out.select(*_RECORD), _RECORD, "left_anti")
    changes = _complete(keyed(ordered(accepted, table, seen.whole.epochs)), stored, values)
    summary = summarize(logged)
    cutoffs = seen.whole.cutoffs(table.on_truncate == "apply")
    if summary.heirs and table.keys:
        changes = key_changes.with_old_keys(changes, changes, table)
    partial = sorted({*summary.partial, *({*values} & {*grouped_columns(table)})})
    return Batch(0, changes, [], partial, cutoffs, False, False, of_whole_keys=True)


def _versions(batch: Batch, stored: DataFrame, table: Table, values: list[str]) -> DataFrame:
    rebuilt = history.first_versions(table, batch, values)
    shown = [*values, *_VERSION]
    return _compared(_versions_of(rebuilt), _versions_of(stored), table, shown)


def _versions_of(rows: DataFrame) -> DataFrame:
    bounds = {name: F.expr(sequence_text(order)) for name, order in _BOUNDS.items()}
    return rows.where("_shown").withColumns(bounds)


def _rows(batch: Batch, stored: DataFrame, table: Table, values: list[str]) -> DataFrame:
    rebuilt = current.first_rows(table, batch, values)
    return _compared(_live(rebuilt), _live(stored), table, [*values, "_place"])


def _complete(changes: DataFrame, stored: DataFrame, values: list[str]) -> DataFrame:
    """The changes with every column that is stored, and their digest."""
    lacking = {
        v: F.lit(None).cast(stored.schema[v].dataType) for v in values if v not in changes.columns
    }
    own = {"_batch": F.lit(0), "_new": F.lit(True)}
    return changes.withColumns(lacking | own).withColumn("_digest", digest(values))


def _chosen(rows: DataFrame, table: Table, sample: int | None, salt: int) -> Column:
    """Whether a key is in the sample; another one after every pass."""
    if sample is None:
        return F.lit(True)
    row = rows.agg(F.approx_count_distinct(key_text(table.keys)).alias("n")).first()
    share = max(1, (row["n"] if row else 0) // max(1, sample))
    return F.pmod(F.xxhash64(key_text(table.keys), F.lit(salt)), F.lit(share)) == 0


def _live(rows: DataFrame) -> DataFrame:
    place = F.hex(F.expr(sequence_sql("_order")))
    return rows.where("NOT _deleted").withColumn("_place", place)


def _compared(rebuilt: DataFrame, stored: DataFrame, table: Table, shown: list[str]) -> DataFrame:
    content = F.to_json(F.struct(*[column(c) for c in shown]), JSON_OPTIONS)
    counted = _counted(rebuilt, stored, key_text(table.keys), content)
    return counted.groupBy("unit").agg(F.bool_or(F.col("_n") != 0).alias("bad"))


def _without_key(table: Table, batch: Batch, stored: DataFrame, values: list[str]) -> DataFrame:
    rebuilt = keyless.new_rows(table, batch, None, values)
    counted = _counted(rebuilt, stored, F.col("_row"), F.lit(""))
    return counted.select("unit", (F.col("_n") != 0).alias("bad"))


def _counted(rebuilt: DataFrame, stored: DataFrame, unit: Column, content: Column) -> DataFrame:
    """How many more rows of a unit and content the rebuild has than what is stored, as `_n`."""
    sides = [
        rows.select(unit.alias("unit"), content.alias("_content"), F.lit(sign).alias("_n"))
        for rows, sign in ((rebuilt, 1), (stored, -1))
    ]
    return sides[0].unionByName(sides[1]).groupBy("unit", "_content").agg(F.sum("_n").alias("_n"))
