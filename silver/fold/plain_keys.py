"""Plain keys: all changes are new upserts with all columns, each newer than the one before.

Nearly every key of a batch is like that. Its row is its last change, so plain keys are found for a
whole window at once. `silver.fold.law` folds all others; the tests compare both ways on the same
keys.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import Bools, Ints, Window, to_bools
from silver.fold.order_key import SECTION, SECTION_BYTES
from silver.fold.rules import FoldRules


class PlainKeys(NamedTuple):
    """Plain keys: the last row of each, how many changes it has, whether a row of it is stored."""

    last: Ints
    change_counts: Ints
    stored: Bools

    @staticmethod
    def none() -> "PlainKeys":
        """No key at all."""
        return PlainKeys(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


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
    stored = to_bools(window.column("_stored")) if window.has_values("_stored") else None
    has_stored = np.zeros(len(first), np.bool_) if stored is None else stored[first]
    change_counts = last - first + 1 - has_stored
    row_is_plain = _find_plain_rows(window, stored, first, rules)
    plain = np.logical_and.reduceat(row_is_plain[: begins[-1]], first) & (change_counts > 0)
    return plain, PlainKeys(last[plain], change_counts[plain], has_stored[plain])


def _find_plain_rows(window: Window, stored: Bools | None, first: Ints, rules: FoldRules) -> Bools:
    """Which rows only replace the row before; a key is plain if all of its rows do."""
    has_all_columns = ~_has_value(window, "_absent")
    upsert = to_bools(pc.equal(window.column("_operation"), "upsert"))
    plain = upsert & to_bools(window.column("_new"))
    if stored is not None:
        live = ~_has_value(window, "_facts") & ~to_bools(window.column("_deleted"))
        plain = np.where(stored, live, plain)
    plain &= has_all_columns
    newer = _has_newer_sequence(window.column("_order"))
    newer[first] = True
    plain &= newer
    if rules.newest_cutoff:
        above = pc.greater_equal(window.column("_order"), pa.scalar(rules.newest_cutoff))
        plain &= to_bools(above)
    return plain


def _has_newer_sequence(orders: pa.Array) -> Bools:
    """Whether each order key has a higher sequence than the order key before it."""
    keys, lengths = _pad_values(orders)
    sequence_sizes = np.ones(len(keys), np.int64)
    goes_on = np.ones(len(keys), np.bool_)
    for at in range(0, keys.shape[1], SECTION_BYTES):
        goes_on &= keys[:, at] == SECTION
        sequence_sizes += SECTION_BYTES * goes_on
    newer = np.zeros(len(keys), np.bool_)
    if len(keys) < 2:
        return newer
    differs = keys[1:] != keys[:-1]
    byte = differs.argmax(axis=1)
    rows = np.arange(len(byte))
    higher = differs[rows, byte] & (keys[1:][rows, byte] > keys[:-1][rows, byte])
    newer[1:] = higher & (byte < np.minimum(sequence_sizes[1:], sequence_sizes[:-1]))
    return newer & (lengths > 0)


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
