"""Dead letters of Debezium records: what was found, and what was expected."""

import msgspec
from pyspark.sql import types as T

from bronze.contract import avro_schema_id
from lakehouse.table import Table
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
from silver.decode.debezium.events.envelope import Envelope
from silver.decode.debezium.events.order import has_position
from silver.decode.debezium.row_plans import TableLayout
from silver.decode.debezium.values.converters import can_be_hex
from silver.decode.debezium.values.encodings import (
    declares_binaries,
    declares_decimals,
    holds_decimals,
)
from silver.decode.debezium.values.numbers import is_base64, is_written
from silver.decode.values.json_values import json_text
from silver.decode.values.typed_values import misfit_message

_SHOWN, _SHOWN_OF_SOURCE = 100, 300
_GUESS = (
    "a text that can be base64 or a plain number is not guessed: source.decimal_handling_mode "
    "(precise or string) says which"
)

_MAYBE_HEX = (
    "a text that can be base64 or hex digits is not guessed: source.binary_handling_mode says which"
)
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
    return Change(None, snapshot_last=False, reason=NOT_JSON, message=message)


def reject(change: Change, reason: str, message: str) -> None:
    """Makes the change a dead letter."""
    change.operation, change.absent = None, None
    change.reason, change.message = reason, message


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
    """Rejects a change without a place in order, and a truncate of one of several source tables.

    No log has a record at a negative offset. A truncate is applied to all rows of a table, also to
    those of other source tables.
    """
    if change.operation == TRUNCATE and table.is_shared and table.on_truncate == "apply":
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
