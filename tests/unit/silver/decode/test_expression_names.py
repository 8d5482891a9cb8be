import pytest

from silver.decode.expressions.names import (
    columns_named,
    group_members,
    grouped_columns,
    make_forgiving,
    members_read,
)
from tests.helpers.builders import table


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("operation = 'DELETE'", ["operation"]),
        ("_op in ('d', \"x y\") and not gone", ["_op", "gone"]),
        ("coalesce(a, `b c`, `d``e`) > 1e3", ["a", "b c", "d`e"]),
        ("payload.kind = 'it''s' or a like 'x\\'y'", ["payload", "a"]),
        ("CASE WHEN a IS NULL THEN 1 ELSE b END", ["a", "b"]),
        ("größe + größe", ["größe"]),
        ("cast(substring_index(file, '.', -1) as bigint)", ["file"]),
        ("try_cast(op AS decimal(20,0)) = 1", ["op"]),
        ("date < DATE '2020-01-01' or at > timestamp'2020-01-01' - interval 1 day", ["date", "at"]),
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
    assert make_forgiving(expression) == rewritten


def test_members_are_read_once_whatever_the_case_of_their_names() -> None:
    config = table(
        "rows",
        ["id"],
        sequence_by=["_seq", "day"],
        apply_as_deletes="_OP = 'D' or _op = 'E'",
        source={"time_column": "_time"},
        column_list=["id", "a"],
    )
    assert members_read(config) == ["_seq", "day", "_OP", "_time"]


def test_the_column_that_orders_a_group_is_one_of_it_unless_it_orders_more() -> None:
    config = table(
        "rows",
        ["id"],
        sequence_by="seq",
        sequence_groups=[
            {"sequence_by": "version", "columns": ["stock"]},
            {"sequence_by": "seq", "columns": ["price"]},
            {"sequence_by": "version", "columns": ["place"]},
        ],
    )
    assert group_members(config) == [["stock", "version"], ["price"], ["place"]]
    assert grouped_columns(config) == ["stock", "version", "price", "place"]
