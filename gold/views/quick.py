"""Simple queries of gold without Spark: `SELECT … FROM gold.T WHERE … ORDER BY … LIMIT n`.

Only what DuckDB answers as Spark does: plain columns of a view of current rows, comparisons with
whole numbers and texts. Everything else, and numbers that the two write differently, is Spark's.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.quick.lake import NotQuick, QuickAnswer, QuickLake
from lakehouse.storage.views import load_views

_NAME = r"(?:[A-Za-z_]\w*|`[^`\"]+`)"
_VALUE = r"(?:-?\d{1,18}|'[^'\\`]*')"
_COMPARED = re.compile(rf"({_NAME})\s*(?:=|<>|!=|<=|>=|<|>)\s*({_VALUE})")
_TEST = rf"{_NAME}\s*(?:=|<>|!=|<=|>=|<|>)\s*{_VALUE}|{_NAME}\s+IS\s+(?:NOT\s+)?NULL"
_ORDER = rf"{_NAME}(?:\s+(?:ASC|DESC))?"
_LOOK = re.compile(
    rf"\s*SELECT\s+(?P<what>\*|count\(\*\)|{_NAME}(?:\s*,\s*{_NAME})*)"
    rf"\s+FROM\s+gold\s*\.\s*(?P<view>{_NAME})"
    rf"(?:\s+WHERE\s+(?P<tests>(?:{_TEST})(?:\s+AND\s+(?:{_TEST}))*))?"
    rf"(?P<order>\s+ORDER\s+BY\s+{_ORDER}(?:\s*,\s*{_ORDER})*)?(?P<limit>\s+LIMIT\s+\d{{1,9}})?"
    r"\s*;?\s*",
    re.IGNORECASE,
)
_COLUMN = r"`[^`\"]+`(?: AS `[^`\"]+`)?"
_CURRENT = re.compile(
    rf"SELECT (?P<columns>{_COLUMN}(?:, {_COLUMN})*) FROM delta\.`(?P<folder>[^`]+)`"
    r" WHERE (?P<live>NOT _deleted|_is_current)"
)
_WHOLE = frozenset(("BIGINT", "INTEGER", "SMALLINT", "TINYINT"))


def answer_query(target: Target, tables: Sequence[Table], query: str) -> QuickAnswer:
    """The answer to a query.

    Raises:
        NotQuick: Spark has to be asked.
    """
    look = _LOOK.fullmatch(query)
    if look is None:
        raise NotQuick("no simple look at a table of gold")
    lake = QuickLake(target)
    return lake.answer(_translate_query(lake, tables, look))


def _translate_query(lake: QuickLake, tables: Sequence[Table], look: re.Match[str]) -> str:
    """The query in DuckDB's SQL, with the view of gold written out."""
    rows = _select_rows(lake, tables, _strip_quotes(look["view"]))
    header = lake.answer(f"SELECT * FROM {rows} LIMIT 0")
    types = dict(zip(header.columns, header.types, strict=True))
    for name, value in _COMPARED.findall(look["tests"] or ""):
        kinds = ("VARCHAR",) if value.startswith("'") else _WHOLE
        if types.get(_strip_quotes(name)) not in kinds:
            raise NotQuick(f"{name} is compared with a value of another type")
    what, counts = look["what"], look["what"].endswith("(*)")
    named = re.findall(_NAME, "" if counts else what)
    if not {*map(_strip_quotes, named)} <= types.keys():
        raise NotQuick("a column is written in another way")
    where = f" WHERE {look['tests']}" if look["tests"] else ""
    rest = f"{where}{look['order'] or ''}{look['limit'] or ''}".replace("`", '"')
    shown = 'count(*) AS "count(1)"' if counts else what.replace("`", '"')
    return f"SELECT {shown} FROM {rows}{rest}"


def _select_rows(lake: QuickLake, tables: Sequence[Table], name: str) -> str:
    """What a plain view of current rows shows, in DuckDB's SQL."""
    view = load_views(lake.target, "gold").get(name)
    recorded = [t for t in tables if t.max_staleness is not None]  # their reads, by Spark
    if view is None or any(name in (t.table, f"{t.table}_history") for t in recorded):
        raise NotQuick(f"gold.{name} is no plain view")
    current = _CURRENT.fullmatch(view.query)
    if current is None:
        raise NotQuick(f"gold.{name} is no plain view")
    folder = Path(current["folder"])
    if str(folder.parent) != f"{lake.target.lake}/silver":
        raise NotQuick(f"gold.{name} is of another lake")
    source = f"SELECT {current['columns']} FROM {lake.name('silver', folder.name)}"
    return f"({source} WHERE {current['live']}) AS shown".replace("`", '"')


def _strip_quotes(name: str) -> str:
    return name.strip("`")
