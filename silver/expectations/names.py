"""Every expectation of Great Expectations by name, with its arguments and what they may hold.

Kept here as plain words, so that a table's rules can be checked where Great Expectations is not
installed and before Spark starts. A test holds this list against the installed Great Expectations.
"""

from typing import Literal, NamedTuple

Scope = Literal["row", "table", "unsupported"]


class Spelling(NamedTuple):
    """An expectation's scope and its arguments: name → kind; a kind that ends in ! is required.

    `row`: the gate decides it row by row. `table`: only `quality` can decide it, as it is about all
    rows together or has no Spark expression. `unsupported`: Great Expectations itself cannot
    evaluate it on Spark.
    """

    scope: Scope
    arguments: dict[str, str]


ALWAYS_ALLOWED = {"meta": "mapping", "notes": "any", "description": "text"}
SET_BY_QUALITY = (
    "result_format",
    "catch_exceptions",
    "windows",
    "id",
    "batch_id",
    "rendered_content",
)

_CONDITION = "row_condition:condition condition_parser:parser"
_VALUES = f"column:text! mostly:share {_CONDITION}"
_PAIR = f"column_A:text! column_B:text! mostly:share ignore_row_if:pair_gap {_CONDITION}"
_RECORD = f"column_list:texts! mostly:share ignore_row_if:record_gap {_CONDITION}"
_AGGREGATE = f"column:text! {_CONDITION}"
_STRICT = "strict_min:flag strict_max:flag"
_BOUNDS = f"min_value:bound max_value:bound {_STRICT}"
_NUMBERS = f"min_value:number max_value:number {_STRICT}"
_COUNTS = f"min_value:count max_value:count {_STRICT}"

_SPELLINGS: tuple[tuple[Scope, str, str], ...] = (
    ("row", "expect_column_values_to_not_be_null", _VALUES),
    ("row", "expect_column_values_to_be_null", _VALUES),
    ("row", "expect_column_values_to_be_between", f"{_VALUES} {_BOUNDS}"),
    ("row", "expect_column_values_to_be_in_set", f"{_VALUES} value_set:values!"),
    ("row", "expect_column_values_to_not_be_in_set", f"{_VALUES} value_set:values!"),
    ("row", "expect_column_values_to_match_regex", f"{_VALUES} regex:regex"),
    ("row", "expect_column_values_to_not_match_regex", f"{_VALUES} regex:regex!"),
    (
        "row",
        "expect_column_values_to_match_regex_list",
        f"{_VALUES} regex_list:regexes! match_on:any_all",
    ),
    ("row", "expect_column_values_to_not_match_regex_list", f"{_VALUES} regex_list:regexes!"),
    (
        "row",
        "expect_column_values_to_match_like_pattern",
        f"{_VALUES} like_pattern:text! escape:letter",
    ),
    (
        "row",
        "expect_column_values_to_not_match_like_pattern",
        f"{_VALUES} like_pattern:text! escape:letter",
    ),
    (
        "row",
        "expect_column_values_to_match_like_pattern_list",
        f"{_VALUES} like_pattern_list:texts! match_on:any_all escape:letter",
    ),
    (
        "row",
        "expect_column_values_to_not_match_like_pattern_list",
        f"{_VALUES} like_pattern_list:texts! escape:letter",
    ),
    ("row", "expect_column_value_lengths_to_equal", f"{_VALUES} value:number!"),
    ("row", "expect_column_value_lengths_to_be_between", f"{_VALUES} {_COUNTS}"),
    (
        "row",
        "expect_column_values_to_match_strftime_format",
        f"{_VALUES} strftime_format:strftime!",
    ),
    ("row", "expect_column_values_to_be_json_parseable", _VALUES),
    ("row", "expect_column_pair_values_a_to_be_greater_than_b", f"{_PAIR} or_equal:flag"),
    ("row", "expect_column_pair_values_to_be_equal", _PAIR),
    ("row", "expect_column_pair_values_to_be_in_set", f"{_PAIR} value_pairs_set:pairs!"),
    ("row", "expect_multicolumn_sum_to_equal", f"{_RECORD} sum_total:number!"),
    ("row", "expect_multicolumn_values_to_be_equal", _RECORD),
    ("row", "expect_select_column_values_to_be_unique_within_record", _RECORD),
    ("table", "expect_column_values_to_match_json_schema", f"{_VALUES} json_schema:mapping!"),
    ("table", "expect_column_values_to_be_of_type", f"{_VALUES} type_:text!"),
    ("table", "expect_column_values_to_be_in_type_list", f"{_VALUES} type_list:texts"),
    ("table", "expect_column_values_to_be_unique", _VALUES),
    ("table", "expect_column_values_to_be_increasing", f"{_VALUES} strictly:flag"),
    ("table", "expect_column_values_to_be_decreasing", f"{_VALUES} strictly:flag"),
    (
        "table",
        "expect_column_values_to_not_be_outliers",
        f"{_VALUES} method:outlier multiplier:number",
    ),
    (
        "table",
        "expect_column_value_z_scores_to_be_less_than",
        f"{_VALUES} threshold:number! double_sided:flag!",
    ),
    ("table", "expect_compound_columns_to_be_unique", _RECORD),
    ("table", "expect_column_distinct_values_to_be_in_set", f"{_AGGREGATE} value_set:values!"),
    ("table", "expect_column_distinct_values_to_contain_set", f"{_AGGREGATE} value_set:values!"),
    ("table", "expect_column_distinct_values_to_equal_set", f"{_AGGREGATE} value_set:values!"),
    (
        "table",
        "expect_column_kl_divergence_to_be_less_than",
        f"{_AGGREGATE} partition_object:mapping threshold:number internal_weight_holdout:share "
        "tail_weight_holdout:share bucketize_data:flag min_value:bound max_value:bound",
    ),
    ("table", "expect_column_max_to_be_between", f"{_AGGREGATE} {_BOUNDS}"),
    ("table", "expect_column_mean_to_be_between", f"{_AGGREGATE} {_BOUNDS}"),
    ("table", "expect_column_median_to_be_between", f"{_AGGREGATE} {_BOUNDS}"),
    ("table", "expect_column_min_to_be_between", f"{_AGGREGATE} {_BOUNDS}"),
    (
        "table",
        "expect_column_most_common_value_to_be_in_set",
        f"{_AGGREGATE} value_set:values! ties_okay:flag",
    ),
    (
        "table",
        "expect_column_proportion_of_non_null_values_to_be_between",
        f"{_AGGREGATE} {_NUMBERS}",
    ),
    (
        "table",
        "expect_column_proportion_of_unique_values_to_be_between",
        f"{_AGGREGATE} {_NUMBERS}",
    ),
    (
        "table",
        "expect_column_quantile_values_to_be_between",
        f"{_AGGREGATE} quantile_ranges:mapping! allow_relative_error:any",
    ),
    ("table", "expect_column_stdev_to_be_between", f"{_AGGREGATE} {_NUMBERS}"),
    ("table", "expect_column_sum_to_be_between", f"{_AGGREGATE} {_BOUNDS}"),
    ("table", "expect_column_unique_value_count_to_be_between", f"{_AGGREGATE} {_COUNTS}"),
    ("table", "expect_column_to_exist", "column:text! column_index:count"),
    ("table", "expect_column_type_to_be", "column:text! type_:text!"),
    ("table", "expect_table_column_count_to_be_between", "min_value:count max_value:count"),
    ("table", "expect_table_column_count_to_equal", "value:count!"),
    ("table", "expect_table_columns_to_match_ordered_list", "column_list:texts"),
    ("table", "expect_table_columns_to_match_set", "column_set:texts exact_match:flag"),
    ("table", "expect_table_row_count_to_be_between", f"{_COUNTS} {_CONDITION}"),
    ("table", "expect_table_row_count_to_equal", f"value:count! {_CONDITION}"),
    ("table", "unexpected_rows_expectation", "unexpected_rows_query:text!"),
    ("unsupported", "expect_column_values_to_be_dateutil_parseable", _VALUES),
    (
        "unsupported",
        "expect_table_row_count_to_equal_other_table",
        f"other_table_name:text! {_CONDITION}",
    ),
    (
        "unsupported",
        "expect_query_results_to_match_comparison",
        "base_query:text! comparison_data_source_name:text! comparison_query:text! mostly:share",
    ),
)

EXPECTATIONS: dict[str, Spelling] = {
    name: Spelling(
        scope, {word.partition(":")[0]: word.partition(":")[2] for word in words.split()}
    )
    for scope, name, words in _SPELLINGS
}
