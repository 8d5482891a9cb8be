"""A batch of dropped files as rows of bronze, in one commit."""

import zlib
from collections.abc import Sequence
from datetime import datetime, timezone

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import WHOLE_RECORD_FORMATS, arrival_prefix
from bronze.feeds import Feed, feed_folder
from bronze.files.file_kinds import UnreadableFile
from bronze.files.json_files import read_records
from bronze.files.lines import check_places, read_file_records
from bronze.files.listing import DroppedFile, can_list_here
from bronze.files.unreadable import find_unreadable
from bronze.storage import News, append_here, append_spread, to_hexadecimal
from lakehouse.config.formats import CHANGE_MEMBERS, ORIGIN, WHOLE_MEMBERS
from lakehouse.config.target import Target
from lakehouse.places.place import ask_each
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake

# Every whole record contains one of these texts; records without them are not parsed. The texts
# are names of members without the first quote: JSON is full of quotes, and Spark's search compares
# further at each match of the first character.
SIGNS = ('offset"', 'value"')
_MEMBERS = [name for names in WHOLE_MEMBERS.values() for name in names if name != "value"]
_SCHEMA = ", ".join(f"`{member}` string" for member in (*_MEMBERS, *CHANGE_MEMBERS))
_MAY_BE_WHOLE = " OR ".join(f"contains(_raw, '{sign}')" for sign in SIGNS)
_OPENED = f"CASE WHEN {_MAY_BE_WHOLE} THEN from_json(_raw, '{_SCHEMA}') END AS _record"
# Null if no record was parsed: then the last, costly condition is not evaluated.
_IS_CHANGE = f"coalesce({', '.join(f'_record.`{member}`' for member in CHANGE_MEMBERS)})"
_HAS_ORIGIN = " AND ".join(f"_record.{member} IS NOT NULL" for member in ORIGIN)
_IS_WHOLE = f"""CASE
    WHEN _record IS NULL OR {_IS_CHANGE} IS NOT NULL THEN false
    WHEN {_HAS_ORIGIN} THEN true
    WHEN _record.payload IS NOT NULL THEN false
    WHEN _record.offset IS NOT NULL AND coalesce(_record.topic, _record.key) IS NOT NULL THEN true
    ELSE coalesce(array_contains(json_object_keys(_raw), 'value'), false)
END AS _whole"""
# Milliseconds since 1970, as Kafka counts them, or ISO 8601 text; years 1 to 9999.
_GIVEN_TIME = f"coalesce({', '.join(f'_record.{name}' for name in WHOLE_MEMBERS['timestamp'])})"
_TIMESTAMP = f"""CASE
    WHEN try_cast({_GIVEN_TIME} AS bigint) BETWEEN -62135596800000 AND 253402300799999
        THEN timestamp_millis(try_cast({_GIVEN_TIME} AS bigint))
    WHEN try_cast({_GIVEN_TIME} AS bigint) IS NULL
        AND year(try_cast({_GIVEN_TIME} AS timestamp)) BETWEEN 1 AND 9999
        THEN try_cast({_GIVEN_TIME} AS timestamp)
END"""
_TAKEN = {
    "_topic": "_record.topic",
    "_partition": "try_cast(_record.partition AS int)",
    "_offset": "try_cast(_record.offset AS bigint)",
    "_timestamp": _TIMESTAMP,
    "_key": "_record.key",
    "_headers": "_record.headers",
}
_TAKEN_SQL = [f"CASE WHEN _whole THEN {taken} END AS {name}" for name, taken in _TAKEN.items()]
_TYPES = ("string", "int", "bigint", "timestamp", "string", "string")
_NOTHING = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(_TAKEN, _TYPES, strict=True)]


def with_origin(lines: DataFrame) -> DataFrame:
    """Adds `_topic` … `_headers` and `_whole` to rows of `_raw`; keeps all rows.

    A line is a whole record if it is a JSON object for which `lakehouse.config.formats.is_whole`
    is true. On other lines all is null but `_whole` (false). Values that do not fit their type are
    null. JSON keys and headers become compact text with fractions as doubles; `_raw` is unchanged.
    """
    opened = lines.selectExpr("*", _OPENED).selectExpr("*", _IS_WHOLE)
    return opened.selectExpr("*", *_TAKEN_SQL).drop("_record")


def without_origin(lines: DataFrame) -> DataFrame:
    """Adds the same columns, all null and `_whole` false, for formats without whole records."""
    return lines.selectExpr("*", "false AS _whole", *_NOTHING)


FEW_BYTES = 1 << 20
"""JSON files up to this size are read by this process: a Spark query takes longer."""

_ORIGIN = {
    "_whole": pa.bool_(), "_topic": pa.string(), "_partition": pa.int32(), "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", "UTC"), "_key": pa.string(), "_headers": pa.string(),
}  # fmt: skip


def append_readable(
    lake: Lake, feed: Feed, files: Sequence[DroppedFile], number: int
) -> tuple[News, dict[DroppedFile, str]]:
    """Appends the files in one commit, without those that cannot be read.

    Returns:
        What was appended, and the unreadable files with the reason.
    """
    if not files:
        return News(0, {}, {}), {}
    try:
        few = read_few(lake, feed, files, number)
        if few is not None:
            return append_here(lake, feed, few, number), {}
        rows = build_rows(lake.spark, feed, files, number)
        return append_spread(lake, feed, rows, number), {}
    except (*SPARK_FAILURES, UnreadableFile):
        bad = find_unreadable(lake.spark, feed, files)
        if not bad:
            raise
        readable = [file for file in files if file not in bad]
        came, more = append_readable(lake, feed, readable, number)
        return came, bad | more


def read_few(lake: Lake, feed: Feed, files: Sequence[DroppedFile], number: int) -> pa.Table | None:
    """The rows of a few small JSON files, in order of arrival; None if Spark must read them."""
    records_by_file = _records_here(lake.target, feed, files)
    if records_by_file is None:
        return None
    raw = [record for records in records_by_file for _, record in records]
    of_file = [at for at, records in enumerate(records_by_file) for _ in records]
    line = [at for records in records_by_file for at, _ in records]
    begins = [_file_prefix(number, rank) for rank in range(len(files))]
    pattern, now = f"{0:010X}{{:08X}}{feed_mark(feed)}", datetime.now(timezone.utc)
    columns = {
        "_raw": pa.array(raw, pa.binary()),
        "_file": pa.array([files[at].path for at in of_file], pa.string()),
        "_line": pa.array(line, pa.int64()),
        "_batch": pa.array([number] * len(raw), pa.int64()),
        "_arrived_at": pa.array([now] * len(raw), pa.timestamp("us", "UTC")),
        "_arrival": pa.array(
            [begins[file] + pattern.format(at) for file, at in zip(of_file, line, strict=True)]
        ),
    }
    return pa.table(columns | _read_origin(lake.spark, feed, raw))


def _records_here(
    target: Target, feed: Feed, files: Sequence[DroppedFile]
) -> list[list[tuple[int, bytes]]] | None:
    small = feed.file_format == "json" and sum(file.length for file in files) <= FEW_BYTES
    if not small or not can_list_here(target, feed_folder(target, feed)):
        return None
    check_places(feed, files)
    read = ask_each(read_records, [file.here for file in files])
    readable = [records for records in read if records is not None]
    return readable if len(readable) == len(files) else None


def _read_origin(spark: SparkSession, feed: Feed, raw: list[bytes]) -> dict[str, pa.Array]:
    """The columns of `with_origin`; computed by Spark only if there may be a whole record."""
    signs = [sign.encode() for sign in SIGNS]
    may_be_whole = feed.format in WHOLE_RECORD_FORMATS and any(s in r for r in raw for s in signs)
    if not may_be_whole:
        nothing = {name: pa.nulls(len(raw), kind) for name, kind in _ORIGIN.items()}
        return nothing | {"_whole": pa.array([False] * len(raw))}
    lines = spark.createDataFrame(pa.table({"_raw": pa.array(raw, pa.binary())}))
    origin = with_origin(lines.selectExpr("CAST(_raw AS string)")).select(*_ORIGIN).toArrow()
    return {name: origin[name].cast(kind) for name, kind in _ORIGIN.items()}


def build_rows(
    spark: SparkSession, feed: Feed, files: Sequence[DroppedFile], number: int
) -> DataFrame:
    """The files' records as bronze rows, unsorted; `_arrival` sorts them.

    `_arrival` is in hex: batch (8 digits), the file's rank in the batch (6), byte offset of the
    split (10), row (8), and the feed's mark (4), so that no two feeds share one.
    """
    shape = with_origin if feed.format in WHOLE_RECORD_FORMATS else without_origin
    of_files = _build_file_rows(spark, files, number)
    records = shape(read_file_records(spark, feed, files)).join(of_files, "_url", "left")
    place = [to_hexadecimal(F.col("_block"), 10), to_hexadecimal(F.col("_row"), 8)]
    unlisted = F.raise_error(F.concat(F.lit("a file that was not listed: "), F.col("_url")))
    return records.withColumns(
        {
            "_line": F.shiftleft(F.shiftright("_block", 20), 33) + F.col("_row"),
            "_arrival": F.concat(
                F.coalesce(F.col("_place"), unlisted.cast("string")), *place, F.lit(feed_mark(feed))
            ),
        }
    )


def feed_mark(feed: Feed) -> str:
    """Four hex digits that identify the feed: the end of the CRC-32 of its name."""
    return f"{zlib.crc32(feed.name.encode()) & 0xFFFF:04X}"


def _file_prefix(number: int, rank: int) -> str:
    return f"{arrival_prefix(number)}{rank:06X}"


def _build_file_rows(spark: SparkSession, files: Sequence[DroppedFile], number: int) -> DataFrame:
    """A row per file with the values that all its records share.

    As a join instead of constants: Spark then compiles its code once for all batches.
    """
    now = datetime.now(timezone.utc)
    listed = [(f.url, f.path, number, now, _file_prefix(number, at)) for at, f in enumerate(files)]
    schema = "_url string, _file string, _batch bigint, _arrived_at timestamp, _place string"
    return F.broadcast(spark.createDataFrame(listed, schema))
