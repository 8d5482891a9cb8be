import pytest

from silver.inference import MOST_COLUMNS, settle, sql_type


@pytest.mark.parametrize(
    ("seen", "type"),
    [
        ("BIGINT", "bigint"),
        ("DECIMAL(2,1)", "double"),
        ("DECIMAL(20,0)", "decimal(38,0)"),
        ("DOUBLE", "double"),
        ("BOOLEAN", "boolean"),
        ("STRING", "string"),
        ("VARIANT", "string"),
        ("OBJECT<x: BIGINT>", "string"),
        ("ARRAY<BIGINT>", "array<bigint>"),
        ("ARRAY<DECIMAL(21,1)>", "array<double>"),
        ("ARRAY<VOID>", "array<string>"),
        ("ARRAY<VARIANT>", "string"),
        ("ARRAY<OBJECT<x: BIGINT>>", "string"),
        ("ARRAY<ARRAY<BIGINT>>", "string"),
        ("VOID", None),
    ],
)
def test_what_a_batch_shows_becomes_one_column_type(seen: str, type: str | None) -> None:
    assert sql_type(seen) == type


def test_names_that_differ_in_case_only_are_set_apart_in_their_order() -> None:
    assert settle(["b", "B", "Id", "c", ""], ["id"]) == (["b", "c"], ["B", "Id", ""])


def test_names_beyond_the_room_of_a_table_are_set_apart() -> None:
    known = [f"k{at}" for at in range(MOST_COLUMNS - 2)]

    assert settle(["c", "b", "a"], known) == (["c", "b"], ["a"])
    assert settle(["c"], [*known, "x", "y", "z"]) == ([], ["c"])
