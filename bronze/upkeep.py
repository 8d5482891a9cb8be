"""Which of bronze's tables there are to keep up."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from bronze.feeds import feeds
from lakehouse.names import exists, name
from lakehouse.table import Table
from lakehouse.target import Target


def of_feeds(spark: SparkSession, target: Target, tables: Sequence[Table]) -> list[str]:
    """SQL names of the tables' feeds that exist."""
    found = [feed.name for feed in feeds(tables)]
    return [name(target, "bronze", feed) for feed in found if exists(spark, target, "bronze", feed)]
