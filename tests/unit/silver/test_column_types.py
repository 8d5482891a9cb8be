import pytest

from lakehouse.config.column_types import is_nested, is_type, read_type
from silver.expectations.literals import kind_of_type


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


@pytest.mark.parametrize(
    ("text", "in_log"),
    [("numeric(12, 2)", "decimal(12,2)"), ("DEC", "decimal(10,0)"), ("int", "integer"),
     ("char(3)", "string"), ("array<int>", "array")],
)  # fmt: skip
def test_a_type_is_written_as_in_a_log_of_delta(text: str, in_log: str) -> None:
    assert str(read_type(text)) == in_log


def test_every_synonym_of_a_type_is_of_its_kind() -> None:
    numbers = ("real", "numeric(10,2)", "dec(4)", "byte", "decimal")
    assert {kind_of_type(kind) for kind in numbers} == {"number"}
    others = ("string collate UTF8_LCASE", "timestamp_ntz", "boolean", "interval day", "array<int>")
    assert [kind_of_type(kind) for kind in others] == ["text", "time", "flag", "other", "other"]
