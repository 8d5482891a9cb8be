"""Sensitive columns as gold shows them: as the SHA-256 of their text, or not at all.

Silver and bronze keep the values; who may read those layers is a matter of grants.
"""

from collections.abc import Sequence

from lakehouse.config.table import Table
from lakehouse.config.target import Sensitive
from lakehouse.storage.names import quote


def masked(
    table: Table, source: str, columns: list[str], sensitive: Sensitive
) -> tuple[str, list[str]]:
    """What a view selects from in place of `source`, and which columns are left of it.

    The layer's own columns stay.
    """
    hidden = [c for c in columns if is_sensitive(table, c)]
    if not hidden:
        return source, columns
    chosen = shown(table, columns, sensitive)
    hashed = [f"{chosen[c]} AS {quote(c)}" for c in hidden if c in chosen]
    dropped = ", ".join(quote(c) for c in hidden)
    rows = f"SELECT {', '.join([f'* EXCEPT ({dropped})', *hashed])} FROM {source}"
    return f"({rows})", list(chosen)


def shown(table: Table, columns: Sequence[str], sensitive: Sensitive) -> dict[str, str]:
    """The columns that gold shows, each with its SQL expression; null stays null."""
    hidden = {c for c in columns if is_sensitive(table, c)}
    hashed = {c: f"sha2(CAST({quote(c)} AS STRING), 256)" for c in hidden}
    kept = [c for c in columns if sensitive == "hash" or c not in hidden]
    return {c: hashed.get(c, quote(c)) for c in kept}


def is_sensitive(table: Table, column: str) -> bool:
    """Whether the table declares the column so."""
    return column in table.columns and table.columns[column].sensitive
