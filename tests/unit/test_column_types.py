import pytest

from lakehouse.config.column_types import is_nested, is_type


@pytest.mark.parametrize(
    "text",
    [
        "bigint",
        "STRING",
        "decimal(12,2)",
        "decimal(38)",
        "decimal",
        "varchar(40)",
        "array<string>",
        "map<string, array<decimal(10, 2)>>",
        "struct<a: int, `b c`: array<map<string,double>>>",
        "timestamp_ntz",
        "variant",
    ],
)
def test_spark_types_are_types(text: str) -> None:
    assert is_type(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text",
        "integr",
        "decimal(39,2)",
        "decimal(5,6)",
        "decimal(12",
        "varchar",
        "array<text>",
        "array<int,int>",
        "map<string>",
        "struct<int>",
        "struct<>",
    ],
)
def test_other_texts_are_not(text: str) -> None:
    assert not is_type(text)


def test_nested_types_cannot_be_keys() -> None:
    assert [is_nested(kind) for kind in ("array<int>", "struct<a:int>", "string")] == [
        True,
        True,
        False,
    ]
