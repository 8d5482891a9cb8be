import json

import pytest

from silver.fold.arrow import COUNTED
from silver.fold.spark import Counts, counts_of
from silver.merge.counted import correct_counts

ONCE = Counts({"inserted": 1, "updated": 2, "duplicate": 3}, 1, 3)
RESULT = {"num_updated_rows": 2, "num_inserted_rows": 1}


def test_what_was_counted_once_is_taken_as_it_is() -> None:
    assert correct_counts(ONCE, RESULT) == ONCE
    nothing = Counts({"superseded": 2}, 0, 0)
    assert correct_counts(nothing, {"num_updated_rows": 0, "num_inserted_rows": 0}) == nothing


@pytest.mark.parametrize("times", [2, 3])
def test_a_source_that_is_computed_several_times_is_counted_once(times: int) -> None:
    outcomes = {name: n * times for name, n in ONCE.outcomes.items()}
    assert correct_counts(Counts(outcomes, times, 3 * times), RESULT) == ONCE


def test_the_counts_of_all_tasks_are_added_and_what_did_not_occur_is_no_outcome() -> None:
    one = {**dict.fromkeys(COUNTED, 0), "inserted": 1, "rows": 3, "kept": 2, "ties": 1}
    other = {**dict.fromkeys(COUNTED, 0), "inserted": 1, "late": 1, "rows": 1}
    assert counts_of({"_counts": list(map(json.dumps, (one, other)))}) == Counts(
        {"inserted": 2, "late": 1}, 1, 4
    )
    assert counts_of({"_counts": [json.dumps(one)]}, leaves_kept=True) == Counts(
        {"inserted": 1}, 1, 1, 2
    )
    assert counts_of({"_counts": None}) == Counts({})
