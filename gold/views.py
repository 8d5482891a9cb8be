"""The text of gold's views: pure functions from a table's configuration and silver's columns."""

from collections.abc import Sequence
from typing import NamedTuple

from lakehouse.names import literal, quote
from lakehouse.table import Table

# A delete of a key that was never seen has no row to keep.
_KEPT_ROWS = "_deleted AS is_deleted FROM {source} WHERE _upsert_stamp IS NOT NULL"
_KEPT_VERSIONS = (
    "NOT _is_current AS is_deleted FROM {source}"
    " WHERE _is_current OR (_kept AND _next_stamp IS NULL)"
)


class View(NamedTuple):
    """A view of gold: its name, its columns with their comments, and the SELECT behind it.

    `as_of` is the SELECT that answers for a time at the source, which stands in it as {at}; None
    for a view that knows no other time. A view of a consistency group is pinned: to this silver
    table at this Delta version, which VACUUM must keep.
    """

    name: str
    columns: dict[str, str | None]
    comment: str
    keys: tuple[str, ...]
    query: str
    as_of: str | None = None
    pinned: tuple[str, int] | None = None


def current(table: Table, source: str, columns: Sequence[str]) -> View:
    """One row per live key, from the SQL name of silver's current table or history."""
    chosen = ", ".join(quote(c) for c in columns)
    history = table.stored_as_scd_type == 2
    query = f"SELECT {chosen} FROM {source} WHERE {'_is_current' if history else 'NOT _deleted'}"
    shown = comments(table, columns)
    if table.on_delete == "flag":
        kept = _KEPT_VERSIONS if history else _KEPT_ROWS
        query = f"SELECT {chosen}, {kept.format(source=source)}"
        shown["is_deleted"] = "whether the source has deleted the row"
    comment = table.comment or f"current rows of {table.table}, one per key"
    then = _valid_at(table, source, chosen) if history else None
    return View(table.table, shown, comment, tuple(table.keys), query, then)


def _valid_at(table: Table, source: str, chosen: str) -> str:
    """The versions valid at a time: what gold would have shown, had it known then all it knows."""
    flag = ", false AS is_deleted" if table.on_delete == "flag" else ""
    return (
        f"SELECT {chosen}{flag} FROM {source} WHERE _shown"
        " AND _valid_from <= {at} AND (_valid_to IS NULL OR _valid_to > {at})"
    )


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
    return View(table.table, comments(table, columns), comment, (), query)


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
    shown = comments(table, columns) | bounds
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


def at_time(view: View, moment: str) -> str:
    """The SELECT of a view with a history at a moment, which is SQL."""
    return str(view.as_of).replace("{at}", moment)


def function_sql(name: str, view: View) -> str:
    """CREATE FUNCTION of `T_as_of(timestamp)`, which shows a view with a history at a time."""
    comment = literal(f"{view.name} as of a time at the source")
    return (
        f"CREATE OR REPLACE FUNCTION {name}(_at TIMESTAMP COMMENT 'time at the source')"
        f" RETURNS TABLE COMMENT {comment} RETURN {at_time(view, '_at')}"
    )


def comments(table: Table, columns: Sequence[str]) -> dict[str, str | None]:
    """The columns with the comments that the table declares; a key without one is called so."""
    declared = {c: table.columns[c].comment if c in table.columns else None for c in columns}
    return {c: text or ("key" if c in table.keys else None) for c, text in declared.items()}
