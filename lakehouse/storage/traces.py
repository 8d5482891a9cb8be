"""Searches values in all files below a folder, including files that no table uses.

Parquet files are read column by column, all others as text. A value counts if it stands as a whole
word, plain or escaped as in JSON. Deletion vectors are skipped: they contain positions only.
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
"""Spark's temporary folders, which are removed with its session."""
NO_TEXT = (".bin",)


class Trace(NamedTuple):
    """A file with some of the values, and the number of matches."""

    file: str
    places: int


def find_traces(folder: Place, values: Sequence[str]) -> list[Trace]:
    """The files below the folder that contain one of the values."""
    if not values:
        return []
    sought = re.compile(build_pattern(values))
    counts = ((file, _count_places(file, sought)) for file in _list_files(folder))
    return [Trace(str(file), places) for file, places in counts if places]


def build_pattern(values: Sequence[str]) -> str:
    """A regular expression for Python and Java that matches one of the values as a whole word."""
    written = {*values, *(json.dumps(v)[1:-1] for v in values)}
    written |= {json.dumps(v, ensure_ascii=False)[1:-1] for v in values}
    return rf"(?<!\w)(?:{'|'.join(re.escape(w) for w in sorted(written))})(?!\w)"


def _list_files(folder: Place) -> Iterator[Place]:
    every: Iterator[Place] = folder.rglob("*")
    for file in sorted(every, key=str):
        top = parts_below(file, folder)[0]
        if file.is_file() and top not in PASSED_OVER and file.suffix not in NO_TEXT:
            yield file


def _count_places(file: Place, sought: re.Pattern[str]) -> int:
    try:
        if file.suffix == ".parquet":
            return sum(len(sought.findall(text)) for text in _read_texts(file))
        content = file.read_bytes()
    except FileNotFoundError:
        return 0
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return len(sought.findall(text.decode("utf-8", errors="replace")))


def _read_texts(file: Place) -> Iterator[str]:
    """All texts of a Parquet file; nested values as JSON."""
    with open_file(file) as source, pq.ParquetFile(source) as opened:
        for batch in opened.iter_batches(batch_size=10_000):
            for column in batch.columns:
                if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                    yield from (text for text in column.to_pylist() if text is not None)
                elif pa.types.is_nested(column.type):
                    cells = (cell for cell in column.to_pylist() if cell is not None)
                    yield from (json.dumps(c, default=str, ensure_ascii=False) for c in cells)
