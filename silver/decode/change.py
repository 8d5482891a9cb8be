"""What goes into a decoder and what comes out: a record of bronze, and the change it says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

_LONGEST_SHOWN = 80

NOT_JSON: Final = "not_json"
NOT_CSV: Final = "not_csv"
NOT_AVRO: Final = "not_avro"
UNKNOWN_OPERATION: Final = "unknown_operation"
ILLEGAL_CHANGE: Final = "illegal_change"
NO_KEY: Final = "no_key"
BAD_VALUE: Final = "bad_value"
BAD_SEQUENCE: Final = "bad_sequence"
INCOMPATIBLE_SCHEMA: Final = "incompatible_schema"
"""Dead letter reasons that decoders give; `silver.contract.DEAD_LETTER_REASONS` explains them."""


@dataclass(slots=True)
class Record:
    """One row of bronze.

    `raw` is its value, also where bronze keeps a whole record (`{"topic":…,"key":…,"value":…}`).
    Times are microseconds since 1970: `timestamp` the record's own, `arrived_at` that of its
    arrival. `arrival` sorts in order of arrival, the same on every replay. `file` is the path of
    the dropped file with the record. `value` is the parsed `raw`, where it was parsed in bulk.
    """

    raw: bytes | None
    key: bytes | None
    headers: bytes | None
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    arrived_at: int
    arrival: str
    file: str | None = None
    value: object = field(default=None, init=False)


@dataclass(slots=True)
class Change:
    """What one record says: a change, nothing (operation `none`), or a dead letter.

    Attributes:
        operation: `upsert`, `delete`, `truncate` or `none`; None on a dead letter.
        values: one value per column of `Columns`, as pyarrow takes it for the column's Arrow type
            (timestamps as microseconds, dates as days since 1970); None for a null and for an
            absent value. A dead letter has what could be read, or ().
        sequence: the canonical sequence text; a dead letter keeps it where it could be read.
        absent: names of the columns that the change does not carry; None when it carries all.
        group_sequences: sequence of each carried column that has an order of its own; Spark's plan
            sets it (see `silver.decode.expressions.groups`).
        old_key: JSON object of the key before a key change; of a table without keys, the old row.
        snapshot: id of the full snapshot that the row belongs to.
        snapshot_last: whether the row is the last one of that snapshot.
        source_time: commit time at the source in microseconds since 1970.
        transaction: the transaction at the source.
        transaction_order: the place within it.
        handled_at: when the connector handled the change, in microseconds since 1970; of a table
            without keys alone.
        reason: why the record is a dead letter; None when it is none.
        message: what was found and what was expected, for a person.
        mismatched: whether the record shows columns or types that `Columns` does not know. The
            change is then decoded without them.
    """

    operation: str | None
    values: Sequence[object] = ()
    sequence: str | None = None
    absent: list[str] | None = None
    group_sequences: None = None
    old_key: str | None = None
    snapshot: str | None = None
    snapshot_last: bool | None = None
    source_time: int | None = None
    transaction: str | None = None
    transaction_order: int | None = None
    handled_at: int | None = None
    reason: str | None = None
    message: str | None = None
    mismatched: bool = False


CHANGE_FIELDS = {
    "_operation": pa.string(),
    "_sequence": pa.string(),
    "_absent": pa.list_(pa.string()),
    "_group_sequences": pa.map_(pa.string(), pa.string()),
    "_old_key": pa.string(),
    "_snapshot": pa.string(),
    "_snapshot_last": pa.bool_(),
    "_source_time": pa.timestamp("us", tz="UTC"),
    "_transaction": pa.string(),
    "_transaction_order": pa.int64(),
    "_handled_at": pa.timestamp("us", tz="UTC"),
    "_reason": pa.string(),
    "_message": pa.string(),
    "_mismatched": pa.bool_(),
}
"""The fields of `Change` beside its values, and their Arrow types."""


def describe_failure(error: Exception) -> str:
    """The message of a record at which a decoder failed with an error that nobody foresaw."""
    return f"the decoder failed with {f'{type(error).__name__}: {error}'[:_LONGEST_SHOWN]}"
