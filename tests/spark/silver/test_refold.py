"""The whole log folded anew: a full snapshot that began before what is applied already."""

from typing import Any

import pytest

from lakehouse.storage.lake import Lake
from silver.changelog.batch import Batch, Reach
from silver.fold.spark import Counts
from silver.state.table_state import TableState
from silver.table_run import write_batch
from tests.helpers import core, lakes, oracle
from tests.helpers.builders import table
from tests.helpers.oracle import Event


def record(offset: int, op: str, text: str, snapshot: str = "false") -> dict[str, Any]:
    """A whole record of one row; the snapshot's rows share a place in the write-ahead log."""
    lsn = 100 if op == "r" else 100 + offset
    source = {"connector": "postgresql", "snapshot": snapshot, "lsn": lsn, "ts_us": lsn}
    value = {"before": None, "after": {"id": offset % 10, "text": text}, "source": source, "op": op}
    return {"topic": "s.t", "partition": 0, "offset": offset, "key": None, "value": value}


@pytest.mark.slow
def test_a_table_without_dead_letters_gets_none_when_it_is_folded_anew(lake: Lake) -> None:
    config = table("debezium", ["id"], {"topic": "s.t"}, columns={"id": "int", "text": "string"})
    lakes.arrive(lake, config, [record(11, "u", "newest")], whole=True)
    lakes.settle(lake, [config])
    taken = [record(1, "r", "old", "first"), record(2, "r", "b", "last")]
    lakes.arrive(lake, config, taken, batch=2, whole=True)
    lakes.settle(lake, [config])
    found = {row["id"]: row["text"] for row in lakes.rows(lake, "t")}
    assert found == {1: "newest", 2: "b"}
    assert not lake.exists("silver", "t_dead_letters")


BROKEN_OFF = [
    Event("upsert", 1, 3, (("a", "before"), ("b", "x")), position=1, time=1),
    Event("upsert", 90, 1, (("a", "s1"), ("b", "x")), None, 2, 2, snapshot="s:90"),
    Event("upsert", 91, 1, (("a", "v1"), ("b", "x")), position=9, time=9),
]
TAKEN_AGAIN = Event("upsert", 95, 2, (("a", "s2"), ("b", "y")), None, 12, 12, "s:95", last=True)


@pytest.mark.slow
@pytest.mark.parametrize("scd", [1, 2])
def test_a_snapshot_that_was_broken_off_removes_nothing_though_the_stream_goes_on(
    lake: Lake, scd: int
) -> None:
    """A connector that is restarted in a blocking snapshot goes on without it."""
    config, events = core.table(scd), [*BROKEN_OFF, TAKEN_AGAIN]
    for begin, upto in ((0, 3), (3, 4)):
        core.deliver(lake, config, events[begin:upto], begin, int(begin > 0))
        want = oracle.outcome({*events[:upto]}, core.COLUMNS, core.COLUMNS)
        got = core.outcome(lake, config)
        assert got.current == want.current
        assert scd == 1 or got.history == want.history


@pytest.mark.slow
@pytest.mark.parametrize(("first", "left"), [(1, "a"), ("no number", "gone since")])
def test_a_last_row_that_is_a_dead_letter_ends_its_snapshot_if_any_row_of_it_is_sound(
    lake: Lake, first: object, left: str
) -> None:
    config = table("debezium", ["id"], {"topic": "s.t"}, columns={"id": "int", "text": "string"})
    lakes.arrive(lake, config, [record(3, "c", "gone since")], whole=True)
    lakes.settle(lake, [config])
    last = record(12, "r", "b", "last_in_data_collection")
    last["value"]["after"]["id"] = "no number"
    taken = [record(11, "r", "a", "first_in_data_collection"), last]
    taken[0]["value"]["after"]["id"] = first
    lakes.arrive(lake, config, taken, batch=2, whole=True)
    done = lakes.settle(lake, [config])
    assert [row["text"] for row in lakes.rows(lake, "t")] == [left]
    assert done[0].counts.get("snapshots") == (1 if left == "a" else None)


MOVED = [
    Event("upsert", 10, 1, (("a", "v"), ("b", "x"))),
    Event("delete", 21, 2),
    Event("upsert", 22, 3, (("a", "m"),), old_key=2),
]
REACHES_BACK = Event("upsert", 20, 2, (("a", "late"), ("b", "y")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scd", "lost", "again"),
    [
        (1, "superseded", 9),
        (2, "late", 1),
        (1, "superseded", 1),
        (2, "late", 9),
    ],
)
def test_a_change_that_came_twice_is_a_duplicate_where_the_log_is_folded_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, scd: int, lost: str, again: int
) -> None:
    """It arrives after the one that is applied; or before it, as a dead letter that is replayed."""
    config, seen, found = core.table(scd), TableState(), dict[str, int]()
    batches = [[*zip(MOVED, (5, 6, 7), strict=True)], [(MOVED[0], again), (REACHES_BACK, 8)]]
    anew: list[bool] = []

    def write(batch: Batch) -> Counts:
        anew.append(batch.reach is Reach.LOG)
        return write_batch(batch)

    monkeypatch.setattr("silver.table_run.write_batch", write)
    for batch in batches:
        done = core.one_pass(lake, config, seen, batch)
        seen, found = done.state, done.counts
    assert anew == [False, True]
    assert found == {"records": 2, "duplicate": 1, lost: 1}
    got = core.outcome(lake, config)
    assert got.current == {1: {"a": "v", "b": "x"}, 3: {"a": "m", "b": "y"}}
