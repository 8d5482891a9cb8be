import re

import pytest

from cdc_lakehouse.cli.key_text import parse_key
from lakehouse.config.columns import Column
from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationError


def table(*keys: str) -> Table:
    source = {"format": "debezium", "path": "shop"}
    return Table.model_validate({"table": "t", "source": source, "keys": list(keys)})


def test_a_keys_values_come_as_texts_in_the_order_of_the_keys() -> None:
    given = '{"b": 1.10, "a": 12345678901234567890, "c": true, "d": "x"}'
    assert list(parse_key(given, table("a", "b", "c", "d")).items()) == [
        ("a", "12345678901234567890"),
        ("b", "1.10"),
        ("c", "true"),
        ("d", "x"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{id: 7}", "a JSON object"),
        ("[7]", "a JSON object"),
        ('{"ident": 7}', "exactly the columns id"),
        ('{"id": 7, "more": 1}', "exactly the columns id"),
        ("{}", "exactly the columns id"),
        ('{"id": null}', "for id"),
        ('{"id": [7]}', "for id"),
    ],
)
def test_a_wrong_key_is_refused_with_an_example(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_key(text, table("id"))
    assert expected in refused.value.expected
    assert refused.value.action == """write --key '{"id": …}'"""


def test_null_is_a_value_of_a_key_that_may_be_null() -> None:
    source = {"format": "ydb", "path": "shop"}
    of = Table.model_validate({"table": "t", "source": source, "keys": ["tenant", "id"]})
    assert parse_key('{"tenant": null, "id": 7}', of) == {"tenant": None, "id": "7"}


def test_a_table_without_a_key_has_none_to_name() -> None:
    with pytest.raises(ConfigurationError, match="a table with keys"):
        parse_key("{}", table())


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", "7"), ('"7"', "7"), ("a-1", "a-1"), ("1.10", "1.10"), ("true", "true")],
)
def test_the_value_alone_is_enough_where_the_key_is_one_column(text: str, value: str) -> None:
    assert parse_key(text, table("id")) == {"id": value}
    with pytest.raises(ConfigurationError, match="a JSON object"):
        parse_key(text, table("a", "b"))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("bigint", "-7", "Anna"),
        ("decimal(10,2)", "1.50", "x1"),
        ("date", "2026-01-01", "May"),
        ("boolean", "true", "maybe"),
        ("string", "Anna", None),
    ],
)
def test_a_value_of_another_type_than_the_declared_one_is_refused_without_spark(
    kind: str, good: str, bad: str | None
) -> None:
    of = table("id").model_copy(update={"columns": {"id": Column(type=kind)}})
    assert parse_key(good, of)["id"] == good
    if bad is not None:
        with pytest.raises(ConfigurationError, match=re.escape(f"a value of type {kind} for id")):
            parse_key(bad, of)
