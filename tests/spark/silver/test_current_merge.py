"""What the write of a current table leaves as it is, and what it counts."""

import os
from itertools import count
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row

from lakehouse.storage.lake import Lake
from silver.changelog.batch import Batch
from silver.fold import spark as folding
from silver.fold.order_key import make_order
from silver.fold.spark import Counts
from silver.merge import counted, current
from silver.state.table_state import TableState
from silver.table_run import TableResult as Pass
from tests.helpers import core
from tests.helpers.oracle import Event

WHOLE = (("a", "a"), ("b", "b"))


def row(lake: Lake) -> Row:
    (found,) = lake.spark.table(lake.name("silver", "t")).collect()
    return found


def runs(lake: Lake, batches: list[list[Event]]) -> list[Pass]:
    """One run for each batch of events."""
    seen, arrival, done = TableState(), count(1), list[Pass]()
    for batch in batches:
        delivered = [(event, next(arrival)) for event in batch]
        done.append(core.one_pass(lake, core.table(), seen, delivered))
        seen = done[-1].state
    return done


@pytest.mark.slow
def test_a_late_delete_is_noted_beside_a_live_row_whose_values_stay(lake: Lake) -> None:
    upsert, delete = Event("upsert", 5, 1, WHOLE), Event("delete", 3, 1)
    (_, late) = runs(lake, [[upsert], [delete]])
    found = row(lake)
    assert (found["a"], found["b"], found["_deleted"]) == ("a", "b", False)
    removed = make_order(f"{1:016X}/{3:016X}", f"{2:08X}")
    assert bytes(found["_facts"]["removed"]) == removed
    assert late.counts == {"records": 1, "superseded": 1}


def test_a_tombstone_keeps_no_values_of_the_row(lake: Lake) -> None:
    (_, deleted) = runs(lake, [[Event("upsert", 1, 1, WHOLE)], [Event("delete", 2, 1)]])
    found = row(lake)
    assert (found["a"], found["b"], found["_deleted"]) == (None, None, True)
    assert found["_source_time"] is not None
    assert deleted.counts == {"records": 1, "deleted": 1}


@pytest.mark.slow
def test_counts_are_right_where_a_merge_may_compute_its_source_again(lake: Lake) -> None:
    elsewhere = lake.target.model_copy(update={"kind": "connect"})
    first, again = Event("upsert", 1, 1, WHOLE), Event("upsert", 3, 1, WHOLE)
    new, older = Event("upsert", 2, 2, WHOLE), Event("upsert", 2, 1, WHOLE)
    (_, second) = runs(Lake(lake.spark, elsewhere), [[first], [again, new, older]])
    assert second.counts == {"records": 3, "inserted": 1, "updated": 1, "superseded": 1}
    staged = lake.spark.table(lake.name("silver", f"t{counted.FOLDED}")).collect()
    assert sorted(r["id"] for r in staged) == [1, 2]


def test_a_first_load_of_many_rows_is_written_in_several_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silver.merge.counted._LARGE_BATCH", 100)
    runs(lake, [[Event("upsert", key, key, WHOLE) for key in range(300, 0, -1)]])
    detail = lake.spark.sql(f"DESCRIBE DETAIL {lake.name('silver', 't')}").collect()[0]
    assert lake.target.kind != "local" or detail["numFiles"] == 2 * (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("events", "folds"),
    [
        ([Event("upsert", key, key, WHOLE) for key in (2, 3, 1)], False),
        ([Event("upsert", 1, 1, WHOLE), Event("delete", 2, 2)], True),
        *(
            pytest.param(events, folds, marks=pytest.mark.slow)
            for events, folds in (
                ([Event("upsert", key, key, WHOLE) for key in range(1, 5)], False),
                ([Event("upsert", 9 - key, key, WHOLE) for key in range(1, 5)], False),
                ([Event("upsert", key, key, WHOLE) for key in (1, 2, 2, 3)], True),
                ([Event("upsert", 1, 1, WHOLE), Event("upsert", 2, 2, (("a", "a"),))], True),
            )
        ),
    ],
)
def test_a_first_load_of_rising_keys_is_written_as_the_fold_would_write_it(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    events: list[Event],
    folds: bool,
) -> None:
    seen, folded = list[Batch](), list[Batch]()

    def watch(batch: Batch, *given: Any) -> DataFrame:
        folded.append(batch)
        return first_rows(batch, *given)

    def write(batch: Batch) -> Counts:
        seen.append(batch)
        return write_current(batch)

    first_rows, write_current = current.first_rows, current.write_current
    monkeypatch.setattr(current, "first_rows", watch)
    monkeypatch.setattr("silver.table_run.write_current", write)
    (loaded,) = runs(lake, [events])
    assert bool(folded) is folds
    kept = lake.spark.table(lake.name("silver", "t"))
    again = folding.count(first_rows(seen[0], ["a", "b"]))
    assert again.rows.select(kept.columns).orderBy("id").collect() == kept.orderBy("id").collect()
    assert again.counts.outcomes.items() <= loaded.counts.items()
