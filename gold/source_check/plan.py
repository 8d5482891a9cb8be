"""Which columns are compared with the source database, and gold's values as texts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gold.source_check.texts import Kind, has_short_seconds, is_comparable, kind_of
from lakehouse.config.table import Table
from lakehouse.storage.names import quote

BUCKETS = 1024
"""Into so many buckets both sides put their keys, by the keys' digests."""
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


class ComparedColumn(NamedTuple):
    """A column of both sides: its name in gold and at the source, its SQL type and kind there."""

    name: str
    field: str
    type: str
    kind: Kind


class ExactRow(NamedTuple):
    """A row of the source: its key's digest, exact texts, and the transaction that wrote it."""

    key: str
    texts: tuple[str | None, ...]
    written_by: str | None


class ComparisonPlan(NamedTuple):
    """The source table's SQL name, and its columns that are compared, keys first.

    Without a key `keys` is 0, and rows are compared as a multiset.
    """

    source: str
    columns: tuple[ComparedColumn, ...]
    keys: int
    left_out: tuple[str, ...]


def plan_comparison(
    table: Table, source: str, types: Mapping[str, str], shown: Sequence[str]
) -> ComparisonPlan:
    """The comparison of a table: `types` are the source's columns, `shown` are gold's."""
    fields = {name: name_at_source(table, name, types) for name in (*table.keys, *shown)}
    values = [name for name in shown if _is_compared(table, name, types.get(fields[name]))]
    columns = tuple(
        ComparedColumn(name, fields[name], types[fields[name]], kind_of(types[fields[name]]))
        for name in (*table.keys, *values)
    )
    compared = {name for column in columns for name in (column.name, column.field)}
    left_out = tuple(c for c in dict.fromkeys([*shown, *types]) if c not in compared)
    return ComparisonPlan(source, columns, len(table.keys), left_out)


def _is_compared(table: Table, name: str, type: str | None) -> bool:
    """Whether a column's values are compared; the keys are anyway. None: the source lacks it."""
    is_value = name not in table.keys and not table.is_sensitive(name)
    return is_value and type is not None and is_comparable(type)


def name_at_source(table: Table, name: str, types: Mapping[str, str]) -> str:
    """The source's name of a column: its name in gold, or one that it was renamed from."""
    declared = table.columns.get(name)
    names = (name, *(declared.renamed_from if declared else ()))
    return next((each for each in names if each in types), name)


def gold_texts(rows: DataFrame, plan: ComparisonPlan) -> DataFrame:
    """Gold's values as texts `c0`, `c1` and so on, and `e0`, `e1` with all digits of floats."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    texts = [
        _render_text(F.col(quote(c.name)), types[c.name], c, exact).alias(
            f"{'e' if exact else 'c'}{at}"
        )
        for exact in (False, True)
        for at, c in enumerate(plan.columns)
    ]
    return rows.select(*texts)


def _render_text(value: Column, type: T.DataType, column: ComparedColumn, exact: bool) -> Column:
    kind, text = column.kind, value.try_cast("string")
    if isinstance(type, T.ArrayType | T.MapType | T.StructType | T.VariantType):
        return F.to_json(value)
    if isinstance(type, T.BinaryType):
        return _render_bits(value) if kind == "bits" else F.lower(F.hex(value))
    if kind == "number":
        digits = value.cast("int").cast("string") if isinstance(type, T.BooleanType) else text
        plain = F.rtrim(F.rtrim(digits, F.lit("0")), F.lit("."))
        return F.when(digits.contains("."), plain).otherwise(digits)
    if kind in ("float", "real") and not exact:
        number = value.try_cast("float") if kind == "real" else value
        return F.when(value.isNotNull(), F.format_string("%.14e", number.try_cast("double")))
    if kind == "padded":
        return F.rtrim(text)
    return _render_time(value, type, column)


def _render_bits(value: Column) -> Column:
    """Binary digits; Debezium's bytes begin with the lowest."""
    pairs = F.reverse(F.regexp_extract_all(F.hex(value), F.lit("(..)"), F.lit(1)))
    return F.ltrim(F.conv(F.concat_ws("", pairs), 16, 2), F.lit("0"))


def _render_time(value: Column, type: T.DataType, column: ComparedColumn) -> Column:
    kind, numeric = column.kind, isinstance(type, T.IntegralType)
    text, short = value.try_cast("string"), has_short_seconds(column.type)
    if kind == "date":
        day = F.date_from_unix_date(value.cast("int")) if numeric else value
        return F.substring(day.try_cast("string"), 1, 10)
    if kind in ("timestamp", "timestamptz"):
        counted = F.timestamp_millis(value) if short else F.timestamp_micros(value)
        zone = "timestamp" if kind == "timestamptz" else "timestamp_ntz"
        return F.date_format(counted if numeric else value.try_cast(zone), _MOMENT)
    if kind not in ("time", "timetz"):
        return text
    # Without a schema block Debezium's count of a time came into a text column as it is.
    counted = (text.try_cast("bigint") * (1000 if short else 1)).cast("string")
    return counted if numeric else F.coalesce(counted, _parse_clock(text))


def _parse_clock(text: Column) -> Column:
    """µs since midnight of HH:MM:SS, of MySQL with a sign."""
    parts = F.split(F.regexp_replace(text, "^-|Z$", ""), ":")
    minutes = parts[0].try_cast("bigint") * 60 + F.get(parts, F.lit(1)).try_cast("bigint")
    micros = F.get(parts, F.lit(2)).try_cast("decimal(12,6)") * 1_000_000
    total = minutes * 60_000_000 + micros.cast("bigint")
    return F.when(text.startswith("-"), -total).otherwise(total).cast("string")
