"""Rows of a window that a plain key may have: new and whole, and newer than the row before them.

A key is plain if all of its rows are: nearly every key of a batch. Such keys are folded for a whole
window at once, by `silver.fold.plain.keys` and `silver.fold.plain.versions`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import Bools, Ints, Window, to_bools
from silver.fold.order_key import SECTION, SECTION_BYTES
from silver.fold.rules import NO_SOURCE, FoldRules


class PlainRows(NamedTuple):
    """What each row of a window is.

    Attributes:
        plain: whether a plain key may have the row.
        stored: whether it is a stored row.
        upsert: whether it is an upsert, as far as it names its operation.
        repeats: whether it is the new change before it, delivered again.
    """

    plain: Bools
    stored: Bools
    upsert: Bools
    repeats: Bools


def read_plain_rows(window: Window, first: Ints, rules: FoldRules) -> PlainRows:
    """Reads the rows of a window, where `first` are the first rows of the keys.

    Whether a stored row may belong to a plain key is for the caller to say: here all may.
    """
    stored = np.zeros(window.size, np.bool_)
    if window.has_values("_stored"):
        stored = to_bools(window.column("_stored"))
    upsert = to_bools(pc.equal(window.column("_operation"), "upsert"))
    digests = window.column("_digest")
    newer, repeats = _compare_sequences(window.column("_order"))
    repeats[1:] &= to_bools(pc.equal(digests[1:], digests[:-1])) & ~stored[:-1]
    newer[first], repeats[first] = True, False
    plain = (to_bools(window.column("_new")) | stored) & (newer | repeats)
    plain &= ~has_value(window, "_absent")
    if rules.newest_cutoff:
        above = pc.greater(window.column("_order"), pa.scalar(rules.newest_cutoff))
        plain &= to_bools(above)
    return PlainRows(plain, stored, upsert, repeats)


def find_newest(rows: Bools) -> Ints:
    """For each row the last of these up to it; NO_SOURCE without one."""
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


def has_value(window: Window, name: str) -> Bools:
    """In which rows a column has a value; nowhere without the column."""
    if not window.has_values(name):
        return np.zeros(window.size, np.bool_)
    return to_bools(window.column(name).is_valid())
