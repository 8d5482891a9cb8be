"""What columns a batch of Debezium records has, and how each version of its table writes them.

A record with a schema block tells its own encodings; each is decoded by its own block, because the
scale of a number can change in the middle of a stream. A record without one tells field names only.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from silver.debezium_encoding import Encoding, Field, from_block
from silver.debezium_envelope import opened, plain_object, position
from silver.shapes import Shape

_TEXTS, _VARIANTS = "MAP<STRING,STRING>", "MAP<STRING,VARIANT>"
_UNREAD = "STRUCT<unread STRING>"
Kind = tuple[int, tuple[str, ...] | None]


class Version(NamedTuple):
    """One schema block: the digest that its records have in common, and its fields."""

    digest: int
    fields: Mapping[str, Encoding]


class Survey(NamedTuple):
    """What a batch holds: schema blocks, and sets of fields, each in order of first arrival.

    `shapes` are the sets of fields of the blocks and of the records that came without one; `plain`
    tells whether any of those had a row, `whole` whether every record was looked at.
    """

    versions: list[Version]
    plain: bool
    shapes: tuple[Shape, ...]
    whole: bool = True


def version_of(schema: Column) -> Column:
    """The number that stands for a schema block."""
    return F.xxhash64(schema)


def survey(raw: DataFrame, keyed: bool, most: int | None = None) -> Survey:
    """Looks through a batch once, for its schema blocks and its fields.

    A table without keys shows rows in `before` too. Of more than `most` records, some so many are
    looked at, and what they show is in no order.
    """
    before = _UNREAD if keyed else _TEXTS
    some = raw if most is None else raw.limit(most)
    rows = opened(some, {"before": before, "after": _TEXTS})
    row = F.col("_after") if keyed else F.coalesce("_after", "_before")
    names = F.when(F.col("_schema").isNull() & ~F.col("_malformed"), F.map_keys(row))
    kinds = rows.select(F.col("_schema").alias("schema"), names.alias("names"), "_arrival")
    counted = kinds.groupBy("schema", "names").agg(F.count(F.lit(1)).alias("records"))
    shown = _digested(counted).collect()
    found = [row for row in shown if row["schema"] or row["names"]]
    whole = sum(row["records"] for row in shown) != most
    if len(found) > 1 and whole:
        firsts = _first_arrivals(kinds)
        found.sort(key=lambda row: firsts[_kind(row)])
    blocks = [(int(row["digest"]), row["schema"]) for row in found if row["schema"]]
    versions = {number: Version(number, fields_of(schema)) for number, schema in blocks}
    held = {digest: version for digest, version in versions.items() if version.fields}
    plain = any(row["names"] for row in found)
    return Survey(list(held.values()), plain, _shapes(found, held), whole)


def first_positions(raw: DataFrame, marks: Collection[str]) -> dict[str, str]:
    """Where the first record lies of each shape that `survey` saw, by its mark."""
    rows = opened(raw, {"before": _TEXTS, "after": _TEXTS})
    names = F.to_json(F.array_sort(F.map_keys(F.coalesce("_after", "_before"))))
    digest = version_of(F.col("_schema")).cast("string")
    mark = F.when(F.col("_schema").isNotNull(), digest).otherwise(names)
    own = rows.where(~F.col("_malformed") & mark.isin(*marks)).groupBy(mark.alias("mark"))
    found = own.agg(F.min_by(position(), F.col("_arrival")).alias("position")).collect()
    return {row["mark"]: row["position"] for row in found}


def fields_of(schema: str) -> dict[str, Encoding]:
    """The fields of `after` in the text of a schema block; empty for text that is no such block."""
    try:
        block = json.loads(schema)
    except (ValueError, RecursionError):
        return {}
    after = [f for f in _fields(block) if f.get("field") == "after"]
    return {str(f["field"]): from_block(f) for a in after for f in _fields(a) if "field" in f}


def key_fields(raw: DataFrame, keys: Iterable[str]) -> list[str]:
    """Fields of old rows and record keys that are called like a key, whatever their case."""
    rows = opened(raw, {"before": _TEXTS})
    names = F.concat(
        *[
            F.coalesce(F.map_keys(m), F.array())
            for m in (F.col("_before"), plain_object(F.col("_key")))
        ]
    )
    each = rows.select(F.explode(names).alias("name"), "_arrival")
    wanted = each.where(F.lower("name").isin(*[key.lower() for key in keys]))
    firsts = wanted.groupBy("name").agg(F.min("_arrival").alias("first")).collect()
    return [row["name"] for row in sorted(firsts, key=lambda row: (row["first"], row["name"]))]


def inferred(raw: DataFrame, names: set[str], keys: set[str]) -> dict[str, str]:
    """Spark SQL types of fields that nothing tells the type of, from all their values in the batch.

    Keys are also looked for in `before` and the record's key; a table without keys shows whole rows
    in `before`. A field that is always null is left out. By the fields' names in lower case: such
    as differ in case only are one column.
    """
    parts = {"before": _VARIANTS, "after": _VARIANTS}
    rows = opened(raw, parts)
    readable = F.col("_schema").isNull() & ~F.col("_malformed")
    unwrapped = F.from_json("_key", f"payload {_VARIANTS}")["payload"]
    record_key = F.coalesce(unwrapped, F.from_json("_key", _VARIANTS))
    seen = [
        _entries(F.col("_after"), names),
        _entries(F.col("_before"), names & keys or names),
        _entries(record_key, names & keys),
    ]
    entries = F.flatten(F.array_compact(F.array(*seen)))
    values = rows.select(F.explode(F.when(readable, entries)).alias("entry"))
    named = values.groupBy(F.lower("entry.key").alias("name"))
    types = named.agg(F.schema_of_variant_agg("entry.value").alias("type"))
    known = {str(row["name"]): from_variant(str(row["type"])) for row in types.collect()}
    return {name: type for name, type in known.items() if type is not None}


def from_variant(type: str) -> str | None:
    """The column type for what Spark found in JSON; None when every value was null."""
    if type == "VOID":
        return None
    if type in ("BIGINT", "BOOLEAN", "STRING"):
        return type.lower()
    if type.startswith("DECIMAL"):
        return "decimal(38,0)" if type.endswith(",0)") else "double"
    if type in ("DOUBLE", "FLOAT"):
        return "double"
    if type.startswith("ARRAY<"):
        element = from_variant(type.removeprefix("ARRAY<").removesuffix(">"))
        return f"array<{element or 'string'}>"
    return "string"


def _shapes(found: list[Row], versions: Mapping[int, Version]) -> tuple[Shape, ...]:
    """The shapes of the groups; what is no column of the source is no shape either."""
    shapes: dict[str, Shape] = {}
    for one in found:
        version = versions.get(int(one["digest"])) if one["schema"] else None
        if version is not None:
            types = {name: encoding.type for name, encoding in version.fields.items()}
            shape = Shape(types, str(version.digest))
        elif one["names"]:
            mark = json.dumps(sorted(one["names"]), separators=(",", ":"), ensure_ascii=False)
            shape = Shape(dict.fromkeys(one["names"]), mark)
        else:
            continue
        shapes.setdefault(shape.mark, shape)
    return tuple(shapes.values())


def _digested(kinds: DataFrame) -> DataFrame:
    return kinds.withColumn("digest", version_of(F.col("schema")))


def _first_arrivals(kinds: DataFrame) -> dict[Kind, str]:
    """When each kind of record came first."""
    seen = _digested(kinds).groupBy("digest", "names").agg(F.min("_arrival").alias("first"))
    return {_kind(row): str(row["first"]) for row in seen.collect()}


def _kind(row: Row) -> Kind:
    return int(row["digest"]), row["names"] and tuple(row["names"])


def _entries(fields: Column, names: set[str]) -> Column:
    return F.filter(F.map_entries(fields), lambda entry: entry["key"].isin(*sorted(names)))


def _fields(block: object) -> Iterator[Field]:
    inner = block.get("fields") if isinstance(block, Mapping) else None
    return (f for f in inner if isinstance(f, Mapping)) if isinstance(inner, list) else iter(())
