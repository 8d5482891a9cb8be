"""What lies in dropped files: JSON lines as they are, CSV and Parquet rows as JSON objects."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from bronze.feeds import Feed
from lakehouse.names import quote

_CORRUPT = "_bronze_corrupt_row"
# An empty field is null and "" is empty text: Spark tells them apart by a mark for null only.
_CSV = {"header": "true", "multiLine": "true", "escape": '"', "nullValue": "\x00\x00"}
_EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class DroppedFile(NamedTuple):
    """A file as it was listed: `url` is its path as Spark's `_metadata.file_path` spells it."""

    path: str
    changed_at: datetime
    length: int
    url: str


def lines(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]) -> DataFrame:
    """The files' records: `_raw`, then `_url`, `_block`, `_row`, which tell where each one lay.

    JSON lines are untouched, bytes that are not UTF-8 included; those of only white space are
    left out. A CSV or Parquet row is one JSON object of its columns, nulls kept, columns that its
    file lacks absent; a CSV row that does not fit its header is its own text. `_block` is the
    byte offset of the split, `_row` grows within the split.
    """
    if feed.file_format == "json":
        found = spark.read.text([literal_path(file.path) for file in files], lineSep="\n")
        kept = _placed(found, F.col("value")).where(r"trim(LEADING ' \t\r\f' FROM _raw) <> ''")
    else:
        parts = [_rows(spark, feed, *alike) for alike in _by_schema(spark, feed, files)]
        kept = reduce(DataFrame.union, parts or [_nothing(spark)])
    return kept.coalesce(_tasks(files))


def literal_path(path: str) -> str:
    """The path with its glob characters escaped, as Spark takes every path for a pattern."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)


def _tasks(files: Iterable[DroppedFile]) -> int:
    """One task, hence one file in bronze, per 4 MiB: many small files become one."""
    return max(1, sum(file.length for file in files) >> 22)


def _placed(found: DataFrame, raw: Column) -> DataFrame:
    return found.select(
        raw.alias("_raw"),
        F.col("_metadata.file_path").alias("_url"),
        F.col("_metadata.file_block_start").alias("_block"),
        F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1)).alias("_row"),
    )


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "_raw string, _url string, _block bigint, _row bigint")


def _by_schema(
    spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]
) -> list[tuple[StructType, list[str]]]:
    """Paths of the files that have the same columns, in the order of the files' arrival."""
    alike: dict[str, tuple[StructType, list[str]]] = {}
    for file in files:
        path = literal_path(file.path)
        schema = spark.read.format(feed.file_format).options(**_CSV).load(path).schema
        if schema.fields:
            alike.setdefault(schema.json(), (schema, []))[1].append(path)
    return list(alike.values())


def _rows(spark: SparkSession, feed: Feed, schema: StructType, paths: list[str]) -> DataFrame:
    row = F.to_json(F.struct(*[F.col(quote(name)) for name in schema.names]), _EXACT)
    if feed.file_format == "parquet":
        return _placed(spark.read.schema(schema).parquet(*paths), row)
    with_corrupt = StructType([*schema.fields]).add(_CORRUPT, StringType())
    options = {**_CSV, "columnNameOfCorruptRecord": _CORRUPT}
    found = spark.read.schema(with_corrupt).options(**options).csv(paths)
    return _placed(found, F.coalesce(F.col(_CORRUPT), row))
