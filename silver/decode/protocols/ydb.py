"""YDB's changefeed records in JSON, in every mode.

A record has exactly one of the flags `update`, `reset` (REPLACE: columns that it does not set are
null) and `erase`. The new row is in `newImage`, or in the flag's own object in mode UPDATES, where
`update` holds changed columns only: none where only the key was written. The modes OLD_IMAGE and
KEYS_ONLY do not say what an update wrote: those updates are dead letters, their erases can be
applied. `source.feed_mode` declares the mode. Undeclared, the mode of a table's only feed is
UPDATES once an update in it has columns.

`key` has values without names, in the order of the keys. Barriers (`resolved`) and schema records
are no changes. Values of type String (bytes) are base64.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import msgspec
import pyarrow as pa

from lakehouse.config.table import Table
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.change import (
    BAD_SEQUENCE,
    BAD_VALUE,
    ILLEGAL_CHANGE,
    NO_KEY,
    NOT_JSON,
    Change,
    Record,
)
from silver.decode.columns import UPDATES, Columns, Shape
from silver.decode.protocols.discovery import FlatDiscovery
from silver.decode.protocols.objects import Fault, FlatRowReader, Row, row_object, time_of
from silver.decode.protocols.slices import FlatColumns, FlatShape, read_rows
from silver.decode.renames import by_column, column_names
from silver.decode.shapes import Parsed
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.json_values import json_text, text_of
from silver.decode.values.sequences import literal_sequence, sequence_of, to_section
from silver.decode.wrapped import other_form

_FLAGS = ("update", "reset", "erase")
_WRITTEN = ("newImage", "reset", "update")
_OF_A_ROW = ("key", *_FLAGS, "newImage", "oldImage")
_UNTOLD = "it says that the row changed but not to what"
_UNDECLARED = (
    f"update without its new values (a changefeed in mode OLD_IMAGE or KEYS_ONLY): {_UNTOLD}, "
    "expected mode UPDATES, NEW_IMAGE or NEW_AND_OLD_IMAGES; if the mode is UPDATES, where it "
    "writes a row of keys alone, declare source.feed_mode: updates"
)
_WITHOUT_NEW_ROWS = ("old_image", "keys_only")
_WITH_NEW_ROWS = ("new_image", "new_and_old_images")
_MOST_SHOWN, _LONGEST = 8, 200
_LARGEST_SECONDS, _LARGEST_TIME = 10**11, 1 << 63

Members = Mapping[str, object]
_NO_MEMBERS: Members = {}


class _Event(msgspec.Struct, gc=False):
    """A record whose rows are structs of one shape."""

    key: list[object]
    newImage: object = None
    reset: object = None
    update: object = None
    erase: object = None
    oldImage: object = None
    ts: object = None


_ERASED = object()
"""In place of the row of an erase."""


class YdbDecoder:
    """Decodes the records of one YDB changefeed."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._reader = FlatRowReader(table, columns)
        names = [c.name for c in columns.columns if not c.provisional]
        keys_only = bool(names) and set(names) <= set(table.keys)
        spell = partial(column_names, table)
        self._flat = FlatColumns(columns, self._reader, spell, _event_of, table.keys)
        self._mode = table.feeds[0].feed_mode
        learned = _learns_mode(table) and columns.feed_mode == UPDATES
        self._writes_keys = keys_only or learned or self._mode == "updates"
        self._may_learn = _learns_mode(table) and not learned and not columns.settled
        self._untold = Fault(ILLEGAL_CHANGE, _describe_missing_row(self._mode))
        self._expected = f"the {len(table.keys)} of {', '.join(table.keys)}"
        self._starts = [
            (literal_sequence(feed.start_sequence), feed.topic)
            for feed in table.feeds
            if feed.start_sequence is not None
        ]

    def decode(self, record: Record) -> Change:
        """The change that a record says."""
        members = _read_members(record)
        if members is None:
            message = other_form(record.raw or b"") or "the record is no JSON object"
            return Change(None, source_time=time_of(record), reason=NOT_JSON, message=message)
        change = _stamped_change(record, _first_of(members, "ts", "resolved"))
        early = change.sequence is not None and self._is_before(change.sequence, record.topic)
        if early or members is _NO_MEMBERS or _is_no_change(members):
            change.operation = NONE
            return change
        given, complete = _row_of(self._table, members), _is_complete(members)
        row = None if given is None else self._reader.read(given, None, complete)
        fault = self._find_fault(record, members, row, change.sequence)
        if row is not None:
            change.values, change.mismatched = row.values, row.mismatched
        if fault is not None:
            change.reason, change.message = fault
        elif members.get("erase") is not None:
            change.operation = DELETE
        else:
            change.operation = UPSERT
            change.absent = row.absent if row is not None else None
        change.mismatched |= self._may_learn and _shows_updates(members)
        return change

    def read(self, records: Slice) -> ReadPart | None:
        """Reads the plain records of a slice by columns; all others are decoded one by one."""
        wholes = records.column("_whole")
        places = [at for at in records.places if not wholes[at]]
        return read_rows(records, places, self._find_shape, self._build_part)

    def _find_shape(self, members: Members) -> FlatShape | None:
        written = _first_of(members, *_WRITTEN)
        if not isinstance(written, dict) or not written or not self._tells_row(members, written):
            return None
        return self._flat.shape(tuple(written), _is_complete(members))

    def _build_part(self, records: Slice, shape: FlatShape, parsed: Parsed) -> ReadPart:
        topics = records.column("_topic")
        rows = [self._written_row(shape, event) for event in parsed.values]
        moments = [_plain_moment(event.ts) for event in parsed.values]
        are_plain = [
            row is not None and moment is not None and not self._is_before(moment[0], topics[at])
            for row, moment, at in zip(rows, moments, parsed.places, strict=True)
        ]
        parsed, rows = parsed.only(are_plain), list(compress(rows, are_plain))
        stamps = [moment for moment in compress(moments, are_plain) if moment is not None]
        sequences, times, transactions = [[one[nth] for one in stamps] for nth in range(3)]
        columns, fits = self._convert_rows(shape, parsed.values, rows)
        erased = [row is _ERASED for row in rows]
        columns["_operation"] = pa.array([DELETE if e else UPSERT for e in erased], pa.string())
        absent = [None if e else shape.said.absent for e in erased]
        columns["_absent"] = pa.array(absent, pa.list_(pa.string()))
        columns["_sequence"] = pa.array(sequences, pa.string())
        columns["_transaction"] = pa.array(transactions, pa.string())
        columns["_source_time"] = pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return ReadPart(parsed.places, columns).only(fits)

    def _convert_rows(
        self, shape: FlatShape, events: Sequence[Any], rows: Sequence[object]
    ) -> tuple[dict[str, pa.Array], list[bool]]:
        """The columns of rows and keys, and whether each row fits them."""
        keys = zip(*[event.key for event in events], strict=True)
        by_name = dict(zip(self._table.keys, keys, strict=True)) if events else {}
        nothing = shape.row.struct(*[None] * len(shape.names))
        filled = [nothing if row is _ERASED else row for row in rows]
        columns, fits, _ = self._flat.convert(shape, filled, by_name)
        return columns, fits

    def _written_row(self, shape: FlatShape, event: _Event) -> object:
        """The row that an event wrote, or `_ERASED`; None if it has to be decoded alone."""
        key = event.key
        if [event.update, event.reset, event.erase].count(None) != 2 or None in key:
            return None
        if len(key) != len(self._table.keys):
            return None
        if event.erase is not None:
            return _ERASED if event.erase == {} else None
        if event.newImage is not None:
            return event.newImage if shape.complete else None
        if self._mode in _WITH_NEW_ROWS or (self._may_learn and event.oldImage is None):
            return None
        return event.reset if shape.complete else event.update

    def _find_fault(
        self, record: Record, members: Members, row: Row | None, sequence: str | None
    ) -> Fault | None:
        return (
            _fault_of_flags(members)
            or self._fault_of_key(members.get("key"))
            or (row.key_fault if row is not None else None)
            or self._fault_of_values(members, row)
            or (_fault_of_sequence(record, members) if sequence is None else None)
        )

    def _fault_of_key(self, key: object) -> Fault | None:
        if not isinstance(key, list) or not key:
            return Fault(NO_KEY, f"key: missing or empty, expected {self._expected}")
        if len(key) == len(self._table.keys):
            return None
        return Fault(BAD_VALUE, f"key with {len(key)} components, expected {self._expected}")

    def _fault_of_values(self, members: Members, row: Row | None) -> Fault | None:
        if members.get("erase") is not None:
            return None
        written = _first_of(members, *_WRITTEN)
        if not isinstance(written, dict):
            return Fault(ILLEGAL_CHANGE, "columns in no object")
        if not self._tells_row(members, written):
            return self._untold
        return row.value_fault if row is not None else None

    def _tells_row(self, members: Members, written: Members) -> bool:
        """Whether an update or a replacement says what it wrote."""
        if self._mode in _WITHOUT_NEW_ROWS:
            return False
        if members.get("newImage") is not None:
            return True
        if self._mode in _WITH_NEW_ROWS:
            return False
        if written or members.get("oldImage") is not None:
            return bool(written)
        return self._writes_keys or members.get("update") is None

    def _is_before(self, sequence: str, topic: str | None) -> bool:
        """Whether a change lies below the `start_sequence` of its feed."""
        return any(sequence < start and feed in (None, topic) for start, feed in self._starts)


class YdbDiscovery(FlatDiscovery):
    """Finds the columns of the rows in a YDB changefeed, and whether its mode is UPDATES.

    In YDB names that differ in case are different names.
    """

    ignores_case = False

    def __init__(self, table: Table, columns: Columns) -> None:
        super().__init__(table, columns)
        self.feed_mode = columns.feed_mode
        self._learns_mode = _learns_mode(table)

    def row_of(self, record: Record) -> Members | None:
        """The members of the record's row, keys included; None where there is no row."""
        members = _read_members(record)
        if members is None:
            return None
        if self._learns_mode and _shows_updates(members):
            self.feed_mode = UPDATES
        return _row_of(self._table, members)

    def merge(self, other: FlatDiscovery) -> None:
        """Takes in what another discovery of the same table has seen."""
        super().merge(other)
        if isinstance(other, YdbDiscovery):
            self.feed_mode = self.feed_mode or other.feed_mode

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns and the shapes of its rows."""
        columns, shapes = super().settle(whole)
        return replace(columns, feed_mode=self.feed_mode), shapes


def _event_of(row: type[Any]) -> type[Any]:
    """The struct of an event whose rows have one shape."""
    rows = [(name, row | None, None) for name in _WRITTEN]
    return msgspec.defstruct("Event", rows, bases=(_Event,), gc=False)


def _learns_mode(table: Table) -> bool:
    """Whether records show the mode; not of several feeds, which may differ in it."""
    return len(table.feeds) == 1 and table.feeds[0].feed_mode is None


def _shows_updates(members: Members) -> bool:
    """Whether a record is of mode UPDATES: no other has columns in `update`."""
    update = members.get("update")
    has_columns = isinstance(update, dict) and bool(update)
    return has_columns and _first_of(members, "newImage", "oldImage") is None


def _describe_missing_row(mode: str | None) -> str:
    """The message of a record that does not say what it wrote."""
    if mode is None:
        return _UNDECLARED
    if mode in _WITH_NEW_ROWS:
        return f"no newImage (source.feed_mode: {mode}): {_UNTOLD}"
    expected = "expected mode UPDATES, NEW_IMAGE or NEW_AND_OLD_IMAGES"
    return f"update without its new values (source.feed_mode: {mode}): {_UNTOLD}, {expected}"


def _read_members(record: Record) -> Members | None:
    """The record's members, `_NO_MEMBERS` for a null value; None where it is no JSON object."""
    return _NO_MEMBERS if record.raw is None else row_object(record.raw)


def _first_of(members: Members, *names: str) -> object:
    """The first of the members that is there and not null, else None."""
    for name in names:
        if (value := members.get(name)) is not None:
            return value
    return None


def _is_complete(members: Members) -> bool:
    """Whether columns that the record's row has not are null."""
    return _first_of(members, "newImage", "reset") is not None


def _row_of(table: Table, members: Members) -> Members | None:
    """The record's row, which for an erase is its key; None without a key of the right size."""
    key = members.get("key")
    if not isinstance(key, list) or len(key) != len(table.keys):
        return None
    written = _first_of(members, *_WRITTEN) if members.get("erase") is None else None
    row = {**by_column(table, written)} if isinstance(written, dict) else {}
    row.update(zip(table.keys, key, strict=True))
    return row


def _is_no_change(members: Members) -> bool:
    """Whether the record is a barrier or a schema record, and has no row."""
    if _first_of(members, *_OF_A_ROW) is not None:
        return False
    names = map(str.lower, members)
    of_schema = any("schema" in name or name.startswith("tablechange") for name in names)
    return members.get("resolved") is not None or of_schema


def _fault_of_flags(members: Members) -> Fault | None:
    flags = len([flag for flag in _FLAGS if members.get(flag) is not None])
    if flags != 1:
        names = ", ".join([*members][:_MOST_SHOWN])[:_LONGEST]
        message = f"{flags} of update, reset and erase, expected exactly one"
        return Fault(ILLEGAL_CHANGE, message if flags else f"{message}; the record has {names}")
    if members.get("erase") not in (None, {}):
        return Fault(ILLEGAL_CHANGE, "an erase that is not {}")
    return None


def _fault_of_sequence(record: Record, members: Members) -> Fault:
    for name in ("ts", "resolved"):
        if members.get(name) is not None:
            message = f"{name}: found {json_text(members[name])}, expected [step, txId]"
            return Fault(BAD_SEQUENCE, message)
    return Fault(BAD_SEQUENCE, f"offset: found {record.offset}, expected one from 0")


def _stamped_change(record: Record, moment: object) -> Change:
    """A change with the order, time and transaction that the virtual timestamp gives.

    Without a timestamp the record's offset is the order.
    """
    if moment is None:
        return Change(None, (), to_section(record.offset or 0), source_time=time_of(record))
    parts = moment if isinstance(moment, list) else []
    numbers = [_parse_number(part) for part in parts]
    time = _to_micros(numbers[0]) if numbers else None
    change = Change(None, source_time=time_of(record) if time is None else time)
    change.sequence = sequence_of(*numbers) if len(numbers) == 2 else None
    change.transaction = "/".join([text_of(part) for part in parts if part is not None])
    return change


def _plain_moment(ts: object) -> tuple[str, int, str] | None:
    """Sequence, time and transaction of a virtual timestamp of two numbers; None of any other."""
    if not isinstance(ts, list) or len(ts) != 2 or not type(ts[0]) is type(ts[1]) is int:
        return None
    step, id = ts
    time = _to_micros(step) if step >= 0 else None
    if time is None or not 0 <= id < 1 << 64:
        return None
    return f"{step:016X}/{id:016X}", time, f"{step}/{id}"


def _parse_number(part: object) -> int | None:
    """An unsigned 64-bit number of a virtual timestamp, or its digits; None for all else."""
    if isinstance(part, str) and part.isascii() and part.isdigit() and len(part) <= 20:
        part = int(part)
    return part if type(part) is int and 0 <= part < 1 << 64 else None


def _to_micros(count: int | None) -> int | None:
    """Microseconds of a count of seconds, milli-, micro- or nanoseconds, by its size.

    Below 10^11 it counts seconds (until the year 5138), below a thousand times that milliseconds
    (from the spring of 1973), and so on.
    """
    if count is None or count >= _LARGEST_TIME:
        return None
    if count < _LARGEST_SECONDS:
        return count * 1_000_000
    if count < _LARGEST_SECONDS * 1_000:
        return count * 1_000
    return count if count < _LARGEST_SECONDS * 1_000_000 else count // 1_000
