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

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.table import Table
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.change import (
    BAD_SEQUENCE,
    BAD_VALUE,
    ILLEGAL_CHANGE,
    NO_KEY,
    NOT_JSON,
    Record,
)
from silver.decode.columns import UPDATES, Columns, Shape
from silver.decode.protocols.discovery import FlatDiscovery
from silver.decode.protocols.objects import Fault, row_object
from silver.decode.protocols.reader import FlatRowReader, read_groups
from silver.decode.protocols.slices import (
    UTC,
    OpenedSlice,
    RowGroup,
    RowTraits,
    group_rows,
    open_others,
    parse_objects,
    read_part,
    record_times,
)
from silver.decode.renames import by_column
from silver.decode.shapes import Parsed
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.json_values import json_text, text_of, valid_text
from silver.decode.values.sequences import literal_sequence, sequence_of, topic_sequence
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
_LARGEST_SECONDS, _LARGEST_TIME, _LIMIT = 10**11, 1 << 63, 1 << 64

_NO_OBJECT = "the record is no JSON object"

Members = Mapping[str, object]
_Place = tuple[int | None, int | None, int | None]
"""Time, partition and offset of a record."""
_Stamp = tuple[str | None, int | None, str | None]
_NOTHING: Members = {}


@dataclass
class _Said:
    """What the events of a slice say, by their indices.

    Attributes:
        operations: those of events that are changes, dead letters too.
        faults: wrong flags and keys.
        of_values: why rows are no upserts.
        rows: those of events with a key; where true, columns that they lack are null.
    """

    operations: dict[int, str] = field(default_factory=dict)
    faults: dict[int, Fault] = field(default_factory=dict)
    of_values: dict[int, Fault] = field(default_factory=dict)
    rows: dict[bool, Parsed] = field(
        default_factory=lambda: {False: Parsed([], []), True: Parsed([], [])}
    )


class YdbDecoder:
    """Decodes the records of one YDB changefeed."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._reader = FlatRowReader(table, columns)
        names = [c.name for c in columns.columns if not c.provisional]
        keys_only = bool(names) and set(names) <= set(table.keys)
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

    def read(self, records: Slice) -> ReadPart:
        """The changes that records say."""
        parsed = parse_objects(records, records.places)
        opened: dict[int, Members] = dict(zip(*parsed, strict=True))
        broken: dict[int, Fault] = {}
        for at, event in open_others(records, parsed.places, _open_record):
            if isinstance(event, Fault):
                broken[at] = event
            opened[at] = _NOTHING if isinstance(event, Fault) else event
        events = [opened[at] for at in range(len(opened))]
        offsets = records.column("_offset")
        in_topic = *map(records.column, ("_timestamp", "_partition")), offsets
        places = [*zip(*in_topic, strict=True)]
        sequences, times, transactions = _read_stamps(events, places)
        for at in broken:
            sequences[at] = times[at] = transactions[at] = None
        said = self._read_events(events, self._find_early(records, sequences))
        rows = read_groups(
            OpenedSlice(len(events), self._group(events, said), {}), self._reader.read
        )
        upserts = {at for at, operation in said.operations.items() if operation == UPSERT}
        faults: dict[int, Fault | None] = {
            at: fault for at, fault in rows.value_faults.items() if at in upserts
        }
        faults |= said.of_values | rows.key_faults | said.faults | broken
        for at in said.operations:
            if sequences[at] is None and at not in faults:
                faults[at] = _fault_of_sequence(events[at], offsets[at])
        if self._may_learn:
            rows.mismatched.update(at for at in said.operations if _shows_updates(events[at]))
        operations = [
            None if at in faults else said.operations.get(at, NONE) for at in range(len(events))
        ]
        columns = rows.columns | rows.absent_where([kind == UPSERT for kind in operations])
        columns["_sequence"] = pa.array(sequences, pa.string())
        columns["_transaction"] = pa.array(transactions, pa.string())
        micros = pc.coalesce(pa.array(times, pa.int64()), record_times(records))
        columns["_source_time"] = micros.cast(UTC)
        return read_part(records, columns, operations, faults, rows.mismatched)

    def _read_events(self, events: list[Members], early: set[int]) -> _Said:
        said = _Said()
        for group in group_rows(Parsed([*range(len(events))], events)):
            if early or not self._take_usual(group, said):
                for at in group.indices:
                    if at not in early and not _is_no_change(events[at]):
                        self._take_event(at, events[at], said)
        return said

    def _take_usual(self, group: RowGroup, said: _Said) -> bool:
        """Takes events of which each has a key and one row, or erases; false if some are others."""
        names = [name for name in _OF_A_ROW[1:] if name in group.members]
        name = names[0] if len(names) == 1 else ""
        keys, rows = group.members.get("key", ()), group.members.get(name, ())
        if ({*map(type, keys)}, {*map(type, rows)}) != ({list}, {dict}):
            return False
        is_usual = {*map(len, keys)} == {len(self._table.keys)} and name in _FLAGS
        if name == "erase":
            is_usual = is_usual and not any(rows)
        else:
            is_usual = is_usual and all(rows) and self._tells_row({name: rows[0]}, rows[0])
        if is_usual:
            operation = DELETE if name == "erase" else UPSERT
            said.operations.update(dict.fromkeys(group.indices, operation))
            said.rows[name == "reset"].places.extend(group.indices)
            said.rows[name == "reset"].values.extend(rows)
        return is_usual

    def _take_event(self, at: int, event: Members, said: _Said) -> None:
        flags, key = [event.get(flag) for flag in _FLAGS], event.get("key")
        said.operations[at] = UPSERT if flags[2] is None else DELETE
        has_key = isinstance(key, list) and len(key) == len(self._table.keys)
        if flags.count(None) != 2 or flags[2] not in (None, {}):
            said.faults[at] = _fault_of_flags(event)
        elif not has_key:
            said.faults[at] = self._fault_of_key(key)
        written = _first_of(event, *_WRITTEN) if flags[2] is None else {}
        if not isinstance(written, dict):
            said.of_values[at], written = Fault(ILLEGAL_CHANGE, "columns in no object"), {}
        elif flags[2] is None and not self._tells_row(event, written):
            said.of_values[at] = self._untold
        if has_key:
            rows = said.rows[_first_of(event, "newImage", "reset") is not None]
            rows.places.append(at)
            rows.values.append(written)

    def _group(self, events: list[Members], said: _Said) -> list[RowGroup]:
        """The rows that have a key, in groups with the same columns."""
        groups = []
        for complete, rows in said.rows.items():
            for group in group_rows(rows, RowTraits(complete)):
                members = dict(by_column(self._table, group.members))
                keys = zip(*[cast(Any, events[at]["key"]) for at in group.indices], strict=True)
                members.update(zip(self._table.keys, keys, strict=True))
                groups.append(group._replace(members=members))
        return groups

    def _find_early(self, records: Slice, sequences: list[str | None]) -> set[int]:
        """The changes that lie below the `start_sequence` of their feed."""
        early: set[int] = set()
        for start, feed in self._starts:
            given = zip(sequences, records.column("_topic"), strict=True)
            early.update(
                at
                for at, (sequence, topic) in enumerate(given)
                if sequence is not None and sequence < start and feed in (None, topic)
            )
        return early

    def _fault_of_key(self, key: object) -> Fault:
        if not isinstance(key, list) or not key:
            return Fault(NO_KEY, f"key: missing or empty, expected {self._expected}")
        return Fault(BAD_VALUE, f"key with {len(key)} components, expected {self._expected}")

    def _tells_row(self, event: Members, written: Members) -> bool:
        """Whether an update or a replacement says what it wrote."""
        if self._mode in _WITHOUT_NEW_ROWS:
            return False
        if event.get("newImage") is not None:
            return True
        if self._mode in _WITH_NEW_ROWS:
            return False
        if written or event.get("oldImage") is not None:
            return bool(written)
        return self._writes_keys or event.get("update") is None


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
        event = _open_record(record)
        if isinstance(event, Fault):
            return None
        if self._learns_mode and _shows_updates(event):
            self.feed_mode = UPDATES
        key = event.get("key")
        if not isinstance(key, list) or len(key) != len(self._table.keys):
            return None
        written = _first_of(event, *_WRITTEN) if event.get("erase") is None else None
        row = by_column(self._table, written) if isinstance(written, dict) else {}
        return {**row, **dict(zip(self._table.keys, key, strict=True))}

    def merge(self, other: FlatDiscovery) -> None:
        """Takes in what another discovery of the same table has seen."""
        super().merge(other)
        if isinstance(other, YdbDiscovery):
            self.feed_mode = self.feed_mode or other.feed_mode

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns and the shapes of its rows."""
        columns, shapes = super().settle(whole)
        return replace(columns, feed_mode=self.feed_mode), shapes


def _learns_mode(table: Table) -> bool:
    """Whether records show the mode; not of several feeds, which may differ in it."""
    return len(table.feeds) == 1 and table.feeds[0].feed_mode is None


def _shows_updates(event: Members) -> bool:
    """Whether a record is of mode UPDATES: no other has columns in `update`."""
    update = event.get("update")
    has_columns = isinstance(update, dict) and bool(update)
    return has_columns and _first_of(event, "newImage", "oldImage") is None


def _describe_missing_row(mode: str | None) -> str:
    """The message of a record that does not say what it wrote."""
    if mode is None:
        return _UNDECLARED
    if mode in _WITH_NEW_ROWS:
        return f"no newImage (source.feed_mode: {mode}): {_UNTOLD}"
    expected = "expected mode UPDATES, NEW_IMAGE or NEW_AND_OLD_IMAGES"
    return f"update without its new values (source.feed_mode: {mode}): {_UNTOLD}, {expected}"


def _open_record(record: Record) -> Members | Fault:
    """The members of a record, none of a null value; its fault where it is no JSON object."""
    if record.raw is None:
        return _NOTHING
    members = row_object(record.raw)
    return Fault(NOT_JSON, other_form(record.raw) or _NO_OBJECT) if members is None else members


def _first_of(event: Members, *names: str) -> object:
    """The first of the members that is there and not null, else None."""
    for name in names:
        if (value := event.get(name)) is not None:
            return value
    return None


def _is_no_change(event: Members) -> bool:
    """Whether the record is null, a barrier or a schema record, and has no row."""
    if _first_of(event, *_OF_A_ROW) is not None:
        return False
    names = map(str.lower, event)
    of_schema = any("schema" in name or name.startswith("tablechange") for name in names)
    return event is _NOTHING or event.get("resolved") is not None or of_schema


def _fault_of_flags(event: Members) -> Fault:
    flags = len([flag for flag in _FLAGS if event.get(flag) is not None])
    if flags != 1:
        names = ", ".join([*event][:_MOST_SHOWN])[:_LONGEST]
        message = f"{flags} of update, reset and erase, expected exactly one"
        return Fault(ILLEGAL_CHANGE, message if flags else f"{message}; the record has {names}")
    return Fault(ILLEGAL_CHANGE, "an erase that is not {}")


def _fault_of_sequence(event: Members, offset: int | None) -> Fault:
    for name in ("ts", "resolved"):
        if event.get(name) is not None:
            message = f"{name}: found {json_text(event[name])}, expected [step, txId]"
            return Fault(BAD_SEQUENCE, message)
    return Fault(BAD_SEQUENCE, f"offset: found {offset}, expected one from 0")


def _read_stamps(
    events: list[Members], places: list[_Place]
) -> tuple[list[str | None], list[int | None], list[str | None]]:
    """Order, time and transaction of changes, as their virtual timestamps give them."""
    moments: list[Any] = [event.get("ts") for event in events]
    if {*map(type, moments)} == {list} and {*map(len, moments)} == {2}:
        numbers = [*chain.from_iterable(moments)]
        if {*map(type, numbers)} == {int} and min(numbers) >= 0 and max(numbers) < _LIMIT:
            return (
                [f"{step:016X}/{id:016X}" for step, id in moments],
                [_to_micros(step) for step, _ in moments],
                [f"{step}/{id}" for step, id in moments],
            )
    sequences, times, transactions = zip(*map(_read_stamp, events, places), strict=True)
    return [*sequences], [*times], [*transactions]


def _read_stamp(event: Members, place: _Place) -> _Stamp:
    """Those of one change; without a timestamp the record's place in its topic is the order."""
    moment = _first_of(event, "ts", "resolved")
    if moment is None:
        return sequence_of(0) if place[-1] is None else topic_sequence(*place), None, None
    parts = moment if isinstance(moment, list) else []
    numbers = [*map(_parse_number, parts)]
    time = _to_micros(numbers[0]) if numbers else None
    sequence = sequence_of(*numbers) if len(numbers) == 2 else None
    transaction = "/".join([text_of(part) for part in parts if part is not None])
    return sequence, time, valid_text(transaction)


def _parse_number(part: object) -> int | None:
    """An unsigned 64-bit number of a virtual timestamp, or its digits; None for all else."""
    if isinstance(part, str) and part.isascii() and part.isdigit() and len(part) <= 20:
        part = int(part)
    return part if type(part) is int and 0 <= part < _LIMIT else None


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
