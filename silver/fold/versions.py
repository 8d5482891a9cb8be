"""The convergence law for histories: one row per change of a key, cut into versions.

A key's changes are applied one by one in order; `KeyHistory.fold` takes stored rows and new changes
together. Each change has a row, and a row holds the values that the table had at its place in
order: a column that the change does not carry has the value of the newest change before it that
carried the column since the last delete or cut-off.

A version is a run of upserts that agree on the tracked columns, without a delete or cut-off
between them. Its newest row is shown, and says where the version begins and ends. Rows that are not
shown stay: a delete that arrives late between two of them must find them. Of several changes at one
sequence (a tie) only the last one counts.

At most three rows of a key are held at a time: the row that may still turn out to be its version's
newest one, the last row of the current sequence, and the last values of a deleted row.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from silver.fold.order_key import sequence_of
from silver.fold.rules import NOWHERE, Changes, Cutoff, FoldRules


class Content(NamedTuple):
    """Where the values of a row come from: one source, and others for some columns."""

    source: int
    parts: Mapping[str, int] | None = None

    def moved(self, moved: Mapping[int, int]) -> "Content":
        """The same with renumbered sources."""
        parts = self.parts and {column: moved[source] for column, source in self.parts.items()}
        return Content(moved[self.source], parts)

    def sources(self) -> set[int]:
        """All sources of the row's values."""
        return {self.source, *(self.parts or {}).values()}


EMPTY = Content(NOWHERE)

Agree = Callable[[Content, Content], bool]
"""Whether two rows agree on the tracked columns; null agrees with null only."""


class VersionFacts(NamedTuple):
    """What a row of a history says beside its change and its values; times in µs since 1970.

    Attributes:
        next_order: order key of the key's next change; None on the newest.
        shown: whether the row stands for a version: it is the version's newest one.
        is_current: whether that version is open.
        time: newest commit time of the changes up to here, so that it never runs back.
        valid_from: when the version began; None on rows that do not count.
        valid_to: when the version ended; only on the shown row of one that did.
        from_order: order key of the version's first change.
        to_order: order key of the change or cut-off that ended the version.
        life: order key of the newest delete or cut-off before the row; empty without one.
        kept: on a delete of a table that keeps deleted rows: whether the row has last values.
    """

    next_order: bytes | None
    shown: bool
    is_current: bool
    time: int | None
    valid_from: int | None
    valid_to: int | None
    from_order: bytes | None
    to_order: bytes | None
    life: bytes
    kept: bool | None


class HistoryRow(NamedTuple):
    """A row of the history that is new or differs: `source` is its change, `content` its values."""

    source: int
    content: Content
    facts: VersionFacts


class _Row:
    """A change in its place, while what comes after it is not known."""

    __slots__ = (
        "alone", "anchored", "content", "digest", "from_order", "from_time", "life", "new",
        "next_order", "order", "rewritten", "source", "stored", "time", "upsert",
    )  # fmt: skip

    def __init__(self, source: int, order: bytes, digest: int, upsert: bool, new: bool) -> None:
        self.source, self.order, self.digest = source, order, digest
        self.upsert, self.new = upsert, new
        self.content, self.life = EMPTY, b""
        self.alone = self.anchored = self.rewritten = False
        self.from_time: int | None = None
        self.time: int | None = None
        self.from_order: bytes | None = None
        self.next_order: bytes | None = None
        self.stored: VersionFacts | None = None


_OUTCOMES = ("inserted", "updated", "deleted", "delete_unknown")


class KeyHistory:
    """The history of one key while its stored rows and new changes are folded.

    `outcomes` counts the new changes so far by outcome, and `ties` beside them.
    """

    __slots__ = (
        "_agree", "_begun", "_columns", "_cutoff_orders", "_cutoffs", "_disturbed",
        "_from_log", "_grouped", "_here", "_keeps", "_kept", "_last", "_life", "_lived",
        "_newest_cutoff",
        "_open", "_own", "_paired", "_parts", "_sequence", "_source", "_time", "outcomes", "rows",
        "ties",
    )  # fmt: skip

    def __init__(self, rules: FoldRules, agree: Agree) -> None:
        self._agree, self._columns, self._grouped = agree, rules.column_set, rules.grouped
        self._cutoffs: Sequence[Cutoff] = rules.cutoffs
        self._cutoff_orders = rules.cutoff_orders
        self._newest_cutoff = rules.newest_cutoff
        self._from_log, self._keeps = rules.from_log, rules.keeps_deleted
        self._begun = self._lived = self._disturbed = False
        self._sequence = self._life = b""
        self._here: dict[int, bool] = {}
        self._own: dict[str, str] = {}
        self._source = NOWHERE
        self._parts: dict[str, int] = {}
        self._time: int | None = None
        self._open: _Row | None = None
        self._last: _Row | None = None
        self._kept: Content | None = None
        self._paired: tuple[bytes, VersionFacts] | None = None
        self.rows: list[HistoryRow] = []
        self.outcomes: dict[str, int] = {}
        self.ties = 0

    def fold(
        self,
        changes: Changes,
        times: Sequence[int | None],
        stored: Mapping[int, VersionFacts],
        begin: int,
        end: int,
    ) -> None:
        """Folds the rows `begin` to `end` (exclusive), which are in order; `rows` has what is done.

        Args:
            changes: stored rows and changes.
            times: their commit times in µs.
            stored: what each stored row says, by index.
            begin: the first row.
            end: the row after the last one.
        """
        for at in range(begin, end):
            known = stored.get(at)
            if known is None:
                self._take(changes, times[at], None, at)
            elif self._from_log:
                self._paired = changes.order[at], known
            else:
                self._take(changes, times[at], known, at)

    def finish(self) -> int:
        """Ends the key: what was held becomes rows. Returns the source of the newest change."""
        newest = NOWHERE if self._last is None else self._last.source
        if self._last is not None:
            self._close(self._last)
            self._last = None
        if self._open is not None:
            self._end_version(self._open, None)
            self._open = None
        return newest

    def sources(self) -> set[int]:
        """The sources that rows to come may still need."""
        needed = {NOWHERE, self._source, *self._parts.values()}
        for row in (self._open, self._last):
            if row is not None:
                needed |= {row.source, *row.content.sources()}
        return needed | (self._kept.sources() if self._kept else set())

    def move_sources(self, moved: Mapping[int, int]) -> None:
        """Renumbers the sources."""
        self._source = moved[self._source]
        self._parts = {column: moved[source] for column, source in self._parts.items()}
        for row in (self._open, self._last):
            if row is not None:
                row.source, row.content = moved[row.source], row.content.moved(moved)
        self._kept = self._kept and self._kept.moved(moved)

    def _take(
        self, changes: Changes, time: int | None, stored: VersionFacts | None, at: int
    ) -> None:
        order, new = changes.order[at], changes.new[at]
        row = _Row(at, order, changes.digest[at], changes.upsert[at], new)
        row.stored = stored or self._pair_of(order)
        if self._sequence and order.startswith(self._sequence):
            if row.digest in self._here and self._is_repeat(row):
                return
            self.ties += new or all(self._here.values())
        else:
            self._next_sequence(order)
        self._here[row.digest] = new
        if self._last is not None:
            self._last.next_order = order
            self._lose(self._last)
        if not new:
            self._call_late()
        self._enter_life(row, stored, time)
        if row.upsert:
            self._resolve(row, changes, at)
        else:
            self._end_life(row)
        self._last = row

    def _pair_of(self, order: bytes) -> VersionFacts | None:
        return self._paired[1] if self._paired and self._paired[0] == order else None

    def _is_repeat(self, row: _Row) -> bool:
        """Whether the row is a redelivery.

        A dead letter that was replayed may stand before its earlier delivery in order. Then the
        earlier delivery keeps its row, and the new one is the duplicate. (With another change of
        the same sequence between the two, the replayed one gets a row that is never shown.)
        """
        first_is_new, last = self._here[row.digest], self._last
        if row.new or not first_is_new:
            self._count("duplicate", row.new)
            return True
        if last is None or last.digest != row.digest or not last.new:
            return False
        self._count("duplicate", True)
        self._call_late()
        self._here[row.digest] = False
        if self._open is not None and self._open.next_order == last.order:
            self._open.next_order = row.order
        last.source, last.order, last.new, last.stored = row.source, row.order, False, row.stored
        return True

    def _next_sequence(self, order: bytes) -> None:
        if self._last is not None:
            self._last.next_order = order
            self._close(self._last)
            self._last = None
        self._sequence, self._here = sequence_of(order), {}

    def _enter_life(self, row: _Row, stored: VersionFacts | None, time: int | None) -> None:
        """Places the row after the newest delete or cut-off, and in time.

        The key's first stored row carries all that is older.
        """
        anchor = stored if stored is not None and not self._begun else None
        self._begun = True
        life = max(self._life, self._cutoff_before(row.order)) if self._cutoffs else self._life
        known = time
        if anchor is not None:
            life, known = max(life, anchor.life), anchor.time
        if life != self._life:
            self._life, self._lived = life, False
            self._source, self._parts, self._own = NOWHERE, {}, {}
        if self._time is None or (known is not None and known > self._time):
            self._time = known
        row.life, row.time, row.alone = life, self._time, not self._lived
        self._lived = True
        self._disturbed |= row.stored is not None and row.stored.life != life
        if anchor is not None and anchor.life == life:
            row.from_time, row.from_order = anchor.valid_from, anchor.from_order
            row.anchored = True
            if anchor.kept:
                self._kept = Content(row.source)

    def _resolve(self, row: _Row, changes: Changes, at: int) -> None:
        """Finds the sources of an upsert's values, and goes on with them.

        A stored row has its values, unless a change that came before it in order is new.
        """
        absent = (changes.absent[at] if changes.absent is not None else None) or ()
        if self._grouped:
            own = changes.own_sequences[at] if changes.own_sequences is not None else None
            absent = [*absent, *self._outranked(absent, own or {})]
        has_values = row.stored is not None and not self._disturbed and not self._from_log
        if absent and not row.anchored and not has_values:
            before = self._source
            self._parts = {c: self._parts.get(c, before) for c in absent if c in self._columns}
            row.rewritten = self._disturbed
        else:
            self._parts = {}
        self._disturbed = row.stored is None or (self._disturbed and bool(absent))
        self._source = row.source
        row.content = Content(row.source, self._parts or None)
        if self._keeps and row.order > self._newest_cutoff:
            self._kept = row.content

    def _outranked(self, absent: Sequence[str], own: Mapping[str, str]) -> list[str]:
        """The carried columns of which a change with a higher sequence of their own is known."""
        lost = []
        for column in self._grouped:
            mine = own.get(column) or ""
            if column in absent:
                continue
            if mine < self._own.get(column, ""):
                lost.append(column)
            else:
                self._own[column] = mine
        return lost

    def _end_life(self, delete: _Row) -> None:
        if self._keeps and self._kept is not None:
            delete.content, delete.rewritten = self._kept, self._disturbed
        self._disturbed |= delete.stored is None
        self._life, self._lived = delete.order, False
        self._source, self._parts, self._own = NOWHERE, {}, {}

    def _close(self, row: _Row) -> None:
        """Takes the last row at a sequence, which counts, with the next change known."""
        if not row.upsert:
            if self._open is not None:
                self._end_version(self._open, row)
                self._open = None
            self._emit_delete(row)
            return
        self._count_applied(row)
        if row.from_time is None:
            row.from_time, row.from_order = row.time, row.order
        before = self._open
        if before is not None:
            if before.life == row.life and self._agree(before.content, row.content):
                row.from_time, row.from_order = before.from_time, before.from_order
                self._emit(before, False, None, None)
            else:
                self._end_version(before, row)
        self._open = row

    def _lose(self, row: _Row) -> None:
        """Takes a row after which another one came at its sequence."""
        if not row.upsert:
            self._emit_delete(row)
            return
        self._count("superseded", row.new)
        row.from_time = row.from_order = None
        self._emit(row, False, None, None)

    def _emit_delete(self, row: _Row) -> None:
        self._count_applied(row)
        row.from_time = row.from_order = None
        self._emit(row, False, None, None)

    def _end_version(self, row: _Row, by: _Row | None) -> None:
        """Emits a version's newest row with the version's end: a change, a cut-off, or none yet."""
        cutoff = self._cutoff_after(row.order)
        if cutoff is not None and (by is None or cutoff.order < by.order):
            order, time = cutoff
        elif by is not None:
            order, time = by.order, by.time
        else:
            self._emit(row, True, None, None)
            return
        if time is None or (row.from_time is not None and row.from_time > time):
            time = row.from_time
        self._emit(row, True, order, time)

    def _emit(self, row: _Row, shown: bool, to_order: bytes | None, valid_to: int | None) -> None:
        kept = None if row.upsert or not self._keeps else row.content.source != NOWHERE
        facts = VersionFacts(
            row.next_order, shown, shown and to_order is None, row.time, row.from_time, valid_to,
            row.from_order, to_order, row.life, kept,
        )  # fmt: skip
        if row.stored is None or row.rewritten or facts != row.stored:
            self.rows.append(HistoryRow(row.source, row.content, facts))

    def _count_applied(self, row: _Row) -> None:
        if row.order < self._newest_cutoff:
            self._count("superseded", row.new)
        elif row.upsert:
            self._count("inserted" if row.alone else "updated", row.new)
        else:
            self._count("delete_unknown" if row.alone else "deleted", row.new)

    def _count(self, outcome: str, new: bool) -> None:
        if new:
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def _call_late(self) -> None:
        """Counts what was applied so far as late: a change of an earlier batch comes after it."""
        moved = sum(self.outcomes.pop(name, 0) for name in _OUTCOMES)
        if moved:
            self.outcomes["late"] = self.outcomes.get("late", 0) + moved

    def _cutoff_before(self, order: bytes) -> bytes:
        at = bisect_left(self._cutoff_orders, order)
        return self._cutoff_orders[at - 1] if at else b""

    def _cutoff_after(self, order: bytes) -> Cutoff | None:
        if order > self._newest_cutoff:
            return None
        return self._cutoffs[bisect_left(self._cutoff_orders, order)]
