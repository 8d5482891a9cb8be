"""The bronze table of a feed: created with its comments, appended to, never changed."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from bronze.contract import COLUMNS
from bronze.feed_state import forget_state
from bronze.feeds import Feed, list_feeds
from bronze.loss.holes import MAY_BE_NUMBERED, Orders, collect_orders
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.newest import newest_batch
from lakehouse.storage import writing
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import render_properties

PROPERTIES = {"delta.dataSkippingStatsColumns": "_batch,_topic,_partition,_offset,_arrival"}
Records: TypeAlias = Mapping[str | None, int]
_NAMES = [column.name for column in COLUMNS]
MOST_TOPICS = 1_000
"""Of more topics in a batch Spark's aggregate does not count each exactly."""
_TOPICS = f"to_json(approx_top_k(_topic, {MOST_TOPICS}, {16 * MOST_TOPICS})) AS topics"


class News(NamedTuple):
    """The new records of a feed.

    Attributes:
        batch: the newest batch with a record; 0 without any.
        records: the number of new records, by topic or None.
        orders: the numbers of changes within transactions (`bronze.loss.holes`). {} means that
            surely no change is numbered; None that this is not known, and bronze is to be queried.
    """

    batch: int
    records: Records
    orders: Orders | None = None

    @property
    def unnumbered(self) -> bool:
        """Whether surely no record is a change with a number within its transaction."""
        return self.orders is not None and not self.orders

    def combine(self, later: "News") -> "News":
        """The sum of both."""
        records = Counter(self.records)
        records.update(later.records)
        if self.orders is None or later.orders is None:
            return News(max(self.batch, later.batch), records)
        orders = {key: set(seen) for key, seen in self.orders.items()}
        for key, seen in later.orders.items():
            orders.setdefault(key, set()).update(seen)
        return News(max(self.batch, later.batch), records, orders)


def prepare_table(lake: Lake, feed: Feed) -> int:
    """Creates the feed's table if it is missing; returns its newest batch, 0 without any.

    The notes of a table that is missing are deleted: the feed is read again.
    """
    newest = newest_batch(lake, "bronze", feed.name)
    if newest is not None:
        return newest
    forget_state(lake.target, feed)
    writing.create_table(lake, "bronze", feed.name, create_statement(lake.target, feed))
    return 0


def create_statement(target: Target, feed: Feed) -> str:
    """CREATE TABLE with the columns and comments of the contract."""
    comment = f"records of {', '.join(feed.tables)} as they arrived, append-only"
    declared = writing.DeclaredTable("bronze", feed.name, comment, COLUMNS, PROPERTIES)
    return declared.create_sql(target)


def append_here(lake: Lake, feed: Feed, rows: pa.Table, number: int) -> News:
    """Appends rows of this process as batch `number`, in one commit; nothing without rows.

    The rows have the contract's columns; `_raw` is binary.
    """
    if not rows.num_rows:
        return News(0, {}, {})
    topics = rows["_topic"].to_pylist()
    orders = collect_orders(topics, rows["_raw"].to_pylist()) if feed.format == "debezium" else {}
    if any(feed.tables.values()):
        rows = rows.sort_by([("_topic", "ascending"), ("_arrival", "ascending")])
    typed = [f"CAST({column.name} AS {column.type})" for column in COLUMNS]
    _append_rows(lake.target, feed, lake.spark.createDataFrame(rows).selectExpr(*typed).coalesce(1))
    return News(number, Counter(topics), orders)


def append_spread(lake: Lake, feed: Feed, rows: DataFrame, number: int) -> News:
    """Appends rows that Spark reads as batch `number`, in one commit; the write counts them.

    Rows are sorted by topic within a file, so that readers of a topic can skip the others.
    """
    seen = Observation()
    marked = MAY_BE_NUMBERED if feed.format == "debezium" else "false"
    sums = (_TOPICS, "count_if(_topic IS NULL) AS no_topic", f"count_if({marked}) AS numbered")
    counted = rows.select(*_NAMES).observe(seen, *map(F.expr, sums))
    if any(feed.tables.values()):
        counted = counted.sortWithinPartitions("_topic", "_arrival")
    _append_rows(lake.target, feed, counted)
    topics = json.loads(seen.get["topics"] or "[]")
    if len(topics) == MOST_TOPICS:
        return read_news(lake, feed, number - 1)
    records: dict[str | None, int] = {t["item"]: t["count"] for t in topics if "item" in t}
    if seen.get["no_topic"]:
        records[None] = seen.get["no_topic"]
    return News(number if records else 0, records, None if seen.get["numbered"] else {})


def _append_rows(target: Target, feed: Feed, rows: DataFrame) -> None:
    writing.append_typed(target, "bronze", feed.name, rows, {"compression": "zstd"})


def read_news(lake: Lake, feed: Feed, highest: int) -> News:
    """The new records after batch `highest`, by a query of bronze."""
    rows = lake.spark.table(lake.name("bronze", feed.name)).where(F.col("_batch") > highest)
    counted = rows.groupBy("_topic").agg(F.max("_batch"), F.count("*")).collect()
    batch = max((row[1] for row in counted), default=0)
    return News(batch, {row[0]: row[2] for row in counted})


def read_properties(lake: Lake, feed: Feed) -> dict[str, str]:
    """The table's properties."""
    shown = lake.spark.sql(f"SHOW TBLPROPERTIES {lake.name('bronze', feed.name)}").collect()
    return {row[0]: row[1] for row in shown}


def set_properties(lake: Lake, feed: Feed, changed: Mapping[str, str]) -> None:
    """Sets some of the table's properties."""
    table = lake.name("bronze", feed.name)
    lake.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES {render_properties(changed)}")


def to_hexadecimal(number: Column, digits: int) -> Column:
    """A number that is not negative, in upper-case hex with `digits` digits."""
    return F.lpad(F.hex(number), digits, "0")


def list_feed_tables(lake: Lake, tables: Sequence[Table]) -> list[str]:
    """SQL names of the tables' feeds that exist."""
    names = [feed.name for feed in list_feeds(tables)]
    existing = [name for name in names if lake.exists("bronze", name)]
    return [lake.name("bronze", name) for name in existing]
