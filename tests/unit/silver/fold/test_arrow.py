"""The fold over record batches: types of values and keys, cuts, and memory."""

import pickle
import resource
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from silver.fold.arrow import FoldPlan, fold_batches
from silver.fold.order_key import make_order
from silver.fold.rules import FoldRules
from tests.helpers.fold_lake import split_counts

TIME = pa.timestamp("us", "UTC")
NAN = float("nan")
PAGE = resource.getpagesize()
LATE = datetime(2024, 1, 1, 10, tzinfo=timezone.utc)


def table(ids: pa.Array, values: pa.Array, deletes: tuple[int, ...] = ()) -> pa.Table:
    """New changes, each at the next sequence, with one column `v`."""
    size = len(ids)
    columns = {
        "id": ids,
        "v": values,
        "_order": pa.array([_order(n) for n in range(size)], pa.binary()),
        "_operation": pa.array(["delete" if n in deletes else "upsert" for n in range(size)]),
        "_digest": pa.array(range(size), pa.int64()),
        "_source_time": pa.array([n * 1_000_000 for n in range(size)], TIME),
        "_new": pa.array([True] * size),
    }
    return pa.table(columns)


def _order(sequence: int) -> bytes:
    return make_order(f"{sequence:016X}", "0A")


def plan(history: bool = False, keys: tuple[str, ...] = ("id",)) -> FoldPlan:
    return FoldPlan(FoldRules(("v",), tracked=("v",)), keys, history)


def folded(rows: pa.Table, chosen: FoldPlan, size: int = 3) -> list[dict[str, Any]]:
    return counted(rows, chosen, size)[0]


def counted(
    rows: pa.Table, chosen: FoldPlan, size: int
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    batches = rows.to_batches(max_chunksize=size)
    found = [row for part in fold_batches(chosen, iter(batches)) for row in part.to_pylist()]
    return split_counts(found)


VALUES = {
    "text": (pa.string(), "x", "y"),
    "binary": (pa.binary(), b"x", b"y"),
    "whole": (pa.int16(), 1, 2),
    "double": (pa.float64(), 1.5, 2.5),
    "float": (pa.float32(), 1.5, 2.5),
    "decimal": (pa.decimal128(12, 2), Decimal("1.50"), Decimal("2.50")),
    "flag": (pa.bool_(), True, False),
    "date": (pa.date32(), LATE.date(), datetime(2024, 2, 2, tzinfo=timezone.utc).date()),
    "time": (TIME, LATE, datetime(2024, 2, 2, tzinfo=timezone.utc)),
    "list": (pa.list_(pa.int32()), [1, 2], [2, 1]),
    "struct": (pa.struct([("a", pa.int32())]), {"a": 1}, {"a": 2}),
    "map": (pa.map_(pa.string(), pa.int32()), [("a", 1)], [("a", 2)]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_pass_and_are_compared(name: str) -> None:
    type, one, other = VALUES[name]
    values = pa.array([one, one, None, None, other], type)
    rows = table(pa.array([1] * 5), values)
    (current,) = folded(rows, plan())
    assert current["v"] == other
    shown = [row["v"] for row in folded(rows, plan(history=True)) if row["_shown"]]
    assert shown == [one, None, other]


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()])
def test_nan_equals_nan_and_zero_equals_minus_zero(type: pa.DataType) -> None:
    values = pa.array([NAN, NAN, 0.0, -0.0], type)
    rows = folded(table(pa.array([1] * 4), values), plan(history=True))
    shown = sorted((row["_order"], row["v"]) for row in rows if row["_shown"])
    assert [str(value) for _, value in shown] == ["nan", "-0.0"]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("history", [False, True])
def test_null_is_a_key_and_keys_cross_record_batches(size: int, history: bool) -> None:
    ids = pa.array([None, None, 1, 1, 1, 2], pa.int32())
    rows, counts = counted(table(ids, pa.array(list("abcdef"))), plan(history), size)
    newest = {row["id"]: row["v"] for row in rows if not history or row["_is_current"]}
    assert newest == {None: "b", 1: "e", 2: "f"}
    assert counts == {
        "inserted": 3, "updated" if history else "superseded": 3, "rows": 6 if history else 3
    }  # fmt: skip


def test_keys_of_several_columns_differ_where_any_of_them_does() -> None:
    rows = table(pa.array([1, 1, 1, 2]), pa.array(list("abcd")))
    rows = rows.append_column("shard", pa.array(["x", "x", "y", "y"]))
    found = folded(rows, plan(keys=("id", "shard")))
    assert [(row["id"], row["shard"], row["v"]) for row in found] == [
        (1, "x", "b"), (1, "y", "c"), (2, "y", "d"),
    ]  # fmt: skip


def test_only_tombstones_have_a_source_time() -> None:
    rows = folded(table(pa.array([1, 2]), pa.array(["a", "b"]), deletes=(1,)), plan())
    assert [row["_source_time"] is not None for row in rows] == [False, True]


@pytest.mark.parametrize("history", [False, True])
def test_the_output_has_the_columns_of_the_plan_in_their_types(history: bool) -> None:
    chosen = plan(history)
    found, counts = fold_batches(chosen, iter(table(pa.array([1]), pa.array(["a"])).to_batches()))
    assert counts.schema == found.schema
    types = {
        "binary": pa.binary(), "boolean": pa.bool_(), "bigint": pa.int64(),
        "string": pa.string(), "timestamp": TIME, "array<string>": pa.list_(pa.string()),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }  # fmt: skip
    assert found.schema.names == ["id", "v", *(name for name, _ in chosen.output)]
    for name, type in chosen.output:
        assert found.schema.field(name).type == types.get(type, found.schema.field(name).type)


@pytest.mark.parametrize("history", [False, True])
def test_no_rows_give_no_rows(history: bool) -> None:
    empty = table(pa.array([], pa.int32()), pa.array([], pa.string()))
    batch = pa.RecordBatch.from_pylist([], empty.schema)
    assert list(fold_batches(plan(history), iter([batch, batch]))) == []
    assert list(fold_batches(plan(history), iter([]))) == []


def test_a_plan_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(plan(True))) == plan(True)


def hot_key(changes: int, partial: bool) -> Iterator[pa.RecordBatch]:
    """So many changes of one key, 10,000 in a record batch."""
    size = 10_000
    like = table(pa.array([1] * size), pa.array([f"value {n % 7}" for n in range(size)]))
    absent = pa.array([["v"] if n % 3 == 0 else None for n in range(size)])
    for begin in range(0, changes, size):
        orders = pa.array([_order(n) for n in range(begin, begin + size)], pa.binary())
        digests = pa.array(range(begin, begin + size), pa.int64())
        rows = like.set_column(2, "_order", orders).set_column(4, "_digest", digests)
        rows = rows.append_column("_absent", absent) if partial else rows
        yield rows.combine_chunks().to_batches()[0]


@pytest.mark.parametrize("changes", [50_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("history", [False, True])
def test_a_hot_key_costs_time_and_no_memory(changes: int, partial: bool, history: bool) -> None:
    rows, resident = 0, []

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in hot_key(changes, partial):
            resident.append(_resident_bytes())
            yield batch

    for part in fold_batches(plan(history), watched()):
        rows += part.num_rows
    assert rows == (changes if history else 1) + 1
    begun = resident[:10]
    assert max(resident) < max(begun) + 30_000_000


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * PAGE
