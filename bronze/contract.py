"""What silver may know of a bronze table: its columns, and nothing else.

A bronze table is append-only. One row is one record as it arrived: a line of a dropped file, a row
of a CSV or Parquet file (as one JSON object), or a Kafka record. Where several tables share a
folder or topic, `bronze.T` is a view of the records of T's own topic.
"""

import hashlib
import json
import re
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from lakehouse.config.source import Source
from lakehouse.config.table import Table
from lakehouse.words import parse_columns

COLUMNS = parse_columns("""
_raw | string | the record as it arrived: a line, a row as JSON, or a Kafka value
_topic | string | topic, where the record or Kafka names one
_partition | int | partition, where the record or Kafka names one
_offset | bigint | offset, where the record or Kafka names one
_timestamp | timestamp | the record's own timestamp, where it has one
_key | string | the record's key as text, where it has one
_headers | string | the record's headers as one JSON object, where it has some
_file | string | path of the dropped file; null for Kafka
_line | bigint | MiB of the file where the split begins * 2^33 + row number; sorts as the file
_whole | boolean | whether _raw is a whole record with the value inside
_batch | bigint | number of the ingest batch, growing by time
_arrived_at | timestamp | when the batch was read
_arrival | string | begins with the batch, sorts in order of arrival; the same on every replay
""")

MENDED_AT = ("_mended_at", "timestamp", "when somebody mended the record")

WHOLE_RECORD_FORMATS = ("debezium", "ydb")
SHORT_ID, SCHEMA_ID_BYTES = 5, 9
"""In front of an Avro value: a zero byte, and an id of 4 or 8 bytes."""

NOT_TEXT = "_bronze_not_text"
"""The member of a row's JSON that lists the columns declared as text whose bytes are not UTF-8 in
this row of a Parquet file. Their values are base64, as bytes of other columns are."""

Part = Literal["key", "value"]
PARTS: tuple[Part, ...] = ("key", "value")
ID_HEADER = b"apicurio."
ID_HEADERS = {
    part: {f"apicurio.{part}.{kind}Id": kind for kind in ("global", "content")} for part in PARTS
}
"""Headers of 8 bytes that name the schema of a part of a record; `_headers` has their numbers."""

ROW_MARK = "+"
"""In silver's `_arrival`, in front of the number of a change in its record, from the second on."""

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def feed_name(table: Table, source: Source) -> str:
    """Name of the bronze table that stores the source's records.

    It is the table's own name when this is its only source and all records there are its own. Else
    it is `feed_` and the folder or Kafka topic in safe letters, with a digest where letters were
    replaced: tables with the same folder share one bronze table. It depends on no other table.
    """
    if len(table.feeds) == 1 and source.topic is None:
        return table.table
    origin = _describe_origin(source)
    safe = re.sub(r"[^a-z0-9_]+", "_", origin.lower()).strip("_")[:60]
    digest = hashlib.sha256(origin.encode()).hexdigest()[:8]
    return f"feed_{safe}" if safe == origin else f"feed_{safe}_{digest}"


def unreadable_name(feed: str) -> str:
    """Name of the bronze table that lists files (`file`) of the feed that cannot be read yet."""
    return f"{feed}_unreadable"


def schemas_name(feed: str) -> str:
    """Name of the bronze table that keeps the Avro schemas (`id`, `schema`) of a feed."""
    return f"{feed}_schemas"


def mended_name(feed: str) -> str:
    """Name of the bronze table of corrected records of a feed (`bronze.mended`)."""
    return f"_mended_{feed}"


def avro_schema_id(
    data: bytes, part: Part = "value", headers: bytes | None = None
) -> tuple[str, int] | None:
    """The id of the schema of a key or value in Avro, and where the value begins.

    Confluent's format has a zero byte and 4 bytes of id; Apicurio's own has 8 bytes, of which the
    first 4 are zero, as no id of 4 bytes is 0, or the id is in a header. None for other bytes.
    """
    named = _named_schema(headers, part) if headers and ID_HEADER in headers else None
    if named is not None:
        return named, 0
    if len(data) < SHORT_ID or data[0] != 0:
        return None
    short = int.from_bytes(data[1:SHORT_ID], "big")
    if short:
        return str(short), SHORT_ID
    if len(data) < SCHEMA_ID_BYTES:
        return None
    return f"global:{int.from_bytes(data[1:SCHEMA_ID_BYTES], 'big')}", SCHEMA_ID_BYTES


@lru_cache
def _named_schema(headers: bytes, part: Part) -> str | None:
    """The id that the headers of a record name for one of its parts."""
    try:
        given = json.loads(headers)
    except ValueError:
        return None
    members = given if isinstance(given, dict) else {}
    named = ((kind, str(members.get(name))) for name, kind in ID_HEADERS[part].items())
    return next((f"{kind}:{id}" for kind, id in named if id.isdigit()), None)


def arrival_prefix(batch: int) -> str:
    """The first 8 hex digits of `_arrival`, the same for all records of an ingest batch."""
    return f"{batch:08X}"


def arrival_sql(arrival: str = "_arrival") -> str:
    """SQL of the `_arrival` of the record that has a change of silver."""
    return f"substring_index({arrival}, '{ROW_MARK}', 1)"


def topics_of_source(source: Source) -> tuple[str, ...]:
    """The topics of a shared bronze table that the source reads; empty means every record."""
    return (source.topic,) if source.topic is not None else ()


def folder_columns(path: str) -> dict[str, str | None]:
    """The columns in the names of a file's folders, such as `region=eu/`, as Hive writes them.

    `__HIVE_DEFAULT_PARTITION__` is null; characters of a value may be escaped, such as `%2F`.
    """
    folders = [one.partition("=") for one in path.split("/")[:-1]]
    return {
        unquote(name): None if value == _HIVE_NULL else unquote(value)
        for name, equals, value in folders
        if equals and name
    }


class TransactionFeed(NamedTuple):
    """The bronze table with the END records of the transactions of a table's connector.

    `topic` is their topic, None if the bronze table has no other records. `source` is what to read
    for it, None if it is one of the table's own feeds.
    """

    feed: str
    topic: str | None
    source: Source | None


def transaction_feed(table: Table, source: Source) -> TransactionFeed | None:
    """The feed of transaction ENDs for a source of a consistency group; None outside of groups.

    The topic is `transaction_topic`, or Debezium's default: the topic prefix and `transaction`. Its
    records come from the same brokers, from the same folder if that has several topics, else from
    the folder of the topic's name beside the source's own.
    """
    topic = source.transaction_topic or _default_transaction_topic(source)
    if table.consistency_group is None or topic is None:
        return None
    own_feed = TransactionFeed(feed_name(table, source), topic, None)
    if source.kafka:
        if topic in [name.strip() for name in source.kafka.topic.split(",")]:
            return own_feed
        every = {"topic": topic, "starting_offsets": "earliest"}
        kafka = source.kafka.model_copy(update=every)
        beside = source.model_copy(update={"kafka": kafka, "topic": topic})
        return TransactionFeed(feed_name(table, beside), topic, beside)
    if source.path and source.topic:
        return own_feed
    parent = str(source.path).rstrip("/").rpartition("/")[0]
    path = f"{parent}/{topic}" if parent else topic
    beside = source.model_copy(update={"path": path, "topic": topic})
    return TransactionFeed(feed_name(table, beside), None, beside)


def _default_transaction_topic(source: Source) -> str | None:
    """Of `prefix.schema.table`, `prefix.transaction`; None when the name has no such form."""
    named = source.topic or (source.kafka.topic if source.kafka else str(source.path))
    parts = named.rstrip("/").rpartition("/")[2].split(".")
    return ".".join([*parts[:-2], "transaction"]) if len(parts) > 2 else None


def _describe_origin(source: Source) -> str:
    if source.kafka is not None:
        topics = "" if source.kafka.shared else f" {source.kafka.topic}"
        return f"kafka {source.kafka.bootstrap_servers}{topics}"
    if source.delta is not None:
        return f"delta {source.delta}"
    path = str(source.path).rstrip("/")
    if source.format in WHOLE_RECORD_FORMATS:
        return path
    written = json.dumps(source.csv.given_options()) if "csv" in source.model_fields_set else ""
    return f"{path}.{source.file_format}{written}"
