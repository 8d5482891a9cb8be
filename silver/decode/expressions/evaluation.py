"""Evaluates SQL expressions of a table's YAML over decoded rows without failing a batch.

Rows lack columns, and a batch may lack one altogether that an expression names: it is null there.
A cast that fails costs one row (its sequence or condition is null), not the batch.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.storage.names import quote
from silver.decode.expressions.names import MEMBER, columns_named, forgiving

_ASIDE = "__aside"


def with_members(decoded: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Decoded rows in which every column that the expressions name can be found under its name.

    The layer's own columns, which begin with an underscore, are renamed out of the way
    (`aside(name)`), as a source may use the same names. Extra columns get their members' names.
    Names that no column has are null texts.
    """
    own = [F.col(quote(name)).alias(_named(name)) for name in decoded.columns]
    frame = decoded.select(*own)
    known = {name.lower() for name in frame.columns}
    named = {n.lower(): n for e in expressions if e not in frame.columns for n in columns_named(e)}
    missing = [name for folded, name in named.items() if folded not in known]
    return frame.select("*", *(F.lit(None).cast("string").alias(name) for name in missing))


def aside(name: str) -> Column:
    """A column of the layer's own in the rows that `with_members` returns."""
    return F.col(quote(f"{_ASIDE}{name}"))


def restored(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """The given columns of rows that `with_members` returned, under the names they had before."""
    return frame.select(*(F.col(quote(_named(name))).alias(name) for name in columns))


def evaluated(frame: DataFrame, expression: str) -> Column:
    """The column of that very name, else the SQL expression."""
    if expression in frame.columns:
        return F.col(quote(expression))
    return F.expr(forgiving(expression))


def replaced(frame: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """The rows with new values for some of the layer's own columns, by their names before."""
    return frame.withColumns({f"{_ASIDE}{name}": value for name, value in columns.items()})


def _named(name: str) -> str:
    if name.startswith(MEMBER):
        return name.removeprefix(MEMBER)
    return f"{_ASIDE}{name}" if name.startswith("_") else name
