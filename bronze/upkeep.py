"""Which of bronze's tables there are to keep up."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from bronze.feeds import feeds
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.names import exists, name


def of_feeds(spark: SparkSession, target: Target, tables: Sequence[Table]) -> list[str]:
    """SQL names of the tables' feeds that exist."""
    found = [feed.name for feed in feeds(tables)]
    return [name(target, "bronze", feed) for feed in found if exists(spark, target, "bronze", feed)]
