import pytest

from lakehouse.spark.failures import is_conflict


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict", True),
        ("io.delta.exceptions.ConcurrentDeleteReadException: gone", True),
        ("[DELTA_MISSING_COLUMN] x", False),
        ("No space left on device", False),
        (None, False),
    ],
)
def test_only_conflicts_that_delta_names_are_tried_again(
    message: str | None, expected: bool
) -> None:
    assert is_conflict(message) is expected
