"""A batch into its table, whichever kind of table that is."""

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from silver.fold.spark import Counts
from silver.merge.current import write_current
from silver.merge.history import write_history
from silver.merge.keyless import write_keyless
from silver.state.batch import Batch


def write_batch(
    spark: SparkSession, target: Target, table: Table, batch: Batch, replaces: bool
) -> Counts:
    """Folds a batch into the table; `replaces` says that the batch is all there is."""
    if not table.keys:
        return write_keyless(spark, target, table, batch, replaces)
    write = write_history if table.stored_as_scd_type == 2 else write_current
    return write(spark, target, table, batch, replaces)
