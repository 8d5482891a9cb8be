"""Current rows over Arrow: the states of the keys in a window, and the rows that come out."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import Window, changes_of, stored_rows
from silver.fold.law import Facts, KeyState
from silver.fold.rules import NOWHERE, OUTCOMES, Changes, FoldRules

_FACTS = pa.struct(
    [
        ("upsert", pa.binary()),
        ("removed", pa.binary()),
        ("columns", pa.map_(pa.string(), pa.binary())),
        ("changes", pa.list_(pa.binary())),
    ]
)


class CurrentFolder:
    """Folds the keys of windows, one after the other, into rows of a current table."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        self._rules, self._keys = rules, keys
        self._state: KeyState | None = None
        self._last = NOWHERE
        self._closed: list[tuple[KeyState, int]] = []

    def look_at(self, window: Window) -> None:
        """Goes on to another window."""
        self._window = window
        self._changes: Changes = changes_of(window, self._rules.grouped)
        self._stored = _stored_facts(window)

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
        """The rows of the keys that were closed, one for each, as columns."""
        closed, self._closed = self._closed, []
        states = [state for state, _ in closed]
        facts = [state.facts() for state in states]
        write = [state.differs(each) for state, each in zip(states, facts, strict=True)]
        newest = [state.newest for state in states]
        some_row = [last if state.newest == NOWHERE else state.newest for state, last in closed]
        deleted = pa.array([state.deleted for state in states], pa.bool_())
        times = self._window.take("_source_time", newest)
        columns = {key: self._window.take(key, some_row) for key in self._keys}
        columns |= self._values(states)
        columns |= {
            "_order": self._window.take("_order", newest),
            "_deleted": deleted,
            "_digest": self._window.take("_digest", newest),
            "_source_time": pc.if_else(deleted, times, pa.scalar(None, times.type)),
            "_facts": _facts_column(facts),
            "_write": pa.array(write, pa.bool_()),
            "_keeps_values": pa.array([state.keeps_values() for state in states], pa.bool_()),
        }
        return columns | _counts(states)

    def _values(self, states: Sequence[KeyState]) -> dict[str, pa.Array]:
        """Every column by the newest upsert of its key, or by the column's own source."""
        whole = [state.source for state in states]
        own: dict[str, list[int]] = {}
        for at, state in enumerate(states):
            for column, (_, source) in state.parts.items():
                if column not in own:
                    own[column] = list(whole)
                own[column][at] = source
        return {c: self._window.take(c, own.get(c, whole)) for c in self._rules.columns}


def _stored_facts(window: Window) -> dict[int, Facts]:
    rows = stored_rows(window)
    if not rows:
        return {}
    columns = ("_order", "_deleted", "_digest", "_facts")
    found = zip(rows, *(window.take(name, rows).to_pylist() for name in columns), strict=True)
    return {at: _facts(order, deleted, digest, more) for at, order, deleted, digest, more in found}


def _facts(order: bytes, deleted: bool, digest: int, more: Mapping[str, Any] | None) -> Facts:
    if more is None:
        return Facts(order, deleted, digest)
    columns, changes = more["columns"], more["changes"]
    return Facts(
        order, deleted, digest, more["upsert"], more["removed"],
        dict(columns) if columns else None, tuple(changes) if changes else None,
    )  # fmt: skip


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


def _counts(states: Sequence[KeyState]) -> dict[str, pa.Array]:
    outcomes = [state.outcome() for state in states]
    applied = pa.array([outcome.applied for outcome in outcomes], pa.string())
    counts = {
        f"_n_{name}": pc.fill_null(pc.equal(applied, name), False).cast(pa.int32())
        for name in OUTCOMES
    }
    return counts | {
        "_n_superseded": pa.array([outcome.superseded for outcome in outcomes], pa.int32()),
        "_n_duplicate": pa.array([outcome.duplicate for outcome in outcomes], pa.int32()),
        "_n_ties": pa.array([outcome.ties for outcome in outcomes], pa.int32()),
    }
