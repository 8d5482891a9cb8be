"""Which dropped files contain records of a key: the files are searched, not bronze.

Files are read without Spark: JSON, CSV (plain, `.gz` or `.bz2`) or Parquet. A record belongs to the
key if it has the key's values, before or after its change, or if the file's folders have them. All
spellings of a value that a connector may write count: a decimal as number, text or base64, a date
as days, a time as ticks. A CSV file is read with every separator and quote escape that it may have.
Names are compared without case.
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

from bronze.contract import folder_columns, topics_of_source
from bronze.files.file_kinds import encoding_by_mark
from bronze.files.json_files import split_records
from lakehouse.config.csv_options import SEPARATORS, Csv
from lakehouse.config.formats import is_whole, value_of
from lakehouse.config.source import Source
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.place import Place, list_below, open_file, parts_below, to_place
from lakehouse.places.settings import is_reached

Key: TypeAlias = Mapping[str, str | None]
Record: TypeAlias = Mapping[str, Any]
KeyPart: TypeAlias = tuple[list[str], set[str | None]]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TICKS = (1, 1_000, 1_000_000, 1_000_000_000)


def files_with_key(target: Target, table: Table, key: Key) -> list[Place]:
    """The readable files below the table's landing folders with a record of the key, sorted."""
    matches: set[Place] = set()
    for source in table.feeds:
        folder = _find_folder(target, source)
        every = list_below(folder) if folder is not None else ()
        matches |= {f for f in every if f.is_file() and _holds_key(f, folder, table, source, key)}
    return sorted(matches, key=str)


def find_landing_folders(target: Target, table: Table) -> list[Place]:
    """The table's landing folders that this process sees."""
    every = dict.fromkeys(_find_folder(target, source) for source in table.feeds)
    return [folder for folder in every if folder is not None and folder.is_dir()]


def _find_folder(target: Target, source: Source) -> Place | None:
    if source.path is None or not is_reached(target, target.landing):
        return None
    return to_place(target, target.landing, source.path)


def _holds_key(file: Place, below: Place | None, table: Table, source: Source, key: Key) -> bool:
    mine = topics_of_source(source)
    given = folder_columns("/".join(parts_below(file, below or file.parent)))
    wanted = [_part_of_key(table, name, value) for name, value in key.items()]
    try:
        for topic, rows in _read_records(file, source, table):
            if topic is not None and mine and topic not in mine:
                continue
            if any(_is_key(row, given, wanted) for row in rows):
                return True
    except (OSError, EOFError, ValueError, zlib.error, csv.Error):
        return False
    return False


def _part_of_key(table: Table, name: str, value: str | None) -> KeyPart:
    """The names of a key column, old ones too, in lower case, and the spellings of its value."""
    declared = table.columns.get(name)
    kind, old = (declared.type.lower(), declared.renamed_from) if declared else ("string", ())
    return [each.lower() for each in (name, *old)], _list_spellings(value, kind)


def _is_key(row: Record, given: Key, wanted: Iterable[KeyPart]) -> bool:
    """Whether the row or its folders have the key's values, which may be null."""
    named: dict[str, list[object]] = {}
    for name, value in [*given.items(), *row.items()]:
        named.setdefault(name.lower(), []).append(value)
    return all(
        any(_to_text(value) in texts for name in names for value in named.get(name, ()))
        for names, texts in wanted
    )


def _to_text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (float, Decimal)):
        return _normalize_number(str(value)) or str(value)
    return str(value)


def _normalize_number(text: str) -> str | None:
    """A number without exponent and trailing zeros; None if the text is no number."""
    try:
        return f"{Decimal(text).normalize():f}"
    except InvalidOperation:
        return None


def _list_spellings(value: str | None, kind: str) -> set[str | None]:
    """The texts of every form in which a source may write the value."""
    said: set[str | None] = {value}
    if value is None:
        return said
    if (number := _normalize_number(value)) is not None:
        said.add(number)
        if kind.startswith("decimal"):
            said |= _encode_decimal(Decimal(value))
    if kind == "date" or kind.startswith("timestamp"):
        said |= _render_times(value)
    return said


def _encode_decimal(value: Decimal) -> set[str]:
    """The unscaled value in base64, as Kafka Connect writes it, for every possible scale."""
    texts = set()
    for scale in range(39):
        unscaled = value.scaleb(scale)
        if unscaled == unscaled.to_integral_value():
            whole = int(unscaled)
            size = (whole.bit_length() if whole >= 0 else (whole + 1).bit_length()) // 8 + 1
            texts.add(base64.b64encode(whole.to_bytes(size, "big", signed=True)).decode())
    return texts


def _render_times(value: str) -> set[str]:
    """A date or time as days and as ticks since 1970, and as ISO 8601 texts."""
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return set()
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    micros = (aware - EPOCH) // timedelta(microseconds=1)
    day = (aware.date() - date(1970, 1, 1)).days
    ticks = {str(micros * tick // 1_000_000) for tick in TICKS}
    return {str(day), *ticks, aware.isoformat().replace("+00:00", "Z"), moment.isoformat()}


def _read_records(
    file: Place, source: Source, table: Table
) -> Iterator[tuple[str | None, list[Record]]]:
    """For each record its topic, if it names one, and its rows."""
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
    for record in _parse_objects(content):
        yield record.get("topic"), list(_list_rows(record, table.keys))


def _csv_rows(content: bytes, source: Source, columns: list[str]) -> Iterator[Record]:
    """The rows, read with each separator and quote escape that the file may have."""
    written = source.csv
    encoding = written.encoding or encoding_by_mark(content[:100]) or "utf-8"
    text = content.decode(encoding, errors="replace").removeprefix("\ufeff")
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    escapes: list[str | None] = [None, "\\"]  # None stands for a second quote
    if written.escape is not None:
        escapes = [None if written.escape in ("", written.quote) else written.escape]
    for sep in [written.sep] if written.sep else SEPARATORS:
        for escape in escapes:
            yield from _csv_rows_by(text, written, sep, escape, columns)


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


def _parse_objects(content: bytes) -> Iterator[Record]:
    """The objects of a JSON file: those on one line and, if there are others, all of them."""
    broken = False
    for line in content.split(b"\n"):
        value = _parse_json(line)
        broken = broken or (bool(line.strip()) and not isinstance(value, dict))
        if isinstance(value, dict):
            yield value
    for text in split_records(content) if broken else ():
        value = _parse_json(text)
        if isinstance(value, dict):
            yield value


def _parse_json(text: bytes) -> object:
    """The value of a JSON text, which may be encoded as JSON twice; None for any other text."""
    try:
        value = json.loads(text.decode(errors="replace"))
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".bz2": bz2.decompress}


def _list_rows(record: Record, keys: list[str]) -> Iterator[Record]:
    """The objects of a record that may contain a key: its row, its old row, its key."""
    whole = is_whole(record)
    value = _unwrap_payload(value_of(record) if whole else record)
    for part in (_unwrap_payload(record.get("key")) if whole else None, value):
        if isinstance(part, dict):
            yield part
    if isinstance(value, dict):
        for name in ("before", "after", "newImage", "oldImage"):
            row = _unwrap_payload(value.get(name))
            if isinstance(row, dict):
                yield row
        parts = value.get("key")
        if isinstance(parts, list) and len(parts) == len(keys):
            yield dict(zip(keys, parts, strict=True))


def _unwrap_payload(value: object) -> object:
    """A value without its schema block; a text with a JSON object is parsed first."""
    parsed = value
    if isinstance(value, str) and value.startswith("{"):
        try:
            parsed = json.loads(value)
        except ValueError:
            return value
    return parsed["payload"] if isinstance(parsed, dict) and "payload" in parsed else parsed
