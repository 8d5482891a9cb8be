"""Feeds: the physical sources of the tables, each read once however many tables share it."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bronze.contract import feed_name, topics, transaction_feed
from lakehouse.config.column_types import read_type
from lakehouse.config.csv_options import Csv
from lakehouse.config.formats import Format
from lakehouse.config.table import FileFormat, Kafka, SchemaRegistry, Source, Strict, Table
from lakehouse.config.target import Target

TRANSACTIONS = "(transactions)"

_WORD = re.compile(r"\w+")


class Feed(Strict):
    """A folder, Kafka topics or a Delta table, and the bronze table that takes its records.

    `tables` maps each table to the topics that are its own; no topics means every record. Limits
    are the smallest that a table asks for. The one user of a feed that brings the transactions of a
    consistency group is `TRANSACTIONS`. `keys` and `columns` are those that the feed's table
    declares, in order; none where several tables read the feed. `texts` are those of its columns
    that it declares to be text. `orders` are the words of what orders rows, in lower case. Of a
    `delta` table that is `read_anew`, a truncate comes first.
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


def feeds(tables: Iterable[Table]) -> list[Feed]:
    """The feeds of the tables, in the order in which they are first named."""
    users: dict[str, list[_Use]] = {}
    for table in tables:
        texts = tuple(
            name
            for column, told in table.columns.items()
            for name in (column, *told.renamed_from)
            if read_type(told.type).name == "string"
        )
        declared = tuple(table.keys), tuple(table.columns), texts
        for source in table.feeds:
            read_anew = table.reads_delta and table.sequence_by is None
            use = _Use(table.table, source, *declared, read_anew, _orders(table))
            users.setdefault(feed_name(table, source), []).append(use)
            ends = transaction_feed(table, source)
            if ends is not None and ends.source is not None:
                use = _Use(TRANSACTIONS, ends.source.model_copy(update={"topic": None}))
                users.setdefault(ends.feed, []).append(use)
    return [_feed(feed, uses) for feed, uses in users.items()]


def families(tables: Sequence[Table]) -> list[list[Table]]:
    """The tables, those together that share a feed with one another."""
    kin = {table.table: {table.table} for table in tables}
    for feed in feeds(tables):
        whole = {name for table in feed.tables for name in kin[table]}
        kin |= dict.fromkeys(whole, whole)
    distinct = {frozenset(names): None for names in kin.values()}
    return [[table for table in tables if table.table in names] for names in distinct]


def folder(target: Target, feed: Feed) -> str:
    """The feed's folder: below the landing root, unless its path is absolute or a URL."""
    path = str(feed.path).rstrip("/")
    return path if path.startswith("/") or "://" in path else f"{target.landing}/{path}"


class _Use(NamedTuple):
    """A table's source, its keys, declared columns, those that are text; see `Feed.read_anew`."""

    table: str
    source: Source
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    read_anew: bool = False
    orders: frozenset[str] = frozenset()


def _orders(table: Table) -> frozenset[str]:
    """The words of what orders a table's rows and its groups of columns; columns are among them."""
    own = table.sequence_by or []
    orders = [own] if isinstance(own, str) else own
    listed = [*orders, *(group.sequence_by for group in table.sequence_groups)]
    return frozenset(word.lower() for order in listed for word in (order, *_WORD.findall(order)))


def _feed(feed: str, uses: Sequence[_Use]) -> Feed:
    first = uses[0].source
    limits = {limit: _smallest(uses, limit) for limit in ("files", "bytes", "offsets")}
    tables = _topics_by_table(uses)
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
        kafka=first.kafka,
        delta=first.delta,
        read_anew=all(use.read_anew for use in uses),
        registry=first.schema_registry,
        once=all(use.source.once for use in uses),
        max_files=limits["files"],
        max_bytes=limits["bytes"],
        max_offsets=limits["offsets"],
    )


def _smallest(uses: Sequence[_Use], limit: str) -> int | None:
    given = [getattr(use.source, f"max_{limit}_per_trigger") for use in uses]
    return min((number for number in given if number is not None), default=None)


def _topics_by_table(uses: Sequence[_Use]) -> dict[str, tuple[str, ...]]:
    own: dict[str, tuple[str, ...]] = {}
    for use in uses:
        own[use.table] = own.get(use.table, ()) + topics(use.source)
    return own
