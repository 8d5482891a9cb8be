import pytest

from tests.bundle.lint import quartz


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 2 * * ?",
        "0 0/30 * * * ?",
        "44 19 */1 * * ?",
        "0 15 10 ? * MON-FRI",
        "0 0 9 L * ?",
        "0 0 12 ? * 6#3 2027",
        "0 0,30 8-17 1W JAN,JUL ?",
    ],
)
def test_an_expression_of_quartz_has_no_problem(expression: str) -> None:
    assert quartz.problem(expression) is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 2 * * *", "5 fields, not the 6 or 7 of Quartz"),
        ("0 0 2 * * *", "exactly one of day of month and day of week must be ?"),
        ("0 0 2 ? * ?", "exactly one of day of month and day of week must be ?"),
        ("0 0 24 * * ?", "'24' is no hours"),
        ("0 60 2 * * ?", "'60' is no minutes"),
        ("0 0/0 2 * * ?", "'0/0' is no minutes"),
        ("0 0 2 ? * MONDAY", "'MONDAY' is no day of week"),
        ("? 0 2 * * ?", "'?' is no seconds"),
        ("0 0 1-2-3 * * ?", "'1-2-3' is no hours"),
    ],
)
def test_what_is_not_quartz_is_said(expression: str, message: str) -> None:
    assert quartz.problem(expression) == message
