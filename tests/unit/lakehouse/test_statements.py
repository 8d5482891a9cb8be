"""Pieces of SQL that several layers write."""

import pytest

from lakehouse.storage.statements import render_equal
from silver.decode.types import parse_type


@pytest.mark.parametrize(
    "type",
    ["struct<m:map<string,int>,at:timestamp>", "array<map<string,timestamp>>", "variant"],
)
def test_what_spark_does_not_compare_is_compared_as_json_with_all_digits_of_times(
    type: str,
) -> None:
    text = render_equal("a", "b", parse_type(type))
    assert text.count("to_json(") == 2
    assert text.count("ss.SSSSSSXXX") == 2


@pytest.mark.parametrize("type", ["struct<variant_id:int,at:timestamp>", "array<int>", "string"])
def test_other_values_are_compared_as_they_are(type: str) -> None:
    assert render_equal("a", "b", parse_type(type)) == "a <=> b"
