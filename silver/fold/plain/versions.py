"""Plain keys of a history: all changes are new and whole, each newer than all rows before it.

Stored rows may precede them. Of these only the newest one changes: it is followed now. Each new
change becomes a row; a version is a run of upserts that agree. All of it is found for a whole
window at once. `silver.fold.versions` folds all other keys; the tests compare both ways.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import Bools, Ints, Window, index_of, to_bools, to_micros
from silver.fold.plain.rows import PlainRows, find_newest, has_value, read_plain_rows
from silver.fold.rules import NO_SOURCE, FoldRules


class PlainVersions(NamedTuple):
    """The rows of plain keys that are new or differ.

    Attributes:
        sources: the numbers of the rows in the window.
        upsert: whether each is an upsert.
        facts: the columns of `silver.fold.rules.VersionFacts`, times in µs since 1970.
        outcomes: how many changes of the keys have each outcome.
    """

    sources: Ints
    upsert: Bools
    facts: Mapping[str, pa.Array]
    outcomes: Mapping[str, int]


def find_plain_versions(
    window: Window, begins: Ints, rules: FoldRules, same: Bools
) -> tuple[Bools, PlainVersions | None]:
    """Finds the plain keys among those whose rows are all in a window, and folds them.

    Args:
        window: the rows, sorted as `silver.fold.arrow` says for histories.
        begins: the first row of each key, and the row after the last key.
        rules: the table's rules.
        same: whether each row agrees with the row before it on the tracked columns.

    Returns:
        For each key whether it is plain, and the rows of the plain keys; None without any.
    """
    if len(begins) < 2 or rules.grouped or rules.from_log or rules.keeps_deleted:
        return np.zeros(max(len(begins) - 1, 0), np.bool_), None
    first, last = begins[:-1], begins[1:] - 1
    rows = read_plain_rows(window, first, rules)
    times = _read_times(window, rows)
    row_is_plain = rows.plain & _has_sound_time(rows, times, first)
    if rows.stored.any():
        row_is_plain &= ~rows.stored | _may_precede(window, rows, first, last, rules)
    plain = np.logical_and.reduceat(row_is_plain[: begins[-1]], first) & ~rows.stored[last]
    if not plain.any():
        return plain, None
    return plain, _fold_plain(_Kept.of(window, rows, (first[plain], last[plain])), rules, same)


def _read_times(window: Window, rows: PlainRows) -> pa.Array:
    """The newest commit time up to a stored row, and the commit time of a change, in µs."""
    times = to_micros(window.column("_source_time"))
    if not rows.stored.any():
        return times
    return pc.if_else(pa.array(rows.stored), to_micros(window.column("_time")), times)


def _has_sound_time(rows: PlainRows, times: pa.Array, first: Ints) -> Bools:
    """Whether a row's time is known, and no earlier than that of the row before it."""
    has_time = to_bools(times.is_valid())
    micros = pc.fill_null(times, 0).to_numpy()
    sound = np.ones(len(micros), np.bool_)
    sound[1:] = (micros[1:] >= micros[:-1]) & (~rows.repeats[1:] | (micros[1:] == micros[:-1]))
    sound[first] = True
    sound &= has_time
    return sound


def _may_precede(
    window: Window, rows: PlainRows, first: Ints, last: Ints, rules: FoldRules
) -> Bools:
    """Which stored rows may precede the changes of a plain key; the newest has no next one yet."""
    is_newest = np.zeros(window.size, np.bool_)
    is_newest[:-1] = rows.stored[:-1] & ~rows.stored[1:]
    is_newest[last] = rows.stored[last]
    comes_first = np.append(False, rows.stored[:-1])
    comes_first[first] = True
    fits: Bools = comes_first & (is_newest == ~has_value(window, "_next_order"))
    fits &= ~has_value(window, "_kept")
    fits &= ~(rows.upsert & is_newest) | (
        has_value(window, "_valid_from") & has_value(window, "_from_order")
    )
    if rules.newest_cutoff:
        since = pc.greater_equal(window.column("_life"), pa.scalar(rules.newest_cutoff))
        fits &= to_bools(since)
    return fits


class _Kept(NamedTuple):
    """The rows of plain keys that count: the newest stored one, and the changes without repeats.

    Attributes:
        window: the rows that they are among.
        sources: their numbers there.
        begin: whether each is the first of its key.
        stored: whether each is stored.
        upsert: whether each is an upsert.
        times: the newest commit time up to each, in µs.
        duplicates: how many changes repeat another one.
    """

    window: Window
    sources: Ints
    begin: Bools
    stored: Bools
    upsert: Bools
    times: pa.Array
    duplicates: int

    @classmethod
    def of(cls, window: Window, rows: PlainRows, bounds: tuple[Ints, Ints]) -> "_Kept":
        """The rows of the keys whose first and last rows are given."""
        first, last = bounds
        change = np.zeros(window.size + 1, np.int8)
        change[first] += 1
        change[last + 1] -= 1
        inside = np.cumsum(change[:-1], dtype=np.int8) > 0
        is_followed = np.zeros(window.size, np.bool_)
        is_followed[:-1] = rows.stored[:-1] & rows.stored[1:]
        is_followed[last] = False
        counts = inside & ~is_followed & ~rows.repeats
        sources = np.flatnonzero(counts)
        begin = np.zeros(len(sources), np.bool_)
        begin[np.searchsorted(sources, first)] = True
        return cls(
            window,
            sources,
            begin,
            rows.stored[sources],
            rows.upsert[sources],
            _read_times(window, rows).take(pa.array(sources)),
            int((inside & rows.repeats).sum()),
        )

    def take(self, name: str, rows: Ints) -> pa.Array:
        """The values of a column in some of the rows; null for NO_SOURCE."""
        sources = np.where(rows == NO_SOURCE, NO_SOURCE, self.sources[rows])
        return self.window.take(name, index_of(sources))


def _fold_plain(rows: _Kept, rules: FoldRules, same: Bools) -> PlainVersions:
    size = len(rows.sources)
    here = np.arange(size)
    end = np.append(rows.begin[1:], True)
    following = np.where(end, NO_SOURCE, here + 1)
    after_upsert = np.append(False, rows.upsert[:-1]) & ~rows.begin
    goes_on = rows.upsert & after_upsert & same[rows.sources]
    start = np.where(rows.upsert, find_newest(rows.upsert & ~goes_on), NO_SOURCE)
    shown = rows.upsert & ~np.append(goes_on[1:], False)
    ended = np.where(shown, following, NO_SOURCE)
    begun, orders = rows.times.take(index_of(start)), rows.take("_order", start)
    if rows.stored.any():
        of_stored = pa.array(rows.stored[start] & rows.upsert)
        begun = pc.if_else(of_stored, to_micros(rows.take("_valid_from", start)), begun)
        orders = pc.if_else(of_stored, rows.take("_from_order", start), orders)
    first_of_life = rows.begin | ~np.append(False, rows.upsert[:-1])
    facts = {
        "_next_order": rows.take("_order", following),
        "_shown": pa.array(shown),
        "_is_current": pa.array(shown & end),
        "_time": rows.times,
        "_valid_from": begun,
        "_valid_to": rows.times.take(index_of(ended)),
        "_from_order": orders,
        "_to_order": rows.take("_order", ended),
        "_life": _find_lives(rows, rules),
        "_kept": pa.nulls(size, pa.bool_()),
    }
    return PlainVersions(rows.sources, rows.upsert, facts, _count_outcomes(rows, first_of_life))


def _find_lives(rows: _Kept, rules: FoldRules) -> pa.Array:
    """The order key of the newest delete before each row, or else where its key's life began."""
    begun = find_newest(rows.begin)
    deleted = np.append(NO_SOURCE, find_newest(~rows.upsert)[:-1])
    deleted = np.where(deleted >= begun, deleted, NO_SOURCE)
    deleted[rows.begin] = NO_SOURCE
    lives = pc.fill_null(rows.take("_order", deleted), rules.newest_cutoff)
    if not rows.stored.any():
        return lives
    with_stored = (deleted == NO_SOURCE) & rows.stored[begun]
    return pc.if_else(pa.array(with_stored), rows.take("_life", begun), lives)


def _count_outcomes(rows: _Kept, is_first: Bools) -> Mapping[str, int]:
    kinds = {
        "inserted": rows.upsert & is_first,
        "updated": rows.upsert & ~is_first,
        "deleted": ~rows.upsert & ~is_first,
        "delete_unknown": ~rows.upsert & is_first,
    }
    counts = {name: int((kind & ~rows.stored).sum()) for name, kind in kinds.items()}
    return counts | {"duplicate": rows.duplicates}
