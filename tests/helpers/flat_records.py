"""Records of one dropped file, decoded without Spark."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.arrow import OF_RECORD, DecodePlan, decode_batches
from silver.decode.change import CHANGE_FIELDS, Record
from silver.decode.columns import Columns, Discovery, known_columns
from silver.decode.formats import PROTOCOLS
from silver.decode.slices import Slice
from silver.decode.types import carrier_type
from silver.decode.wrapped import value_inside
from tests.helpers.both_ways import batch, counted

ARRIVED_AT = 1_714_564_800_000_000
"""Microseconds since 1970 of 2024-05-01T12:00:00Z."""

Line = str | bytes | dict[str, Any] | None


class Decoded(NamedTuple):
    """The columns that a batch has, and its changes."""

    columns: Columns
    changes: list[Any]

    def values(self, *names: str) -> list[Any]:
        """The values of some columns: one each for one name, tuples for several."""
        places = [self.columns.names.index(name) for name in names]
        found = [tuple(change.values[at] for at in places) for change in self.changes]
        return [one[0] for one in found] if len(names) == 1 else found

    def told(self, *names: str) -> list[Any]:
        """Attributes of the changes: one each for one name, tuples for several."""
        found = [tuple(getattr(change, name) for name in names) for change in self.changes]
        return [one[0] for one in found] if len(names) == 1 else found

    def types(self) -> dict[str, str]:
        """The columns' types."""
        return {c.name: c.type.simpleString() for c in self.columns.columns}


def record(line: Line, number: int = 0, whole: bool = False, **given: Any) -> Record:
    """A line of a dropped file; `whole` when it is a whole record."""
    origin = line if whole and isinstance(line, dict) else {}
    text = json.dumps(line) if isinstance(line, dict) else line
    fields: dict[str, Any] = {
        "raw": text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text,
        "key": None,
        "headers": None,
        "topic": origin.get("topic"),
        "partition": origin.get("partition"),
        "offset": origin.get("offset"),
        "timestamp": None,
        "arrived_at": ARRIVED_AT,
        "arrival": f"{1:08X}{0:06X}{0:010X}{number:08X}",
        "file": "/landing/t/1.jsonl",
    }
    if whole and fields["raw"] is not None:
        fields["raw"] = value_inside(fields["raw"])
    return Record(**(fields | given))


def discovery(table: Table, columns: Columns) -> Discovery:
    """What finds the columns of a table's records."""
    return PROTOCOLS[table.format].discovery(table, columns)


def decode_records(table: Table, columns: Columns, records: Iterable[Record]) -> list[Any]:
    """A change for each record: its values, and what it says beside them."""
    types = [T.StructField(f.name, carrier_type(f.dataType)) for f in columns.schema()]
    plan = DecodePlan(table, columns, T.StructType(types), True)
    given = _batch_of(records)
    changes = []
    for part in decode_batches(plan, iter([given])):
        for row in pa.table(counted(part)).to_pylist():
            told = {name[1:]: row[name] for name in CHANGE_FIELDS}
            told["mismatched"] = bool(told["mismatched"])
            values = [row[name] for name in columns.names]
            changes.append(SimpleNamespace(values=values, **told))
    return changes


def slice_of(records: Iterable[Record]) -> Slice:
    """The records as a slice of bronze."""
    listed = [*records]
    return Slice(_batch_of(listed), OF_RECORD, lambda part: _take_records(listed, part))


def _batch_of(records: Iterable[Record]) -> pa.RecordBatch:
    return batch([{name: getattr(one, name[1:]) for name in OF_RECORD} for one in records])


def _take_records(records: list[Record], part: pa.RecordBatch) -> list[Record]:
    """Those of the records that are in a part of their batch."""
    kept = {*part.column("_arrival").to_pylist()}
    return [record for record in records if record.arrival in kept]


def decoded(
    table: Table,
    lines: Sequence[Line],
    whole: bool = False,
    learned: dict[str, T.DataType] | None = None,
    **given: Any,
) -> Decoded:
    """A batch of lines, its columns discovered in all of it first."""
    records = [record(line, number, whole, **given) for number, line in enumerate(lines)]
    seen = discovery(table, known_columns(table, learned or {}))
    for number, one in enumerate(records):
        seen.look(one, f"file:{number}")
    columns, _ = seen.settle()
    return Decoded(columns, decode_records(table, columns, records))


def micros(text: str) -> int:
    """Microseconds since 1970 of an ISO text in UTC."""
    moment = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    since = moment - datetime.fromtimestamp(0, timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
