"""Stale keys: what gold shows of them looks current though a newer change was rejected.

A key is stale while an unresolved dead letter of it comes in order after the key's newest
accepted change. A newer change, a delete, a truncate or a replay ends that by itself.
"""

from collections.abc import Mapping

from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote
from lakehouse.storage.views import View
from silver.contract import kept_name


def build_stale_query(lake: Lake, table: Table, rows: str | None = None) -> str | None:
    """The query of a table's stale keys; None while it cannot have any.

    `rows` is what is shown, in SQL; silver's own table unless it is given.
    """
    kept, letters = kept_name(table), f"{table.table}_dead_letters"
    if not table.keys or not all(lake.exists("silver", name) for name in (kept, letters)):
        return None
    column_types = lake.column_types("silver", kept)
    if not column_types.keys() >= {*table.keys}:
        return None  # the YAML has other keys since: the table fails until it is rebuilt
    types = {key: column_types[key] for key in table.keys}
    held = rows or lake.name("silver", kept)
    return render_stale_query(table, held, lake.name("silver", letters), types)


def render_stale_query(table: Table, rows: str, letters: str, types: Mapping[str, str]) -> str:
    """One row per stale key: its columns, since when, and the dead letter that made it so.

    `rows` is silver's current table or history, as SQL that can stand after FROM, `letters` the SQL
    name of its dead letters; `types` are those of the key columns.
    """
    live = "_is_current" if table.stored_as_scd_type == 2 else "NOT _deleted"
    fields = ", ".join(f"{quote(key)} {type}" for key, type in types.items())
    waiting = (
        f"SELECT from_json(_key, {literal(fields)}) AS _own, _order, at, reason, position"
        f" FROM {letters} WHERE resolved_at IS NULL AND _key IS NOT NULL AND _order IS NOT NULL"
    )
    keys = ", ".join(f"held.{quote(key)}" for key in types)
    same = names.agree_on("held", "letter._own", types, table.nullable_keys)
    first = "min_by(letter.{0}, letter._order) AS {0}"
    return (
        f"SELECT {keys}, min(letter.at) AS since, {first.format('reason')},"
        f" {first.format('position')} FROM {rows} AS held JOIN ({waiting}) AS letter"
        f" ON {same} AND letter._order > held._order WHERE {live} GROUP BY {keys}"
    )


def hide_stale_keys(view: View, stale: str) -> View:
    """A view without its stale keys."""
    same = names.agree_on("shown", "stale", view.keys, nullable=view.keys)
    query = f"SELECT * FROM ({view.query}) AS shown LEFT ANTI JOIN ({stale}) AS stale ON {same}"
    return view._replace(query=query)
