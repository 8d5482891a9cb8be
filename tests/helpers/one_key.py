"""One key's changes through the law, without Arrow: batch by batch, with what is stored between."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from silver.fold.current import CurrentFold, RowFacts
from silver.fold.law import Content
from silver.fold.order_key import make_order
from silver.fold.rules import NO_SOURCE, Changes, Cutoff, FoldRules, VersionFacts
from silver.fold.versions import HistoryFold

COLUMNS = ("a", "b")
SECOND = 1_000_000
Values = dict[str, Any]


class Change(NamedTuple):
    """A change; `values` has the carried columns. Without an arrival it gets the next one."""

    sequence: int
    values: Values | None
    arrival: int | None = None
    time: int | None = None
    own: tuple[tuple[str, str], ...] = ()

    @property
    def order(self) -> bytes:
        return order(self.sequence, self.arrival or 0)


def up(sequence: int, arrival: int | None = None, time: int | None = None, **values: Any) -> Change:
    """An upsert that carries the named columns."""
    return Change(sequence, values, arrival, time)


def gone(sequence: int, arrival: int | None = None, time: int | None = None) -> Change:
    """A delete."""
    return Change(sequence, None, arrival, time)


def ordered_by(change: Change, **own: int) -> Change:
    """The change with sequences of single columns."""
    return change._replace(own=tuple((column, f"{n:016X}") for column, n in own.items()))


def order(sequence: int, arrival: int = 0) -> bytes:
    return make_order(f"{sequence:016X}", f"{arrival:08X}")


def cutoff(sequence: int, time: int | None = None, until: int | None = None) -> Cutoff:
    """A truncate point, committed at its sequence in seconds unless told otherwise.

    `until` makes it the beginning of a snapshot, whose rows stand below that.
    """
    at = sequence if time is None else time
    return Cutoff(order(sequence), at * SECOND, b"" if until is None else order(until))


def lists(changes: Sequence[Change], new: Sequence[bool]) -> Changes:
    """Changes as the law takes them."""
    absent = [
        None if c.values is None else [name for name in COLUMNS if name not in c.values]
        for c in changes
    ]
    return Changes(
        list(range(len(changes))),
        [c.order for c in changes],
        [c.values is not None for c in changes],
        [digest(c) for c in changes],
        list(new),
        [names or None for names in absent],
        [dict(c.own) or None for c in changes],
    )


def digest(change: Change) -> int:
    """A number that is the same for the same content."""
    content = repr((change.values, change.own)).encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True)


@dataclass
class _Table:
    rules: FoldRules = field(default_factory=lambda: FoldRules(COLUMNS, tracked=COLUMNS))
    log: list[Change] = field(default_factory=list)
    arrivals: int = 0

    def _batch(self, changes: Sequence[Change]) -> tuple[list[Change], list[bool]]:
        """The changes to fold, in order, and which of them are new."""
        arrived = []
        for change in changes:
            self.arrivals += 1
            number = self.arrivals if change.arrival is None else change.arrival
            arrived.append(change._replace(arrival=number))
        earlier = self.log if self.rules.from_log else []
        both = [(c, False) for c in earlier] + [(c, True) for c in arrived]
        both.sort(key=lambda pair: (pair[0].order, pair[1]))
        self.log += arrived
        return [c for c, _ in both], [new for _, new in both]


class Outcome(NamedTuple):
    """What became of the new changes: `applied` is what one of them did to the row."""

    applied: str | None
    superseded: int
    duplicate: int
    ties: int


def value_of(content: Content, rows: Sequence[Change], column: str) -> Any:
    """The value of a column, of rows by source."""
    source = content.source_of(column)
    return None if source == NO_SOURCE else (rows[source].values or {}).get(column)


@dataclass
class CurrentKey(_Table):
    """The stored row of one key of a current table; `took` says what became of each batch."""

    facts: RowFacts | None = None
    values: Values = field(default_factory=dict)
    late_columns: tuple[str, ...] = ()
    wrote: bool = False

    def take(self, *changes: Change) -> Outcome:
        """Folds one batch."""
        batch, new = self._batch(changes)
        key = CurrentFold(self.rules)
        if self.facts is not None:
            key.begin(self.facts, 0, self.late_columns)
        rows = [Change(0, self.values), *batch]
        key.fold(lists(rows, [False, *new]), 1, len(rows))
        key.finish()
        facts = key.facts()
        self.wrote = key.differs(facts)
        if not facts.order:
            self.facts, self.values = None, {}
        elif self.wrote:
            self.facts = facts
            self.values = {c: value_of(key.content(), rows, c) for c in COLUMNS}
        found = dict(key.count())
        lost, again = found.pop("superseded", 0), found.pop("duplicate", 0)
        assert list(found.values()) in ([], [1])
        return Outcome(next(iter(found), None), lost, again, key.ties)

    @property
    def row(self) -> Values | None:
        """The live row."""
        return None if self.facts is None or self.facts.deleted else self.values


class Kept(NamedTuple):
    """A stored row of a history."""

    change: Change
    facts: VersionFacts
    values: Values


@dataclass
class HistoryKey(_Table):
    """The stored history of one key; `take` folds a batch and merges what differs."""

    rows: dict[bytes, Kept] = field(default_factory=dict)
    written: int = 0
    ties: int = 0

    def take(self, *changes: Change) -> dict[str, int]:
        """Folds one batch, with the stored rows that a plan would read for it."""
        batch, new = self._batch(changes)
        fresh = [c for c, is_new in zip(batch, new, strict=True) if is_new]
        stored = self._near(fresh)
        rows = [(k.change.order, 0, k.change, False, k) for k in stored]
        rows += [(c.order, 1 + n, c, n, None) for c, n in zip(batch, new, strict=True)]
        rows.sort(key=lambda row: row[:2])
        found = [row[2] for row in rows]
        known = {at: row[4] for at, row in enumerate(rows) if row[4] is not None}
        have = [known[at].values if at in known else c.values or {} for at, c in enumerate(found)]

        def value(content: Content, column: str) -> Any:
            source = content.source_of(column)
            return None if source == NO_SOURCE else have[source].get(column)

        def agree(one: Content, other: Content) -> bool:
            return all(value(one, c) == value(other, c) for c in self.rules.tracked)

        key = HistoryFold(self.rules, agree)
        times = [None if c.time is None else c.time * SECOND for c in found]
        facts = {at: kept.facts for at, kept in known.items()}
        changes = lists(found, [row[3] for row in rows])._replace(time=times, stored=facts)
        key.fold(changes, 0, len(rows))
        key.finish()
        rows_to_write = key.take_rows()
        self.written, self.ties = len(rows_to_write), key.ties
        for row in rows_to_write:
            change = found[row.source]
            content = {c: value(row.content, c) for c in COLUMNS}
            self.rows[change.order] = Kept(change, row.facts, content)
        return dict(sorted(key.outcomes.items()))

    def _near(self, fresh: Sequence[Change]) -> list[Kept]:
        rows = [self.rows[place] for place in sorted(self.rows)]
        if not fresh or self.rules.from_log or self.rules.cutoffs:
            return rows
        oldest = min(c.order for c in fresh)[:10]
        return [k for k in rows if (k.facts.next_order or b"\xff") >= oldest]

    @property
    def versions(self) -> list[tuple[Any, ...]]:
        """Beginning, end and values of the versions shown, in order."""
        shown = [self.rows[place] for place in sorted(self.rows) if self.rows[place].facts.shown]
        return [
            (_seconds(k.facts.valid_from), _seconds(k.facts.valid_to), k.values["a"], k.values["b"])
            for k in shown
        ]

    @property
    def current(self) -> Values | None:
        """The values of the open version."""
        open_ones = [k.values for k in self.rows.values() if k.facts.is_current]
        return open_ones[0] if open_ones else None


def _seconds(time: int | None) -> float | None:
    return None if time is None else time // SECOND
