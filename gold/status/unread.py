"""Records that no table reads, over all runs, from the ledger."""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.unread import UNREAD, Unread, unread


def unread_records(spark: SparkSession, target: Target, tables: Sequence[Table]) -> list[Unread]:
    """What no table reads of the feeds that tables share; `tables` are all that are configured."""
    bronze = ledger.read(spark, target).where("layer = 'bronze'")
    counts = bronze.select("table", F.explode("counts").alias("name", "n"))
    own = counts.where(F.substring_index("name", ":", 1) == UNREAD)
    sums = own.groupBy("table", "name").agg(F.sum("n").alias("n")).orderBy("table", "name")
    return unread([(row["table"], row["name"], row["n"]) for row in sums.collect()], tables)
