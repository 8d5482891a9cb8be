"""Current rows over Arrow: the states of the keys in a window, and the rows that come out."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import (
    Bools,
    Folder,
    Ints,
    Window,
    count_keys,
    find_stored_rows,
    index_of,
    read_changes,
)
from silver.fold.current import CurrentFold, RowFacts
from silver.fold.plain_keys import PlainKeys, find_plain_keys
from silver.fold.rules import NO_SOURCE, Changes, FoldRules

_FACTS = pa.struct(
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


class CurrentFolder(Folder[CurrentFold]):
    """Folds the keys of windows, one after the other, into rows of a current table."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        super().__init__(rules, keys)
        self._closed: list[CurrentFold] = []
        self._key_rows: list[int] = []
        self._plain = PlainKeys.none()

    def find_plain(self, begins: Ints) -> Bools:
        """Which of the keys that end in the window are plain: the loop leaves them out."""
        plain, self._plain = find_plain_keys(self.window, begins, self.rules)
        return plain

    def read_rows(self, rows: Ints) -> Changes:
        """The rows that the loop folds, as the law takes them."""
        self._stored = _stored_facts(self.window, rows)
        return read_changes(self.window, rows, self.rules.grouped)

    def begin_key(self) -> CurrentFold:
        """Begins a key."""
        return CurrentFold(self.rules)

    def fold_rows(self, key: CurrentFold, begin: int, end: int) -> None:
        """Folds rows that were read; a stored row is the first of its key."""
        changes, stored = self.changes, self._stored.get(begin)
        if stored is not None:
            absent = changes.absent[begin] if changes.absent is not None else None
            key.begin(stored, changes.source[begin], absent or ())
            begin += 1
        key.fold(changes, begin, end)

    def close_key(self, key: CurrentFold, last: int) -> None:
        """Ends a key; its last row gives the key's columns where none of its changes counts."""
        key.finish()
        self._closed.append(key)
        self._key_rows.append(last if key.newest[1] == NO_SOURCE else key.newest[1])

    def take_output(self) -> dict[str, pa.Array]:
        """The rows of the keys that were closed, one for each, in order, as columns."""
        plain, self._plain = self._plain, PlainKeys.none()
        keys, self._closed = self._closed, []
        key_rows, self._key_rows = self._key_rows, []
        rows = _InOrder(plain, np.argsort([*plain.last, *key_rows], kind="stable"))
        facts = [key.facts() for key in keys]
        newest = rows.sources(key.newest[1] for key in keys)
        times, key_index = self.window.take("_source_time", newest), rows.sources(key_rows)
        deleted = rows.bools(False, (key.deleted for key in keys))
        columns = {key: self.window.take(key, key_index) for key in self.keys}
        columns |= self.take_values([key.content() for key in keys], rows.sources)
        columns |= {
            "_order": self.window.take("_order", newest),
            "_deleted": deleted,
            "_digest": self.window.take("_digest", newest),
            "_source_time": pc.if_else(deleted, times, pa.scalar(None, times.type)),
            "_facts": rows.after_nulls(_facts_column(facts)),
            "_write": rows.bools(True, map(CurrentFold.differs, keys, facts)),
            "_keeps_values": rows.bools(False, (key.keeps_values() for key in keys)),
        }
        return columns | _count_outcomes(rows, keys)


class _InOrder(NamedTuple):
    """Plain keys and, after them, keys that were folded; `order` is the order of the output."""

    plain: PlainKeys
    order: Ints

    def sources(self, folded: Iterable[int]) -> pa.Array:
        return index_of(
            np.concatenate([self.plain.last, np.fromiter(folded, np.int64)])[self.order]
        )

    def bools(self, of_plain: bool, folded: Iterable[bool]) -> pa.Array:
        bools = np.full(len(self.order), of_plain, np.bool_)
        bools[len(self.plain.last) :] = np.fromiter(folded, np.bool_)
        return pa.array(bools[self.order])

    def after_nulls(self, folded: pa.Array) -> pa.Array:
        nulls = pa.nulls(len(self.plain.last), folded.type)
        return pa.concat_arrays([nulls, folded]).take(pa.array(self.order))


def _stored_facts(window: Window, rows: Ints) -> dict[int, RowFacts]:
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


def _facts_column(rows: Sequence[RowFacts]) -> pa.Array:
    values = [_facts_fields(row) for row in rows]
    return pa.array(values, _FACTS) if any(values) else pa.nulls(len(values), _FACTS)


def _facts_fields(row: RowFacts) -> dict[str, object] | None:
    if not (row.upsert or row.removed or row.columns or row.changes):
        return None
    columns = list(row.columns.items()) if row.columns else None
    return {
        "upsert": row.upsert, "removed": row.removed, "columns": columns, "changes": row.changes,
    }  # fmt: skip


def _count_outcomes(rows: _InOrder, keys: Sequence[CurrentFold]) -> dict[str, pa.Array]:
    plain = rows.plain
    size = len(plain.last)
    for key in keys:
        key.count()
    counts = count_keys(len(rows.order), enumerate(keys, start=size))
    counts["inserted"][:size] = ~plain.stored
    counts["updated"][:size] = plain.stored
    counts["superseded"][:size] = plain.change_counts - 1
    return {f"_n_{name}": pa.array(n[rows.order], pa.int32()) for name, n in counts.items()}
