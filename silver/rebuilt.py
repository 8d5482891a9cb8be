"""The law of the rebuild: decoding bronze again and folding it in memory gives silver's rows.

Nothing is written. The records are decoded anew, put in order and folded by the functions that a
run uses. What the change log says of a record stands: a record that it rejects is left out, so that
a rule that came later is no difference.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.answers import JSON_OPTIONS
from lakehouse.table import Table
from lakehouse.target import Target
from silver import keyless, layout, log, reading
from silver.batch import Seen, keyed, stamped
from silver.compact import column, compact, digest
from silver.decode import decode
from silver.group_order import grouped
from silver.heirs import inherit
from silver.history import fold, incoming_rows
from silver.row_laws import key_text
from silver.snapshots import Truncate

SAME = "a rebuild from bronze gives the same rows"
_VERSION = ("_valid_from", "_valid_to", "_sequence_from", "_sequence_to", "_is_current")


def laws(
    spark: SparkSession, target: Target, table: Table, seen: Seen, sample: int | None
) -> dict[str, DataFrame]:
    """The law for about `sample` keys, chosen by a digest, or for all; none before silver holds it.

    A unit is a key. A table without a key is compared as a whole, a unit being one change.
    """
    history = table.stored_as_scd_type == 2
    kept = f"{table.table}_history" if history else table.table
    if not any(seen.positions.values()) or not names.exists(spark, target, "silver", kept):
        return {}
    rows = log.read(spark, target, table).where(F.col("_batch") <= seen.batch)
    raw = reading.unread(spark, target, table, {}, seen.positions)
    stored = spark.table(names.name(target, "silver", kept))
    accepted = _accepted(decode(raw, table, layout.learned(spark, target, table)), rows)
    values = [f.name for f in layout.business(stored.schema) if f.name not in table.keys]
    placed = keyed(stamped(accepted, table, seen.whole.epochs))
    changes = _complete(placed, stored, values)
    floors = seen.whole.floors(table.on_truncate == "apply")
    if not table.keys:
        return {SAME: _without_key(changes, stored, values, floors)}
    summary = log.summarize(rows)
    whole = inherit(changes, None, table.keys, summary.partial) if summary.heirs else changes
    chosen = _chosen(rows, table, sample, seen.batch)
    compared = _versions if history else _rows
    part, held = whole.where(chosen), stored.where(chosen)
    return {SAME: compared(part, held, table, values, floors, summary.partial)}


def _versions(
    changes: DataFrame,
    stored: DataFrame,
    table: Table,
    values: list[str],
    floors: list[Truncate],
    _: list[str],
) -> DataFrame:
    incoming = incoming_rows(changes.withColumn("_batch", F.lit(0)), table.keys, values)
    folded = fold(stored.limit(0), incoming, table, values, floors)
    shown = [*values, *_VERSION]
    return _compared(folded.where("_shown"), stored.where("_shown"), table, shown)


def _rows(
    changes: DataFrame,
    stored: DataFrame,
    table: Table,
    values: list[str],
    floors: list[Truncate],
    partial: list[str],
) -> DataFrame:
    rebuilt = compact(_above(changes, floors), table.keys, values, partial, grouped(table))
    return _compared(_live(rebuilt), _live(stored), table, [*values, "_place"])


def _above(changes: DataFrame, floors: list[Truncate]) -> DataFrame:
    return changes.where(F.col("_stamp") > floors[-1].stamp) if floors else changes


def _accepted(decoded: DataFrame, rows: DataFrame) -> DataFrame:
    """Decoded records but those that the log rejects."""
    left_out = rows.where("_reason IS NOT NULL")
    return decoded.join(left_out.select("_feed", "_arrival"), ["_feed", "_arrival"], "left_anti")


def _complete(changes: DataFrame, stored: DataFrame, values: list[str]) -> DataFrame:
    """The changes with every column that is stored, and their digest."""
    lacking = {
        v: F.lit(None).cast(stored.schema[v].dataType) for v in values if v not in changes.columns
    }
    whole = changes.withColumns(lacking) if lacking else changes
    return whole.withColumn("_digest", digest(values))


def _chosen(rows: DataFrame, table: Table, sample: int | None, salt: int) -> Column:
    """Whether a key is in the sample; another one after every pass."""
    if sample is None:
        return F.lit(True)
    row = rows.agg(F.approx_count_distinct(key_text(table.keys)).alias("n")).first()
    share = max(1, (row["n"] if row else 0) // max(1, sample))
    return F.pmod(F.xxhash64(key_text(table.keys), F.lit(salt)), F.lit(share)) == 0


def _live(rows: DataFrame) -> DataFrame:
    place = F.substring_index("_stamp", " ", 1)
    return rows.where("NOT _deleted").withColumn("_place", place)


def _compared(rebuilt: DataFrame, stored: DataFrame, table: Table, shown: list[str]) -> DataFrame:
    def texts(rows: DataFrame, sign: int) -> DataFrame:
        content = F.to_json(F.struct(*[column(c) for c in shown]), JSON_OPTIONS)
        return rows.select(
            key_text(table.keys).alias("unit"), content.alias("_content"), F.lit(sign).alias("_n")
        )

    both = texts(rebuilt, 1).unionByName(texts(stored, -1))
    counted = both.groupBy("unit", "_content").agg(F.sum("_n").alias("_n"))
    return counted.groupBy("unit").agg(F.bool_or(F.col("_n") != 0).alias("bad"))


def _without_key(
    changes: DataFrame, stored: DataFrame, values: list[str], floors: list[Truncate]
) -> DataFrame:
    rebuilt = keyless.identified(_above(changes, floors), values)
    sides = rebuilt.select("_row", F.lit(1).alias("_n")).unionByName(
        stored.select("_row", F.lit(-1).alias("_n"))
    )
    counted = sides.groupBy("_row").agg(F.sum("_n").alias("_n"))
    return counted.select(F.col("_row").alias("unit"), (F.col("_n") != 0).alias("bad"))
