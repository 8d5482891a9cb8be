"""Plain keys: all changes are new and whole, each newer than the one before or a repeat of it.

Nearly every key of a batch is like that. Its row is that of its newest change, so plain keys are
found and counted for a whole window at once. `silver.fold.law` folds all others; the tests compare
both ways on the same keys.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_facts import FACTS_TYPE
from silver.fold.arrow_values import Bools, Ints, Window, index_of, to_bools
from silver.fold.current import pack_digest
from silver.fold.order_key import SECTION, SECTION_BYTES, sequence_of
from silver.fold.rules import NO_SOURCE, FoldRules


class PlainKeys(NamedTuple):
    """Plain keys, by the numbers of rows of each; NO_SOURCE where there is no such row.

    Attributes:
        newest: the newest change.
        upsert: the newest upsert; the stored row is one too.
        removed: the newest delete before that upsert.
        deleted: whether the newest change is a delete.
        keeps_values: whether the newest upsert is the stored row.
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
        known = [_pack(window, index, order) for index, order in zip(changes, orders, strict=True)]
        lists = [[each for each in both if each is not None] for both in zip(*known, strict=True)]
        types = {field.name: field.type for field in FACTS_TYPE}
        columns = {
            "upsert": orders[1],
            "removed": orders[0],
            "columns": pa.nulls(len(which), types["columns"]),
            "changes": pa.array(lists, types["changes"]),
        }
        facts = pa.StructArray.from_arrays([columns[name] for name in types], fields=[*FACTS_TYPE])
        places = np.full(len(self.newest), NO_SOURCE)
        places[which] = np.arange(len(which))
        return facts.take(index_of(places))


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
    rows = _read_rows(window, first, rules)
    size = begins[-1]
    has_stored = rows.stored[first]
    plain = np.logical_and.reduceat(rows.plain[:size], first) & (last - first + 1 > has_stored)
    return plain, _fold_plain(rows, first[plain], last[plain])


class _Rows(NamedTuple):
    """Of each row of a window: whether a plain key may have it, and what it is."""

    plain: Bools
    stored: Bools
    upsert: Bools
    repeats: Bools


def _read_rows(window: Window, first: Ints, rules: FoldRules) -> _Rows:
    """Finds rows that a plain key may have, where `first` are the first rows of the keys."""
    plain, stored = to_bools(window.column("_new")), np.zeros(window.size, np.bool_)
    upsert = to_bools(pc.equal(window.column("_operation"), "upsert"))
    newer, same = _compare_sequences(window.column("_order"))
    newer[first] = True
    if window.has_values("_stored"):
        stored = to_bools(window.column("_stored"))
        live = ~_has_value(window, "_facts") & ~to_bools(window.column("_deleted"))
        plain, upsert = np.where(stored, live, plain), upsert | stored
        same[1:] &= ~stored[:-1]
    repeats = ~newer & same
    digests = window.column("_digest")
    repeats[1:] &= to_bools(pc.equal(digests[1:], digests[:-1]))
    plain &= newer | repeats
    plain &= ~_has_value(window, "_absent")
    if rules.newest_cutoff:
        above = pc.greater_equal(window.column("_order"), pa.scalar(rules.newest_cutoff))
        plain &= to_bools(above)
    return _Rows(plain, stored, upsert, repeats)


def _fold_plain(rows: _Rows, first: Ints, last: Ints) -> PlainKeys:
    """The newest rows of keys, all of whose rows from `first` to `last` are plain."""
    newest = _find_newest(~rows.repeats)[last]
    upsert = _find_newest(rows.upsert & ~rows.repeats)[last]
    upsert[upsert < first] = NO_SOURCE
    removed = _find_newest(~rows.upsert & ~rows.repeats)[upsert]
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


def _find_newest(rows: Bools) -> Ints:
    """For each row the last of these up to it."""
    newest: Ints = np.maximum.accumulate(np.where(rows, np.arange(len(rows)), NO_SOURCE))
    return newest


def _compare_sequences(orders: pa.Array) -> tuple[Bools, Bools]:
    """Whether each order key has a higher sequence than the order key before it, or the same."""
    keys, lengths = _pad_values(orders)
    sizes = np.ones(len(keys), np.int64)
    goes_on = np.ones(len(keys), np.bool_)
    for at in range(0, keys.shape[1], SECTION_BYTES):
        goes_on &= keys[:, at] == SECTION
        sizes += SECTION_BYTES * goes_on
    newer, same = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
    if len(keys) < 2:
        return newer, same
    differs = keys[1:] != keys[:-1]
    byte = np.where(differs.any(axis=1), differs.argmax(axis=1), keys.shape[1])
    rows, within = np.arange(len(byte)), byte < np.minimum(sizes[1:], sizes[:-1])
    at = np.minimum(byte, keys.shape[1] - 1)
    newer[1:] = within & (keys[1:][rows, at] > keys[:-1][rows, at])
    same[1:] = ~within & (sizes[1:] == sizes[:-1])
    return newer & (lengths > 0), same & (lengths > 0)


def _pad_values(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Binary values as rows of bytes, filled up with zeros; and their lengths, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    width = int(lengths.max(initial=0)) + 1
    rows = np.zeros((len(values), width), np.uint8)
    filled = pc.fill_null(values, b"").cast(pa.large_binary())
    _, ends, data = filled.buffers()
    offsets = np.frombuffer(ends, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    if data is not None and lengths.any():
        taken = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
        rows[np.arange(width) < lengths[:, None]] = taken
    return rows, lengths


def _has_value(window: Window, name: str) -> Bools:
    if not window.has_values(name):
        return np.zeros(window.size, np.bool_)
    return to_bools(window.column(name).is_valid())
