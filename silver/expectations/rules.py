"""Every expectation of Great Expectations in one table: scope, arguments, and SQL of row rules.

It is plain text, so that a table's rules can be checked without Great Expectations and before Spark
starts. A test compares it with the installed Great Expectations.
"""

from typing import Literal, NamedTuple

from lakehouse.config.table import Expectation

Scope = Literal["row", "table", "unsupported"]


class Rule(NamedTuple):
    """An expectation's scope and its arguments: name → kind; a kind that ends in ! is required.

    `row`: the gate decides it row by row; `sql` is what is expected of a row, with the pieces that
    `row_sql` fills in, and `needs` the types that its columns must have (`mismatches`). `table`:
    only `quality` can decide it, as it is about all rows together or has no Spark expression.
    `unsupported`: Great Expectations itself cannot evaluate it on Spark.
    """

    scope: Scope
    arguments: dict[str, str]
    needs: str = ""
    sql: str = ""


ALWAYS_ALLOWED = {"meta": "mapping", "notes": "any", "description": "text"}
SET_BY_QUALITY = (
    "result_format",
    "catch_exceptions",
    "windows",
    "id",
    "batch_id",
    "rendered_content",
)

_GROUPS = {
    "VALUES": "column:text! mostly:share CONDITION",
    "PAIR": "column_A:text! column_B:text! mostly:share ignore_row_if:pair_gap CONDITION",
    "RECORD": "column_list:texts! mostly:share ignore_row_if:record_gap CONDITION",
    "AGGREGATE": "column:text! CONDITION",
    "BOUNDS": "min_value:bound max_value:bound STRICT",
    "NUMBERS": "min_value:number max_value:number STRICT",
    "COUNTS": "min_value:count max_value:count STRICT",
    "STRICT": "strict_min:flag strict_max:flag",
    "CONDITION": "row_condition:condition condition_parser:parser",
}
_ROW = """
expect_column_values_to_not_be_null VALUES | any | {a} IS NOT NULL
expect_column_values_to_be_null VALUES | any | {a} IS NULL
expect_column_values_to_be_between VALUES BOUNDS | ordered | {between}
expect_column_values_to_be_in_set VALUES value_set:values! | any | {member}
expect_column_values_to_not_be_in_set VALUES value_set:values! | any | NOT {member}
expect_column_values_to_match_regex VALUES regex:regex | texty | {regex}
expect_column_values_to_not_match_regex VALUES regex:regex! | texty | NOT {regex}
expect_column_values_to_match_regex_list VALUES regex_list:regexes! match_on:any_all
    | texty | {regexes}
expect_column_values_to_not_match_regex_list VALUES regex_list:regexes!
    | texty | NOT {any_regex}
expect_column_values_to_match_like_pattern VALUES like_pattern:text! escape:letter
    | texty | {like}
expect_column_values_to_not_match_like_pattern VALUES like_pattern:text! escape:letter
    | texty | NOT {like}
expect_column_values_to_match_like_pattern_list VALUES like_pattern_list:texts! match_on:any_all
    escape:letter | texty | {likes}
expect_column_values_to_not_match_like_pattern_list VALUES like_pattern_list:texts! escape:letter
    | texty | NOT {likes}
expect_column_value_lengths_to_equal VALUES value:number! | texty | length({a}) = {value}
expect_column_value_lengths_to_be_between VALUES COUNTS | texty | {length_between}
expect_column_values_to_match_strftime_format VALUES strftime_format:strftime! | text | {strftime}
expect_column_values_to_be_json_parseable VALUES | text | {json}
expect_column_pair_values_a_to_be_greater_than_b PAIR or_equal:flag | alike | {greater}
expect_column_pair_values_to_be_equal PAIR | alike | {equal}
expect_column_pair_values_to_be_in_set PAIR value_pairs_set:pairs! | any | {pair_member}
expect_multicolumn_sum_to_equal RECORD sum_total:number! | number | {sum} <=> {sum_total}
expect_multicolumn_values_to_be_equal RECORD | alike | {equal}
expect_select_column_values_to_be_unique_within_record RECORD | alike | NOT {repeated}
"""
_TABLE = """
expect_column_values_to_match_json_schema VALUES json_schema:mapping!
expect_column_values_to_be_of_type VALUES type_:text!
expect_column_values_to_be_in_type_list VALUES type_list:texts
expect_column_values_to_be_unique VALUES
expect_column_values_to_be_increasing VALUES strictly:flag
expect_column_values_to_be_decreasing VALUES strictly:flag
expect_column_values_to_not_be_outliers VALUES method:outlier multiplier:number
expect_column_value_z_scores_to_be_less_than VALUES threshold:number! double_sided:flag!
expect_compound_columns_to_be_unique RECORD
expect_column_distinct_values_to_be_in_set AGGREGATE value_set:values!
expect_column_distinct_values_to_contain_set AGGREGATE value_set:values!
expect_column_distinct_values_to_equal_set AGGREGATE value_set:values!
expect_column_kl_divergence_to_be_less_than AGGREGATE partition_object:mapping threshold:number
    internal_weight_holdout:share tail_weight_holdout:share bucketize_data:flag min_value:bound
    max_value:bound
expect_column_max_to_be_between AGGREGATE BOUNDS
expect_column_mean_to_be_between AGGREGATE BOUNDS
expect_column_median_to_be_between AGGREGATE BOUNDS
expect_column_min_to_be_between AGGREGATE BOUNDS
expect_column_most_common_value_to_be_in_set AGGREGATE value_set:values! ties_okay:flag
expect_column_proportion_of_non_null_values_to_be_between AGGREGATE NUMBERS
expect_column_proportion_of_unique_values_to_be_between AGGREGATE NUMBERS
expect_column_quantile_values_to_be_between AGGREGATE quantile_ranges:mapping!
    allow_relative_error:any
expect_column_stdev_to_be_between AGGREGATE NUMBERS
expect_column_sum_to_be_between AGGREGATE BOUNDS
expect_column_unique_value_count_to_be_between AGGREGATE COUNTS
expect_column_to_exist column:text! column_index:count
expect_column_type_to_be column:text! type_:text!
expect_table_column_count_to_be_between min_value:count max_value:count
expect_table_column_count_to_equal value:count!
expect_table_columns_to_match_ordered_list column_list:texts
expect_table_columns_to_match_set column_set:texts exact_match:flag
expect_table_row_count_to_be_between COUNTS CONDITION
expect_table_row_count_to_equal value:count! CONDITION
unexpected_rows_expectation unexpected_rows_query:text!
"""
_UNSUPPORTED = """
expect_column_values_to_be_dateutil_parseable VALUES
expect_table_row_count_to_equal_other_table other_table_name:text! CONDITION
expect_query_results_to_match_comparison base_query:text! comparison_data_source_name:text!
    comparison_query:text! mostly:share
"""


def columns_of(expectation: Expectation) -> tuple[str, ...]:
    """The columns that an expectation checks, without those of its row condition."""
    arguments = expectation.arguments
    single = [arguments[name] for name in ("column", "column_A", "column_B") if name in arguments]
    return tuple(single) or tuple(arguments.get("column_list", ()))


def _parse_rules(scope: Scope, text: str) -> dict[str, Rule]:
    """The rules of a text, one a line; a line that begins with blanks continues the one before."""
    rules: dict[str, Rule] = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        spelling, _, check = line.partition(" | ")
        name, _, words = spelling.partition(" ")
        for group, meaning in _GROUPS.items():
            words = words.replace(group, meaning)
        arguments = dict(word.split(":") for word in words.split())
        needs, _, sql = check.partition(" | ")
        rules[name] = Rule(scope, arguments, needs, sql)
    return rules


EXPECTATIONS: dict[str, Rule] = {
    **_parse_rules("row", _ROW),
    **_parse_rules("table", _TABLE),
    **_parse_rules("unsupported", _UNSUPPORTED),
}
