import pytest

from lakehouse.durations import render_duration, to_seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", 600),
        ("2 days", 172_800),
        ("1 hour 30 minutes", 5_400),
        ("5s", 5),
        ("1 WEEK", 604_800),
        ("0", 0),
        (0, 0),
        (90, 90),
    ],
)
def test_a_duration_is_whole_seconds(text: str | int, expected: int) -> None:
    assert to_seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "minutes", "-5 s", "5 parsecs", "5 s and", "1.5 h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        to_seconds(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (None, ""),
        (0, "0 s"),
        (4.25, "4.2 s"),
        (60, "1 min"),
        (90.9, "1 min 30 s"),
        (5_400, "1 h 30 min"),
        (172_800, "2 d"),
        (190_000, "2 d 4 h"),
    ],
)
def test_seconds_are_spoken_in_at_most_two_units(count: float | None, expected: str) -> None:
    assert render_duration(count) == expected
