"""The newest records of topics, of which the keys of new tables are known before bronze has any."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from bronze.contract import avro_schema_id
from bronze.kafka.avro_schemas import select_schema_headers
from bronze.kafka.ingest import Ranges, read_ranges
from bronze.kafka.schema_registry import Registry
from bronze.kafka.topics import Bounds, TopicBounds, resolve_secrets
from lakehouse.config.source import Kafka, SchemaRegistry

FEW = 20


def read_newest(
    spark: SparkSession, kafka: Kafka, bounds: TopicBounds, registry: SchemaRegistry | None
) -> Iterator[dict[str, Any]]:
    """The newest records of each topic's fullest partition, as whole records of dropped files.

    A key in Avro has the names of its schema's fields, and a value in Avro is left out.

    Raises:
        RegistryFailed: a schema cannot be read.
    """
    ranges: Ranges = dict(map(_choose_range, bounds.items()))
    if not any(begin < end for begin, end in ranges.values()):
        return
    auth = {} if registry is None or registry.auth is None else {"auth": registry.auth}
    asked = registry and Registry(registry.url, resolve_secrets(spark, auth).get("auth"))
    value = "NULL" if asked else "CAST(value AS string)"
    columns = ("topic", "key", f"{select_schema_headers('key')} AS headers", f"{value} AS value")
    fields: dict[str, dict[str, None]] = {}
    for row in read_ranges(spark, kafka, ranges).selectExpr(*columns).collect():
        record = {"topic": row["topic"], "value": row["value"]}
        data, headers = bytes(row["key"] or b""), row["headers"] and row["headers"].encode()
        named = avro_schema_id(data, "key", headers) if asked else None
        if asked and named and named[0] not in fields:
            schema = json.loads(asked.read_schema(named[0]))
            members = schema.get("fields", ()) if isinstance(schema, dict) else ()
            fields[named[0]] = {field["name"]: None for field in members}
        yield record | {"key": fields[named[0]] if named else data.decode(errors="replace")}


def _choose_range(
    topic: tuple[str, Mapping[str, Bounds]],
) -> tuple[tuple[str, str], tuple[int, int]]:
    """The last offsets of the partition with the most records."""
    name, partitions = topic
    fullest = max(partitions, key=lambda each: partitions[each].end - partitions[each].first)
    first, end = partitions[fullest]
    return (name, fullest), (max(first, end - FEW), end)
