"""Current rows over Arrow: the states of the keys in a window, and the rows that come out."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import Ints, Window, changes_of
from silver.fold.law import Facts, KeyState
from silver.fold.plain_keys import PlainKeys, find_plain_keys
from silver.fold.rules import NOWHERE, OUTCOMES, Changes, FoldRules

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


class CurrentFolder:
    """Folds the keys of windows, one after the other, into rows of a current table."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        self._rules, self._keys = rules, keys
        self._state: KeyState | None = None
        self._last = NOWHERE
        self._closed: list[tuple[KeyState, int]] = []
        self._plain = PlainKeys.none()

    def look_at(self, window: Window) -> None:
        """Goes on to another window."""
        self._window = window
        self._changes: Changes = changes_of(window, self._rules.grouped)
        self._stored: dict[int, Facts] = {}

    def keys_to_fold(self, begins: Sequence[int]) -> list[tuple[int, int]]:
        """The first row of each key and the row after its last one; plain keys are done here."""
        plain, self._plain = find_plain_keys(self._window, begins, self._rules)
        others = [key for key, done in zip(pairwise(begins), plain, strict=True) if not done]
        self._stored = _stored_facts(self._window, [*(begin for begin, _ in others), begins[-1]])
        return others

    def open_key(self) -> None:
        """Begins a key."""
        self._state = KeyState(self._rules)

    def fold(self, begin: int, end: int) -> None:
        """Folds rows of the open key."""
        state, self._last = self._state, end - 1
        if state is None:
            raise ValueError(f"rows {begin} to {end} belong to no key: open_key comes first")
        if begin in self._stored:
            absent = self._changes.absent[begin] if self._changes.absent is not None else None
            state.take_stored(self._stored[begin], begin, absent or ())
            begin += 1
        state.fold(self._changes, begin, end)

    def close_key(self) -> None:
        """Ends the open key, if there is one."""
        if self._state is not None:
            self._closed.append((self._state, self._last))
        self._state = None

    def sources(self) -> set[int]:
        """The rows that the open key still needs."""
        return {self._last} | (self._state.sources() if self._state else set())

    def move_sources(self, moved: Mapping[int, int]) -> None:
        """Renumbers the rows that the open key needs."""
        self._last = moved[self._last]
        if self._state is not None:
            self._state.move_sources(moved)

    def take_rows(self) -> dict[str, pa.Array]:
        """The rows of the keys that were closed, one for each, in order, as columns."""
        plain, self._plain = self._plain, PlainKeys.none()
        closed, self._closed = self._closed, []
        states = [state for state, _ in closed]
        facts = [state.facts() for state in states]
        order = np.argsort([*plain.last, *(last for _, last in closed)], kind="stable")
        rows = _InOrder(plain, order)
        newest = rows.ints(plain.last, [state.newest for state in states])
        some_row = [last if state.newest == NOWHERE else state.newest for state, last in closed]
        deleted = rows.bools(False, [state.deleted for state in states])
        times = self._window.take("_source_time", newest)
        of_keys = rows.ints(plain.last, some_row)
        columns = {key: self._window.take(key, of_keys) for key in self._keys}
        columns |= self._values(rows, states)
        columns |= {
            "_order": self._window.take("_order", newest),
            "_deleted": deleted,
            "_digest": self._window.take("_digest", newest),
            "_source_time": pc.if_else(deleted, times, pa.scalar(None, times.type)),
            "_facts": rows.after_nulls(_facts_column(facts)),
            "_write": rows.bools(True, [s.differs(f) for s, f in zip(states, facts, strict=True)]),
            "_keeps_values": rows.bools(False, [state.keeps_values() for state in states]),
        }
        return columns | _counts(rows, states)

    def _values(self, rows: "_InOrder", states: Sequence[KeyState]) -> dict[str, pa.Array]:
        """Every column by the newest upsert of its key, or by the column's own source."""
        whole = [state.source for state in states]
        own: dict[str, list[int]] = {}
        for at, state in enumerate(states):
            for column, (_, source) in state.parts.items():
                if column not in own:
                    own[column] = list(whole)
                own[column][at] = source
        sources = rows.ints(rows.plain.last, whole)
        special = {c: rows.ints(rows.plain.last, found) for c, found in own.items()}
        return {c: self._window.take(c, special.get(c, sources)) for c in self._rules.columns}


class _InOrder(NamedTuple):
    """Plain keys and, after them, keys that were folded; and the order in which they come out."""

    plain: PlainKeys
    order: Ints

    def ints(self, of_plain: Ints, others: Sequence[int]) -> Ints:
        return np.concatenate([of_plain, np.asarray(others, np.int64)])[self.order]

    def bools(self, of_plain: bool, others: Sequence[bool]) -> pa.Array:
        whole = np.full(len(self.order), of_plain, np.bool_)
        whole[len(self.plain.last) :] = others
        return pa.array(whole[self.order])

    def after_nulls(self, others: pa.Array) -> pa.Array:
        nulls = pa.nulls(len(self.plain.last), others.type)
        return pa.concat_arrays([nulls, others]).take(pa.array(self.order))


def _stored_facts(window: Window, begins: Sequence[int]) -> dict[int, Facts]:
    """What the stored rows among some rows say."""
    if not window.has_any("_stored"):
        return {}
    stored = window.take("_stored", begins).to_pylist()
    rows = [at for at, found in zip(begins, stored, strict=True) if found]
    columns = ("_order", "_deleted", "_digest", "_facts")
    found = zip(rows, *(window.take(name, rows).to_pylist() for name in columns), strict=True)
    return {at: _facts(order, deleted, digest, more) for at, order, deleted, digest, more in found}


def _facts(order: bytes, deleted: bool, digest: int, text: str | None) -> Facts:
    if text is None:
        return Facts(order, deleted, digest)
    more = _parse_facts(text)
    columns, changes = more.columns or None, tuple(more.changes) if more.changes else None
    return Facts(order, deleted, digest, more.upsert, more.removed, columns, changes)


def _facts_column(rows: Sequence[Facts]) -> pa.Array:
    found = [_fields(row) for row in rows]
    return pa.array(found, _FACTS) if any(found) else pa.nulls(len(found), _FACTS)


def _fields(row: Facts) -> dict[str, object] | None:
    if not (row.upsert or row.removed or row.columns or row.changes):
        return None
    columns = list(row.columns.items()) if row.columns else None
    return {
        "upsert": row.upsert, "removed": row.removed, "columns": columns, "changes": row.changes,
    }  # fmt: skip


def _counts(rows: _InOrder, states: Sequence[KeyState]) -> dict[str, pa.Array]:
    outcomes = [state.outcome() for state in states]
    plain = rows.plain
    of_plain: dict[str, Ints] = {
        "inserted": (~plain.stored).astype(np.int64),
        "updated": plain.stored.astype(np.int64),
        "superseded": plain.changes - 1,
    }
    others: dict[str, list[int]] = {
        name: [outcome.applied == name for outcome in outcomes] for name in OUTCOMES
    }
    others |= {
        "superseded": [outcome.superseded for outcome in outcomes],
        "duplicate": [outcome.duplicate for outcome in outcomes],
        "ties": [outcome.ties for outcome in outcomes],
    }
    none = np.zeros(len(plain.last), np.int64)
    return {
        f"_n_{name}": pa.array(rows.ints(of_plain.get(name, none), found), pa.int32())
        for name, found in others.items()
    }
