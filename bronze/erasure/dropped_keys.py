"""Which dropped files hold records of a key: found in the files, whatever bronze still knows.

A file is read as a source wrote it, without Spark: JSON, CSV (plain, `.gz` or `.bz2`) or Parquet. A
record is the key's when it names the key's values, before or after its change, or its file's
folders do. A value counts as the key's in each of the spellings that a connector has for it: a
decimal as number, text or base64, a date as days, a time as ticks. A CSV file is read with each
separator and each way to escape a quote that it can have. Names do not differ by their case.
"""

import base64
import bz2
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from bronze.contract import folder_columns, topics
from bronze.files.file_kinds import encoding_by_mark
from bronze.files.json_files import split_records
from lakehouse.config.csv_options import SEPARATORS, Csv
from lakehouse.config.formats import is_whole, value_of
from lakehouse.config.table import Source, Table
from lakehouse.config.target import Target
from lakehouse.places.place import Place, list_below, open_file, parts_below, place
from lakehouse.places.settings import is_reached

Key: TypeAlias = Mapping[str, str | None]
Record: TypeAlias = Mapping[str, Any]
KeyPart: TypeAlias = tuple[list[str], set[str | None]]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TICKS = (1, 1_000, 1_000_000, 1_000_000_000)


def files_with_key(target: Target, table: Table, key: Key) -> list[Place]:
    """The files below the table's landing folders that hold a record of the key, sorted.

    A file that cannot be read holds nothing.
    """
    found: set[Place] = set()
    for source in table.feeds:
        folder = _folder(target, source)
        every = list_below(folder) if folder is not None else ()
        found |= {f for f in every if f.is_file() and _holds(f, folder, table, source, key)}
    return sorted(found, key=str)


def folders(target: Target, table: Table) -> list[Place]:
    """The table's landing folders that this process sees."""
    every = dict.fromkeys(_folder(target, source) for source in table.feeds)
    return [folder for folder in every if folder is not None and folder.is_dir()]


def _folder(target: Target, source: Source) -> Place | None:
    if source.path is None or not is_reached(target, target.landing):
        return None
    return place(target, target.landing, source.path)


def _holds(file: Place, below: Place | None, table: Table, source: Source, key: Key) -> bool:
    mine = topics(source)
    given = folder_columns("/".join(parts_below(file, below or file.parent)))
    wanted = [_part_of_key(table, name, value) for name, value in key.items()]
    try:
        for topic, rows in _records(file, source, table):
            if topic is not None and mine and topic not in mine:
                continue
            if any(_is_key(row, given, wanted) for row in rows):
                return True
    except (OSError, EOFError, ValueError, zlib.error, csv.Error):
        return False
    return False


def _part_of_key(table: Table, name: str, value: str | None) -> KeyPart:
    """The names in lower case that a source has had for a key, and the texts of its value."""
    declared = table.columns.get(name)
    kind, old = (declared.type.lower(), declared.renamed_from) if declared else ("string", ())
    return [each.lower() for each in (name, *old)], _spellings(value, kind)


def _is_key(row: Record, given: Key, wanted: Iterable[KeyPart]) -> bool:
    """Whether the row, or its folders in what it lacks, has the key's values; null parts too."""
    named: dict[str, list[object]] = {}
    for name, value in [*given.items(), *row.items()]:
        named.setdefault(name.lower(), []).append(value)
    return all(
        any(_text(value) in texts for name in names for value in named.get(name, ()))
        for names, texts in wanted
    )


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (float, Decimal)):
        return _number(str(value)) or str(value)
    return str(value)


def _number(text: str) -> str | None:
    """A number without an exponent and without zeros at its end; None for other texts."""
    try:
        return f"{Decimal(text).normalize():f}"
    except InvalidOperation:
        return None


def _spellings(value: str | None, kind: str) -> set[str | None]:
    """The texts of every form in which a source may write the value."""
    said: set[str | None] = {value}
    if value is None:
        return said
    if (number := _number(value)) is not None:
        said.add(number)
        if kind.startswith("decimal"):
            said |= _base64(Decimal(value))
    if kind == "date" or kind.startswith("timestamp"):
        said |= _times(value)
    return said


def _base64(value: Decimal) -> set[str]:
    """The unscaled value as Connect writes it, at every scale that holds the value."""
    found = set()
    for scale in range(39):
        unscaled = value.scaleb(scale)
        if unscaled == unscaled.to_integral_value():
            whole = int(unscaled)
            size = (whole.bit_length() if whole >= 0 else (whole + 1).bit_length()) // 8 + 1
            found.add(base64.b64encode(whole.to_bytes(size, "big", signed=True)).decode())
    return found


def _times(value: str) -> set[str]:
    """A date or time as days and as ticks since 1970, and as ISO texts write it."""
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return set()
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    micros = (aware - EPOCH) // timedelta(microseconds=1)
    day = (aware.date() - date(1970, 1, 1)).days
    ticks = {str(micros * tick // 1_000_000) for tick in TICKS}
    return {str(day), *ticks, aware.isoformat().replace("+00:00", "Z"), moment.isoformat()}


def _records(
    file: Place, source: Source, table: Table
) -> Iterator[tuple[str | None, list[Record]]]:
    """Of each record its topic, where it names one, and the rows that it carries."""
    if source.file_format == "parquet":
        import pyarrow.parquet as pq

        with open_file(file) as source_file, pq.ParquetFile(source_file) as opened:
            for batch in opened.iter_batches():
                for row in batch.to_pylist():
                    yield None, [row]
        return
    content = _UNPACK.get(file.suffix, bytes)(file.read_bytes())
    if source.file_format == "csv":
        for row in _csv_rows(content, source, list(table.columns)):
            yield None, [row]
        return
    for record in _objects(content):
        yield record.get("topic"), list(_rows(record, table.keys))


def _csv_rows(content: bytes, source: Source, columns: list[str]) -> Iterator[Record]:
    """The rows by each separator and each escape that the file can have."""
    written = source.csv
    encoding = written.encoding or encoding_by_mark(content[:100]) or "utf-8"
    text = content.decode(encoding, errors="replace").removeprefix("\ufeff")
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    for sep in [written.sep] if written.sep else SEPARATORS:
        for escape in _escapes(written):
            yield from _csv_rows_by(text, written, sep, escape, columns)


def _escapes(written: Csv) -> list[str | None]:
    """What may escape a quote as Python's reader takes it: None for a second quote."""
    if written.escape is None:
        return [None, "\\"]
    return [None if written.escape in ("", written.quote) else written.escape]


def _csv_rows_by(
    text: str, written: Csv, sep: str, escape: str | None, columns: list[str]
) -> Iterator[Record]:
    fields: Iterator[list[str]]
    if len(sep) > 1:
        fields = (line.split(sep) for line in text.splitlines())
    else:
        lines, quote = io.StringIO(text, newline=""), written.quote or "\0"
        fields = csv.reader(lines, delimiter=sep, escapechar=escape, quotechar=quote)
    names = [name.strip() for name in next(fields, [])] if written.header else columns
    for cells in fields:
        values = (None if cell in ("", written.nullValue) else cell for cell in cells)
        yield dict(zip(names, values, strict=False))


def _objects(content: bytes) -> Iterator[Record]:
    """The objects of a JSON file: those that are a line, and if others are there, these too."""
    broken = False
    for line in content.split(b"\n"):
        found = _parsed(line)
        broken = broken or (bool(line.strip()) and not isinstance(found, dict))
        if isinstance(found, dict):
            yield found
    for text in split_records(content) if broken else ():
        found = _parsed(text)
        if isinstance(found, dict):
            yield found


def _parsed(text: bytes) -> object:
    """The value of a JSON text, which may be in a JSON text itself; None for any other text."""
    try:
        found = json.loads(text.decode(errors="replace"))
        return json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return None


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".bz2": bz2.decompress}


def _rows(record: Record, keys: list[str]) -> Iterator[Record]:
    """The objects of a record that may name a key: a row, its old row, the key itself."""
    whole = is_whole(record)
    value = _plain(value_of(record) if whole else record)
    for part in (_plain(record.get("key")) if whole else None, value):
        if isinstance(part, dict):
            yield part
    if isinstance(value, dict):
        for name in ("before", "after", "newImage", "oldImage"):
            row = _plain(value.get(name))
            if isinstance(row, dict):
                yield row
        parts = value.get("key")
        if isinstance(parts, list) and len(parts) == len(keys):
            yield dict(zip(keys, parts, strict=True))


def _plain(value: object) -> object:
    """A value without the schema block around it, read where it is JSON in a text."""
    found = value
    if isinstance(value, str) and value.startswith("{"):
        try:
            found = json.loads(value)
        except ValueError:
            return value
    return found["payload"] if isinstance(found, dict) and "payload" in found else found
