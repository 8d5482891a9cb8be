"""Whole records in dropped lines: `{"topic":…,"offset":…,"key":…,"value":…}` around the value."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.formats import CHANGE_MEMBERS

_MEMBERS = ("topic", "partition", "offset", "timestamp", "key", "headers")
_SCHEMA = ", ".join(f"`{member}` string" for member in (*_MEMBERS, *CHANGE_MEMBERS))
_FIRST_MILLISECOND, _LAST_MILLISECOND = -62_135_596_800_000, 253_402_300_799_999


def with_origin(lines: DataFrame) -> DataFrame:
    """Add `_topic` … `_headers` and `_whole` to rows of `_raw`; no row fails or goes.

    A line is a whole record when it is a JSON object that has a `value`, or an `offset` beside a
    topic or key, and none of `CHANGE_MEMBERS`. Everything is null but `_whole` (false) on any other
    line, and what does not fit its type is null. Key and headers that are JSON become compact text,
    in which Spark writes fractional numbers as doubles: `_raw` has them as they were.
    """
    opened = lines.withColumn("_record", F.when(_may_be_whole(F.col("_raw")), _members()))
    found = opened.withColumn("_whole", F.coalesce(_is_whole(), F.lit(False)))
    return found.select("*", *_origin()).drop("_record")


def without_origin(lines: DataFrame) -> DataFrame:
    """Add the same columns, all null and `_whole` false, for records that carry no origin."""
    empty = [
        F.lit(None).cast(kind).alias(column)
        for column, kind in (
            ("_topic", "string"), ("_partition", "int"), ("_offset", "bigint"),
            ("_timestamp", "timestamp"), ("_key", "string"), ("_headers", "string"),
        )
    ]  # fmt: skip
    return lines.select("*", F.lit(False).alias("_whole"), *empty)


def _may_be_whole(raw: Column) -> Column:
    """Spares most bare changes the parser: no whole record is without one of these texts.

    They are the members' names without the first quote, as Spark compares the text further wherever
    it meets a first character, and JSON is full of quotes.
    """
    return raw.contains('offset"') | raw.contains('value"')


def _members() -> Column:
    return F.from_json("_raw", _SCHEMA)


def _is_whole() -> Column:
    """Null where no record was opened: then the last, costly question is not put."""
    record = F.col("_record")
    is_change = F.coalesce(*[record[member] for member in CHANGE_MEMBERS]).isNotNull()
    named = record["topic"].isNotNull() | record["key"].isNotNull()
    placed = record["offset"].isNotNull() & named
    has_value = F.array_contains(F.json_object_keys("_raw"), "value")
    return F.when(record.isNotNull() & ~is_change, F.when(placed, True).otherwise(has_value))


def _origin() -> list[Column]:
    record = {member: F.when(F.col("_whole"), F.col("_record")[member]) for member in _MEMBERS}
    return [
        record["topic"].alias("_topic"),
        record["partition"].try_cast("int").alias("_partition"),
        record["offset"].try_cast("bigint").alias("_offset"),
        _timestamp(record["timestamp"]).alias("_timestamp"),
        record["key"].alias("_key"),
        record["headers"].alias("_headers"),
    ]


def _timestamp(text: Column) -> Column:
    """Milliseconds since 1970, as Kafka counts them, or ISO 8601 text; years 1 to 9999."""
    number = text.try_cast("bigint")
    possible = number.between(_FIRST_MILLISECOND, _LAST_MILLISECOND)
    written = text.try_cast("timestamp")
    return F.when(possible, F.timestamp_millis(number)).when(
        number.isNull() & F.year(written).between(1, 9999), written
    )
