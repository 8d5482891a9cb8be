"""The text of gold's views: pure functions from a table's configuration and silver's columns."""

from collections.abc import Sequence

from lakehouse.names import quote
from lakehouse.table import Table
from lakehouse.views import View
from silver.contract import sequence_text

# A delete of a key that was never seen has no row to keep.
_KEPT_ROWS = "_deleted AS is_deleted FROM {source} WHERE NOT _deleted OR _facts.upsert IS NOT NULL"
_KEPT_VERSIONS = (
    "NOT _is_current AS is_deleted FROM {source}"
    " WHERE _is_current OR (_kept AND _next_order IS NULL)"
)


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
        " (PARTITION BY _content, _removes ORDER BY _order) AS _rank,"
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
        f" {sequence_text('_from_order')} AS sequence_from,"
        f" {sequence_text('_to_order')} AS sequence_to,"
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


def comments(table: Table, columns: Sequence[str]) -> dict[str, str | None]:
    """The columns with the comments that the table declares; a key without one is called so."""
    declared = {c: table.columns[c].comment if c in table.columns else None for c in columns}
    return {c: text or ("key" if c in table.keys else None) for c, text in declared.items()}
