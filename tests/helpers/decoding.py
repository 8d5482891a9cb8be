"""Bronze rows decoded as a batch of their own."""

from pyspark.sql import DataFrame

from lakehouse.config.table import Table
from silver.decode.spark import decode_alone


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """The changes of a batch, of which nothing is known but the table's configuration."""
    return decode_alone(raw, table, [])
