"""Dead letters of Debezium records: what was found, and what was expected."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from pyspark.sql import types as T

from bronze.contract import avro_schema_id
from silver.contract import TRUNCATE
from silver.decode.avro.schemas import UNDECLARED_AVRO
from silver.decode.change import (
    BAD_SEQUENCE,
    BAD_VALUE,
    ILLEGAL_CHANGE,
    INCOMPATIBLE_SCHEMA,
    NOT_JSON,
    Change,
    Record,
)
from silver.decode.debezium.events.connectors import (
    INVENTING,
    MAY_WRITE_CELLS,
    NEEDS_THOUGHT,
    has_position,
)
from silver.decode.debezium.events.documents import DocumentChange
from silver.decode.debezium.events.envelope import Envelope, Row, SourceBlock, SourceColumns
from silver.decode.debezium.rows import Misfits, Reading, TableLayout
from silver.decode.renames import column_names
from silver.decode.types import Misfit
from silver.decode.values.converters import can_be_hex, misfit_message
from silver.decode.values.encodings import declares_binaries, declares_decimals, holds_decimals
from silver.decode.values.json_values import NotJson, json_text, text_of
from silver.decode.values.numbers import is_base64, is_written
from silver.decode.wrapped import holds_rows, open_row, other_form

_SHOWN, _SHOWN_OF_SOURCE, _MOST_MEMBERS = 100, 300, 8
_GUESS = (
    "a text that can be base64 or a plain number is not guessed: source.decimal_handling_mode "
    "(precise or string) says which"
)
_MAYBE_HEX = (
    "a text that can be base64 or hex digits is not guessed: source.binary_handling_mode says which"
)
_OPERATIONS = "expected c, u, r, d, t or m"
_OF_OTHERS = (
    "found an envelope of Canal, Maxwell or CloudEvents, which has its rows in data, expected one "
    "of Debezium: have the program write Debezium's JSON"
)
_BY_MEMBERS = {
    frozenset(("after", "updated")): "found a message of a CockroachDB changefeed without op, "
    "expected the changefeed's option envelope=enriched",
}
"""The messages of objects that other programs write, by members that all of these have."""
MIXED = (
    "found a full envelope among flattened events, expected events of one form in a feed "
    "(source.envelope says which)"
)
_MOVED = (
    "expected a delete and an insert, as connectors write them for a primary key: keys has columns "
    "that updates change"
)
_CELLS = (
    'found values as cells {"value": …, "set": …}, as Cassandra\'s and YugabyteDB\'s connectors '
    "write them, expected plain values: for YugabyteDB the transform PGCompatible"
)
_TYPED = (
    "found rows within the names of their Avro types, as kafka-avro-console-consumer writes them, "
    "expected plain JSON, or the topic itself with source.value_format: avro"
)
_OF_ONE = (
    "found a truncate of one of several source tables, expected deletes: a truncate removes the "
    "rows of all; on_truncate: ignore leaves it out"
)
KEY_ALONE = (
    "found nothing but the key, expected a row with its columns: a file of keys, as S3 sinks write "
    "with store.kafka.keys, is none; a key printed in front of a row is no row either"
)
TYPED_ROW = ".Value"
_OF_ROWS = frozenset(("c", "u", "r", "d"))
_TEXTS, _NOTHING = {str, type(None)}, {type(None)}


class Event(NamedTuple):
    """A record that says a change: its envelope, and the change as far as it is known."""

    record: Record
    envelope: Envelope
    change: Change


def reject(change: Change, reason: str, message: str) -> None:
    """Makes the change a dead letter."""
    change.operation, change.absent = None, None
    change.reason, change.message = reason, message


def are_plain(ops: Sequence[object], sources: SourceColumns, flattened: bool) -> list[bool]:
    """Which events are of a row, and of a connector without special rules.

    The names that distinguish one log from another are texts, if they are there.
    """
    if {*map(type, ops)} == {str} and {*ops} <= _OF_ROWS:
        of_rows = [True] * len(ops)
    else:
        of_rows = [type(op) is str and op in _OF_ROWS for op in ops]
    names = sources.kinds("name") | sources.kinds("db")
    is_usual = flattened or (
        sources.kinds("connector") == {str}
        and {*sources.of("connector")}.isdisjoint(NEEDS_THOUGHT)
        and sources.kinds("value_capture_type") == _NOTHING
    )
    if is_usual and names <= _TEXTS:
        return of_rows
    plain = [flattened or _is_plain(block) for block in sources.blocks]
    named = [{type(block.name), type(block.db)} <= _TEXTS for block in sources.blocks]
    return [all(fits) for fits in zip(of_rows, plain, named, strict=True)]


def _is_plain(source: SourceBlock) -> bool:
    is_named = type(source.connector) is str and source.connector not in NEEDS_THOUGHT
    return is_named and source.value_capture_type is None


def not_json(record: Record) -> Change:
    """The dead letter of a record that is no JSON object with a Debezium change."""
    raw = record.raw or b""
    if avro_schema_id(raw):
        message = UNDECLARED_AVRO
    else:
        shown = raw[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
        message = f"found {shown}, expected one JSON object with a Debezium change"
        message = other_form(raw) or _of_other_program(_read_members(record)) or message
    return Change(None, snapshot_last=False, reason=NOT_JSON, message=message)


def unknown_operation(record: Record, envelope: Envelope) -> str:
    """The message of an object with an operation that Debezium does not have, or without one."""
    if envelope.op is not None:
        return f"found op {text_of(envelope.op)[:_SHOWN]}, {_OPERATIONS}"
    members = _read_members(record)
    named = ", ".join([*members][:_MOST_MEMBERS])[: 2 * _SHOWN]
    message = f"found no op among the members {named or '(none)'}, {_OPERATIONS} in op"
    return _of_other_program(members) or message


def no_key(names: str) -> str:
    """The message of a change without its key."""
    return f"found no value for {names}, expected one in after, the record's key or before"


def check_key(event: Event, keys: Sequence[Reading], layout: TableLayout) -> None:
    """Rejects an update of the key, after which the row of the old key would stay.

    The dead letter has the old key, whose row is wrong from then on. Old rows are compared where
    they have all of the key that `after` has.
    """
    before, after, change = event.envelope.before, event.envelope.after, event.change
    if not before or after is None or change.reason is not None:
        return
    if not shows_old_key(event.envelope.op, event.envelope.source, layout):
        return
    if all(before.get(key.field) == after[key.field] for key in keys):
        return
    values = _with_old_key(keys, before, after, change.values, layout)
    moved = [key.field for key in keys if values[key.at] != change.values[key.at]]
    if moved:
        message = f"found an update of {', '.join(moved)} in the key, {_MOVED}"
        reject(change, ILLEGAL_CHANGE, message)
        change.values = values


def shows_old_key(op: object, source: SourceBlock | None, layout: TableLayout) -> bool:
    """Whether an event is an update whose old row has the key as the source had it.

    PostgreSQL's connector invents values that the log does not have, unless its old rows are known
    to be whole.
    """
    if op != "u":
        return False
    connector = None if source is None else source.connector
    return connector not in INVENTING or layout.known.whole_old_rows


def _with_old_key(
    keys: Sequence[Reading], before: Row, after: Row, news: Sequence[object], layout: TableLayout
) -> Sequence[object]:
    """The new values with the old key, or as they are where the old row lacks it.

    A null is no value of a key that is never null. Of a key that `after` has not, which the
    record's own key has, the connector writes no update. A value that does not fit was in no row.
    """
    values = [*news]
    for key in keys:
        field, at = key.field, key.at
        old, new = before.get(field), after[field]
        may_be_null = layout.columns[at].name in layout.table.nullable_keys
        if new is None and not (may_be_null and news[at] is None):
            continue
        if old is None and not (may_be_null and field in before):
            return news
        if old != new:
            try:
                values[at] = key.read(old)
            except Misfit:
                return news
    return values


def complete_document(
    document: DocumentChange, change: Change, names: Sequence[str], layout: TableLayout
) -> None:
    """Says what an update of some fields does not carry; rejects one of parts of a field.

    `names` are the columns, other than keys, that the table publishes.
    """
    change.snapshot, change.snapshot_last = None, False
    if document.problem is not None:
        reject(change, ILLEGAL_CHANGE, document.problem)
    elif document.partial and change.reason is None:
        fields = document.envelope.after or {}
        carried = {name.lower() for name in column_names(layout.table, fields)}
        change.absent = [name for name in names if name.lower() not in carried] or None


def reject_misfits(change: Change, misfits: Misfits, layout: TableLayout) -> None:
    """Makes a change with values that do not fit a dead letter.

    It is `mismatched` where a look through all of the batch may read the values otherwise.
    """
    columns = [(layout.columns[at], misfits[at]) for at in sorted(misfits)]
    hides, table = layout.table.is_sensitive, layout.table.table
    texts = [misfit_message(c.name, v, c.type, hides(c.name), table) for c, v in columns]
    for is_so, note in ((_is_guess, _GUESS), (_can_be_hex, _MAYBE_HEX)):
        if any(is_so(layout, at, value) for at, value in misfits.items()):
            texts.append(note)
    if not layout.known.settled:
        change.mismatched |= _GUESS in texts or any(column.provisional for column, _ in columns)
    declared = all(column.declared for column, _ in columns)
    reject(change, BAD_VALUE if declared else INCOMPATIBLE_SCHEMA, "; ".join(texts))


def check_change(event: Event, layout: TableLayout) -> None:
    """Rejects a change of cells or typed rows, one without a place, a truncate of one of several.

    A cell that is not set keeps its value. No log has a record at a negative offset. A truncate is
    applied to all rows of a table, also to those of other source tables.
    """
    record, envelope, change = event
    form = _CELLS if _has_cells(envelope) else _find_typed(envelope.after or envelope.before)
    if form is not None:
        change.values = ()
        reject(change, ILLEGAL_CHANGE, form)
    elif change.reason is not None:
        return
    elif change.operation == TRUNCATE and layout.truncates_mix:
        reject(change, ILLEGAL_CHANGE, _OF_ONE)
    elif record.offset is not None and record.offset < 0:
        reject(change, BAD_SEQUENCE, f"found offset {record.offset}, expected one from 0")
    elif change.sequence is None:
        reject(change, BAD_SEQUENCE, _no_position(envelope))


def _no_position(envelope: Envelope) -> str:
    given = {} if envelope.source is None else msgspec.structs.asdict(envelope.source)
    source = json_text({name: v for name, v in given.items() if v is not None})
    others = "" if has_position(envelope.source) else " as other records of the feed have"
    return f"found source {source[:_SHOWN_OF_SOURCE]}, expected a position{others}"


def _read_members(record: Record) -> Row:
    """The members of the object that a record is; none where it is none."""
    try:
        return open_row(record).row or {}
    except NotJson:
        return {}


def _of_other_program(members: Row) -> str | None:
    """The message of an object that another program writes; None for any other."""
    if holds_rows(members):
        return _OF_OTHERS
    return next((text for names, text in _BY_MEMBERS.items() if members.keys() >= names), None)


def _find_typed(row: Row | None) -> str | None:
    """The message of a row that stands within the name of its Avro type."""
    if row is None or len(row) != 1:
        return None
    name, value = next(iter(row.items()))
    return _TYPED if type(value) is dict and name.endswith(TYPED_ROW) else None


def _has_cells(envelope: Envelope) -> bool:
    """Whether the values of the rows are cells that say whether they are set."""
    if envelope.source is not None and envelope.source.connector not in MAY_WRITE_CELLS:
        return False
    return _are_cells(envelope.after) or _are_cells(envelope.before)


def _are_cells(row: Row | None) -> bool:
    """Whether a row has a value that is a cell, and no other one."""
    is_cell = False
    for value in (row or {}).values():
        if value is not None:
            is_cell = type(value) is dict and "value" in value and "set" in value
            if not is_cell:
                return False
    return is_cell


def _is_guess(layout: TableLayout, at: int, value: object) -> bool:
    """Whether a decimal's text may be read otherwise once more of the source is known."""
    if not holds_decimals(layout.columns[at].type) or declares_decimals(layout.source):
        return False
    texts = value if isinstance(value, list) else [value]
    return any(type(text) is str and (is_base64(text) or is_written(text)) for text in texts)


def _can_be_hex(layout: TableLayout, at: int, value: object) -> bool:
    """Whether bytes may be written in hex digits, and the table does not say so."""
    if not isinstance(layout.columns[at].type, T.BinaryType) or declares_binaries(layout.source):
        return False
    return isinstance(value, str) and can_be_hex(value)
