"""Looks for values in every file below a folder, whether a table knows the file or not.

Parquet files are read column by column, everything else as text. A value counts where it stands as
a whole, in its own letters or as JSON escapes them. Deletion vectors hold positions only.
"""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.places.place import Place, open_file, parts_below

PASSED_OVER = ("_tmp", "_warehouse")
"""Spark's own scratch, which goes with its session."""
NO_TEXT = (".bin",)


class Trace(NamedTuple):
    """A file in which something was found, and in how many places."""

    file: str
    places: int


def traces(folder: Place, values: Sequence[str]) -> list[Trace]:
    """Every file below the folder that holds one of the values; none without values."""
    if not values:
        return []
    sought = re.compile(pattern(values))
    found = ((file, _places(file, sought)) for file in _files(folder))
    return [Trace(str(file), places) for file, places in found if places]


def pattern(values: Sequence[str]) -> str:
    """A regular expression, for Python and Java alike, that finds one of the values as a whole."""
    written = {*values, *(json.dumps(v)[1:-1] for v in values)}
    written |= {json.dumps(v, ensure_ascii=False)[1:-1] for v in values}
    return rf"(?<!\w)(?:{'|'.join(re.escape(w) for w in sorted(written))})(?!\w)"


def _files(folder: Place) -> Iterator[Place]:
    every: Iterator[Place] = folder.rglob("*")
    for file in sorted(every, key=str):
        top = parts_below(file, folder)[0]
        if file.is_file() and top not in PASSED_OVER and file.suffix not in NO_TEXT:
            yield file


def _places(file: Place, sought: re.Pattern[str]) -> int:
    try:
        if file.suffix == ".parquet":
            return sum(len(sought.findall(text)) for text in _cells(file))
        content = file.read_bytes()
    except FileNotFoundError:
        return 0
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return len(sought.findall(text.decode("utf-8", errors="replace")))


def _cells(file: Place) -> Iterator[str]:
    """Every text of a Parquet file, those inside of nested values as JSON."""
    with open_file(file) as source, pq.ParquetFile(source) as opened:
        for batch in opened.iter_batches(batch_size=10_000):
            for column in batch.columns:
                if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                    yield from (text for text in column.to_pylist() if text is not None)
                elif pa.types.is_nested(column.type):
                    cells = (cell for cell in column.to_pylist() if cell is not None)
                    yield from (json.dumps(c, default=str, ensure_ascii=False) for c in cells)
