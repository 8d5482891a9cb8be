"""JSON files whose records are not their lines: an array, or objects that share or span lines."""

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
_FOUND = "_raw binary, _url string, _block bigint, _row bigint"


def has_other_records(file: Place) -> bool:
    """Whether the records of a file are not its lines, as far as its beginning shows.

    Only files that can be opened here are looked at: the lines of others are taken as they are.

    Raises:
        UnreadableFile: the file is of another kind.
    """
    check_ending(str(file))
    if file.suffix == _OTHER_CODEC:
        return False
    return _has_other_records(partial(_head, file))


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
    """The records of a file with their lines; None where Spark is to read the file.

    Lines count from 0; in a file of other records than lines, each record counts.

    That is a file which is packed in a way that only Hadoop knows, or holds much, or is damaged.
    """
    if file.suffix in _HADOOPS:
        return None
    try:
        content = _head(file, MOST_BYTES + 1, strict=True)
    except (OSError, EOFError, zlib.error):
        return None
    if len(content) > MOST_BYTES:
        return None
    if _has_other_records(lambda size: content[:size]):
        return list(enumerate(split_records(content)))
    lines = content.removeprefix(_MARK).split(b"\n")
    return [(at, line) for at, line in enumerate(lines) if line.lstrip(_BLANK_LINE)]


def other_records(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The elements of arrays, and objects one after another, like `lines.lines` gives records.

    A broken array is one record, and so is all that follows the last whole object.
    """
    texts = spark.read.text([*paths], wholetext=True)
    whole = texts.select(F.col("value").cast("binary"), F.expr(URL).alias("_url"))
    found = whole.mapInArrow(split_files, _FOUND)
    return found.select(F.col("_raw").cast("string"), "_url", "_block", "_row")


def split_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of the files in `value` (binary), with their file and place in it."""
    for batch in batches:
        for text, url in zip(batch.column(0), batch.column(1).to_pylist(), strict=True):
            yield located(pa.array(split_records(text.as_py()), pa.binary()), url)


def located(records: pa.Array, url: str, first: int = 0) -> pa.RecordBatch:
    """Records that follow one another in a file, with their places from `first` on."""
    count = len(records)
    places = pa.array(range(first, first + count), pa.int64())
    columns = [records, pa.array([url] * count, pa.string()), pa.array([0] * count, pa.int64())]
    return pa.RecordBatch.from_arrays([*columns, places], names=["_raw", "_url", "_block", "_row"])


def _head(place: Place, size: int, strict: bool = False) -> bytes:
    """The first bytes of a file, unpacked; a strict look takes no plain file for a packed one."""
    with open_file(place) as file:
        if place.suffix == ".bz2":
            return bz2.open(file).read(size)
        packed = (strict or file.read(len(_GZIP)) == _GZIP) and place.suffix == ".gz"
        file.seek(0)
        return gzip.open(file).read(size) if packed else file.read(size)


def split_records(text: bytes) -> list[bytes]:
    """The elements of an array, or the objects one after another; what follows is the last one."""
    try:
        return [bytes(element) for element in _parse_array(text.lstrip(_MARK))]
    except (msgspec.MsgspecError, RecursionError):
        if text.lstrip(_BLANKS.encode())[:1] == b"[":
            return [text]
        objects = _objects(text.decode("utf-8", "surrogateescape"))
        return [one.encode("utf-8", "surrogateescape") for one in objects]


def _objects(text: str) -> list[str]:
    """The JSON values one after another, and as the last one what follows them."""
    found: list[str] = []
    end = 0
    while begin := _VISIBLE.search(text, end):
        end = _end_of_value(text, begin.start()) or len(text)
        found.append(text[begin.start() : end])
    return found


def _end_of_value(text: str, begin: int) -> int | None:
    """Where the JSON value ends that begins there; None where none does."""
    try:
        return _parse_next(text, begin)[1]
    except (ValueError, RecursionError):
        return None


_parse_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_parse_next = json.JSONDecoder(strict=False).raw_decode
