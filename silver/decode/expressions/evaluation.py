"""Evaluates SQL expressions of a table's YAML over decoded rows without failing a batch.

Rows lack columns, and a batch may lack one altogether that an expression names: it is null there.
A cast that fails costs one row (its sequence or condition is null), not the batch.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.storage.names import quote
from silver.decode.expressions.names import MEMBER, columns_named, make_forgiving
from silver.decode.expressions.sequence_columns import UNSURE, finer_than_micros

TIMES = (T.TimestampType, T.TimestampNTZType)

_ASIDE = "__aside"


def with_members(decoded: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Decoded rows in which every column that the expressions name can be found under its name.

    The layer's own columns, which begin with an underscore, are renamed out of the way
    (`layer_column(name)`), as a source may use the same names. Extra columns get their members'
    names. Names that no column has are null texts.
    """
    columns = [F.col(quote(name)).alias(_column_name(name)) for name in decoded.columns]
    frame = decoded.select(*columns)
    present = {name.lower() for name in frame.columns}
    named = {n.lower(): n for e in expressions if e not in frame.columns for n in columns_named(e)}
    missing = [name for folded, name in named.items() if folded not in present]
    return frame.select("*", *(F.lit(None).cast("string").alias(name) for name in missing))


def layer_column(name: str) -> Column:
    """A column of the layer's own in the rows that `with_members` returns."""
    return F.col(quote(f"{_ASIDE}{name}"))


def restore_columns(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """The given columns of rows that `with_members` returned, under the names they had before."""
    return frame.select(*(F.col(quote(_column_name(name))).alias(name) for name in columns))


def evaluate_expression(frame: DataFrame, expression: str) -> Column:
    """The column of that very name, else the SQL expression.

    In parentheses, as Spark takes a last word for a name: `op = 'd' AND` is `op = 'd'` called AND.
    """
    if expression in frame.columns:
        return F.col(quote(expression))
    return F.expr(f"({make_forgiving(expression)}\n)")


def replace_columns(frame: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """The rows with new values for some of the layer's own columns, by their names before."""
    return frame.withColumns({f"{_ASIDE}{name}": value for name, value in columns.items()})


def finer_of(members: DataFrame, order: str, value: Column) -> Column | None:
    """The digits of a time that its column does not hold; null where there are none.

    An expression has those of the columns in it that have its value. They are unsure where two such
    columns have others, or where none has the value and some has such digits.
    """
    raw = layer_column("_raw").cast("string")
    if order in members.columns:
        return finer_than_micros(raw, order)
    types = {field.name.lower(): field for field in members.schema}
    fields = [types[name.lower()] for name in columns_named(order) if name.lower() in types]
    times = [f.name for f in fields if isinstance(f.dataType, (*TIMES, T.StringType))]
    if not times:
        return None
    digits = [F.coalesce(finer_than_micros(raw, name), F.lit("")) for name in times]
    moments = [F.col(quote(name)).try_cast("timestamp") for name in times]
    meant = value.cast("timestamp")
    pairs = zip(moments, digits, strict=True)
    candidates = F.array(*[F.when(moment == meant, d) for moment, d in pairs])
    candidates = F.array_distinct(F.array_compact(candidates))
    unsure = (F.size(candidates) > 1) | ((F.size(candidates) == 0) & (F.concat(*digits) != ""))
    one = F.try_element_at(candidates, F.lit(1))
    return F.when(unsure, UNSURE).when(one != "", one)


def _column_name(name: str) -> str:
    if name.startswith(MEMBER):
        return name.removeprefix(MEMBER)
    return f"{_ASIDE}{name}" if name.startswith("_") else name
