"""The ENDs of source transactions, read from the transaction topic into `silver._transactions`.

Debezium writes to that topic a BEGIN and an END for each transaction; the END says how many
records it has of each table. Only ENDs of transactions that touch the group are kept, and the
newest of each batch, which shows how far the source has come.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bronze import contract as bronze
from bronze.contract import TransactionFeed
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake, LakeTable
from silver.changelog import bronze_rows
from silver.contract import TRANSACTIONS
from silver.decode.expressions.sequence_columns import to_section
from silver.groups.transaction_marks import END_COLUMNS, READ, end_batches
from silver.storage import layout
from silver.storage.layout import TRANSACTION_COLUMNS

_TX_ID, _LSN = r"\A([0-9]+):[0-9]+\z", r"\A[0-9]+:([0-9]+)\z"


def list_feeds(members: Sequence[Table]) -> list[TransactionFeed]:
    """The bronze tables that bring the ENDs of a group's transactions; none when unknown."""
    feeds = [bronze.transaction_feed(table, source) for table in members for source in table.feeds]
    return list(dict.fromkeys(feed for feed in feeds if feed is not None))


def add_new_ends(lake: Lake, group: str, members: Sequence[Table]) -> dict[str, int]:
    """Adds the new ENDs of bronze to `silver._transactions`.

    Returns the newest batch of each feed that is in there now.
    """
    table = LakeTable(lake, "silver", TRANSACTIONS)
    layout.ensure_table(table, [], TRANSACTION_COLUMNS)
    kept = table.read().where(F.col("group") == group).groupBy("feed")
    newest_batches = kept.agg(F.max("feed_batch").alias("batch")).collect()
    done = {row["feed"]: int(row["batch"]) for row in newest_batches}
    avro = any(source.value_format == "avro" for member in members for source in member.feeds)
    for feed in (f for f in list_feeds(members) if lake.exists("bronze", f.feed)):
        new = LakeTable(lake, "bronze", feed.feed).read()
        new = new.where(F.col("_batch") > done.get(feed.feed, 0))
        new = new.where(F.col("_topic") == feed.topic) if feed.topic else new
        newest = new.agg(F.max("_batch").alias("batch")).collect()[0]["batch"]
        if newest is not None:
            schemas = bronze_rows.kept_schemas(lake, feed.feed) if avro else {}
            layout.load_rows(table, read_ends(new, group, feed.feed, members, schemas), anew=False)
            done[feed.feed] = int(newest)
    return done


def select_unseen(ends: DataFrame, read: Mapping[str, int], waiting: Collection[str]) -> DataFrame:
    """The ENDs that first came after a run, or that waited then, and count some record.

    Args:
        ends: rows of `silver._transactions` of a group.
        read: the newest batch of each feed that the run had read, as `add_new_ends` returned.
        waiting: the transactions that waited then.
    """
    feeds_and_batches = [F.lit(part) for pair in read.items() for part in pair]
    done = F.create_map(*feeds_and_batches)[F.col("feed")] if read else F.lit(0)
    is_new = F.bool_and(F.col("feed_batch") > F.coalesce(done, F.lit(0)))
    transactions = ends.groupBy("transaction").agg(is_new.alias("new"))
    unseen = transactions.where(F.col("new") | F.col("transaction").isin(*waiting))
    has_records = F.coalesce(F.size("expected"), F.lit(0)) > 0
    return ends.where(has_records).join(unseen, "transaction", "left_semi")


def read_ends(
    raw: DataFrame,
    group: str,
    feed: str,
    members: Sequence[Table],
    schemas: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """The ENDs among bronze rows as rows of `silver._transactions`, a repeat once a batch.

    `schemas` are those of the records by id, where these are Avro.
    """
    binary = {name: F.col(name).cast("binary") for name in ("_raw", "_headers")}
    read = raw.select(*[binary.get(name, F.col(name)).alias(name) for name in READ])
    ends = read.mapInArrow(partial(end_batches, dict(schemas)), END_COLUMNS)
    rows = ends.select(
        F.lit(group).alias("group"),
        extract_transaction().alias("transaction"),
        to_section(F.regexp_extract("id", _LSN, 1).try_cast("decimal(20,0)")).alias("place"),
        _count_expected(F.col("counts"), members).alias("expected"),
        "ended_at",
        F.lit(feed).alias("feed"),
        "feed_batch",
        F.row_number()
        # A window may be used: ENDs are one row per transaction, not changes.
        .over(Window.partitionBy("feed_batch").orderBy(F.desc("_arrival")))
        .alias("_rank"),
    )
    touches_group = F.coalesce(F.size("expected") > 0, F.lit(True))
    kept = rows.where(touches_group | (F.col("_rank") == 1)).drop("_rank")
    return kept.dropDuplicates(["transaction", "feed_batch"])


def extract_transaction() -> Column:
    """The transaction of an END as the change logs have it: of PostgreSQL's `txId:lsn` the txId."""
    plain = F.regexp_extract("id", _TX_ID, 1)
    return F.when(plain != "", plain).otherwise(F.col("id"))


def _count_expected(counts: Column, members: Sequence[Table]) -> Column:
    """How many records of each member there are; null when the END has no counts."""
    sums = []
    for table in members:
        counted = F.map_filter(counts, _is_of_member(table))
        total = F.aggregate(F.map_values(counted), F.lit(0).cast("bigint"), lambda a, b: a + b)
        sums += [F.lit(table.table), total]
    present = F.map_filter(F.create_map(*sums), lambda _, count: count > 0)
    return F.when(counts.isNotNull(), present)


def _is_of_member(table: Table) -> Callable[[Column, Column], Column]:
    """Whether a source table `schema.table`, which an END counts, is that of a member."""
    topics = topics_of(table)

    def is_counted(collection: Column, _: Column) -> Column:
        name = F.regexp_replace(collection, r"[^A-Za-z0-9._-]", "_")
        if not topics:
            return F.lower(F.substring_index(name, ".", -1)) == F.lit(table.table.lower())
        ends = [F.lit(f".{topic}").endswith(F.concat(F.lit("."), name)) for topic in topics]
        return reduce(or_, ends)

    return is_counted


def topics_of(table: Table) -> list[str]:
    """The topics that bring a member's records, as far as the configuration names them."""
    topics: list[str] = []
    for source in table.feeds:
        if source.topic:
            topics.append(source.topic)
        elif source.kafka:
            topics += [topic.strip() for topic in source.kafka.topic.split(",")]
        else:
            folder = str(source.path).rstrip("/").rpartition("/")[2]
            topics += [folder] if re.search(r"\..*\.", folder) else []
    return topics
