"""Equal rows at one place in order are as many as one delivery brought, however it is cut."""

from collections import Counter
from itertools import groupby
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.merge.equal_rows import Place, count_equal

COPY = "AABA"
RESTART = 3_000_000


def delivered(
    contents: str, offset: int = 0, file: str = "", at: int | None = 0, log: str = "t/0"
) -> list[Place]:
    """The rows of one place in order, at consecutive offsets, a millisecond apart."""
    return [
        Place(log, offset + n, file, None if at is None else at + n * 1_000, content)
        for n, content in enumerate(contents)
    ]


def test_equal_rows_of_one_delivery_are_as_many_as_they_were() -> None:
    assert count_equal(delivered(COPY)) == {"A": 3, "B": 1}


@pytest.mark.parametrize(
    "again",
    [
        delivered(COPY),
        delivered(COPY, file="other"),
        delivered(COPY, offset=4, at=RESTART),
        delivered(COPY, offset=9),
        delivered(COPY, offset=4, file="other"),
        delivered("BA", offset=4, at=RESTART),
        delivered(COPY, at=None, log="a file"),
    ],
    ids=["the same", "dropped twice", "new offsets", "far", "a new file", "its end", "no offsets"],
)
def test_a_redelivery_adds_no_row(again: list[Place]) -> None:
    assert count_equal([*delivered(COPY), *again]) == {"A": 3, "B": 1}


def test_a_delivery_that_was_cut_short_is_completed_by_the_next_one() -> None:
    cut = delivered("AA")
    assert count_equal([*cut, *delivered(COPY, offset=2, at=RESTART)]) == {"A": 3, "B": 1}


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_delivery_goes_on_in_the_file_that_continues_its_offsets(cut: int) -> None:
    first, second = delivered(COPY[:cut], 0, "one"), delivered(COPY[cut:], cut, "two")
    assert count_equal([*first, *second]) == {"A": 3, "B": 1}


def test_a_delivery_goes_on_through_many_files_of_one_row() -> None:
    rows = [delivered(c, at, f"file {at}")[0] for at, c in enumerate("ABABA")]
    assert count_equal(rows) == {"A": 3, "B": 2}


@given(
    copy=st.text("ABC", min_size=1, max_size=8),
    starts=st.lists(st.integers(0, 7), max_size=3),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    random=st.randoms(use_true_random=False),
)
def test_batches_add_up_to_the_rows_of_the_copy(
    copy: str, starts: list[int], cuts: list[int], random: Random
) -> None:
    """The copy, and deliveries of its end again, in any order and in any batches."""
    places, offset = delivered(copy), len(copy)
    for n, start in enumerate(starts, start=1):
        again = copy[start:]
        places += delivered(again, offset, at=n * RESTART)
        offset += len(again)
    random.shuffle(places)
    rows: Counter[str] = Counter()
    for end in sorted({*cuts, len(places)}):
        seen = Counter(count_equal(places[:end]))
        assert rows <= seen
        rows = seen
    assert rows == Counter(copy)


@given(
    contents=st.text("AB", min_size=1, max_size=10),
    cuts=st.sets(st.integers(1, 9), max_size=3),
    order=st.permutations(range(4)),
)
def test_files_only_ever_add_rows(contents: str, cuts: set[int], order: list[int]) -> None:
    of_file = groupby(enumerate(contents), key=lambda row: sum(row[0] >= cut for cut in cuts))
    files = {n: [delivered(c, at, f"file {n}")[0] for at, c in rows] for n, rows in of_file}
    arrived: list[Place] = []
    rows: Counter[str] = Counter()
    for file in order:
        arrived += files.get(file, [])
        seen = Counter(count_equal(arrived))
        assert rows <= seen <= Counter(contents)
        rows = seen
