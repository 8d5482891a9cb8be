"""The first records of a sample file: JSON lines or one JSON array, CSV, Parquet; `.gz` or not."""

import csv
import gzip
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO, TypeAlias, TypeVar, cast

from lakehouse.config.formats import is_whole, value_of
from lakehouse.config.table import FileFormat
from lakehouse.errors import ConfigurationError
from silver.decode.values.json_values import NumberText
from silver.decode.wrapped import other_form

MOST_RECORDS = 5_000
SEPARATORS = ",;\t|"
KINDS = "JSON lines, CSV or Parquet"

Object: TypeAlias = dict[str, Any]
_Read = TypeVar("_Read")


class SampleFile(NamedTuple):
    """The records of a file, and the types of its columns where the file names them (Parquet)."""

    format: FileFormat
    records: Sequence[Object]
    types: Mapping[str, str] = MappingProxyType({})


def open_sample(file: Path) -> SampleFile:
    """Read at most 5,000 records; what is no record is left out.

    Raises:
        ConfigurationError: the file cannot be read, or it has no record.
    """
    if ".parquet" in file.suffixes:
        found = _parquet(file)
    elif ".csv" in file.suffixes:
        found = SampleFile("csv", _read(file, _csv_rows))
    else:
        found = SampleFile("json", _read(file, _objects))
    if not found.records:
        raise unusable(file, _first_text(file) or "no record", KINDS)
    return found


def value_in(record: Object) -> object:
    """The value of a record, read where it is JSON in a text."""
    return _parsed(value_of(record) if is_whole(record) else record)


def plain_value(value: object) -> object:
    """A key or value without the schema block around it."""
    found = _parsed(value)
    return found["payload"] if isinstance(found, dict) and "payload" in found else found


def _parsed(value: object) -> object:
    if not isinstance(value, str) or value[:1] != "{":
        return value
    with suppress(ValueError):
        return json.loads(value, parse_float=NumberText)
    return value


def unusable(
    file: Path, found: str, expected: str, action: str = "name another file"
) -> ConfigurationError:
    """What to raise about a sample."""
    return ConfigurationError("command line", f"--from {file}", found, expected, action)


def _read(file: Path, records: Callable[[TextIO], Iterator[_Read]]) -> list[_Read]:
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with cast(TextIO, opened(file, "rt", encoding="utf-8-sig", newline="\n")) as text:
            return list(itertools.islice(records(text), MOST_RECORDS))
    except IsADirectoryError as failure:
        raise unusable(file, "a folder", "a file", "name one of the files in it") from failure
    except (EOFError, zlib.error) as failure:
        action = "wait until it is written, or name another file"
        raise unusable(file, "a compressed file without its end", "a file", action) from failure
    except OSError as failure:
        raise unusable(file, failure.strerror or str(failure), "a file") from failure
    except UnicodeDecodeError as failure:
        action = "make a copy in UTF-8 for the draft, and add source.csv.encoding to the YAML"
        action = action if ".csv" in file.suffixes else "name another file"
        raise unusable(file, "bytes that are no UTF-8", f"{KINDS}, in UTF-8", action) from failure


def _objects(text: TextIO) -> Iterator[Object]:
    """The JSON objects of the lines, or of one array."""
    first = next((line for line in text if line.strip()), "")
    is_array = first.lstrip().startswith("[")
    lines = [first + text.read()] if is_array else itertools.chain([first], text)
    for value in _values(lines):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield each


def _first_text(file: Path) -> str | None:
    """How a program wrote the first line down, where that is a form which is known."""
    told = other_form(next(iter(_read(file, _lines)), "").encode())
    return None if told is None else told.removeprefix("found ")


def _lines(text: TextIO) -> Iterator[str]:
    yield text.readline()


def _values(texts: Iterable[str]) -> Iterator[object]:
    for text in texts:
        with suppress(ValueError):
            yield json.loads(text, parse_float=NumberText)


def _csv_rows(text: TextIO) -> Iterator[Object]:
    header = text.readline()
    separator = max(SEPARATORS, key=header.count)
    for row in csv.DictReader(itertools.chain([header], text), delimiter=separator):
        yield {name: _number(field) for name, field in row.items() if name}


def _number(text: str | None) -> object:
    """A CSV field as the number it spells, else as the text it is."""
    if text and re.fullmatch(r"0|-?[1-9]\d{0,17}", text):
        return int(text)
    return float(text) if text and re.fullmatch(r"-?\d+\.\d+", text) else text or None


def _parquet(file: Path) -> SampleFile:
    """Rows and Spark's types of the columns; a column that Spark cannot read has none."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        opened = ParquetFile(file)
        batch = next(opened.iter_batches(MOST_RECORDS), None)
    except OSError as failure:
        raise unusable(file, failure.strerror or str(failure), "a file") from failure
    except ArrowException as failure:
        raise unusable(file, "no Parquet", KINDS) from failure
    types: dict[str, str] = {}
    for field in opened.schema_arrow:
        with suppress(PySparkTypeError):
            types[field.name] = from_arrow_type(field.type).simpleString()
    return SampleFile("parquet", batch.to_pylist() if batch else [], types)
