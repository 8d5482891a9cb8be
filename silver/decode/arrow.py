"""What a Spark task runs: Arrow batches of bronze records in, Arrow batches of changes out.

`decode_batches` and `discover_batches` are imported by name where a task runs, and their plans are
pickled. A batch is worked on in slices, so that large records do not fill the memory of the task's
Python process, whatever the size of the batches that Spark hands over.
"""

import gc
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from bronze.contract import ROW_MARK, Part, avro_schema_id
from lakehouse.config.table import Table
from silver.decode.avro.ahead import read_ahead
from silver.decode.change import BAD_VALUE, CHANGE_FIELDS, Record, describe_failure
from silver.decode.columns import Columns
from silver.decode.debezium.events.opening import waits_for_form
from silver.decode.facts import FACTS, Facts
from silver.decode.formats import PROTOCOLS
from silver.decode.slices import Decoder, FollowsLog, ReadPart, Slice, join_parts
from silver.decode.types import arrow_type
from silver.decode.values.json_values import valid_text
from silver.decode.wrapped import strip_frame, value_inside

MOST_ROWS, MOST_BYTES = 10_000, 16 * 1024 * 1024
"""A slice has at most so many records, and so many bytes unless it is one record."""

READ_AHEAD = 5_000
"""So many records in Avro are read together; their values stay in the processor's cache."""

OF_RECORD = tuple(f"_{field.name}" for field in fields(Record) if field.init)
READ = (*OF_RECORD, "_whole")
"""The columns that make a `Record`, and whether `_raw` is a whole record around the value."""

CARRIED = ("_topic", "_partition", "_offset", "_arrival", "_feed", "_batch", "_path", "_line")
"""Columns that a batch of changes takes over as they are; `OF_REJECTED` for dead letters alone.

`_path` and `_line` say where in which file the record lies.
"""

OF_REJECTED = ("_path", "_line", "_raw")
"""Columns that only dead letters have, unless the plan says that every change keeps them.

Every row of a snapshot file has its place: a later file of the same path may replace it.
"""

_FRAMES = b'\0" \t\r\n\xef'
"""What a framed object may begin with: a zero byte, a quote, or space and byte order marks."""


@dataclass(frozen=True)
class DiscoveryPlan:
    """What a task needs to find columns in records of a table."""

    table: Table
    columns: Columns


@dataclass(frozen=True)
class DecodePlan(DiscoveryPlan):
    """What a task needs to decode records of a table.

    `schema` has, in the order of the decoder's values, the columns as they leave the task.
    `keeps_raw` says that every change takes its raw record and its place along, else dead letters
    alone: SQL may reject it later. `keys` are the columns whose bounds are wanted; only columns of
    `kept` count as not carried (None: all).
    """

    schema: StructType
    keeps_raw: bool
    keys: tuple[str, ...] = ()
    kept: frozenset[str] | None = None


def decode_batches(plan: DecodePlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decodes records of one table, a row out for each change, one at least per row in.

    Args:
        plan: the table and its columns.
        batches: records with the columns `READ` and `CARRIED`; `_raw`, `_key` and `_headers` are
            binary, times are microseconds since 1970.

    Yields:
        The table's columns, `CHANGE_FIELDS`, `CARRIED`, `_raw` (binary), `_source_log` and
        `_facts`, for one slice of records; the last two on the task's last record only.
    """
    decoder = PROTOCOLS[plan.table.format].decoder(plan.table, plan.columns)
    work, last, facts = _Work(plan, decoder), None, Facts(judged_later=plan.keeps_raw)
    for part in _cut_slices(batches):
        if last is not None:
            yield _with_last(last, None, None)
        with _without_collector():
            last = work.decode(part)
        facts.count(last, plan.keys, plan.kept)
    if last is not None:
        segments = decoder.segments() if isinstance(decoder, FollowsLog) else None
        facts.source_log = [] if segments is None else [segments]
        yield _with_last(last, segments, pickle.dumps(facts))


def _with_last(part: pa.RecordBatch, segments: str | None, facts: bytes | None) -> pa.RecordBatch:
    """The changes with `_source_log` and `_facts`, which only the last of them has."""
    before = part.num_rows - 1
    texts = pa.array([segments], pa.string()), pa.array([facts], pa.binary())
    last = [pa.concat_arrays([pa.nulls(before, text.type), text]) for text in texts]
    names = [*part.schema.names, "_source_log", FACTS]
    return pa.RecordBatch.from_arrays([*part.columns, *last], names=names)


def discover_batches(
    plan: DiscoveryPlan, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Looks for columns in records; `batches` have the columns `READ` and `_position`.

    Yields:
        One row: the task's discovery, pickled, and how many records it looked at.
    """
    discovery = PROTOCOLS[plan.table.format].discovery(plan.table, plan.columns)
    records = 0
    for part in _cut_slices(batches):
        records += part.num_rows
        with _without_collector():
            positions = part.column("_position").to_pylist()
            shown = _read_records(_with_values(part), plan)
            for record, position in zip(shown, positions, strict=True):
                discovery.look(record, position)
    columns = [pa.array([pickle.dumps(discovery)]), pa.array([records])]
    yield pa.RecordBatch.from_arrays(columns, names=["discovery", "records"])


def must_wait(plan: DiscoveryPlan, batches: Iterator[pa.RecordBatch]) -> bool:
    """Whether Debezium's records, with the columns `READ`, are to wait (see `waits_for_form`)."""
    if plan.table.format != "debezium":
        return False
    records = (one for part in batches for one in _read_records(_with_values(part), plan))
    return waits_for_form(plan.table, plan.columns, records)


def _cut_slices(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parts of the batches, each small enough to be held as Python objects."""
    for batch in batches:
        start = 0
        if batch.num_rows > MOST_ROWS or batch.get_total_buffer_size() > MOST_BYTES:
            parts = [pc.fill_null(pc.binary_length(batch.column(n)), 0) for n in ("_raw", "_key")]
            ends = np.cumsum(pc.add(*parts).to_numpy(zero_copy_only=False), dtype=np.int64)
            while batch.num_rows - start > 1:
                room = MOST_BYTES + (int(ends[start - 1]) if start else 0)
                fitting = int(np.searchsorted(ends, room, side="right")) - start
                size = min(max(fitting, 1), MOST_ROWS)
                if size >= batch.num_rows - start:
                    break
                yield batch.slice(start, size)
                start += size
        if start < batch.num_rows:
            yield batch.slice(start)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Switches garbage collection off: decoding makes many objects and no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _with_values(part: pa.RecordBatch) -> pa.RecordBatch:
    """The records with their values in `_raw`, also where bronze keeps a whole record."""
    if not pc.any(part.column("_whole")).as_py():
        return part
    given = zip(part.column("_raw").to_pylist(), part.column("_whole").to_pylist(), strict=True)
    values = [value_inside(raw) if whole and raw else raw for raw, whole in given]
    place = part.schema.get_field_index("_raw")
    return part.set_column(place, "_raw", pa.array(values, part.column("_raw").type))


def _read_records(part: pa.RecordBatch, plan: DiscoveryPlan) -> Iterator[Record]:
    records = map(Record, *[part.column(name).to_pylist() for name in OF_RECORD])
    schemas = plan.columns.schemas
    if any(feed.value_format == "json" for feed in plan.table.feeds):
        records = map(_without_frames, records, repeat(schemas))
    if not schemas:
        yield from records
    while some := list(islice(records, READ_AHEAD)):
        read_ahead(some, schemas, plan.table.format == "debezium")
        yield from some


def _without_frames(record: Record, schemas: Mapping[str, str]) -> Record:
    """The record with its value and key out of a serializer's frame, if they are no Avro."""
    raw, key = record.raw, record.key
    if raw and raw[0] in _FRAMES and not _is_avro(raw, "value", record.headers, schemas):
        record.raw = strip_frame(raw)
    if key and key[0] in _FRAMES and not _is_avro(key, "key", record.headers, schemas):
        record.key = strip_frame(key)
    return record


def _is_avro(data: bytes, part: Part, headers: bytes | None, schemas: Mapping[str, str]) -> bool:
    """Whether a key or value is of a schema that bronze keeps."""
    id_and_start = avro_schema_id(data, part, headers) if schemas else None
    return id_and_start is not None and id_and_start[0] in schemas


class _Work:
    """Decodes slices."""

    def __init__(self, plan: DecodePlan, decoder: Decoder) -> None:
        self._plan, self._output, self._decoder = plan, _Output(plan), decoder

    def decode(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """The changes of a slice's records, in the same order."""
        records = Slice(_with_values(part), OF_RECORD, partial(_read_records, plan=self._plan))
        return self._output.batch(part, self._read_all(records))

    def _read_all(self, records: Slice) -> ReadPart:
        """Reads all records; an error that nobody foresaw costs the record that it lies in."""
        try:
            return self._decoder.read(records)
        except Exception as error:  # a defect must cost one record, never the task with all others
            if records.part.num_rows > 1:
                singles = enumerate(records.split())
                return join_parts([_at_place(self._read_all(one), at) for at, one in singles])
            message = valid_text(describe_failure(error))
            letter = {"_reason": BAD_VALUE, "_message": message}
            return ReadPart([0], {name: pa.array([text]) for name, text in letter.items()})


def _at_place(read: ReadPart, at: int) -> ReadPart:
    return read._replace(places=[at] * len(read.places))


class _Output:
    """Makes Arrow batches of changes."""

    def __init__(self, plan: DecodePlan) -> None:
        self.plan = plan
        columns = [(f.name, arrow_type(f.dataType)) for f in plan.schema.fields]
        self.fields = [pa.field(*one) for one in (*columns, *CHANGE_FIELDS.items())]
        self.of_rejected = ("_raw",) if plan.table.format == "snapshot" else OF_REJECTED

    def batch(self, part: pa.RecordBatch, read: ReadPart) -> pa.RecordBatch:
        """The batch of the changes of `part`, in the same order."""
        if len(read.places) > part.num_rows:
            part = _repeat_records(part, read.places)
        count = part.num_rows
        columns = [
            read.columns[field.name] if field.name in read.columns else pa.nulls(count, field.type)
            for field in self.fields
        ]
        names = list(dict.fromkeys((*CARRIED, *OF_REJECTED)))
        carried = {name: part.column(name) for name in names}
        if not self.plan.keeps_raw:
            reasons = read.columns.get("_reason", pa.nulls(count))
            carried |= {n: _keep_valid(carried[n], reasons) for n in self.of_rejected}
        names = [*[field.name for field in self.fields], *names]
        return pa.RecordBatch.from_arrays([*columns, *carried.values()], names=names)


def _repeat_records(part: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
    """The records at these places; changes of one record have a number behind their `_arrival`."""
    taken, numbered = part.take(pa.array(places)), list[str]()
    before, number = -1, 0
    for at, arrival in zip(places, taken.column("_arrival").to_pylist(), strict=True):
        number = number + 1 if at == before else 0
        before = at
        numbered.append(f"{arrival}{ROW_MARK}{number:06X}" if number else arrival)
    place = taken.schema.get_field_index("_arrival")
    return taken.set_column(place, "_arrival", pa.array(numbered, pa.string()))


def _keep_valid(values: pa.Array, where: pa.Array) -> pa.Array:
    """The values where another column has one; else null."""
    if where.null_count == len(where):
        return pa.nulls(len(values), values.type)
    return pc.if_else(where.is_valid(), values, pa.scalar(None, values.type))
