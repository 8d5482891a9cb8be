"""Snapshots whose files hold no row: they change nothing, and a full one might have been meant to.

Looks at the files of a landing folder on this machine, without Spark.
"""

import gzip
import re
import zlib
from pathlib import Path

from bronze.files.file_kinds import encoding_by_mark
from lakehouse.config.table import Source

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LARGEST = 65_536
_PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"
_BLANKS = " \t\r\n\f\ufeff\x00\x1a"


def empty_extract(folder: Path, files: list[Path], source: Source) -> str | None:
    """A warning where no file of the newest date has a row; None in all other cases.

    Args:
        folder: the landing folder of a source of format snapshot.
        files: its complete files.
        source: the source, for how its files are written.
    """
    by_day: dict[str, list[Path]] = {}
    for file in files:
        day = file.relative_to(folder).parts[0]
        if _DAY.fullmatch(day):
            by_day.setdefault(day, []).append(file)
    newest = max(by_day, default=None)
    if newest is None or not all(_has_no_row(file, source) for file in by_day[newest]):
        return None
    text = f"the snapshot of {newest} holds no row, so it changes nothing"
    return f"{text}; do: if the export failed, drop it again under another name"


def _has_no_row(file: Path, source: Source) -> bool:
    try:
        if file.stat().st_size > _LARGEST:
            return False
        content = file.read_bytes()
        content = gzip.decompress(content) if content.startswith(_GZIP) else content
        if content.startswith(_PARQUET):
            import pyarrow.parquet as pq

            return bool(pq.read_metadata(file).num_rows == 0)
    except (OSError, EOFError, ValueError, zlib.error):
        return False
    return _has_no_text(content, source)


def _has_no_text(content: bytes, source: Source) -> bool:
    encoding = source.csv.encoding or encoding_by_mark(content[:100]) or "utf-8"
    text = content.decode(encoding, errors="replace").strip(_BLANKS)
    if source.file_format == "csv" and source.csv.header:
        return "\n" not in text and "\r" not in text
    return not text or (source.file_format == "json" and not text.strip("[] \t\r\n"))
