"""Files that are one JSON array: its elements are records."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_SPACE = b" \t\r\n\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_LOOKED_AT = 4_096
_FOUND = "_raw binary, _url string, _block bigint, _row bigint"


def is_array(path: str) -> bool:
    """Whether a file begins as a JSON array.

    Only files that can be opened here are looked at: the lines of others are taken as they are.
    """
    place = Path(path.removeprefix("dbfs:").removeprefix("file:"))
    try:
        with place.open("rb") as file:
            head = file.read(_LOOKED_AT)
        if head.startswith(_GZIP):
            head = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head)
    except (OSError, zlib.error):
        return False
    return head.lstrip(_SPACE)[:1] == b"["


def array_elements(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The elements of files that are JSON arrays, as `bronze.lines.lines` gives records.

    A file whose array is broken is one record, so that none of it is taken by halves.
    """
    texts = spark.read.text([*paths], wholetext=True)
    whole = texts.select(F.col("value").cast("binary"), F.col("_metadata.file_path").alias("_url"))
    found = whole.mapInArrow(split_arrays, _FOUND)
    return found.select(F.col("_raw").cast("string"), "_url", "_block", "_row")


def split_arrays(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The elements of the arrays in `value` (binary), with their file and place in it."""
    for batch in batches:
        for text, url in zip(batch.column(0), batch.column(1).to_pylist(), strict=True):
            elements = _elements(text.as_py())
            count = len(elements)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(elements, pa.binary()),
                    pa.array([url] * count, pa.string()),
                    pa.array([0] * count, pa.int64()),
                    pa.array(range(count), pa.int64()),
                ],
                names=["_raw", "_url", "_block", "_row"],
            )


def _elements(text: bytes) -> list[bytes]:
    try:
        return [bytes(element) for element in _parse(text.lstrip(b"\xef\xbb\xbf"))]
    except (msgspec.MsgspecError, RecursionError):
        return [text]


_parse = msgspec.json.Decoder(list[msgspec.Raw]).decode
