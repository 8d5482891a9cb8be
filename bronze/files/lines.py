"""Reads records of dropped files: JSON lines unchanged, CSV and Parquet rows as JSON objects."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from bronze.contract import NOT_TEXT, folder_columns
from bronze.feeds import Feed
from bronze.files.csv_files import BLANKS, BYTES, CsvFile, inspect_csv
from bronze.files.file_kinds import UnreadableFile
from bronze.files.json_files import has_other_records, read_other_records
from bronze.files.listing import URL, DroppedFile, literal_path
from bronze.files.parquet_files import arrow_rows, files_with_96_bits
from bronze.files.row_numbers import number_rows
from lakehouse.config.csv_options import unnamed_column
from lakehouse.places.place import ask_each
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import quote
from lakehouse.words import JSON_OPTIONS

_CORRUPT = "_bronze_corrupt_row"
"""The column in which Spark has the text of a CSV row that does not fit its header."""
_TIME = "time("
"""How Spark's name of a type of times of day begins."""
_NO_FOOTER = ("is not a Parquet file", "CANNOT_READ_FILE_FOOTER")
_CANNOT_READ = ("PARQUET_TYPE_ILLEGAL", "UNSUPPORTED_TIME_TYPE")
"""Signs in Spark's failures: the file is no Parquet file, or has a type that Spark cannot read."""
_NOT_PARQUET = "the file is no Parquet file, or a part of one: write it again, or say file_format"
_NO_FILE = "a pipe, a device or a link that leads nowhere, expected a file: remove it"
_NO_DAY = "the file lies in no folder YYYY-MM-DD, which names the day of its rows: move it there"


def read_file_records(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]) -> DataFrame:
    """The files' records: `_raw`, and their place in the files: `_url`, `_block`, `_row`.

    JSON lines are unchanged, bytes that are not UTF-8 included; blank lines are left out. Elements
    of a JSON array, and objects that share or span lines, are records too. A CSV or Parquet row is
    one JSON object of its file's columns with nulls, and with `NOT_TEXT` if bytes are not text. A
    CSV row that does not fit its header is its own text, with bytes that are not UTF-8 unchanged.
    `_block` is the byte offset of the split, `_row` grows within the split.

    Raises:
        UnreadableFile: one of the files is not of the feed's kind.
    """
    check_places(feed, files)
    parts = _READERS[feed.file_format](spark, feed, files)
    if not parts:
        schema = "_raw string, _url string, _block bigint, _row bigint"
        return spark.createDataFrame([], schema).coalesce(1)
    # One task, hence one file in bronze, per 4 MiB: many small files become one.
    tasks = max(1, sum(file.length for file in files) >> 22)
    return reduce(DataFrame.union, parts).coalesce(tasks)


def check_places(feed: Feed, files: Sequence[DroppedFile]) -> None:
    """Refuses what is no file, and a snapshot file that is in no folder of a date.

    Raises:
        UnreadableFile: one of the files is refused.
    """
    if not all(file.is_file for file in files):
        raise UnreadableFile(_NO_FILE)
    if feed.format == "snapshot":
        in_day = re.compile(
            rf"(?:^|/){re.escape(str(feed.path).strip('/'))}/\d{{4}}-\d{{2}}-\d{{2}}/"
        )
        for file in files:
            if not in_day.search(file.path):
                raise UnreadableFile(_NO_DAY)


def _add_places(records: DataFrame, raw: Column, files: int) -> DataFrame:
    """The records with their places; `_row` counts from 0 in each split of a file.

    A task reads one split of a single file, and Spark numbers its rows. Of several files it reads
    several splits, in turn.
    """
    block = F.col("_metadata.file_block_start")
    if files == 1:  # above the lower 33 bits Spark has the number of the task
        row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    else:
        make_function: Any = pandas_udf  # its overloads know no iterators
        row = make_function(number_rows, "bigint").asNondeterministic()(
            F.xxhash64(F.col("_metadata.file_path"), block)
        )
    placed = raw.alias("_raw"), F.expr(URL).alias("_url"), block.alias("_block"), row.alias("_row")
    return records.select(*placed)


def _json_lines(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]) -> list[DataFrame]:
    flags = ask_each(has_other_records, [file.here for file in files])
    others = [file for file, is_other in zip(files, flags, strict=True) if is_other]
    plain = [file for file in files if file not in others]
    parts = []
    if plain:
        text_lines = spark.read.text([literal_path(file.path) for file in plain], lineSep="\n")
        placed = _add_places(text_lines, F.col("value"), len(plain))
        parts.append(placed.where(r"trim(LEADING ' \t\r\f' FROM _raw) <> ''"))
    if others:
        parts.append(read_other_records(spark, [literal_path(file.path) for file in others]))
    return parts


def _parquet_rows(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]) -> list[DataFrame]:
    """Rows of Parquet files, read together by schema; Arrow reads files that Spark cannot."""
    alike: dict[StructType, list[DroppedFile]] = {}
    others: list[DroppedFile] = []
    for file in files:
        schema = _read_parquet_schema(spark, literal_path(file.path))
        of_kind = others if schema is None else alike.setdefault(schema, [])
        of_kind.append(file)
    texts = {name.lower() for name in feed.texts}
    parts = []
    for schema, of_schema in alike.items():
        times = {f.name for f in schema.fields if isinstance(f.dataType, TimestampType)}
        orders = {name for name in times if name.lower() in feed.orders}
        # Spark reads no nanoseconds of timestamps of 96 bits
        exact = files_with_96_bits(spark, of_schema, orders) if orders else []
        others += exact
        paths = [literal_path(file.path) for file in of_schema if file not in exact]
        if paths:
            parts.append(_read_parquet_files(spark, schema, paths, texts))
    if others:
        parts.append(arrow_rows(spark, [literal_path(file.path) for file in others], texts))
    return parts


def _read_parquet_schema(spark: SparkSession, path: str) -> StructType | None:
    """The schema of a Parquet file; None if it has a type that Spark cannot read."""
    try:
        return spark.read.parquet(path).schema
    except SPARK_FAILURES as failure:
        if any(sign in str(failure) for sign in _NO_FOOTER):
            raise UnreadableFile(_NOT_PARQUET) from None
        if not any(sign in str(failure) for sign in _CANNOT_READ):
            raise
        return None


def _read_parquet_files(
    spark: SparkSession, schema: StructType, paths: list[str], texts: Collection[str]
) -> DataFrame:
    place = [F.lit(0).cast("bigint").alias("_block"), F.col("_metadata.row_index").alias("_row")]
    rows = spark.read.schema(schema).parquet(*paths)
    raw = json_of_row(schema, texts)
    return rows.select(raw.alias("_raw"), F.expr(URL).alias("_url"), *place)


def json_of_row(schema: StructType, texts: Collection[str]) -> Column:
    """A row as one JSON object; bytes of the columns in `texts`, in lower case, are text."""
    columns = [_parquet_column(field, texts).alias(field.name) for field in schema.fields]
    raw = _to_json(columns)
    bytes_as_text = [field.name for field in schema.fields if _is_bytes_as_text(field, texts)]
    if bytes_as_text:
        faults = [
            F.when(~F.is_valid_utf8(F.col(quote(name)).cast("string")), F.lit(name))
            for name in bytes_as_text
        ]
        names = F.array_compact(F.array(*faults))
        raw = F.when(F.size(names) > 0, _to_json([*columns, names.alias(NOT_TEXT)])).otherwise(raw)
    return raw


def _is_bytes_as_text(field: StructField, texts: Collection[str]) -> bool:
    return isinstance(field.dataType, BinaryType) and field.name.lower() in texts


def _parquet_column(field: StructField, texts: Collection[str]) -> Column:
    """A column as the record has it; bytes of a column that is declared to be text are text."""
    column = F.col(quote(field.name))
    if field.dataType.simpleString().startswith(_TIME):
        return column.cast("string")
    if _is_bytes_as_text(field, texts):
        text = column.cast("string")
        return F.when(F.is_valid_utf8(text), text).otherwise(
            F.translate(F.base64(column), "\r\n", "")
        )
    return column


def _csv_rows(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile]) -> list[DataFrame]:
    """Rows of CSV files; files that are written alike are read together."""
    alike: dict[CsvFile, tuple[list[str], set[str]]] = {}
    for file in files:
        path = literal_path(file.path)
        csv_file = inspect_csv(spark, feed, path, list(folder_columns(file.path)))
        if csv_file.names:
            paths, ends = alike.setdefault(csv_file._replace(end=""), ([], set()))
            paths.append(path)
            ends |= {csv_file.end} - {""}
    return [_read_csv_files(spark, kind, *parts) for kind, parts in alike.items()]


def _read_csv_files(
    spark: SparkSession, kind: CsvFile, paths: list[str], ends: Collection[str]
) -> DataFrame:
    options = {**dict(kind.options), "columnNameOfCorruptRecord": _CORRUPT}
    names = [n.encode().decode(BYTES) if kind.bytewise else n for n in kind.names]
    with_corrupt = StructType([StructField(name, StringType()) for name in [*names, _CORRUPT]])
    rows = spark.read.schema(with_corrupt).options(**options).csv(paths)
    values = [F.col(quote(name)).alias(name) for name in names]
    if not kind.bytewise:  # a byte order mark
        values[0] = F.regexp_replace(values[0], "^\ufeff", "").alias(names[0])
    if kind.returns:
        last = F.when(values[-1] != "\r", F.regexp_replace(values[-1], r"\r$", ""))
        values[-1] = last.alias(names[-1])
    # The row as JSON; or its own text where it has a fault or, above all, does not fit the header.
    text = _to_json(values)
    for sign, broken in _list_faults(kind, names, values, ends):
        text = F.when(sign, broken).otherwise(text)
    text = F.coalesce(F.col(_CORRUPT), text)
    raw = F.encode(text, BYTES).cast("string") if kind.bytewise else text
    placed = _add_places(rows, raw, len(paths))
    return placed.where(F.trim(F.col("_raw"), F.lit(BLANKS)) != "")


def _list_faults(
    kind: CsvFile, names: Sequence[str], values: Sequence[Column], ends: Collection[str]
) -> Iterator[tuple[Column, Column]]:
    """Conditions of rows that are broken though they fit the header, with the row's text for each.

    The row repeats the header, or has a quote that is not escaped or not closed. `ends` are the
    files' `CsvFile.end`.
    """
    options = dict(kind.options)
    fields = [F.coalesce(value, F.lit("")) for value in values]
    text = F.concat_ws(options["sep"], *fields)
    if options["header"] == "true":
        pairs = enumerate(zip(names, values, strict=True))
        cells = [(F.coalesce(v, F.lit(unnamed_column(at))), n) for at, (n, v) in pairs]
        again = [F.trim(cell) == F.lit(n) for cell, n in cells]
        yield reduce(Column.__and__, again), text
    if kind.bare_quotes:
        yield F.exists(F.array(*values), lambda value: value.startswith('"')), text
    spans_lines = values[-1].rlike(r"[\r\n]")
    if kind.odd_quotes:  # closed only by a later value's quote: Spark keeps the quotes around it
        yield spans_lines & values[-1].startswith('"'), text
    if ends:  # never closed: the value holds the rest of its file
        plain = F.rtrim(F.translate(values[-1], '"\\', ""), F.lit(BLANKS))
        reaches_end = F.exists(F.array(*map(F.lit, sorted(ends))), plain.endswith)
        opened = F.concat_ws(options["sep"], *fields[:-1], F.concat(F.lit('"'), fields[-1]))
        yield spans_lines & reaches_end, opened


def _to_json(columns: Iterable[Column]) -> Column:
    return F.to_json(F.struct(*columns), JSON_OPTIONS)


_READERS: Mapping[str, Callable[[SparkSession, Feed, Sequence[DroppedFile]], list[DataFrame]]] = {
    "json": _json_lines,
    "csv": _csv_rows,
    "parquet": _parquet_rows,
}
