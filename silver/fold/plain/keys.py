"""Plain keys of current tables: their changes are new and whole, and each newer or a repeat.

Nearly every key of a batch is like that. Its row is that of its newest change, so plain keys are
found and counted for a whole window at once. `silver.fold.law` folds all others; the tests compare
both ways on the same keys.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from silver.fold.arrow_values import Bools, Ints, Window, index_of, to_bools
from silver.fold.current import pack_digest
from silver.fold.order_key import sequence_of
from silver.fold.plain.facts import FACTS_TYPE
from silver.fold.plain.rows import PlainRows, find_newest, has_value, read_plain_rows
from silver.fold.rules import NO_SOURCE, FoldRules


class PlainKeys(NamedTuple):
    """Plain keys, by the numbers of rows of each; NO_SOURCE where there is no such row.

    Attributes:
        newest: the newest change.
        upsert: the newest upsert; the stored row is one too.
        removed: the newest delete before that upsert.
        deleted: whether the newest change is a delete.
        keeps_values: whether the newest upsert is the stored row, whose values a delete keeps.
        outcomes: how many changes of the keys have each outcome.
    """

    newest: Ints
    upsert: Ints
    removed: Ints
    deleted: Bools
    keeps_values: Bools
    outcomes: Mapping[str, int]

    @staticmethod
    def none() -> "PlainKeys":
        """No key at all."""
        rows, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
        return PlainKeys(rows, rows, rows, flags, flags, {})

    def build_facts(self, window: Window) -> pa.Array:
        """The column `_facts` of the keys' rows (see `silver.fold.current.RowFacts`)."""
        upsert = np.where(self.deleted, self.upsert, NO_SOURCE)
        which = np.flatnonzero((upsert != NO_SOURCE) | (self.removed != NO_SOURCE))
        if not len(which):
            return pa.nulls(len(self.newest), FACTS_TYPE)
        changes = [index_of(rows[which]) for rows in (self.removed, upsert)]
        orders = [window.take("_order", index) for index in changes]
        entries = [
            _pack(window, index, order) for index, order in zip(changes, orders, strict=True)
        ]
        # by key: the entries of the delete and of the upsert, where there is one
        lists = [[each for each in both if each is not None] for both in zip(*entries, strict=True)]
        types = {field.name: field.type for field in FACTS_TYPE}
        columns = {
            "upsert": orders[1],
            "removed": orders[0],
            "columns": pa.nulls(len(which), types["columns"]),
            "changes": pa.array(lists, types["changes"]),
        }
        facts = pa.StructArray.from_arrays([columns[name] for name in types], fields=[*FACTS_TYPE])
        index = np.full(len(self.newest), NO_SOURCE)
        index[which] = np.arange(len(which))
        return facts.take(index_of(index))


def _pack(window: Window, index: pa.Array, orders: pa.Array) -> list[bytes | None]:
    """The entries of `RowFacts.changes` for one change each; None for null."""
    digests = window.take("_digest", index).to_pylist()
    return [
        None if order is None else sequence_of(order) + pack_digest(digest)
        for order, digest in zip(orders.to_pylist(), digests, strict=True)
    ]


def find_plain_keys(window: Window, begins: Ints, rules: FoldRules) -> tuple[Bools, PlainKeys]:
    """Finds the plain keys among those whose rows are all in a window.

    Args:
        window: the rows, sorted as `silver.fold.arrow` says for current tables.
        begins: the first row of each key, and the row after the last key.
        rules: the table's rules.

    Returns:
        For each key whether it is plain, and the plain keys.
    """
    if len(begins) < 2 or rules.grouped or rules.from_log:
        return np.zeros(max(len(begins) - 1, 0), np.bool_), PlainKeys.none()
    first, last = begins[:-1], begins[1:] - 1
    rows = read_plain_rows(window, first, rules)
    row_is_plain, has_stored = rows.plain, rows.stored[first]
    if has_stored.any():
        # a stored row that stands for one upsert of all columns
        live = ~has_value(window, "_facts") & ~to_bools(window.column("_deleted"))
        row_is_plain &= live | ~rows.stored
    plain = np.logical_and.reduceat(row_is_plain[: begins[-1]], first)
    plain &= last - first + 1 > has_stored
    return plain, _fold_plain(rows, first[plain], last[plain])


def _fold_plain(rows: PlainRows, first: Ints, last: Ints) -> PlainKeys:
    """The newest rows of keys, all of whose rows from `first` to `last` are plain."""
    newest = find_newest(~rows.repeats)[last]
    upserts = (rows.upsert | rows.stored) & ~rows.repeats
    upsert = find_newest(upserts)[last]
    upsert[upsert < first] = NO_SOURCE  # it is another key's
    removed = find_newest(~upserts & ~rows.repeats)[upsert]
    removed[(removed < first) | (upsert == NO_SOURCE)] = NO_SOURCE
    deleted, has_stored = upsert != newest, rows.stored[first]
    repeated = np.concatenate([[0], np.cumsum(rows.repeats)])
    duplicates = int((repeated[last + 1] - repeated[first]).sum())
    changes = int((last - first + 1 - has_stored).sum())
    was_row = deleted & (upsert != NO_SOURCE)
    outcomes = {
        "inserted": int((~deleted & ~has_stored).sum()),
        "updated": int((~deleted & has_stored).sum()),
        "deleted": int(was_row.sum()),
        "delete_unknown": int((deleted & ~was_row).sum()),
        "superseded": changes - duplicates - len(newest),
        "duplicate": duplicates,
    }
    return PlainKeys(newest, upsert, removed, deleted, rows.stored[upsert] & was_row, outcomes)
