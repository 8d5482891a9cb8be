"""JSON files whose records are not lines: an array, or objects that share or span lines."""

import bz2
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.files.file_kinds import check_ending, check_is_json
from bronze.files.listing import URL
from lakehouse.places.place import Place, open_file

_BLANKS = " \t\r\n\ufeff"
_VISIBLE = re.compile(f"[^{_BLANKS}]")
_GZIP = b"\x1f\x8b"
_OTHER_CODEC = ".zst"
_HADOOPS = (_OTHER_CODEC, ".lz4", ".snappy", ".deflate")
_MARK, _BLANK_LINE = b"\xef\xbb\xbf", b" \t\r\f"
MOST_BYTES = 4 << 20
_LOOKED_AT = (4_096, 1 << 20)
_SCHEMA = "_raw binary, _url string, _block bigint, _row bigint"


def has_other_records(file: Place) -> bool:
    """Whether the first bytes of a file show an array, or objects that share or span lines.

    False for files whose records are lines, and for those that this process cannot open.

    Raises:
        UnreadableFile: the file is of another kind.
    """
    check_ending(str(file))
    if file.suffix == _OTHER_CODEC:
        return False
    return _has_other_records(partial(_read_head, file))


def _has_other_records(head_of: Callable[[int], bytes]) -> bool:
    for size in _LOOKED_AT:
        try:
            head = head_of(size)
        except (OSError, EOFError, zlib.error):
            return False
        check_is_json(head)
        text = head.decode("utf-8", "replace").lstrip(_BLANKS)
        if text[:1] != "{":
            return text[:1] == "["
        end = _end_of_value(text, 0)
        if end is not None:
            rest = text[end:].partition("\n")[0]
            is_behind_a_key = rest[:1] == "\t"  # as kafka-console-consumer prints keys
            return "\n" in text[:end] or (rest.strip(_BLANKS)[:1] == "{" and not is_behind_a_key)
    return False


def read_records(file: Place) -> list[tuple[int, bytes]] | None:
    """The records of a file with their line numbers from 0; None if Spark must read the file.

    If records are not lines, they are numbered themselves. Spark reads files that only Hadoop can
    unpack, large ones and damaged ones.
    """
    if file.suffix in _HADOOPS:
        return None
    try:
        content = _read_head(file, MOST_BYTES + 1, strict=True)
    except (OSError, EOFError, zlib.error):
        return None
    if len(content) > MOST_BYTES:
        return None
    if _has_other_records(lambda size: content[:size]):
        return list(enumerate(split_records(content)))
    lines = content.removeprefix(_MARK).split(b"\n")
    return [(at, line) for at, line in enumerate(lines) if line.lstrip(_BLANK_LINE)]


def read_other_records(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The elements of arrays, and objects in sequence, as rows like `lines.read_file_records`.

    A broken array is one record, and so is the text after the last valid object.
    """
    texts = spark.read.text([*paths], wholetext=True)
    whole = texts.select(F.col("value").cast("binary"), F.expr(URL).alias("_url"))
    records = whole.mapInArrow(split_files, _SCHEMA)
    return records.select(F.col("_raw").cast("string"), "_url", "_block", "_row")


def split_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of the files in `value` (binary), with their file and their number in it."""
    for batch in batches:
        for text, url in zip(batch.column(0), batch.column(1).to_pylist(), strict=True):
            yield add_places(pa.array(split_records(text.as_py()), pa.binary()), url)


def add_places(records: pa.Array, url: str, first: int = 0) -> pa.RecordBatch:
    """Consecutive records of a file, numbered from `first`."""
    count = len(records)
    places = pa.array(range(first, first + count), pa.int64())
    columns = [records, pa.array([url] * count, pa.string()), pa.array([0] * count, pa.int64())]
    return pa.RecordBatch.from_arrays([*columns, places], names=["_raw", "_url", "_block", "_row"])


def _read_head(place: Place, size: int, strict: bool = False) -> bytes:
    """The first `size` bytes of a file, unpacked; `strict` fails on a `.gz` that is not packed."""
    with open_file(place) as file:
        if place.suffix == ".bz2":
            return bz2.open(file).read(size)
        packed = (strict or file.read(len(_GZIP)) == _GZIP) and place.suffix == ".gz"
        file.seek(0)
        return gzip.open(file).read(size) if packed else file.read(size)


def split_records(text: bytes) -> list[bytes]:
    """The elements of an array, or the objects in sequence; the last one is the invalid rest."""
    try:
        return [bytes(element) for element in _parse_array(text.lstrip(_MARK))]
    except (msgspec.MsgspecError, RecursionError):
        if text.lstrip(_BLANKS.encode())[:1] == b"[":
            return [text]
        objects = _split_objects(text.decode("utf-8", "surrogateescape"))
        return [one.encode("utf-8", "surrogateescape") for one in objects]


def _split_objects(text: str) -> list[str]:
    """The JSON values in sequence; the last one is the invalid rest, if any."""
    objects: list[str] = []
    end = 0
    while begin := _VISIBLE.search(text, end):
        end = _end_of_value(text, begin.start()) or len(text)
        objects.append(text[begin.start() : end])
    return objects


def _end_of_value(text: str, begin: int) -> int | None:
    """Where the JSON value at `begin` ends; None if there is none."""
    try:
        return _parse_next(text, begin)[1]
    except (ValueError, RecursionError):
        return None


_parse_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_parse_next = json.JSONDecoder(strict=False).raw_decode
