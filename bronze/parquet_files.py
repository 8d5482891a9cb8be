"""Parquet files with types that Spark cannot read: nanoseconds, and times of day in milliseconds.

Arrow reads them, a file at a time in the memory of a task. Digits of a second beyond the sixth are
cut off.
"""

import base64
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_ROWS = 10_000
_FOUND = "_raw string, _url string, _block bigint, _row bigint"
_encode = msgspec.json.Encoder(decimal_format="number").encode


def arrow_rows(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The rows of Parquet files as JSON objects, as `bronze.lines.lines` gives records."""
    files = spark.read.format("binaryFile").load([*paths])
    named = files.select("content", F.col("_metadata.file_path").alias("_url"))
    return named.mapInArrow(json_rows, _FOUND)


def json_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of the Parquet files in `content` (binary), with their file and place in it."""
    for batch in batches:
        for content, url in zip(batch.column(0), batch.column(1).to_pylist(), strict=True):
            place = 0
            file = pq.ParquetFile(pa.BufferReader(content.as_buffer()))
            for part in file.iter_batches(batch_size=_ROWS):
                rows = [_encode(row).decode() for row in _rows(part)]
                count = len(rows)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(rows, pa.string()),
                        pa.array([url] * count, pa.string()),
                        pa.array([0] * count, pa.int64()),
                        pa.array(range(place, place + count), pa.int64()),
                    ],
                    names=["_raw", "_url", "_block", "_row"],
                )
                place += count


def _rows(part: pa.RecordBatch) -> Iterator[dict[str, object]]:
    columns = [[_plain(value) for value in _cut(c).to_pylist()] for c in part.columns]
    names = part.schema.names
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _cut(column: pa.Array) -> pa.Array:
    """The column without nanoseconds, which Python's times do not have."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        micros = pc.floor_temporal(column, unit="microsecond")
        return pc.cast(micros, pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return pc.cast(column, pa.time64("us"), safe=False)
    return column


def _plain(value: object) -> object:
    """A value as the JSON has it that Spark would write of it."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, time):
        whole, point, fraction = value.isoformat().partition(".")
        return whole + (point + fraction).rstrip("0")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {str(_plain(name)): _plain(one) for name, one in value}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
