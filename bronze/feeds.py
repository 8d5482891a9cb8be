"""Feeds: the physical sources of the tables, each read once however many tables share it."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bronze.contract import feed_name, topics_of_source, transaction_feed
from lakehouse.config.column_types import read_type
from lakehouse.config.csv_options import Csv
from lakehouse.config.formats import Format
from lakehouse.config.source import FileFormat, Kafka, SchemaRegistry, Source
from lakehouse.config.strict import Strict
from lakehouse.config.table import Table
from lakehouse.config.target import Target

TRANSACTIONS = "(transactions)"

_WORD = re.compile(r"\w+")


class Feed(Strict):
    """A folder, Kafka topics or a Delta table, and the bronze table that takes its records.

    `tables` maps each table to its own topics; no topics means every record. Limits are the
    smallest of the tables' limits. A feed of transaction ENDs belongs to `TRANSACTIONS` instead of
    a table. `keys` and `columns` are declared by the feed's table, in order, and empty if several
    tables read the feed; `texts` are the columns declared as text. `orders` are the words of
    `sequence_by`, in lower case. `read_anew`: reading a Delta table again begins with a truncate.
    """

    name: str
    tables: dict[str, tuple[str, ...]]
    format: Format
    file_format: FileFormat
    csv: Csv
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    orders: frozenset[str]
    path: str | None
    kafka: Kafka | None
    delta: str | None
    read_anew: bool
    registry: SchemaRegistry | None
    once: bool
    max_files: int | None
    max_bytes: int | None
    max_offsets: int | None


def list_feeds(tables: Iterable[Table]) -> list[Feed]:
    """The feeds of the tables, in the order in which they are first named."""
    users: dict[str, list[_Use]] = {}
    for table in tables:
        texts = tuple(
            name
            for column, settings in table.columns.items()
            for name in (column, *settings.renamed_from)
            if read_type(settings.type).name == "string"
        )
        declared = tuple(table.keys), tuple(table.columns), texts
        for source in table.feeds:
            use = _Use(
                table.table, source, *declared, table.reads_versions, _list_order_words(table)
            )
            users.setdefault(feed_name(table, source), []).append(use)
            ends = transaction_feed(table, source)
            if ends is not None and ends.source is not None:
                use = _Use(TRANSACTIONS, ends.source.model_copy(update={"topic": ends.topic}))
                users.setdefault(ends.feed, []).append(use)
    return [_build_feed(feed, uses) for feed, uses in users.items()]


def group_tables(tables: Sequence[Table]) -> list[list[Table]]:
    """The tables in groups that share feeds, directly or through other tables."""
    kin = {table.table: {table.table} for table in tables}
    users: dict[str, list[str]] = {}
    for table in tables:
        for feed in list_feeds([table]):
            users.setdefault(feed.name, []).append(table.table)
    for readers in users.values():
        whole = {name for table in readers for name in kin[table]}
        kin |= dict.fromkeys(whole, whole)
    distinct = {frozenset(names): None for names in kin.values()}
    return [[table for table in tables if table.table in names] for names in distinct]


def feed_folder(target: Target, feed: Feed) -> str:
    """The feed's folder: below the landing root, unless its path is absolute or a URL."""
    path = str(feed.path).rstrip("/")
    return path if path.startswith("/") or "://" in path else f"{target.landing}/{path}"


class _Use(NamedTuple):
    """One source of a table, with the table's own part of the fields of `Feed`."""

    table: str
    source: Source
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    read_anew: bool = False
    orders: frozenset[str] = frozenset()


def _list_order_words(table: Table) -> frozenset[str]:
    """The words in the orders of a table and of its column groups: columns and SQL."""
    listed = [*table.orders, *(group.sequence_by for group in table.sequence_groups)]
    return frozenset(word.lower() for order in listed for word in (order, *_WORD.findall(order)))


def _join_topics(uses: Sequence[Kafka]) -> Kafka | None:
    """What the tables of a feed read of Kafka, with the topics of all of them."""
    topics = ",".join(dict.fromkeys(use.topic for use in uses))  # mostly the same text
    joined = ",".join(dict.fromkeys(topic.strip() for topic in topics.split(",")))
    return uses[0].model_copy(update={"topic": joined}) if uses else None


def _build_feed(feed: str, uses: Sequence[_Use]) -> Feed:
    first = uses[0].source
    limits = {
        limit: min(filter(None, (getattr(use.source, limit) for use in uses)), default=None)
        for limit in ("max_files_per_trigger", "max_bytes_per_trigger", "max_offsets_per_trigger")
    }
    tables: dict[str, tuple[str, ...]] = {}
    for use in uses:
        topics = topics_of_source(use.source)
        before = tables.get(use.table, topics)
        tables[use.table] = tuple(dict.fromkeys(before + topics)) if before and topics else ()
    return Feed(
        name=feed,
        tables=tables,
        format=first.format,
        file_format=first.file_format,
        csv=first.csv,
        keys=uses[0].keys if len(tables) == 1 else (),
        columns=uses[0].columns if len(tables) == 1 or not first.csv.header else (),
        texts=uses[0].texts if len(tables) == 1 else (),
        orders=frozenset().union(*(use.orders for use in uses)),
        path=first.path,
        kafka=_join_topics([use.source.kafka for use in uses if use.source.kafka]),
        delta=first.delta,
        read_anew=all(use.read_anew for use in uses),
        registry=first.schema_registry,
        once=all(use.source.once for use in uses),
        max_files=limits["max_files_per_trigger"],
        max_bytes=limits["max_bytes_per_trigger"],
        max_offsets=limits["max_offsets_per_trigger"],
    )
