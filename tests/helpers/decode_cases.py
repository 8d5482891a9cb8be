"""Batches of records and the changes that they become, kept as data in `tests/fixtures/decode`.

A file has groups: a sentence, a table's YAML, and batches of that table. A batch has records, the
columns that a look through them finds (`found`, with what else it has `shown`) or those that are
`known` before, and one change per record. What is null or false in a change is left out. A record
is the text of its value, or an object with `raw`, `key`, `headers`, `topic`, `partition`,
`offset`, `timestamp` (microseconds since 1970) and `file`.
"""

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.arrow import (
    DecodePlan,
    DiscoveryPlan,
    decode_batches,
    discover_batches,
)
from silver.decode.change import CHANGE_FIELDS
from silver.decode.columns import Columns, DecodedColumn, Discovery, Shape, known_columns
from silver.decode.types import carrier_type, parse_type
from tests.helpers.both_ways import batch

FOLDER = Path(__file__).parents[1] / "fixtures" / "decode"
ARRIVED_AT = 1_714_564_800_000_000
"""Microseconds since 1970 of 2024-05-01T12:00:00Z."""
FLAGS = ("declared", "provisional")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_YEARS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The microseconds since 1970 that Python's `datetime` has."""


class Case(NamedTuple):
    """One batch of a group."""

    group: str
    table: Table
    batch: Mapping[str, Any]


def load_cases() -> Iterator[Case]:
    """The batches of all files, in order."""
    for path in sorted(FOLDER.glob("*.yml")):
        for group in yaml.load(path.read_text(), yaml.CSafeLoader):
            table = Table.model_validate({"table": "t", **group["table"]})
            for one in group["batches"]:
                yield Case(f"{path.stem}: {group['case']}", table, one)


def find_columns(table: Table, records: pa.RecordBatch) -> tuple[Columns, list[Shape]]:
    """The columns that a look through records finds, and the shapes that they show."""
    plan = DiscoveryPlan(table, known_columns(table, {}))
    [shown] = discover_batches(plan, iter([records]))
    discovery: Discovery = pickle.loads(shown.column("discovery")[0].as_py())
    return discovery.settle()


def read_columns(known: Mapping[str, Any]) -> Columns:
    """Columns as a case writes them: `name: type`, with flags behind the type."""
    facts = {n: tuple(v) if isinstance(v, list) else v for n, v in known.items() if n != "columns"}
    return Columns(tuple(_read_column(*one) for one in known["columns"].items()), **facts)


def write_columns(columns: Columns) -> dict[str, str]:
    """The columns with their types, as a case writes them."""
    return {c.name: " ".join([c.type.simpleString(), *_flags_of(c)]) for c in columns.columns}


def build_batch(given: list[Any]) -> pa.RecordBatch:
    """The bronze rows of a case's records."""
    records = [one if isinstance(one, dict) else {"raw": one} for one in given]
    rows = [{f"_{name}": _to_bytes(name, value) for name, value in r.items()} for r in records]
    return batch([{"_arrived_at": ARRIVED_AT} | row for row in rows])


def decode_records(table: Table, columns: Columns, records: pa.RecordBatch) -> list[dict[str, Any]]:
    """One change per record: values by name, then the change's fields with an underscore."""
    schema = [T.StructField(f.name, carrier_type(f.dataType)) for f in columns.schema()]
    plan = DecodePlan(table, columns, T.StructType(schema), True)
    names = [*columns.names, *CHANGE_FIELDS]
    parts = [part.select(names) for part in decode_batches(plan, iter([records]))]
    changes = []
    for part in parts:
        listed = [_list_values(column) for column in part.columns]
        for row in zip(*listed, strict=True):
            pairs = zip(names, row, strict=True)
            changes.append({n: v for n, v in pairs if v is not None and v is not False})
    return changes


def _read_column(name: str, text: str) -> DecodedColumn:
    words = text.split(" ")
    flags = {word: True for word in words if word in FLAGS}
    type = " ".join(word for word in words if word not in FLAGS)
    return DecodedColumn(name, parse_type(type), **flags)


def _flags_of(column: DecodedColumn) -> list[str]:
    return [field.name for field in fields(column) if getattr(column, field.name) is True]


def _to_bytes(name: str, value: Any) -> Any:
    """A value of bronze: texts of records are bytes, also those that are given in hex digits."""
    if name not in ("raw", "key", "headers") or value is None:
        return value
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def _list_values(column: pa.Array) -> list[Any]:
    """The values of a column as YAML writes them; Python has no moments after the year 9999."""
    if pa.types.is_timestamp(column.type):
        return [None if v is None else _to_moment(v) for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(column.type):
        return [None if v is None else _to_day(v) for v in column.cast(pa.int32()).to_pylist()]
    return [_to_plain(value) for value in column.to_pylist()]


def _to_plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, list | tuple):
        return [_to_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _to_plain(one) for name, one in value.items()}
    return str(value) if isinstance(value, Decimal | datetime | date) else value


def _to_moment(micros: int) -> str | int:
    """Microseconds since 1970 as ISO text in UTC, where Python has such a moment."""
    moment = _EPOCH + timedelta(microseconds=micros) if micros in _YEARS else None
    return micros if moment is None else moment.replace(tzinfo=None).isoformat()


def _to_day(days: int) -> str | int:
    """Days since 1970 as ISO text, where Python has such a day."""
    moment = _to_moment(days * 86_400_000_000)
    return moment.partition("T")[0] if isinstance(moment, str) else days
