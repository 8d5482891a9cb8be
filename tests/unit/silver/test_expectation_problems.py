from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.expectations.problems import find_problems

SPOKEN, OF_ID = "great_expectations", {"column": {"name": "id"}}


def table(*expectations: dict[str, Any], **keys: object) -> Table:
    given = {"table": "orders", "keys": ["id"], "source": {"format": "rows"}, **keys}
    return Table.model_validate({**given, "expectations": list(expectations)})


def qty(kind: str, **arguments: object) -> dict[str, Any]:
    return {"type": f"expect_column_values_to_{kind}", "column": "qty", **arguments}


def text_of(*expectations: dict[str, Any], **keys: object) -> str:
    return "\n".join(find_problems(table(*expectations, **keys)))


def test_well_written_expectations_have_no_problems() -> None:
    assert (
        find_problems(
            table(
                qty("not_be_null", severity="critical", meta={"owner": "shop"}),
                qty("be_between", min_value=0, max_value=9, strict_max=True, mostly=0.5),
                qty("be_in_set", value_set=["a", "b"], row_condition="id > 3"),
                qty("be_null", row_condition="id > 3", condition_parser="spark"),
                qty("be_null", row_condition='col("id") > 3', condition_parser=SPOKEN),
                qty("be_null", row_condition='col("id").notnull()', condition_parser=SPOKEN),
                qty("be_null", row_condition={"type": "nullity", "is_null": True, **OF_ID}),
                {"type": "expect_table_row_count_to_be_between", "min_value": 1},
            )
        )
        == []
    )


def test_a_misspelt_name_is_answered_with_the_nearest_one() -> None:
    assert find_problems(table(qty("be_betwen", min_value=0))) == [
        "expectations[0].type: found 'expect_column_values_to_be_betwen', "
        "expected expect_column_values_to_be_between"
    ]


def test_a_misspelt_argument_is_answered_with_the_nearest_one() -> None:
    assert find_problems(table(qty("not_be_null"), qty("be_between", min_valu=0, max_value=1))) == [
        "expectations[1].min_valu: found an unknown argument, expected min_value"
    ]


def test_a_missing_argument_is_named() -> None:
    assert "expectations[0].value_set: found nothing" in text_of(qty("be_in_set"))


def test_an_expectation_without_a_spark_implementation_is_refused() -> None:
    assert "cannot evaluate on Spark" in text_of(qty("be_dateutil_parseable"))


def test_the_second_of_two_equal_expectations_is_refused() -> None:
    twice = find_problems(table(qty("be_null"), qty("be_null", severity="warning")))
    assert twice == ["expectations[1]: found a repetition of expectations[0], expected it once"]


@pytest.mark.parametrize(
    ("expectation", "found"),
    [
        (qty("be_between"), ".min_value: found neither"),
        (qty("be_between", min_value=2, max_value=1), ".min_value: found 2"),
        (qty("be_between", min_value=2, max_value="2024-01-01"), ".min_value: found 2"),
        (qty("be_between", min_value="many"), ".min_value: found 'many'"),
        (qty("be_between", min_value=True), ".min_value: found True"),
        (qty("be_between", min_value={"$PARAMETER": "x"}), ".min_value: found {"),
        (qty("be_between", min_value=0, strict_min="yes"), ".strict_min: found 'yes'"),
        (qty("be_null", mostly=90), ".mostly: found 90"),
        (qty("be_null", column=7), ".column: found 7"),
        (qty("be_in_set", value_set="a"), ".value_set: found 'a'"),
        (qty("be_in_set", value_set=["a", 1]), ".value_set: found ['a', 1]"),
        (qty("be_in_set", value_set=[None]), ".value_set: found null"),
        (qty("match_regex", regex="(a"), ".regex: found '(a'"),
        (qty("match_regex_list", regex_list=[]), ".regex_list: found []"),
        (qty("match_regex_list", regex_list=["a"], match_on="one"), ".match_on: found 'one'"),
        (qty("match_like_pattern", like_pattern="50\\"), ".like_pattern: found '50"),
        (qty("match_like_pattern", like_pattern="a", escape="ab"), ".escape: found 'ab'"),
        (qty("match_strftime_format", strftime_format="%Q"), ".strftime_format: found %Q"),
        (qty("match_strftime_format", strftime_format="%"), ".strftime_format: found %"),
        (qty("match_strftime_format", strftime_format="%d %d"), ".strftime_format: found '%d %d'"),
        (qty("be_null", result_format="COMPLETE"), ".result_format: found 'COMPLETE'"),
        (qty("be_null", condition_parser="spark"), ".condition_parser: found it without"),
        (qty("be_null", row_condition="id > 1", condition_parser="pandas"), ".condition_parser: f"),
        (qty("be_null", row_condition={"type": "maybe"}), ".row_condition: found {"),
        (
            qty("be_null", row_condition="id > 1", condition_parser="great_expectations"),
            ".row_condition: found 'id > 1'",
        ),
        (
            {"type": "expect_multicolumn_values_to_be_equal", "column_list": ["a"]},
            ".column_list: found ['a']",
        ),
        (
            {
                "type": "expect_column_pair_values_to_be_in_set",
                "column_A": "a",
                "column_B": "b",
                "value_pairs_set": [[1]],
            },
            ".value_pairs_set: found [[1]]",
        ),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_found(
    expectation: dict[str, Any], found: str
) -> None:
    assert f"expectations[0]{found}" in text_of(expectation)


def test_a_rule_on_a_column_that_gold_leaves_out_is_refused() -> None:
    assert "except_column_list" in text_of(qty("be_null"), except_column_list=["qty"])


def test_a_rule_on_a_column_that_is_not_listed_is_refused() -> None:
    assert "column_list" in text_of(qty("be_null"), column_list=["id"])


@pytest.mark.parametrize(
    ("declared", "expectation"),
    [
        ("string", qty("be_between", min_value=0)),
        ("int", qty("be_between", min_value="2024-01-01")),
        ("boolean", qty("be_in_set", value_set=[1])),
        ("int", qty("match_strftime_format", strftime_format="%Y")),
        ("array<int>", qty("match_regex", regex="a")),
        (
            "string",
            qty("be_null", row_condition='col("qty") > 1', condition_parser="great_expectations"),
        ),
    ],
)
def test_a_rule_that_does_not_fit_the_declared_type_is_refused(
    declared: str, expectation: dict[str, Any]
) -> None:
    assert f"qty is {declared}" in text_of(expectation, columns={"qty": declared})


def test_dates_written_as_text_fit_a_date_column() -> None:
    rule = qty("be_in_set", value_set=["2024-01-01"])
    assert find_problems(table(rule, columns={"qty": "date"})) == []
