import pytest

from silver.decode.expressions.names import columns_named, forgiving


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("operation = 'DELETE'", ["operation"]),
        ("_op in ('d', \"x y\") and not gone", ["_op", "gone"]),
        ("coalesce(a, `b c`, `d``e`) > 1e3", ["a", "b c", "d`e"]),
        ("payload.kind = 'it''s' or a like 'x\\'y'", ["payload", "a"]),
        ("CASE WHEN a IS NULL THEN 1 ELSE b END", ["a", "b"]),
        ("größe + größe", ["größe"]),
    ],
)
def test_the_names_that_can_be_columns_are_found(expression: str, names: list[str]) -> None:
    assert columns_named(expression) == names


@pytest.mark.parametrize(
    ("expression", "rewritten"),
    [
        ("CAST(a AS bigint)", "try_cast(a AS bigint)"),
        ("try_cast(a AS bigint)", "try_cast(a AS bigint)"),
        ("to_timestamp (a) > 'cast(b)'", "try_to_timestamp (a) > 'cast(b)'"),
        ("`cast` = forecast(b)", "`cast` = forecast(b)"),
    ],
)
def test_conversions_are_made_forgiving_and_texts_left_alone(
    expression: str, rewritten: str
) -> None:
    assert forgiving(expression) == rewritten
