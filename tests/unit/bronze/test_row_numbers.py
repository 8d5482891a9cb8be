"""The numbers of rows in the splits that a task reads one after the other."""

import pandas as pd
import pytest

from bronze.files.row_numbers import number_rows


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[5, 5, 7]], [[0, 1, 0]]),
        ([[5], [5, 5], [5]], [[0], [1, 2], [3]]),
        ([[5, 5], [7, 7], [7, 9, 9]], [[0, 1], [0, 1], [2, 0, 1]]),
        ([[5], [], [5]], [[0], [], [1]]),
        ([[0]], [[0]]),
        ([], []),
    ],
)
def test_rows_count_from_0_in_each_split_over_all_batches(
    batches: list[list[int]], expected: list[list[int]]
) -> None:
    splits = (pd.Series(batch, dtype="int64") for batch in batches)
    assert [list(rows) for rows in number_rows(splits)] == expected
