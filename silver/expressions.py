"""SQL expressions of a table's YAML over its rows: which columns they name, and without failing.

Rows lack columns, and a batch may lack one altogether that an expression names: it is null there.
A cast that fails must cost one row (its sequence or condition is null), not the batch.
"""

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.names import quote

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |`(?P<quoted>(?:[^`]|``)+)`
    |(?P<field>(?<=\.)[^\W\d]\w*)
    |(?P<call>[^\W\d]\w*)(?=\s*\()
    |(?P<word>[^\W\d]\w*)
    |\d\w*""",
    re.VERBOSE,
)
_NO_COLUMNS = frozenset(
    (
        *("and", "or", "not", "is", "null", "true", "false", "in", "like", "between", "case"),
        *("when", "then", "else", "end", "as", "current_date", "current_timestamp", "user"),
    )
)
_FORGIVING = {
    "cast": "try_cast",
    "element_at": "try_element_at",
    "parse_json": "try_parse_json",
    "to_date": "try_to_date",
    "to_number": "try_to_number",
    "to_timestamp": "try_to_timestamp",
}


def columns_named(expression: str) -> list[str]:
    """The names in an expression that can be columns, in order, each once."""
    names: dict[str, None] = {}
    for token in _TOKEN.finditer(expression):
        if token["quoted"]:
            names[token["quoted"].replace("``", "`")] = None
        elif token["word"] and token["word"].lower() not in _NO_COLUMNS:
            names[token["word"]] = None
    return list(names)


def forgiving(expression: str) -> str:
    """The expression with casts and conversions that give null where they cannot convert."""
    return _TOKEN.sub(
        lambda token: _FORGIVING.get((token["call"] or "").lower(), token[0]), expression
    )


def with_named_columns(frame: DataFrame, expressions: list[str]) -> DataFrame:
    """The frame with null text columns for the names in expressions that it lacks."""
    known = {name.lower() for name in frame.columns}
    named = {name.lower(): name for one in expressions for name in _names(frame, one)}
    missing = [name for folded, name in named.items() if folded not in known]
    return frame.select("*", *(F.lit(None).cast("string").alias(name) for name in missing))


def evaluated(frame: DataFrame, expression: str) -> Column:
    """The column of that very name, else the SQL expression."""
    if expression in frame.columns:
        return F.col(quote(expression))
    return F.expr(forgiving(expression))


def _names(frame: DataFrame, expression: str) -> list[str]:
    return [] if expression in frame.columns else columns_named(expression)
