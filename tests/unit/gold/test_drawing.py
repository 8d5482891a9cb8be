from itertools import pairwise

import pytest

from gold.report.drawing import choose_marks, draw_flow, stack_bars
from gold.report.story import list_kinds

COUNTS = {"inserted": 700, "superseded": 250, "dead_letter": 50}


def test_the_flow_is_as_thick_as_its_numbers() -> None:
    drawn = draw_flow(list_kinds(COUNTS), COUNTS)
    thick = [node.height for node in drawn.classes]
    assert [round(t / thick[2], 6) for t in thick] == [14.0, 5.0, 1.0]
    assert drawn.source.number == 1_000
    assert [(node.name, node.number) for node in drawn.outcomes] == [
        ("gold", 700),
        ("covered", 250),
        ("letters", 50),
    ]


def test_labels_of_the_flow_have_room_and_nothing_leaves_the_drawing() -> None:
    counts = {"inserted": 1_000_000} | dict.fromkeys(("deleted", "duplicate", "truncate"), 1)
    drawn = draw_flow(list_kinds(counts), counts)
    centres = [node.centre for node in drawn.classes]
    assert all(below - above >= 30 for above, below in pairwise(centres))
    nodes = [drawn.source, *drawn.classes, *drawn.outcomes]
    assert all(node.top >= 0 and node.top + node.height <= drawn.height for node in nodes)


def test_every_class_has_a_band_in_and_a_band_out() -> None:
    drawn = draw_flow(list_kinds(COUNTS), COUNTS)
    assert [band.name for band in drawn.bands] == [name for name in COUNTS for _ in range(2)]


def test_bars_are_stacked_from_the_bottom_and_the_highest_fills_the_height() -> None:
    buckets = [{"inserted": 3, "superseded": 1}, {}, {"superseded": 2}]
    found = [
        (b.name, b.bucket, b.top, b.height) for b in stack_bars(buckets, list_kinds(COUNTS), 100)
    ]
    assert found == [
        ("inserted", 0, 25.0, 75.0),
        ("superseded", 0, 0.0, 25.0),
        ("superseded", 2, 50.0, 50.0),
    ]


@pytest.mark.parametrize(
    ("highest", "expected"),
    [(0, [0]), (3, [0, 1, 2, 3]), (9, [0, 5]), (100, [0, 50, 100]), (4_321, [0, 2000, 4000])],
)
def test_an_axis_has_round_marks(highest: int, expected: list[int]) -> None:
    assert choose_marks(highest) == expected
