"""The text of gold's views: pure functions from a table's configuration and silver's columns."""

from collections.abc import Sequence
from typing import NamedTuple

from lakehouse.names import literal, quote
from lakehouse.table import Table


class View(NamedTuple):
    """A view of gold: its name, its columns with their comments, and the SELECT behind it.

    A view of a consistency group is pinned: to this silver table at this Delta version, which
    VACUUM must keep.
    """

    name: str
    columns: dict[str, str | None]
    comment: str
    keys: tuple[str, ...]
    query: str
    pinned: tuple[str, int] | None = None


def current(table: Table, source: str, columns: Sequence[str]) -> View:
    """One row per live key, from the SQL name of silver's current table or history."""
    chosen = ", ".join(quote(c) for c in columns)
    live = "_is_current" if table.stored_as_scd_type == 2 else "NOT _deleted"
    query = f"SELECT {chosen} FROM {source} WHERE {live}"
    shown = _comments(table, columns)
    if table.on_delete == "flag" and table.stored_as_scd_type == 1:
        query = f"SELECT {chosen}, _deleted AS is_deleted FROM {source}"
        shown["is_deleted"] = "whether the source has deleted the row"
    comment = table.comment or f"current rows of {table.table}, one per key"
    return View(table.table, shown, comment, tuple(table.keys), query)


def keyless(table: Table, source: str, columns: Sequence[str]) -> View:
    """The rows of a table without a key: each delete takes away one equal row, the oldest first."""
    chosen = ", ".join(quote(c) for c in columns)
    ranked = (
        f"SELECT {chosen}, _removes, row_number() OVER"
        " (PARTITION BY _content, _removes ORDER BY _stamp) AS _rank,"
        f" count_if(_removes) OVER (PARTITION BY _content) AS _removed FROM {source}"
    )
    query = f"SELECT {chosen} FROM ({ranked}) WHERE NOT _removes AND _rank > _removed"
    comment = table.comment or f"rows of {table.table}, which has no key"
    return View(table.table, _comments(table, columns), comment, (), query)


def history(table: Table, source: str, columns: Sequence[str]) -> View:
    """One row per version."""
    chosen = ", ".join(quote(c) for c in columns)
    query = (
        f"SELECT {chosen}, _valid_from AS valid_from, _valid_to AS valid_to,"
        " _sequence_from AS sequence_from, _sequence_to AS sequence_to,"
        f" _is_current AS is_current FROM {source} WHERE _shown"
    )
    bounds = {
        "valid_from": "when the version began at the source",
        "valid_to": "when it ended at the source; null while current",
        "sequence_from": "sequence of the change that began it",
        "sequence_to": "sequence of the change that ended it",
        "is_current": "whether the version is the current one",
    }
    comment = f"every version of every row of {table.table}"
    shown = _comments(table, columns) | bounds
    return View(f"{table.table}_history", shown, comment, (*table.keys, "valid_from"), query)


def create_sql(name: str, view: View) -> str:
    """CREATE VIEW with everything a catalog browser shows."""
    columns = ", ".join(
        quote(column) + (f" COMMENT {literal(text)}" if text else "")
        for column, text in view.columns.items()
    )
    keys = literal(", ".join(view.keys))
    return (
        f"CREATE OR REPLACE VIEW {name} ({columns}) COMMENT {literal(view.comment)}"
        f" TBLPROPERTIES ('keys' = {keys}) AS {view.query}"
    )


def _comments(table: Table, columns: Sequence[str]) -> dict[str, str | None]:
    declared = {c: table.columns[c].comment if c in table.columns else None for c in columns}
    return {c: text or ("key" if c in table.keys else None) for c, text in declared.items()}
