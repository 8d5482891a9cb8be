"""What a task says of its changes: the same however they are cut into batches."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from silver.decode.facts import COUNTED, Facts, Rows, count_batches, read_facts

TYPES = {
    "_absent": pa.list_(pa.string()), "_mismatched": pa.bool_(), "_snapshot_last": pa.bool_(),
    "_source_time": pa.timestamp("us", tz="UTC"), "_partition": pa.int32(), "_offset": pa.int64(),
    "id": pa.int64(), "day": pa.date32(), "name": pa.string(),
}  # fmt: skip
KEYS = ["id", "name"]

Row = Mapping[str, Any]


def streamed(at: int, operation: str | None = "upsert", **given: object) -> Row:
    """A change at a place of the stream; its key is the place."""
    where = {"_topic": "t", "_partition": 0, "_offset": at, "_arrival": f"{at:08X}"}
    own = {"id": at, "name": f"n{at}", "_sequence": f"{at:016X}", "_source_time": 1_000 * at}
    return {"_operation": operation} | where | own | given


def dead(at: int, reason: str, **given: object) -> Row:
    return streamed(at, None, **{"_reason": reason, "id": 99, **given})


def taken(at: int, snapshot: str, **given: object) -> Row:
    return streamed(at, _snapshot=snapshot, **{"_sequence": f"{1:016X}", **given})


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    names = [*COUNTED, *KEYS]
    arrays = [pa.array([r.get(n) for r in rows], TYPES.get(n, pa.string())) for n in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def facts(*parts: Sequence[Row], kept: frozenset[str] | None = None) -> Facts:
    """The facts of one task that got these batches."""
    found = Facts()
    for rows in parts:
        found.count(batch(rows), KEYS, kept)
    return found


MIXED = [
    streamed(5, _absent=["a"], _old_key="{}"),
    streamed(6, "delete", _mismatched=True),
    streamed(3, _absent=["b", "a"]),
    streamed(7, "truncate"),
    streamed(0, "none", _sequence=None),
    dead(1, "no_key"),
    dead(2, "no_key", _sequence=None),
    dead(8, "bad_value"),
]


def test_changes_are_counted_by_what_they_are() -> None:
    found = facts(MIXED)
    counts = (found.records, found.changes, found.truncates, found.without_change)
    assert counts == (8, 3, 1, 1)
    assert (found.incomplete, found.key_changes, found.mismatched) == (2, 1, 1)
    assert found.rejected == {"no_key": 2, "bad_value": 1}
    assert (found.partial, found.oldest) == ({"a", "b"}, f"{3:016X}")
    assert found.keys == {"id": (3, 6), "name": ("n3", "n6")}


def test_only_columns_that_the_table_keeps_count_as_not_carried() -> None:
    found = facts(MIXED, kept=frozenset("b"))
    assert (found.incomplete, found.key_changes, found.partial) == (1, 0, {"b"})


def test_rows_of_the_stream_have_the_ends_of_their_order() -> None:
    ends = (f"{3:016X}", f"{3:08X}"), (f"{6:016X}", f"{6:08X}")
    first = f"{3:020d}"
    assert facts(MIXED).rows == {(None, "t/0"): Rows(first, 1_000, False, *ends)}


def test_of_equal_sequences_the_arrival_decides() -> None:
    rows = [streamed(at, _sequence="0" * 16) for at in (4, 2, 9)]
    seen = facts(rows).rows[None, "t/0"]
    assert (seen.lowest, seen.highest) == (("0" * 16, f"{2:08X}"), ("0" * 16, f"{9:08X}"))


def test_snapshots_are_told_apart_and_a_dead_last_row_ends_one() -> None:
    rows = [
        taken(3, "s:1"),
        dead(4, "bad_value", _snapshot="s:1", _snapshot_last=True, _source_time=5),
        taken(6, "s:2", _partition=None, _offset=None),
        dead(1, "no_key", _snapshot="s:3"),
        streamed(2),
    ]
    found = facts(rows).rows
    assert set(found) == {("s:1", "t/0"), ("s:2", ""), ("s:3", "t/0"), (None, "t/0")}
    assert found["s:1", "t/0"][:3] == (f"{3:020d}", 5, True)
    assert found["s:2", ""][:3] == (f"{6:08X}", 6_000, False)
    assert found["s:3", "t/0"] == Rows(None, 1_000, False, None, None)


@pytest.mark.parametrize("cuts", [(1,), (3, 5), (2, 2, 6), (0, 8)])
def test_batches_and_tasks_add_up(cuts: Sequence[int]) -> None:
    rows = [*MIXED, taken(10, "s:1", _topic=None), taken(11, "s:2"), taken(12, "s:1")]
    bounds = [0, *cuts, len(rows)]
    parts = [rows[begin:end] for begin, end in pairwise(bounds)]
    assert facts(*parts) == facts(rows)
    assert reduce(Facts.joined, [facts(part) for part in parts], Facts()) == facts(rows)


def test_a_query_of_the_log_counts_as_the_tasks_do() -> None:
    [found] = count_batches(KEYS, iter([batch(MIXED[:3]), batch(MIXED[3:])]))
    assert read_facts(found.column(0).to_pylist()) == facts(MIXED)


def test_nothing_is_known_of_no_records() -> None:
    assert facts([]) == Facts(keys=dict.fromkeys(KEYS, (None, None)))


@pytest.mark.parametrize(
    ("parts", "distinct"),
    [
        ([[streamed(1), streamed(2)], [streamed(5), streamed(7)]], True),
        ([[streamed(5), streamed(7)], [streamed(1), streamed(2)]], True),
        ([[streamed(1), streamed(5)], [streamed(3)]], False),
        ([[streamed(1), streamed(1)]], False),
        ([[streamed(1)], [streamed(1)]], False),
        ([[streamed(2), streamed(1)]], True),
        ([[streamed(5), streamed(6), streamed(1), streamed(2), streamed(7)]], False),
        ([[streamed(5), streamed(6), streamed(1), streamed(2)], [streamed(3)]], True),
        ([[streamed(at) for at in range(300, 0, -1)]], False),
        ([[streamed(1), streamed(2, "delete")]], False),
        ([[streamed(1), streamed(2, _absent=["a"])]], False),
        ([[streamed(2), dead(3, "no_key"), streamed(4, "none"), streamed(5)]], True),
        ([[streamed(4, "none")]], False),
    ],
)
def test_keys_that_rise_in_runs_that_do_not_meet_are_distinct(
    parts: list[list[Row]], distinct: bool
) -> None:
    assert facts(*parts).distinct is distinct
    assert reduce(Facts.joined, map(facts, parts)).distinct is distinct
