"""The text of gold's views: pure functions from a table's configuration and silver's columns."""

from collections.abc import Collection, Mapping, Sequence

from lakehouse.config.table import Table
from lakehouse.config.target import Sensitive
from lakehouse.storage.names import quote
from lakehouse.storage.views import View
from lakehouse.words import parse_columns
from silver.contract import sequence_text

FLAG_COLUMN = ("is_deleted", "boolean", "whether the source has deleted the row")
VERSION_COLUMNS = parse_columns("""
valid_from | timestamp | when the version began at the source
valid_to | timestamp | when the version ended at the source; null while current
sequence_from | string | sequence of the change that began the version
sequence_to | string | sequence of the change that ended the version
is_current | boolean | whether the version is the current one
""")
# A delete of a key that was never seen has no row to keep.
_KEPT_ROWS = "_deleted AS is_deleted FROM {source} WHERE NOT _deleted OR _facts.upsert IS NOT NULL"
_KEPT_VERSIONS = (
    "NOT _is_current AS is_deleted FROM {source}"
    " WHERE _is_current OR (_kept AND _next_order IS NULL)"
)

BOUNDS = {name: text for name, _, text in VERSION_COLUMNS}
"""The columns that a history adds to those of the source, with their comments."""

OF_FILES = ("operation", "effective_date")
"""The columns that the changes of a snapshot table add."""


def build_current(table: Table, source: str, columns: Sequence[str]) -> View:
    """One row per live key, from the SQL name of silver's current table or history."""
    flag, _, flag_text = FLAG_COLUMN
    added = (flag,) if table.on_delete == "flag" else ()
    called = source_names(columns, added)
    chosen = ", ".join(render_alias(c, called[c]) for c in columns)
    history = table.stored_as_scd_type == 2
    query = f"SELECT {chosen} FROM {source} WHERE {'_is_current' if history else 'NOT _deleted'}"
    shown = renamed_comments(table, called)
    if table.on_delete == "flag":
        kept = _KEPT_VERSIONS if history else _KEPT_ROWS
        query = f"SELECT {chosen}, {kept.format(source=source)}"
        shown[flag] = flag_text
    comment = table.comment or f"current rows of {table.table}, one per key"
    then = _valid_at(table, source, chosen) if history else None
    return View(table.table, shown, comment, _name_keys(table, called), query, then)


def _valid_at(table: Table, source: str, chosen: str) -> str:
    """The versions valid at a time: what gold would have shown, had it known then all it knows."""
    flag = ", false AS is_deleted" if table.on_delete == "flag" else ""
    return (
        f"SELECT {chosen}{flag} FROM {source} WHERE _shown"
        " AND _valid_from <= {at} AND (_valid_to IS NULL OR _valid_to > {at})"
    )


def build_keyless(table: Table, source: str, columns: Sequence[str]) -> View:
    """The rows of a table without a key: each delete takes away one equal row, the oldest first."""
    chosen = ", ".join(quote(c) for c in columns)
    ranked = (
        f"SELECT {chosen}, _removes, row_number() OVER"
        " (PARTITION BY _content, _removes ORDER BY _order) AS _rank,"
        f" count_if(_removes) OVER (PARTITION BY _content) AS _removed FROM {source}"
    )
    query = f"SELECT {chosen} FROM ({ranked}) WHERE NOT _removes AND _rank > _removed"
    comment = table.comment or f"rows of {table.table}, which has no key"
    return View(table.table, list_comments(table, columns), comment, (), query)


def build_history(table: Table, source: str, columns: Sequence[str]) -> View:
    """One row per version."""
    called = source_names(columns, BOUNDS)
    chosen = ", ".join(render_alias(c, called[c]) for c in columns)
    query = (
        f"SELECT {chosen}, _valid_from AS valid_from, _valid_to AS valid_to,"
        f" {sequence_text('_from_order')} AS sequence_from,"
        f" {sequence_text('_to_order')} AS sequence_to,"
        f" _is_current AS is_current FROM {source} WHERE _shown"
    )
    comment = f"every version of every row of {table.table}"
    shown = renamed_comments(table, called) | BOUNDS
    keys = (*_name_keys(table, called), "valid_from")
    return View(f"{table.table}_history", shown, comment, keys, query)


def list_comments(table: Table, columns: Sequence[str]) -> dict[str, str | None]:
    """The columns with the comments that the table declares; a key without one gets `key`."""
    declared = {c: table.columns[c].comment if c in table.columns else None for c in columns}
    return {c: text or ("key" if c in table.keys else None) for c, text in declared.items()}


def source_names(columns: Sequence[str], added: Collection[str]) -> dict[str, str]:
    """How a view calls the source's columns beside those that gold adds.

    A column with the name of an added one, in any case, is called `NAME_source`, or that with one
    more `_source` where the source has such a column too.
    """
    reserved = {name.lower() for name in added}
    taken = {name.lower() for name in columns} | reserved
    called: dict[str, str] = {}
    for column in columns:
        name = column
        if name.lower() in reserved:
            while name.lower() in taken:
                name += "_source"
            taken.add(name.lower())
        called[column] = name
    return called


def added_columns(table: Table) -> dict[str, Collection[str]]:
    """The columns that gold adds to those of the source, by view."""
    views: dict[str, Collection[str]] = {}
    if table.on_delete == "flag":
        views[table.table] = ("is_deleted",)
    if table.stored_as_scd_type == 2:
        views[f"{table.table}_history"] = BOUNDS
    if table.format == "snapshot":
        views[f"{table.table}_changes"] = OF_FILES
    return views


def render_alias(column: str, name: str) -> str:
    """SQL of a column under the name that a view gives it."""
    return quote(column) if column == name else f"{quote(column)} AS {quote(name)}"


def renamed_comments(table: Table, called: Mapping[str, str]) -> dict[str, str | None]:
    """The comments of columns by the names that a view gives them."""
    texts = list_comments(table, list(called))
    origins = {c: f"the source's column {c}" if name != c else None for c, name in called.items()}
    return {name: texts[c] or origins[c] for c, name in called.items()}


def _name_keys(table: Table, called: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(called.get(key, key) for key in table.keys)


def mask_columns(
    table: Table, source: str, columns: list[str], sensitive: Sensitive
) -> tuple[str, list[str]]:
    """What a view selects from in place of `source`, and which columns are left of it.

    The layer's own columns stay.
    """
    hidden = [c for c in columns if table.is_sensitive(c)]
    if not hidden:
        return source, columns
    chosen = select_shown(table, columns, sensitive)
    hashed = [f"{chosen[c]} AS {quote(c)}" for c in hidden if c in chosen]
    dropped = ", ".join(quote(c) for c in hidden)
    rows = f"SELECT {', '.join([f'* EXCEPT ({dropped})', *hashed])} FROM {source}"
    return f"({rows})", list(chosen)


def select_shown(table: Table, columns: Sequence[str], sensitive: Sensitive) -> dict[str, str]:
    """The columns that gold shows, each with its SQL expression; null stays null."""
    hidden = {c for c in columns if table.is_sensitive(c)}
    hashed = {c: f"sha2(CAST({quote(c)} AS STRING), 256)" for c in hidden}
    kept = [c for c in columns if sensitive == "hash" or c not in hidden]
    return {c: hashed.get(c, quote(c)) for c in kept}
