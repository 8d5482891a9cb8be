import pytest
from pyspark.errors import AnalysisException

from lakehouse.spark.failures import describe_failure, shorten_failure

TOLD = {
    "of a java stack the innermost cause": (
        "[FAILED] reading x\n at y\nCaused by: a.B: no\n\tat z\nCaused by: java.io.IOError: bad",
        "IOError: bad",
    ),
    "a conflict between transactions by its name": (
        "[DELTA_CONCURRENT_APPEND] files were added\n\tat x\nCaused by: a.B: why",
        "[DELTA_CONCURRENT_APPEND] files were added",
    ),
    "of a worker's trace the named condition": (
        "Traceback\n[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03",
        "[PATH_NOT_FOUND] Path does not exist: x.",
    ),
    "of a call into java its message": (
        "An error occurred while calling o12.sql.\n: a.B: outer\n\tat x.y",
        "a.B: outer",
    ),
    "the place in a query and not its plan": (
        "[X] no such table; line 1\n'Project [*]\n+- 'Unresolved",
        "[X] no such table; line 1",
    ),
    "anything else in its own words": ("disk full\nmore", "disk full\nmore"),
}


@pytest.mark.parametrize(("said", "told"), TOLD.values(), ids=TOLD)
def test_a_failure_is_told_in_short(said: str, told: str) -> None:
    assert shorten_failure(RuntimeError(said)) == told


def test_a_failure_without_a_word_is_told_by_its_kind() -> None:
    assert shorten_failure(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (KeyError(), "KeyError (a defect: --debug shows where)"),
        (
            ValueError("no; line 1\n+- Plan"),
            "ValueError: no; line 1 (a defect: --debug shows where)",
        ),
        (OSError("disk full"), "disk full"),
        (AnalysisException("[X] no such table; line 1\n+- Plan"), "[X] no such table; line 1"),
    ],
)
def test_a_failure_that_nobody_foresaw_is_told_as_a_defect(failure: Exception, told: str) -> None:
    assert describe_failure(failure) == told
