"""`_facts`, what a current table's row stands for beside its newest change, read and written."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from silver.fold.arrow_values import Ints, Window, find_stored_rows
from silver.fold.current import RowFacts

FACTS_TYPE = pa.struct(
    [
        ("upsert", pa.binary()),
        ("removed", pa.binary()),
        ("columns", pa.map_(pa.string(), pa.binary())),
        ("changes", pa.list_(pa.binary())),
    ]
)


class _StoredFacts(msgspec.Struct):
    """`_facts` of a stored row, as Spark writes a struct as JSON: bytes are base64."""

    upsert: bytes | None = None
    removed: bytes | None = None
    columns: dict[str, bytes] | None = None
    changes: list[bytes] | None = None


_parse_facts = msgspec.json.Decoder(_StoredFacts).decode


def read_stored_facts(window: Window, rows: Ints) -> dict[int, RowFacts]:
    """The facts of the stored ones of some rows, by their index among these."""
    stored = find_stored_rows(window, rows)
    if not len(stored):
        return {}
    columns, index = ("_order", "_deleted", "_digest", "_facts"), pa.array(rows[stored])
    lists = [window.take(name, index).to_pylist() for name in columns]
    return dict(zip(stored.tolist(), map(_build_facts, *lists), strict=True))


def _build_facts(order: bytes, deleted: bool, digest: int, text: str | None) -> RowFacts:
    if text is None:
        return RowFacts(order, deleted, digest)
    facts = _parse_facts(text)
    columns, changes = facts.columns or None, tuple(facts.changes) if facts.changes else None
    return RowFacts(order, deleted, digest, facts.upsert, facts.removed, columns, changes)


def to_facts_column(rows: Sequence[RowFacts]) -> pa.Array:
    """The column `_facts` of some rows."""
    values = [_list_members(row) for row in rows]
    return pa.array(values, FACTS_TYPE) if any(values) else pa.nulls(len(values), FACTS_TYPE)


def _list_members(row: RowFacts) -> dict[str, object] | None:
    if not (row.upsert or row.removed or row.columns or row.changes):
        return None
    columns = list(row.columns.items()) if row.columns else None
    return {
        "upsert": row.upsert, "removed": row.removed, "columns": columns, "changes": row.changes,
    }  # fmt: skip
