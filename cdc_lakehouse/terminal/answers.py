"""What `sql` prints: a DataFrame as lines of JSON, as CSV, or as a table of texts.

Everything becomes text inside Spark, so that no value is narrowed on its way through Python: times
are ISO 8601, binary is base64, decimals keep their digits, infinite dates do not fail.
"""

import csv
import io
import itertools
from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from lakehouse.storage.names import quote
from lakehouse.words import JSON_OPTIONS, NTZ_FORMAT, TIME_FORMAT


def json_lines(frame: DataFrame) -> Iterator[str]:
    """One JSON object per row, columns in their order, nulls included.

    A column name that comes twice gets _2, _3 and so on.
    """
    if frame.columns:
        unique = frame.toDF(*unique_names(frame.columns))
        row = F.to_json(F.struct(*[F.col(quote(name)) for name in unique.columns]), JSON_OPTIONS)
        for line in unique.select(row.alias("line")).toLocalIterator():
            yield line["line"]


def csv_lines(frame: DataFrame) -> Iterator[str]:
    """A header and one line per row; null is an empty field."""
    yield _render_csv_line(frame.columns)
    for row in row_texts(frame):
        yield _render_csv_line(row)


def _render_csv_line(fields: Sequence[str | None]) -> str:
    """A line of CSV without its end; None is an empty field."""
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_MINIMAL, lineterminator="").writerow(fields)
    return line.getvalue()


def row_texts(frame: DataFrame) -> Iterator[list[str | None]]:
    """Every row as texts, nested values as JSON."""
    if frame.columns:
        fields = frame.schema.fields
        numbered = frame.toDF(*[f"c{index}" for index in range(len(fields))])
        columns = [_to_text(F.col(f"c{at}"), field.dataType) for at, field in enumerate(fields)]
        for row in numbered.select(*columns).toLocalIterator():
            yield list(row)


def unique_names(names: Sequence[str]) -> list[str]:
    """The names; one that repeats an earlier one, in upper or lower case, gets a number."""
    unique: dict[str, str] = {}
    for name in names:
        candidates = (name if count == 1 else f"{name}_{count}" for count in itertools.count(1))
        free = next(candidate for candidate in candidates if candidate.lower() not in unique)
        unique[free.lower()] = free
    return list(unique.values())


def _to_text(column: Column, kind: DataType) -> Column:
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        return F.to_json(column, JSON_OPTIONS)
    if isinstance(kind, BinaryType):
        return F.base64(column)
    if isinstance(kind, TimestampType):
        return F.date_format(column, TIME_FORMAT)
    if isinstance(kind, TimestampNTZType):
        return F.date_format(column, NTZ_FORMAT)
    return column.cast("string")
