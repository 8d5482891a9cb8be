"""Which offsets were skipped, from the runs of consecutive ones in each batch."""

import pytest

from bronze.loss.holes import OffsetRun, find_skipped


@pytest.mark.parametrize(
    ("runs", "after", "skipped"),
    [
        ([(1, 5, 6), (2, 7, 9)], 1, []),
        ([(1, 5, 6), (2, 9, 10)], 1, [(7, 8)]),
        ([(1, 5, 6), (1, 9, 10), (2, 11, 11)], 1, []),
        ([(1, 1, 1), (1, 4, 4), (2, 2, 2)], 0, [(2, 3)]),
        # the topic was created again: in the last batch, among new ones, and before them
        ([(1, 99, 99), (2, 0, 5)], 1, []),
        ([(1, 50, 99), (2, 0, 5), (3, 6, 7)], 0, []),
        ([(1, 50, 99), (2, 0, 5), (3, 7, 7)], 0, [(6, 6)]),
        ([(2, 5, 5), (2, 99, 99), (3, 7, 8)], 2, [(6, 6)]),
        ([(2, 5, 5), (2, 99, 99), (3, 6, 120)], 2, []),
        # a redelivery: what came before it still counts
        ([(1, 1, 10), (2, 3, 4), (3, 11, 12)], 0, []),
        ([(2, 4, 4), (2, 10, 10), (3, 11, 12)], 2, []),
    ],
)
def test_only_a_jump_upward_from_what_came_before_skips_offsets(
    runs: list[tuple[int, int, int]], after: int, skipped: list[tuple[int, int]]
) -> None:
    assert [*find_skipped((OffsetRun(*run) for run in runs), after)] == skipped
