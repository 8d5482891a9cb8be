"""The first records of files: JSON lines or an array, CSV, Parquet; and what a sample has."""

import bz2
import codecs
import csv
import gzip
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TextIO, TypeAlias, TypeVar, cast

from bronze.files.file_kinds import UnreadableFile, check_is_csv, encoding_by_mark
from cdc_lakehouse.drafts.delete_signs import DeleteSign, type_of_times
from lakehouse.config.csv_options import SEPARATORS, clean_name, has_blanks, split_cells
from lakehouse.config.formats import is_whole, value_of
from lakehouse.config.source import FileFormat
from lakehouse.errors import ConfigurationError
from silver.decode.values.json_values import NumberText
from silver.decode.wrapped import other_form

MOST_RECORDS, _FIRST_LINES = 5_000, 100
ROWS = "rows, Debezium's events, or whole records of either, as kcat -J writes them"
ENDINGS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")
KINDS, OTHER_FILE = "JSON lines, CSV or Parquet", "name another file"
MOST_DIGITS = 4
_DIGIT = re.compile(r"\d")
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_FRACTION = re.compile(r"-?(0|[1-9]\d{0,12})(\.\d+)?")
_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(\.\d{3})+")
_COMMA = re.compile(r"-?([1-9]\d{0,2}(\.\d{3})+|0|[1-9]\d{0,12})(,\d+)?")
_SECTIONS = re.compile(r"[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{5,16}){0,3}")
"""Hex digits, as orders are; 01/02/2026 is a day."""

_DAY, _MONTH = r"(0[1-9]|[12]\d|3[01])", r"(0[1-9]|1[0-2])"
_DAY_FIRST = re.compile(rf"({_DAY}{_MONTH}|{_MONTH}{_DAY})(19|20)\d\d(\d{{4}}(\d\d)?)?")
_NO_HEADER = (
    "csv: {header: false}  # check: the first line looks like a row: the file may have no header;"
    " name the columns in their order"
)
_TITLE = (
    "csv:  # check: the first line has one field, and others more: remove what is above the header"
)

DEFAULTS_FOR_NULLS = (
    "nulls of columns that have a default come as the default unless the connector"
    " has value.converter.replace.null.with.default=false"
)
MOST_BYTES = 1 << 20
_NOT_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

Object: TypeAlias = dict[str, Any]
_Read = TypeVar("_Read")


class SampleFile(NamedTuple):
    """The records of a file, and the types of its columns: named (Parquet) or seen (CSV).

    `csv` are the options of `source.csv` that the file needs; `doubt` is a commented line of YAML
    that says why its first line may not be its header.
    """

    format: FileFormat
    records: Sequence[Object]
    types: Mapping[str, str] = MappingProxyType({})
    csv: Mapping[str, str] = MappingProxyType({})
    doubt: str = ""


class Sample(NamedTuple):
    """What files show of one table. Columns that are only guessed are in `guessed`.

    `looks` says of guessed columns what their values seem to encode, and the type to declare;
    `notes` what a person has to check of a key of the YAML, or of a column (`columns.NAME`);
    `csv` are the options of `source.csv`; `files` are the files that it was read from, and `where`
    is true of the table's records among those of others.
    """

    format: str
    file_format: FileFormat
    topic: str | None
    keys: list[str]
    columns: dict[str, str]
    guessed: dict[str, str]
    sequence_by: str | None = None
    deletes: DeleteSign | None = None
    looks: Mapping[str, tuple[str, str]] = MappingProxyType({})
    notes: Mapping[str, str] = MappingProxyType({})
    csv: Mapping[str, str] = MappingProxyType({})
    files: Sequence[Path] = ()
    where: str = ""


def open_sample(file: Path) -> SampleFile:
    """Reads at most 5,000 records; what is no record is left out.

    Raises:
        ConfigurationError: the file cannot be read, or its text has another known form.
    """
    ending = find_ending(file)
    if ending == ".parquet":
        sample = _read_parquet(file)
    elif ending == ".csv":
        encoding = _find_encoding(file)
        rows = _read_records(file, _csv_rows, encoding)
        written = {} if encoding.lower().startswith("utf") else {"encoding": encoding}
        doubt = "".join(_read_records(file, _doubt_header, encoding))
        sample = SampleFile("csv", rows, csv_types(rows), written, doubt)
    else:
        sample = SampleFile("json", _read_records(file, _parse_objects))
    if not sample.records and (form := _first_text(file)):
        raise sample_error(file, form, KINDS)
    return sample


def note_defaults(changes: Sequence[Object]) -> dict[str, str]:
    """What to check of Debezium's changes whose nulls may have become defaults.

    `snapshot: "false"` is the default of a field that has no value: Kafka's converters write it
    where they write the defaults of columns too.
    """
    sources = [change["source"] for change in changes if isinstance(change.get("source"), dict)]
    shows = any(source.get("snapshot") == "false" for source in sources)
    return {"source": DEFAULTS_FOR_NULLS} if shows else {}


def find_ending(file: Path) -> str | None:
    """The part of a name, in small letters, that says what a file holds; None without one."""
    return next((each for each in map(str.lower, file.suffixes) if each in ENDINGS), None)


def read_value(record: Object) -> object:
    """The value of a record, parsed where it is JSON in a text."""
    return _parse_json(value_of(record) if is_whole(record) else record)


def strip_schema(value: object) -> object:
    """A key or value without the schema block around it."""
    parsed = _parse_json(value)
    if not isinstance(parsed, dict) or "payload" not in parsed:
        return parsed
    is_member = isinstance(parsed["payload"], dict) and not parsed.keys() <= {"payload", "schema"}
    return parsed if is_member else parsed["payload"]


def _parse_json(value: object) -> object:
    if not isinstance(value, str) or value[:1] != "{":
        return value
    with suppress(ValueError):
        return json.loads(value, parse_float=NumberText)
    return value


def sample_error(
    file: Path, problem: str, expected: str, action: str = OTHER_FILE
) -> ConfigurationError:
    """The error to raise about a sample."""
    return ConfigurationError("command line", f"--from {file}", problem, expected, action)


def empty_error(file: Path) -> ConfigurationError:
    """The error to raise about a file without a record, which its ending may explain."""
    if find_ending(file) is not None:
        return sample_error(file, "no record of a table", ROWS)
    ending = f"the ending {file.suffix}" if file.suffix else "no ending"
    expected = f"JSON, or one of {', '.join(ENDINGS)}"
    return sample_error(file, f"{ending}, and no JSON", expected, "rename it, such as to .csv")


def _find_encoding(file: Path) -> str:
    """UTF-8, or UTF-16 by its mark; else windows-1252, unless it lacks some of the bytes.

    Text in ISO-8859-1 reads the same in windows-1252, and later files may have a euro sign.

    Raises:
        ConfigurationError: the file is no CSV.
    """
    try:
        with cast(BinaryIO, _opener(file)(file, "rb")) as opened:
            head = opened.read(MOST_BYTES)
    except (OSError, EOFError, zlib.error):
        return "utf-8-sig"  # whoever reads the records says what is wrong
    try:
        check_is_csv(head)
    except UnreadableFile as failure:
        problem, _, action = str(failure).rpartition(": ")
        raise sample_error(file, problem or action, "CSV", action) from failure
    if (marked := encoding_by_mark(head)) not in (None, "UTF-8"):
        return str(marked)
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return "utf-8-sig"
    return "ISO-8859-1" if _NOT_WINDOWS.search(head) else "windows-1252"


def _opener(file: Path) -> Callable[..., object]:
    openers: Mapping[str, Callable[..., object]] = {".gz": gzip.open, ".bz2": bz2.open}
    return openers.get(file.suffix, open)


def _read_records(
    file: Path, records: Callable[[TextIO], Iterator[_Read]], encoding: str = "utf-8-sig"
) -> list[_Read]:
    errors = "strict" if encoding.lower().startswith("utf") else "replace"
    options = {"encoding": encoding, "errors": errors, "newline": "\n"}
    try:
        with cast(TextIO, _opener(file)(file, "rt", **options)) as text:
            return list(itertools.islice(records(text), MOST_RECORDS))
    except (EOFError, zlib.error) as failure:
        action = "wait until it is written, or name another file"
        raise sample_error(file, "a compressed file without its end", "a file", action) from failure
    except OSError as failure:
        raise sample_error(file, failure.strerror or str(failure), "a file") from failure
    except csv.Error as failure:
        raise sample_error(file, f"no CSV: {failure}", "CSV") from failure
    except UnicodeDecodeError as failure:
        raise sample_error(file, "bytes that are no UTF-8", f"{KINDS}, in UTF-8") from failure


def _parse_objects(text: TextIO) -> Iterator[Object]:
    """The JSON objects of the lines, or of one array; what is no JSON is left out."""
    first = next((line for line in text if line.strip()), "")
    is_array = first.lstrip().startswith("[")
    for line in [first + text.read()] if is_array else itertools.chain([first], text):
        with suppress(ValueError):
            value = json.loads(line, parse_float=NumberText)
            values = value if isinstance(value, list) else [value]
            yield from (each for each in values if isinstance(each, dict))


def _first_text(file: Path) -> str | None:
    """The known form that the first line has, such as a log's; None for any other text."""
    [line] = _read_records(file, lambda text: iter([text.readline()]))
    form = other_form(line.encode())
    return None if form is None else form.removeprefix("found ")


def _csv_rows(text: TextIO) -> Iterator[Object]:
    header = next((line for line in text if line.strip()), "").rstrip("\r\n")
    separator = max(SEPARATORS, key=header.count)
    cells = split_cells(header, separator, '"')
    names, blanks = [clean_name(cell, '"') for cell in cells], has_blanks(cells)
    for row in csv.DictReader(text, names, delimiter=separator, skipinitialspace=blanks):
        yield {name: field or None for name, field in row.items() if name}


def _doubt_header(text: TextIO) -> Iterator[str]:
    """Says where the first line of CSV has one field alone, or values."""
    lines = [line for line in itertools.islice(text, _FIRST_LINES) if line.strip()]
    counted = ("".join(lines[:1]), "".join(lines))
    separator = max(SEPARATORS, key=lambda sep: [text.count(sep) for text in counted])
    names, *rows = [*csv.reader(lines, delimiter=separator)] or [[]]
    columns = itertools.zip_longest(names, *rows, fillvalue="")
    if [*filter(None, names)] == names[:1] and any(len([*filter(None, row)]) > 1 for row in rows):
        yield _TITLE
    elif any(_is_value(name.strip(), [*filter(None, texts)]) for name, *texts in columns):
        yield _NO_HEADER


def _is_value(name: str, texts: Sequence[str]) -> bool:
    """Whether a name is a number or a day, or has digits and the form of all the texts."""
    forms = {(re.sub(r"[^\W_]", "x", text), bool(_DIGIT.search(text))) for text in (name, *texts)}
    is_like = len(name) > MOST_DIGITS and bool(texts and _DIGIT.search(name)) and len(forms) == 1
    return is_like or text_type([name]) != "string"


def csv_types(rows: Sequence[Object], options: Mapping[str, str] = _NO_OPTIONS) -> dict[str, str]:
    """The type of each column of CSV rows by the texts of its values; empty columns have none.

    `options` are those of `source.csv`, of which `decimal_comma` says how numbers are written.
    """
    read = _read_comma if "decimal_comma" in options else list[str]
    return {name: text_type(read(texts)) for name, texts in _list_texts(rows).items()}


def find_number_options(rows: Sequence[Object]) -> tuple[dict[str, str], str]:
    """The options of `source.csv` for numbers with a decimal comma, and how the first one is read.

    None where some have a point. Dots are taken for those between thousands where they can be
    nothing else.
    """
    columns = [texts for texts in _list_texts(rows).values() if all(map(_COMMA.fullmatch, texts))]
    points = [t for t in _list_texts(rows).values() if t not in columns and _is_fraction(t)]
    first = next((text for texts in columns for text in texts if "," in text), None)
    if points or first is None:
        return {}, ""
    dotted = any("." in text for texts in columns for text in texts)
    options = {"decimal_comma": "true"} | ({"thousands": '"."'} if dotted else {})
    return options, f"{first} is read as {_read_comma([first])[0]}"


def _is_fraction(texts: Sequence[str]) -> bool:
    return all(map(_FRACTION.fullmatch, texts)) and any("." in text for text in texts)


def _read_comma(texts: Sequence[str]) -> list[str]:
    """Texts that are all numbers with a decimal comma, with a point instead; others as they are."""
    if not all(map(_COMMA.fullmatch, texts)):
        return list(texts)
    return [text.replace(".", "").replace(",", ".") for text in texts]


def _list_texts(rows: Sequence[Object]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for row in rows:
        for name, text in row.items():
            if isinstance(text, str):
                texts.setdefault(name, []).append(text)
    return texts


def text_type(texts: Sequence[str]) -> str:
    """The type that all the texts spell: boolean, number, date or time; else string.

    Numbers with up to four digits behind the point are decimals: a double would not keep them.
    """
    if all(_WHOLE.fullmatch(text) for text in texts):
        return "bigint"
    if all(_FRACTION.fullmatch(text) for text in texts) and not find_thousands(texts):
        digits = max(len(text.partition(".")[2]) for text in texts)
        return f"decimal(18,{max(digits, 2)})" if digits <= MOST_DIGITS else "double"
    if all(text.lower() in ("true", "false") for text in texts):
        return "boolean"
    return type_of_times(texts) or "string"


def find_thousands(texts: Sequence[str]) -> str | None:
    """A number whose dots may stand between thousands, if those of all the texts may; else None."""
    dotted = [text for text in texts if "." in text]
    return dotted[0] if dotted and all(map(_THOUSANDS.fullmatch, dotted)) else None


def are_days_first(texts: Sequence[str]) -> bool:
    """Whether digits are days before their year, 31122025: as numbers the oldest may be last.

    Of numbers that count on, the end changes more often than the beginning.
    """
    digits = [text.zfill(len(text) + len(text) % 2) for text in texts]
    days, years = ({text[at : at + 4] for text in digits} for at in (0, 4))
    return all(map(_DAY_FIRST.fullmatch, digits)) and len(days) >= max(len(years), 1)


def type_of_order(texts: Sequence[str]) -> str:
    """The type by which texts order changes: times, whole numbers, or hex digits; else empty."""
    if all(map(_WHOLE.fullmatch, texts)):
        return "bigint"
    return type_of_times(texts) or ("string" if all(map(_SECTIONS.fullmatch, texts)) else "")


def _read_parquet(file: Path) -> SampleFile:
    """Rows and Spark's types of the columns; a column that Spark cannot read has none."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        opened = ParquetFile(file)
        batch = next(opened.iter_batches(MOST_RECORDS), None)
    except OSError as failure:
        raise sample_error(file, failure.strerror or str(failure), "a file") from failure
    except ArrowException as failure:
        raise sample_error(file, "no Parquet", KINDS) from failure
    types: dict[str, str] = {}
    for field in opened.schema_arrow:
        with suppress(PySparkTypeError):
            kind = from_arrow_type(field.type).simpleString()
            types[field.name] = "string" if kind.startswith("time(") else kind
    return SampleFile("parquet", batch.to_pylist() if batch else [], types)
