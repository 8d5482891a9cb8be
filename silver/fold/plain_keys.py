"""Keys that need no loop: all changes are new, whole upserts, each newer than the one before.

Nearly every key of a batch is like that. Its row is simply its last change, so such keys are found
for a whole window at once. `silver.fold.law` folds all others; the tests compare both ways on the
same keys.
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
    changes: Ints
    stored: Bools

    @staticmethod
    def none() -> "PlainKeys":
        """No key at all."""
        return PlainKeys(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


def find_plain_keys(window: Window, begins: Ints, rules: FoldRules) -> tuple[Bools, PlainKeys]:
    """Finds the plain keys, of those that lie in a window whole.

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
    stored = to_bools(window.column("_stored")) if window.has_any("_stored") else None
    of_stored = np.zeros(len(first), np.bool_) if stored is None else stored[first]
    changes = last - first + 1 - of_stored
    row_is_plain = _plain_rows(window, stored, first, rules)
    plain = np.logical_and.reduceat(row_is_plain[: begins[-1]], first) & (changes > 0)
    return plain, PlainKeys(last[plain], changes[plain], of_stored[plain])


def _plain_rows(window: Window, stored: Bools | None, first: Ints, rules: FoldRules) -> Bools:
    """Which rows only replace the row before; a key is plain if all of its rows do."""
    whole = ~_has_value(window, "_absent")
    upsert = to_bools(pc.equal(window.column("_operation"), "upsert"))
    change = upsert & to_bools(window.column("_new"))
    if stored is None:
        plain = change & whole
    else:
        bare = ~_has_value(window, "_facts") & ~to_bools(window.column("_deleted"))
        plain = whole & np.where(stored, bare, change)
    newer = _has_newer_sequence(window.column("_order"))
    newer[first] = True
    plain &= newer
    if rules.newest_cutoff:
        counts = pc.greater_equal(window.column("_order"), pa.scalar(rules.newest_cutoff))
        plain &= to_bools(counts)
    return plain


def _has_newer_sequence(orders: pa.Array) -> Bools:
    """Whether each order key has a higher sequence than the order key before it."""
    keys, lengths = _pad_values(orders)
    sizes = np.ones(len(keys), np.int64)
    more = np.ones(len(keys), np.bool_)
    for at in range(0, keys.shape[1], SECTION_BYTES):
        more &= keys[:, at] == SECTION
        sizes += SECTION_BYTES * more
    newer = np.zeros(len(keys), np.bool_)
    if len(keys) < 2:
        return newer
    differs = keys[1:] != keys[:-1]
    at = differs.argmax(axis=1)
    rows = np.arange(len(at))
    higher = differs[rows, at] & (keys[1:][rows, at] > keys[:-1][rows, at])
    newer[1:] = higher & (at < np.minimum(sizes[1:], sizes[:-1]))
    return newer & (lengths > 0)


def _pad_values(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Binary values as rows of bytes, filled up with zeros; and their lengths, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    width = int(lengths.max(initial=0)) + 1
    rows = np.zeros((len(values), width), np.uint8)
    whole = pc.fill_null(values, b"").cast(pa.large_binary())
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[
        whole.offset : whole.offset + len(whole) + 1
    ]
    data = whole.buffers()[2]
    if data is not None and lengths.any():
        taken = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
        rows[np.arange(width) < lengths[:, None]] = taken
    return rows, lengths


def _has_value(window: Window, name: str) -> Bools:
    if not window.has_any(name):
        return np.zeros(window.size, np.bool_)
    return to_bools(window.column(name).is_valid())
