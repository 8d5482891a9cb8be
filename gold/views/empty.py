"""Tables that silver does not hold yet: their views show no row, in the columns of the YAML."""

import re

from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, KEYLESS_COLUMNS

_SIZED = re.compile(r"(var)?char\s*\(.*", re.IGNORECASE)
_OF_THE_LOG = dict.fromkeys(("_operation", "_sequence", "_letter"), "string")
_OF_EXTRACTS = {"effective_date": "date", "mode": "string", "batch": "bigint"}


def no_rows(table: Table) -> str:
    """SQL of silver's table, current or history, before it holds anything."""
    layer = HISTORY_COLUMNS if table.stored_as_scd_type == 2 else CURRENT_COLUMNS
    columns = layer if table.keys else KEYLESS_COLUMNS
    return _render_empty(table, {column.name: column.type for column in columns})


def no_log(table: Table) -> str:
    """SQL of the change log of a snapshot table before it holds anything."""
    return _render_empty(table, _OF_THE_LOG)


def no_extracts() -> str:
    """SQL of the list of the snapshot files before it holds anything."""
    return _render_select(_OF_EXTRACTS)


def list_declared(table: Table) -> list[str]:
    """The declared columns that the table publishes, keys first."""
    named = [n for n in dict.fromkeys([*table.keys, *table.columns]) if not n.startswith("_")]
    return [
        name
        for name in named
        if name in table.keys or (name != table.columns_to_update and table.keeps(name))
    ]


def _render_empty(table: Table, layer: dict[str, str]) -> str:
    types = {name: _SIZED.sub("string", table.columns[name].type) for name in list_declared(table)}
    return _render_select(types | layer)


def _render_select(columns: dict[str, str]) -> str:
    nulls = ", ".join(f"CAST(NULL AS {type}) AS {quote(name)}" for name, type in columns.items())
    return f"(SELECT {nulls} WHERE false)"
