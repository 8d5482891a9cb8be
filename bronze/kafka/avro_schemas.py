"""`bronze.FEED_schemas`: Avro schemas of a feed's records; a rebuild needs no registry."""

from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.contract import ID_HEADERS, PARTS, SCHEMA_ID_BYTES, Part, avro_schema_id, schemas_name
from bronze.feeds import Feed
from bronze.kafka.schema_registry import Registry
from bronze.kafka.topics import resolve_secrets
from lakehouse.storage.lake import Lake
from lakehouse.storage.writing import DeclaredTable

_ID_BYTES = 8


def render_headers(headers: str) -> str:
    """SQL of headers as one JSON object; `headers` is SQL too. The last header of a name counts.

    Values are texts in UTF-8, except for ids of Avro schemas, which are numbers of 8 bytes.
    """
    ids = ", ".join(f"'{name}'" for names in ID_HEADERS.values() for name in names)
    is_id = f"h.key IN ({ids}) AND length(h.value) = {_ID_BYTES}"
    text = f"CASE WHEN {is_id} THEN conv(hex(h.value), 16, 10) ELSE CAST(h.value AS string) END"
    later = f"slice({headers}, i + 2, size({headers}))"
    last = f"filter({headers}, (h, i) -> NOT exists({later}, other -> other.key = h.key))"
    entries = f"transform({last}, h -> struct(h.key, {text}))"
    return f"to_json(map_from_entries({entries}), map('ignoreNullFields', 'false'))"


def select_schema_headers(part: Part) -> str:
    """SQL of the headers that name the Avro schema of a key or value, as JSON; null without any."""
    ids = ", ".join(f"'{name}'" for name in ID_HEADERS[part])
    named = f"filter(headers, h -> h.key IN ({ids}))"
    return f"CASE WHEN size({named}) > 0 THEN {render_headers(named)} END"


COLUMNS = (
    ("id", "string", "the id by which records name the schema"),
    ("schema", "string", "the schema as JSON"),
    ("at", "timestamp", "when it was kept"),
)


def keep_schemas(lake: Lake, records: DataFrame, feed: Feed) -> None:
    """Stores the schemas of Kafka records that bronze lacks; nothing without a registry.

    Raises:
        RegistryFailed: a schema cannot be read; those that were read before it are stored.
    """
    if feed.registry is None:
        return
    wanted = _find_ids(records) - read_schemas(lake, feed.name).keys()
    if not wanted:
        return
    given = {} if feed.registry.auth is None else {"auth": feed.registry.auth}
    registry = Registry(feed.registry.url, resolve_secrets(lake.spark, given).get("auth"))
    now, values = datetime.now(timezone.utc), list[dict[str, object]]()
    try:
        for id in sorted(wanted):
            values.append({"id": id, "schema": registry.read_schema(id), "at": now})
    finally:
        _declare_table(feed.name).append(lake, values)


def read_schemas(lake: Lake, feed: str) -> dict[str, str]:
    """The schemas that bronze stores for a feed, by id."""
    if not _declare_table(feed).exists(lake):
        return {}
    rows = _declare_table(feed).read(lake).select("id", "schema").collect()
    return {row["id"]: row["schema"] for row in rows}


def _declare_table(feed: str) -> DeclaredTable:
    comment = f"Avro schemas of the records in {feed}"
    return DeclaredTable("bronze", schemas_name(feed), comment, COLUMNS)


def _find_ids(records: DataFrame) -> set[str]:
    """The ids of the schemas of keys and values: from a header, or else from the first bytes."""
    heads = F.explode(F.array(*[_select_head(part) for part in PARTS]))
    ids = set()
    for (head,) in records.select(heads).distinct().collect():
        headers = head["headers"] and head["headers"].encode()
        one = avro_schema_id(bytes(head["data"] or b""), head["part"], headers)
        ids |= {one[0]} if one else set()
    return ids


def _select_head(part: Part) -> Column:
    """What names the schema of a key or value: its headers, or else the first bytes."""
    named = F.expr(select_schema_headers(part))
    data = F.substring(F.col(part), 1, SCHEMA_ID_BYTES)
    return F.struct(
        F.lit(part).alias("part"),
        F.when(F.col(part).isNotNull(), named).alias("headers"),
        F.when(named.isNull(), data).alias("data"),
    )
