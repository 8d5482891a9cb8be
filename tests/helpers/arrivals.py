"""Puts records into bronze without a stream, and brings silver up to them."""

import json
from collections.abc import Sequence
from typing import Any

from bronze import storage
from bronze.feeds import list_feeds
from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver import job
from tests.helpers.builders import bronze_rows
from tests.helpers.lakes import quiet


def arrive(lake: Lake, table: Table, rows: Sequence[dict[str, Any]], batch: int) -> None:
    """Appends records to the bronze table of the table's feed, as batch `batch`."""
    (feed,) = list_feeds([table])
    storage.prepare_table(lake, feed)
    whole = table.feeds[0].topic is not None
    made = bronze_rows(lake.spark, [dict(row) for row in rows], batch, whole)
    storage.append_spread(lake, feed, made, batch)


def applied(lake: Lake, table: Table, merges: bool = True) -> Entry:
    """Brings the table up to bronze; fails where it failed. What waits is merged as well."""
    apply = job.apply_all if merges else job.apply
    (entry,) = apply(lake, [table], "run", quiet)
    assert entry.message is None
    return entry


def silver(lake: Lake, name: str, order: str) -> list[dict[str, Any]]:
    """The rows of a silver table, ordered by a column."""
    rows = lake.spark.table(lake.name("silver", name)).orderBy(order)
    return [row.asDict() for row in rows.collect()]


def raw(row: dict[str, Any]) -> str:
    """A record as bronze keeps it."""
    return json.dumps(row)
