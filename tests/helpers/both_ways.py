"""Records decoded together, and one by one, as a Spark task does it; without Spark."""

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode import slices
from silver.decode.arrow import CARRIED, READ, DecodePlan, decode_batches
from silver.decode.columns import Columns
from silver.decode.protocols import slices as flat_slices
from silver.decode.types import carrier_type

TYPES = {
    "_raw": pa.binary(), "_key": pa.binary(), "_headers": pa.binary(), "_whole": pa.bool_(),
    "_partition": pa.int32(), "_offset": pa.int64(), "_batch": pa.int64(),
    "_timestamp": pa.int64(), "_arrived_at": pa.int64(), "_line": pa.int64(),
}  # fmt: skip


def batch(records: Iterable[Mapping[str, Any]], file: str | None = None) -> pa.RecordBatch:
    beside = {"_arrived_at": 5, "_feed": "f", "_batch": 1, "_path": "p", "_line": 3, "_file": file}
    rows = [
        {"_whole": False, "_arrival": f"{at:020d}", "_position": str(at)} | beside | record
        for at, record in enumerate(records)
    ]
    names = [*dict.fromkeys((*READ, *CARRIED, "_position"))]
    arrays = [pa.array([r.get(n) for r in rows], TYPES.get(n, pa.string())) for n in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def both_ways(
    of: Table, columns: Columns, records: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[dict[str, Any]]]:
    """What records become together, and each alone: Debezium's in one slice, flat rows in many."""
    schema = T.StructType(
        [T.StructField(f.name, carrier_type(f.dataType)) for f in columns.schema()]
    )
    plan = DecodePlan(of, columns, schema, True)
    singles = [records.slice(at, 1) for at in range(records.num_rows)]
    monkeypatch.setattr(flat_slices, "SAMPLE", 1)
    for fewest, batches in ((1, [records]), (1 << 30, singles)):
        monkeypatch.setattr(slices, "FEWEST", fewest)
        given = [records] if of.format == "debezium" else batches
        parts = decode_batches(plan, iter(given))
        yield [row for part in parts for row in pa.table(counted(part)).to_pylist()]


def counted(part: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns with times and dates as numbers, as Python has none after the year 9999."""
    counted = {}
    for name, column in zip(part.schema.names, part.columns, strict=True):
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        counted[name] = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return counted


def _spell_facts(pickled: bytes | None) -> str:
    """A task's facts but for the segments of the source's log, whose order may differ."""
    facts = {**vars(pickle.loads(pickled))} if pickled else {"partial": ()}
    return repr(facts | {"partial": sorted(facts["partial"]), "source_log": None})


def same(by_columns: list[dict[str, Any]], alone: list[dict[str, Any]]) -> None:
    assert len(by_columns) == len(alone)
    for one, other in zip(by_columns, alone, strict=True):
        for each in (one, other):
            each["_source_log"] = sorted(json.loads(each["_source_log"] or "[]"), key=repr)
            each["_facts"] = _spell_facts(each["_facts"])
        differing = [name for name in one if repr(one[name]) != repr(other[name])]
        assert {n: one[n] for n in differing} == {n: other[n] for n in differing}, other["_raw"]
        assert not differing, other["_raw"]
