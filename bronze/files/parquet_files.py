"""Reads Parquet types that Spark cannot read: nanoseconds, and times of day in milliseconds.

Arrow reads them, one file at a time in the memory of a task. Timestamps keep their nanoseconds,
times of day six digits of a second.
"""

import base64
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timezone
from functools import partial
from itertools import pairwise, repeat
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import NOT_TEXT
from bronze.files.file_kinds import UnreadableFile
from bronze.files.json_files import add_places
from bronze.files.listing import URL, DroppedFile, literal_path

_LONGEST_HELD = 1 << 31
_ROWS, _MICROS = 10_000, len("1970-01-01T00:00:00.000000")
_SCHEMA = "_raw string, _url string, _block bigint, _row bigint"
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_NAME = attrgetter("name")
_encode = msgspec.json.Encoder(decimal_format="number").encode


def arrow_rows(spark: SparkSession, paths: Sequence[str], texts: Collection[str]) -> DataFrame:
    """The rows of Parquet files as JSON objects, like `bronze.files.lines.read_file_records`.

    Bytes of the columns in `texts` (lower case) become text; a row with other bytes has `NOT_TEXT`.
    """
    files = spark.read.format("binaryFile").load([*paths])
    named = files.select("content", F.expr(URL).alias("_url"))
    return named.mapInArrow(partial(json_rows, texts=frozenset(texts)), _SCHEMA)


def json_rows(
    batches: Iterator[pa.RecordBatch], texts: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of the Parquet files in `content` (binary), with their file and row number."""
    for batch in batches:
        for content, url in zip(batch.column(0), batch.column(1).to_pylist(), strict=True):
            place = 0
            buffer = content.as_buffer()
            file = pq.ParquetFile(pa.BufferReader(buffer), coerce_int96_timestamp_unit="us")
            _check_names(file.schema_arrow.names)
            finer = _finer_parts(buffer, _names_of_96_bits(file))
            for part, fine in zip(file.iter_batches(batch_size=_ROWS), finer, strict=False):
                rows = [_encode(row).decode() for row in _build_rows(part, texts, fine)]
                yield add_places(pa.array(rows, pa.string()), url, place)
                place += len(rows)


def files_with_96_bits(
    spark: SparkSession, files: Sequence[DroppedFile], names: Collection[str]
) -> list[DroppedFile]:
    """The files in which one of the named columns has timestamps of 96 bits.

    Tasks read the files that this process cannot read, up to 2 GiB each.
    """
    here = [file for file in files if file.here.is_file()]
    urls = {f.url for f in here if not _names_of_96_bits(pq.ParquetFile(f.here)).isdisjoint(names)}
    away = [f for f in files if f not in here and f.length < _LONGEST_HELD]
    if away:
        read = spark.read.format("binaryFile").load([literal_path(file.path) for file in away])
        named = read.select("content", F.expr(URL).alias("_url"))
        rows = named.mapInArrow(partial(_with_96_bits, names=frozenset(names)), "_url string")
        urls |= {row[0] for row in rows.collect()}
    return [file for file in files if file.url in urls]


def _with_96_bits(
    batches: Iterator[pa.RecordBatch], names: Collection[str]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        contents = [content.as_buffer() for content in batch.column(0)]
        files = [pq.ParquetFile(pa.BufferReader(content)) for content in contents]
        fits = [not _names_of_96_bits(file).isdisjoint(names) for file in files]
        yield batch.select([1]).filter(pa.array(fits, pa.bool_()))


def _names_of_96_bits(file: pq.ParquetFile) -> set[str]:
    """The top-level columns with timestamps of 96 bits."""
    columns = map(file.schema.column, range(len(file.schema)))
    names = {column.path for column in columns if column.physical_type == "INT96"}
    return names & {*file.schema_arrow.names}


def _finer_parts(buffer: pa.Buffer, names: set[str]) -> Iterator[Mapping[str, pa.Array]]:
    """Timestamps of 96 bits in nanoseconds, by batch; outside of 1677 to 2262 they overflow."""
    if not names:
        yield from repeat(dict[str, pa.Array]())
    file = pq.ParquetFile(pa.BufferReader(buffer))
    for part in file.iter_batches(batch_size=_ROWS, columns=sorted(names)):
        yield dict(zip(part.schema.names, part.columns, strict=True))


def _check_names(names: Sequence[str]) -> None:
    """Refuses a file with several columns of one name."""
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise UnreadableFile(
            f"the file has the column {doubled[0]} more than once, expected it once"
        )


def _build_rows(
    part: pa.RecordBatch, texts: Collection[str], finer: Mapping[str, pa.Array]
) -> Iterator[dict[str, object]]:
    not_text: dict[int, list[str]] = {}
    columns = [
        _text_values(name, column, not_text)
        if name.lower() in texts and any(is_one(column.type) for is_one in _BYTES)
        else _exact_values(column, finer[name])
        if name in finer
        else read_values(column)
        for name, column in zip(part.schema.names, map(_to_plain, part.columns), strict=True)
    ]
    for row, values in enumerate(zip(*columns, strict=True)):
        faults = {NOT_TEXT: not_text[row]} if row in not_text else {}
        yield {**dict(zip(part.schema.names, values, strict=True)), **faults}


def read_values(column: pa.Array) -> list[object]:
    """The values as Spark would write them in JSON.

    Raises:
        UnreadableFile: the values are of a nested type that Spark lacks, such as a union.
    """
    column = _to_plain(column)
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return _nanosecond_texts(column)
    if pa.types.is_nested(column.type):
        valid = zip(_read_nested(column), column.is_valid().to_pylist(), strict=True)
        return [value if is_valid else None for value, is_valid in valid]
    return [_to_json_value(value) for value in column.to_pylist()]


def _read_nested(column: pa.Array) -> Iterable[object]:
    """The structs, maps and arrays of a column; where it is null, any value."""
    kind = column.type
    if pa.types.is_struct(kind):
        rows = zip(*map(read_values, column.flatten()), strict=True)
        return [dict(zip(map(_NAME, kind), row, strict=True)) for row in rows]
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_field))
    elif not isinstance(column, pa.ListArray | pa.LargeListArray):
        raise UnreadableFile(f"found a value of type {kind}, expected arrays, maps and structs")
    ends = column.offsets.to_pylist()
    held = read_values(column.values.slice(ends[0], ends[-1] - ends[0]))
    lists = [held[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]
    return map(_to_object, lists) if pa.types.is_map(kind) else lists


def _to_object(entries: list[Any]) -> dict[str, object]:
    pairs = (entry.values() for entry in entries)
    return {str(k).lower() if isinstance(k, bool) else str(k): value for k, value in pairs}


def _exact_values(micros: pa.Array, nanos: pa.Array) -> list[object]:
    """Timestamps with nanoseconds, or microseconds where 64 bits of nanoseconds overflow."""
    floor = pc.cast(pc.floor_temporal(nanos, unit="microsecond"), micros.type, safe=False)
    equal = pc.equal(floor, micros).to_pylist()
    pairs = zip(equal, _nanosecond_texts(nanos), read_values(micros), strict=True)
    return [fine if is_equal else coarse for is_equal, fine, coarse in pairs]


def _text_values(name: str, column: pa.Array, not_text: dict[int, list[str]]) -> list[object]:
    """Bytes as text; rows whose bytes are not UTF-8 are added to `not_text`."""
    values: list[object] = []
    for row, value in enumerate(column.to_pylist()):
        try:
            values.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            values.append(_to_json_value(value))
            not_text.setdefault(row, []).append(name)
    return values


def _nanosecond_texts(column: pa.Array) -> list[object]:
    """Timestamps as text, with nine digits of a second where the last three are not zero."""
    micros = pc.floor_temporal(column, unit="microsecond")
    nanos = pc.subtract(column.cast(pa.int64()), micros.cast(pa.int64())).to_pylist()
    values = pc.cast(micros, pa.timestamp("us", column.type.tz), safe=False).to_pylist()
    texts = [None if value is None else _utc_text(value) for value in values]
    pairs = zip(texts, nanos, strict=True)
    return [f"{t[:_MICROS]}{n:03}{t[_MICROS:]}" if t and n else t for t, n in pairs]


def _to_plain(column: pa.Array) -> pa.Array:
    """Dictionaries as values, times of day in microseconds, as Python has; durations as numbers."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _to_plain(column.dictionary_decode())
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return pc.cast(column, pa.time64("us"), safe=False)
    return column.cast(pa.int64()) if pa.types.is_duration(kind) else column


def _to_json_value(value: object) -> object:
    plain = next((to for type_, to in _TO_JSON if isinstance(value, type_)), None)
    return value if plain is None else plain(value)


def _utc_text(value: datetime) -> str:
    utc = value.astimezone(timezone.utc) if value.tzinfo else value
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time_text(value: time) -> str:
    whole, point, fraction = value.isoformat().partition(".")
    return whole + (point + fraction).rstrip("0")


def _to_json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


# A datetime is a date as well.
_TO_JSON: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (datetime, _utc_text),
    (time, _time_text),
    (date, date.isoformat),
    (bytes, lambda value: base64.b64encode(value).decode()),
    (float, _to_json_number),
)
