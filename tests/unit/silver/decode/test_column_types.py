import pytest

from lakehouse.config.column_types import NAMES, is_type
from silver.decode.types import parse_type, wider_type


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("smallint", "int", "int"),
        ("tinyint", "tinyint", "tinyint"),
        ("double", "float", "double"),
        ("decimal(12,2)", "decimal(14,4)", "decimal(14,4)"),
        ("decimal(12,4)", "decimal(12,2)", "decimal(14,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("array<int>", "array<string>", None),
        ("int", "string", None),
        ("bigint", "double", None),
        ("timestamp", "timestamp_ntz", None),
        ("struct<a:int>", "struct<a:int>", "struct<a:int>"),
    ],
)
def test_only_types_of_one_kind_widen(one: str, other: str, expected: str | None) -> None:
    for first, second in ((one, other), (other, one)):
        found = wider_type(parse_type(first), parse_type(second))
        assert (found and found.simpleString()) == expected


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("INTEGER", "int"),
        (" long ", "bigint"),
        ("Decimal(10, 2)", "decimal(10,2)"),
        ("decimal(38)", "decimal(38,0)"),
        ("dec", "decimal(10,0)"),
        ("varchar(40)", "string"),
        ("char( 4 )", "string"),
        ("timestamp_ltz", "timestamp"),
        ("map<string, array<decimal(10, 2)>>", "map<string,array<decimal(10,2)>>"),
        (
            "struct<a: int, `b c`: array<map<string,double>>, D string>",
            "struct<a:int,b c:array<map<string,double>>,D:string>",
        ),
    ],
)
def test_types_are_read_as_spark_prints_them(written: str, printed: str) -> None:
    assert is_type(written)
    assert parse_type(written).simpleString() == printed


@pytest.mark.parametrize("name", NAMES)
def test_every_type_that_yaml_may_name_is_known(name: str) -> None:
    assert parse_type(name).simpleString()


@pytest.mark.parametrize("text", ["", "text", "decimal(12", "array<text>", "struct<int>"])
def test_other_texts_are_no_types(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_type(text)
