"""The benchmarks: generated changes, the truth about them, and what counts as wrong."""

import itertools
import json

import polars as pl
import pytest

from benchmarks.events import Keys, Workload, batches, columns, key_columns, lines, snapshot
from benchmarks.picture import svg
from benchmarks.result import Line, Result, table
from benchmarks.truth import truth, wrong

SMALL = Workload(rows=2000, changes=1600)
Row = dict[str, object]


def stream(work: Workload, count: int = 4) -> list[pl.DataFrame]:
    return [snapshot(work), *itertools.islice(batches(work), count)]


def replayed(work: Workload, parts: list[pl.DataFrame]) -> dict[tuple[object, ...], Row]:
    """The rows a single reader ends with who sorts all events by LSN and applies them in turn."""
    events = [json.loads(line) for part in parts for line in lines(work, part)]
    rows: dict[tuple[object, ...], Row] = {}
    for event in sorted(events, key=lambda event: event["source"]["lsn"]):
        image = event["before"] if event["op"] == "d" else event["after"]
        key = tuple(image[column.name] for column in key_columns(work))
        rows.pop(key, None)
        if event["op"] != "d":
            rows[key] = event["after"]
    return rows


def test_the_same_workload_is_the_same_events() -> None:
    once, again = (pl.concat(stream(SMALL)[1:]) for _ in range(2))
    assert once.equals(again)


def test_a_batch_has_its_size_repeats_and_every_kind_of_change() -> None:
    for batch in stream(SMALL)[1:]:
        assert batch.height == SMALL.changes
        assert set(batch["op"]) == {"c", "u", "d"}
        assert batch.select(pl.struct("row", "lsn").is_duplicated().any()).item()
        assert not batch["lsn"].is_sorted()


def test_a_batch_to_which_many_come_late_repeats_none() -> None:
    few = Workload(rows=1000, changes=50)
    sizes = [batch.height for batch in itertools.islice(batches(few), 20)]
    assert min(sizes) == few.changes < max(sizes)


def test_some_updates_arrive_after_the_delete_that_overtook_them() -> None:
    _, first, second, *_ = stream(SMALL)
    gone = first.filter(pl.col("op") == "d").select("row", deleted="lsn")
    late = second.filter(pl.col("op") == "u").join(gone, on="row")
    assert late.filter(pl.col("lsn") < pl.col("deleted")).height > 0


def test_hot_keys_get_their_share_of_the_updates() -> None:
    _, batch = stream(SMALL._replace(hot=0.8), 1)
    updates = batch.filter(pl.col("op") == "u")
    assert updates.filter(pl.col("row") < SMALL.rows // 50).height > updates.height * 0.7


@pytest.mark.parametrize("keys", ["number", "text", "composite"])
def test_the_truth_is_what_a_single_reader_computes(keys: Keys) -> None:
    work = SMALL._replace(keys=keys, width=12)
    parts = stream(work)
    found = truth(work, parts)
    expected = list(replayed(work, parts).values())
    assert wrong(work, found, pl.DataFrame(expected, infer_schema_length=None)) == 0
    assert found.width == len(columns(work)) == 12


def test_missing_extra_different_and_repeated_rows_are_wrong() -> None:
    right = truth(SMALL, stream(SMALL))
    different = right[:2].with_columns(quantity=pl.lit(-1, pl.Int32))
    unknown = right[:1].with_columns(id=pl.lit(-1, pl.Int64))
    found = pl.concat([different, right[3:], right[10:11], unknown])
    assert wrong(SMALL, right, right) == 0
    assert wrong(SMALL, right, found) == 2 + 1 + 1 + 1


def test_a_result_shows_its_median_and_its_wrong_rows() -> None:
    shown = [Line("one", [1.0, 3.0, 2.0], 0), Line("<two>", [4.0], 1200)]
    result = Result("apply", "How long?", "rows", "python -m benchmarks apply", "here", shown)
    assert "| <two> | 4.00 | 4.00 | 4.00 to 4.00 | 2.00 | **1,200** |" in table(shown)
    picture = svg(result)
    assert "&lt;two&gt;" in picture
    assert "1,200 wrong rows" in picture
    assert "2.00 s" in picture
