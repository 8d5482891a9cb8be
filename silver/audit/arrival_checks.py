"""Laws about what arrived: the change log holds bronze, and the ledger accounts for it.

Frames of units as in `silver.audit.row_checks`.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from silver.changelog import bronze_rows, log
from silver.contract import ACCOUNT_NOTES, EXTRACT_NOTES
from silver.run import SilverTable
from silver.state.table_state import TableState

IN_THE_LOG = "the change log holds every bronze record once"
ADDS_UP = "the classes of every run add up to its records"


def laws(
    spark: SparkSession, target: Target, table: Table, seen: TableState
) -> dict[str, DataFrame]:
    """Both laws; that of the log only once something is applied.

    What a full extract lacks is in the log without a record.
    """
    known = {
        ADDS_UP: adds_up(
            ledger.read(spark, target).where(_of(table) & (F.col("status") != "begun"))
        )
    }
    if not any(seen.positions.values()):
        return known
    silver_table = SilverTable.at(spark, target, table)
    raw = bronze_rows.unread(silver_table, {}, seen.positions)
    reached = [F.lit(part) for feed in seen.positions.items() for part in feed]
    rows = log.read(silver_table)
    rows = rows.where(F.col("_feed_batch") <= F.create_map(*reached)[F.col("_feed")])
    if table.format == "snapshot":
        rows = rows.where(~F.col("_letter").eqNullSafe(F.lit(EXTRACT_NOTES[0])))
    return {IN_THE_LOG: in_the_log(raw, rows), **known}


def in_the_log(raw: DataFrame, rows: DataFrame) -> DataFrame:
    """Ingest batches of the feeds; one is bad when the log lacks or repeats a record of it."""
    given = raw.groupBy("_feed", F.col("_batch").alias("_feed_batch"))
    kept = rows.groupBy("_feed", "_feed_batch").agg(
        F.count(F.lit(1)).alias("_kept"), F.countDistinct("_arrival").alias("_distinct")
    )
    both = given.agg(F.count(F.lit(1)).alias("_raw")).join(kept, ["_feed", "_feed_batch"], "full")
    found = F.coalesce("_raw", F.lit(0)), F.coalesce("_kept", F.lit(0))
    told = "bronze.%s batch %d: %d in bronze, %d in the log"
    bad = (found[0] != found[1]) | (found[1] != F.coalesce("_distinct", F.lit(0)))
    return both.select(
        F.format_string(told, "_feed", "_feed_batch", *found).alias("unit"), bad.alias("bad")
    )


def adds_up(entries: DataFrame) -> DataFrame:
    """Ledger entries of silver; one is bad when its classes do not sum up to its records."""
    classes = F.map_filter(F.col("counts"), lambda name, _: ~name.isin("records", *ACCOUNT_NOTES))
    total = F.aggregate(F.map_values(classes), F.lit(0).cast("bigint"), lambda a, b: a + b)
    records = F.coalesce(F.col("counts")["records"], F.lit(0))
    told = F.format_string("run %s: %d records, %d in classes", "run_id", records, total)
    return entries.select(told.alias("unit"), (records != total).alias("bad"))


def _of(table: Table) -> Column:
    return (F.col("layer") == "silver") & (F.col("table") == table.table)
