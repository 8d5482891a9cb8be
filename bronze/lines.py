"""What lies in dropped files: JSON lines as they are, CSV and Parquet rows as JSON objects."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from bronze.feeds import Feed
from lakehouse.names import quote

_CORRUPT = "_bronze_corrupt_row"
# An empty field is null and "" is empty text: Spark tells them apart by a mark for null only.
_CSV = {"header": "true", "multiLine": "true", "escape": '"', "nullValue": "\x00\x00"}
# A character for every byte, so that those which are no UTF-8 stay what they are.
_BYTES = "ISO-8859-1"
_EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class _Kind(NamedTuple):
    """What files must have in common to be read at once; the options are those of CSV."""

    schema: StructType
    options: tuple[tuple[str, str], ...]


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
    file lacks absent; a CSV row that does not fit its header is its own text, and bytes that are
    not UTF-8 stay here too. `_block` is the byte offset of the split, `_row` grows within the
    split.
    """
    if feed.file_format == "json":
        found = spark.read.text([literal_path(file.path) for file in files], lineSep="\n")
        kept = _placed(found, F.col("value")).where(r"trim(LEADING ' \t\r\f' FROM _raw) <> ''")
    else:
        parts = [_rows(spark, *alike) for alike in _by_kind(spark, feed, files)]
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


def _by_kind(
    spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]
) -> list[tuple[_Kind, list[str]]]:
    """Paths of the files that are read alike, in the order of the files' arrival."""
    alike: dict[tuple[object, ...], tuple[_Kind, list[str]]] = {}
    for file in files:
        path = literal_path(file.path)
        options = _csv_options(spark, path) if feed.file_format == "csv" else {}
        header = {**options, "encoding": "UTF-8"}
        schema = spark.read.format(feed.file_format).options(**header).load(path).schema
        if schema.fields:
            kind = _Kind(schema, tuple(options.items()))
            alike.setdefault((schema.json(), *kind.options), (kind, []))[1].append(path)
    return list(alike.values())


def _csv_options(spark: SparkSession, path: str) -> dict[str, str]:
    """How Spark is to read a CSV file, from a look at its header and a pass over its bytes.

    Unless told how lines end, it takes that for a line feed within values as well; and unless told
    that some bytes are no UTF-8, it replaces them.
    """
    text = spark.read.text(path, lineSep="\n")
    first = text.head()
    header = first[0] if first else ""
    end = "\r\n" if header.endswith("\r") else "\n"
    line_end = "\r" if "\r" in header[:-1] else end
    sound = text.where(~F.is_valid_utf8("value")).isEmpty()
    return {**_CSV, "lineSep": line_end, "encoding": "UTF-8" if sound else _BYTES}


def _rows(spark: SparkSession, kind: _Kind, paths: list[str]) -> DataFrame:
    if not kind.options:
        found = spark.read.schema(kind.schema).parquet(*paths)
        return _placed(found, _json(kind.schema.names))
    options = {**dict(kind.options), "columnNameOfCorruptRecord": _CORRUPT}
    bytewise = options["encoding"] == _BYTES
    names = [_of_bytes(name) if bytewise else name for name in kind.schema.names]
    with_corrupt = StructType([StructField(name, StringType()) for name in [*names, _CORRUPT]])
    found = spark.read.schema(with_corrupt).options(**options).csv(paths)
    text = F.coalesce(F.col(_CORRUPT), _json(names))
    return _placed(found, F.encode(text, _BYTES).cast("string") if bytewise else text)


def _json(names: Iterable[str]) -> Column:
    return F.to_json(F.struct(*[F.col(quote(name)) for name in names]), _EXACT)


def _of_bytes(text: str) -> str:
    return text.encode().decode(_BYTES)
