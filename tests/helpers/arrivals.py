"""Puts records into bronze without a stream, and brings silver up to them."""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from bronze import storage
from bronze.feeds import list_feeds
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.storage import names
from silver import job
from tests.helpers.builders import bronze_rows
from tests.helpers.lake import quiet


def arrive(
    spark: SparkSession, target: Target, table: Table, rows: Sequence[dict[str, Any]], batch: int
) -> None:
    """Appends records to the bronze table of the table's feed, as batch `batch`."""
    (feed,) = list_feeds([table])
    storage.prepare_table(spark, target, feed)
    whole = table.feeds[0].topic is not None
    made = bronze_rows(spark, [dict(row) for row in rows], batch, whole)
    storage.append_spread(spark, target, feed, made, batch)


def applied(spark: SparkSession, target: Target, table: Table, merges: bool = True) -> Entry:
    """Brings the table up to bronze; fails where it failed. What waits is merged as well."""
    apply = job.apply_all if merges else job.apply
    (entry,) = apply(spark, target, [table], "run", quiet)
    assert entry.message is None
    return entry


def silver(spark: SparkSession, target: Target, name: str, order: str) -> list[dict[str, Any]]:
    """The rows of a silver table, ordered by a column."""
    rows = spark.table(names.table_name(target, "silver", name)).orderBy(order)
    return [row.asDict() for row in rows.collect()]


def raw(row: dict[str, Any]) -> str:
    """A record as bronze keeps it."""
    return json.dumps(row)
