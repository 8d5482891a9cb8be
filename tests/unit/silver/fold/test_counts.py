import pytest

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


def test_what_did_not_occur_is_no_outcome() -> None:
    seen = {"rows": 1, "left": 0, "_n_inserted": 1, "_n_updated": 0, "_n_late": None}
    seen |= dict.fromkeys(("_n_deleted", "_n_delete_unknown", "_n_superseded"), 0)
    assert counts_of(seen | {"_n_duplicate": 0, "_n_ties": None}) == Counts({"inserted": 1}, 0, 1)
