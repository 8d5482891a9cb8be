"""Dead letters of Debezium records: what was found, and what was expected."""

from collections.abc import Iterable, Sequence

import msgspec
from pyspark.sql import types as T

from bronze.contract import avro_schema_id
from lakehouse.config.table import Table
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
from silver.decode.debezium.events.connectors import INVENTING, MAY_WRITE_CELLS, has_position
from silver.decode.debezium.events.documents import DocumentChange
from silver.decode.debezium.events.envelope import Envelope, Row
from silver.decode.debezium.row_plans import Reading, TableLayout
from silver.decode.types import Misfit
from silver.decode.values.converters import can_be_hex, misfit_message
from silver.decode.values.encodings import (
    declares_binaries,
    declares_decimals,
    holds_decimals,
)
from silver.decode.values.json_values import NotJson, json_text, text_of
from silver.decode.values.numbers import is_base64, is_written
from silver.decode.wrapped import holds_rows, open_row

_SHOWN, _SHOWN_OF_SOURCE = 100, 300
_GUESS = (
    "a text that can be base64 or a plain number is not guessed: source.decimal_handling_mode "
    "(precise or string) says which"
)

_MAYBE_HEX = (
    "a text that can be base64 or hex digits is not guessed: source.binary_handling_mode says which"
)
_CHANGEFEED = frozenset(("after", "updated"))
_MOST_MEMBERS = 8
_OPERATIONS = "expected c, u, r, d, t or m"
_OF_OTHERS = (
    "found an envelope of Canal, Maxwell or CloudEvents, which has its rows in data, expected one "
    "of Debezium: have the program write Debezium's JSON"
)
_OF_CHANGEFEED = (
    "found a message of a CockroachDB changefeed without op, expected the changefeed's option "
    "envelope=enriched"
)
_OF_KCAT_MEMBERS = frozenset(("topic", "offset", "payload"))
_OF_KCAT = (
    "found a record as kcat writes it, with its value as a text in payload, expected a member value"
    " (jq -c '.value = .payload | .timestamp = .ts | del(.payload, .ts)')"
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
_ROW_TYPE = ".Value"
_OF_ONE = (
    "found a truncate of one of several source tables, expected deletes: a truncate removes the "
    "rows of all; on_truncate: ignore leaves it out"
)

Misfits = dict[int, object]
"""Values that do not fit, by the place of their column."""


def not_json(record: Record) -> Change:
    """The dead letter of a record that is no JSON object with a Debezium change."""
    raw = record.raw or b""
    found = raw[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
    message = f"found {found}, expected one JSON object with a Debezium change"
    if avro_schema_id(raw):
        message = UNDECLARED_AVRO
    elif holds_rows(members := _members(record)):
        message = _OF_OTHERS
    elif members.keys() >= _OF_KCAT_MEMBERS:
        message = _OF_KCAT
    return Change(None, snapshot_last=False, reason=NOT_JSON, message=message)


def unknown_operation(record: Record, envelope: Envelope) -> str:
    """The message of an object with an operation that Debezium does not have, or without one."""
    if envelope.op is not None:
        return f"found op {text_of(envelope.op)[:_SHOWN]}, {_OPERATIONS}"
    members = _members(record)
    if holds_rows(members):
        return _OF_OTHERS
    if members.keys() >= _CHANGEFEED:
        return _OF_CHANGEFEED
    named = ", ".join([*members][:_MOST_MEMBERS])[: 2 * _SHOWN]
    return f"found no op among the members {named or '(none)'}, {_OPERATIONS} in op"


def check_key(
    keys: Iterable[Reading], envelope: Envelope, change: Change, layout: TableLayout
) -> None:
    """Rejects an update of the key, after which the row of the old key would stay.

    The dead letter has the old key, whose row is wrong from then on. Old rows are compared where
    they have all of the key that `after` has. PostgreSQL's connector invents values that the log
    does not have, unless its old rows are known to be whole.
    """
    before, after, source = envelope.before, envelope.after, envelope.source
    if envelope.op != "u" or not before or after is None or change.reason is not None:
        return
    is_invented = source is None or source.connector in INVENTING
    if is_invented and not layout.columns.whole_old_rows:
        return
    if all(before.get(field) == after[field] for field, _, _ in keys):
        return
    values = _with_old_key(keys, before, after, change.values, layout)
    moved = [field for field, at, _ in keys if values[at] != change.values[at]]
    if moved:
        reject(
            change, ILLEGAL_CHANGE, f"found an update of {', '.join(moved)} in the key, {_MOVED}"
        )
        change.values = values


def _with_old_key(
    keys: Iterable[Reading], before: Row, after: Row, news: Sequence[object], layout: TableLayout
) -> Sequence[object]:
    """The new values with the old key, or as they are where the old row does not tell it.

    A null tells nothing of a key that is never null. Of a key that `after` has not, which the
    record's own key has, the connector writes no update. A value that does not fit was in no row.
    """
    nullable = layout.table.nullable_keys
    values = [*news]
    for field, at, convert in keys:
        old, new = before.get(field), after[field]
        may_be_null = layout.columns.columns[at].name in nullable
        if new is None and not (may_be_null and news[at] is None):
            continue
        if old is None and not (may_be_null and field in before):
            return news
        if old != new:
            try:
                values[at] = None if old is None else convert(old)
            except Misfit:
                return news
    return values


def reject(change: Change, reason: str, message: str) -> None:
    """Makes the change a dead letter."""
    change.operation, change.absent = None, None
    change.reason, change.message = reason, message


def complete_document(document: DocumentChange, change: Change, names: Sequence[str]) -> None:
    """Says what an update of some fields does not carry; rejects one of parts of a field.

    `names` are the columns, other than keys, that the table publishes.
    """
    change.snapshot, change.snapshot_last = None, False
    if document.problem is not None:
        reject(change, ILLEGAL_CHANGE, document.problem)
    elif document.partial and change.reason is None:
        carried = {name.lower() for name in document.envelope.after or ()}
        change.absent = [name for name in names if name.lower() not in carried] or None


def reject_misfits(change: Change, misfits: Misfits, layout: TableLayout) -> None:
    """Makes a change with values that do not fit a dead letter.

    It is `unlike` where a look through all of the batch may read the values otherwise.
    """
    columns = {at: layout.columns.columns[at] for at in sorted(misfits)}
    sensitive = {n for n, c in layout.table.columns.items() if c.sensitive}
    found = [
        misfit_message(c.name, misfits[at], c.type, c.name in sensitive)
        for at, c in columns.items()
    ]
    guessed = [at for at in columns if _is_guess(layout, at, misfits[at])]
    if not layout.columns.settled:
        change.unlike |= bool(guessed) or any(c.provisional for c in columns.values())
    if guessed:
        found.append(_GUESS)
    if any(_can_be_hex(layout, at, misfits[at]) for at in columns):
        found.append(_MAYBE_HEX)
    declared = all(c.declared for c in columns.values())
    reject(change, BAD_VALUE if declared else INCOMPATIBLE_SCHEMA, "; ".join(found))


def check_change(record: Record, envelope: Envelope, change: Change, table: Table) -> None:
    """Rejects a change of cells or typed rows, one without a place, a truncate of one of several.

    A cell that is not set keeps its value. No log has a record at a negative offset. A truncate is
    applied to all rows of a table, also to those of other source tables.
    """
    if _has_cells(envelope):
        change.values = ()
        reject(change, ILLEGAL_CHANGE, _CELLS)
    elif _is_typed(envelope.after) or _is_typed(envelope.before):
        change.values = ()
        reject(change, ILLEGAL_CHANGE, _TYPED)
    elif change.reason is not None:
        return
    elif change.operation == TRUNCATE and table.is_shared and table.on_truncate == "apply":
        reject(change, ILLEGAL_CHANGE, _OF_ONE)
    elif record.offset is not None and record.offset < 0:
        reject(change, BAD_SEQUENCE, f"found offset {record.offset}, expected one from 0")
    elif change.sequence is None:
        given = {} if envelope.source is None else msgspec.structs.asdict(envelope.source)
        source = json_text({name: v for name, v in given.items() if v is not None})
        others = "" if has_position(envelope.source) else " as other records of the feed have"
        message = f"found source {source[:_SHOWN_OF_SOURCE]}, expected a position{others}"
        reject(change, BAD_SEQUENCE, message)


def no_key(names: str) -> str:
    """The message of a change without its key."""
    return f"found no value for {names}, expected one in after, the record's key or before"


def _members(record: Record) -> dict[str, object]:
    """The members of the object that a record is; none where it is none."""
    try:
        return open_row(record).row or {}
    except NotJson:
        return {}


def _is_typed(row: Row | None) -> bool:
    """Whether a row stands within the name of its Avro type."""
    if row is None or len(row) != 1:
        return False
    name, value = next(iter(row.items()))
    return type(value) is dict and name.endswith(_ROW_TYPE)


def _has_cells(envelope: Envelope) -> bool:
    """Whether the values of the rows are cells that say whether they are set."""
    if envelope.source is not None and envelope.source.connector not in MAY_WRITE_CELLS:
        return False
    return _are_cells(envelope.after) or _are_cells(envelope.before)


def _are_cells(row: Row | None) -> bool:
    if not row or not (None is (first := next(iter(row.values()))) or _is_cell(first)):
        return False
    values = [value for value in row.values() if value is not None]
    return bool(values) and all(map(_is_cell, values))


def _is_cell(value: object) -> bool:
    return type(value) is dict and "value" in value and "set" in value


def _is_guess(layout: TableLayout, at: int, value: object) -> bool:
    """Whether a decimal's text may be read otherwise once more of the source is known."""
    if not holds_decimals(layout.columns.columns[at].type) or declares_decimals(layout.source):
        return False
    texts = value if isinstance(value, list) else [value]
    return any(type(text) is str and (is_base64(text) or is_written(text)) for text in texts)


def _can_be_hex(layout: TableLayout, at: int, value: object) -> bool:
    """Whether bytes may be written in hex digits, and the table does not say so."""
    is_binary = isinstance(layout.columns.columns[at].type, T.BinaryType)
    told = declares_binaries(layout.source)
    return is_binary and not told and isinstance(value, str) and can_be_hex(value)
