"""The gate and Great Expectations agree row for row, nulls included, on every row-level rule.

Great Expectations takes most of a second per rule whatever the number of rows, so there is one
example, drawn anew each time: many rows, and every kind of expectation.
"""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from gold.quality.run import evaluate_expectations
from lakehouse.config.table import Expectation, Table
from silver.expectations.problems import find_problems
from silver.expectations.row_sql import failing_sql
from silver.expectations.rules import EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
PREFIX = "expect_column_values_to_"
PAIR = "expect_column_pair_values_"
SCHEMA = (
    "row_id int, a int, b bigint, price decimal(12,2), ratio double, name string, note string, "
    "flag boolean, day date, at timestamp, json string, moment string"
)
COMPLETE = {
    "result_format": "COMPLETE",
    "unexpected_index_column_names": ["row_id"],
    "return_unexpected_index_query": False,
}

small = st.integers(-3, 3)
texts = st.sampled_from(["", "a", "b", "ab", "A", "a.b", "50%", "5_0", "a\nb", "é", "a|b", " a"])
days = st.dates(dt.date(2023, 12, 30), dt.date(2024, 1, 3))
hours = st.integers(-2, 2).map(lambda hour: dt.timedelta(hours=hour))
whole_hours = hours.map(lambda hour: dt.datetime.fromisoformat("2024-01-01T00:00:00") + hour)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("a\"'\\\n{]é", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab'", max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
spoiled = st.tuples(
    st.text("{}[]\",:0 \t'\\n-1eENaI/#u", max_size=4), st.integers(0, 9), values
).map(lambda part: (text := json.dumps(part[2]))[: part[1]] + part[0] + text[part[1] :])
jsons = (
    values.map(json.dumps) | spoiled | st.sampled_from(['{"a":1,"a":2}', "1],[2", "1,2", "", "NaN"])
)
DATES = ["2024-02-29", "2023-02-29", "2024-2-9", "2024-13-01", "0000-01-01", "2024-01-31 ", ""]
NAMED = ["31 Jan 2024", "30 FEB 24", "29 feb 24", "29 feb 23", "31 apr 99", "12:30 pm", "13:30 pm"]
STAMPS = ["23:59:59.5Z", "24:00:00.1Z", "01:02:60.1Z", "01:02:03.1234567Z", "1:2:3.1+01:30"]
STAMPS += ["01:02:03.1+0130", "01:02:03.1+24:00", "01:02:03.1z", "01:02:03.1"]
moments = st.sampled_from(
    [*DATES, *NAMED, "100%", "2024-01-01\n", *("2024-01-01T" + s for s in STAMPS)]
)
formats = st.sampled_from(
    ["%Y-%m-%d", "%d %b %y", "%d %b %Y", "%Y-%m-%dT%H:%M:%S.%f%z", "%I:%M %p", "%f%%"]
)
tenths = st.integers(-4, 4).map(lambda number: number / 10)
aware = whole_hours.map(lambda time: time.replace(tzinfo=dt.timezone.utc))
written = whole_hours.map(lambda time: time.isoformat())
BOUNDS = [("a", small), ("b", tenths), ("price", tenths), ("ratio", tenths), ("day", days)]
BOUNDS += [("at", bounds) for bounds in (aware, whole_hours, written, days)]
MEMBERS = [("a", small), ("price", tenths), ("name", texts), ("flag", st.booleans())]
MEMBERS += [("day", days), ("day", days.map(str)), ("at", whole_hours.map(str))]
rows = st.lists(
    st.tuples(
        *[
            st.none() | each
            for each in (
                small,
                small,
                small.map(lambda cents: Decimal(cents) / 10),
                small.map(lambda tenths: tenths / 10),
                texts,
                texts,
                st.booleans(),
                days,
                whole_hours,
                jsons,
                moments,
            )
        ]
    ),
    min_size=150,
    max_size=300,
)


def rule(kind: str, **arguments: object) -> dict[str, Any]:
    return {"type": kind, **{name: value for name, value in arguments.items() if value is not None}}


def ordered(bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.tuples(bounds, bounds).map(sorted)
    flags = {"strict_min": st.booleans(), "strict_max": st.booleans()}
    both = pairs.map(lambda pair: {"min_value": pair[0], "max_value": pair[1]})
    one = st.sampled_from(["min_value", "max_value"]).flatmap(
        lambda name: bounds.map(lambda b: {name: b})
    )
    return st.tuples(both | one, st.fixed_dictionaries({}, optional=flags)).map(
        lambda two: two[0] | two[1]
    )


@st.composite
def expectations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One of every row-level kind, some on several types; equal ones fall out."""
    drawn = [*_of_values(draw), *_of_texts(draw), *_of_several(draw)]
    return list({json.dumps(each, default=str, sort_keys=True): each for each in drawn}.values())


def _condition(draw: st.DrawFn) -> dict[str, Any]:
    comparison = {"type": "comparison", "column": {"name": "a"}, "operator": "<=", "parameter": 1}
    listed = {
        "type": "comparison",
        "column": {"name": "name"},
        "operator": "NOT_IN",
        "parameter": ["a", "b"],
    }
    nullity = {"type": "nullity", "column": {"name": "b"}, "is_null": draw(st.booleans())}
    spoken = {"row_condition": 'col("a") > 0', "condition_parser": "great_expectations"}
    objects = [comparison, listed, nullity, {"type": "or", "conditions": [comparison, nullity]}]
    written = {"row_condition": "a > b or name like 'a%'", "condition_parser": "spark"}
    chosen = st.sampled_from(
        [{}, {}, spoken, written, *[{"row_condition": each} for each in objects]]
    )
    return draw(chosen)


def _of_values(draw: st.DrawFn) -> Iterator[dict[str, Any]]:
    column = draw(st.sampled_from(["a", "name", "at", "flag", "price"]))
    yield rule(f"{PREFIX}not_be_null", column=column, **_condition(draw))
    yield rule(f"{PREFIX}be_null", column=column, **_condition(draw))
    for name, bounds in _some(draw, BOUNDS, 4):
        yield rule(f"{PREFIX}be_between", column=name, **draw(ordered(bounds)), **_condition(draw))
    for name, members in _some(draw, MEMBERS, 3):
        chosen = draw(st.lists(members, max_size=3))
        yield rule(f"{PREFIX}be_in_set", column=name, value_set=chosen, **_condition(draw))
        yield rule(f"{PREFIX}not_be_in_set", column=name, value_set=chosen, **_condition(draw))


def _some(draw: st.DrawFn, choices: Sequence[T], number: int) -> list[T]:
    """A few of the choices: Great Expectations takes most of a second for each rule."""
    return draw(st.permutations(choices))[:number]


def _of_texts(draw: st.DrawFn) -> Iterator[dict[str, Any]]:
    regexes = st.sampled_from(["^a", "a$", "b", ".", "^$", "(?i)A", r"\d", "a.b", "a|^b"])
    likes = st.sampled_from(["a%", "_", "%b", "5%", "5\\_0", "50\\%", "%"])
    escaped = st.sampled_from(["50!%", "5!_0", "a%", "!!"])
    several = draw(st.lists(regexes, min_size=1, max_size=3))
    either = {"match_on": draw(st.sampled_from(["any", "all", None]))}
    yield rule(f"{PREFIX}match_regex", column="name", regex=draw(regexes), **_condition(draw))
    yield rule(f"{PREFIX}not_match_regex", column="a", regex=draw(regexes))
    yield rule(f"{PREFIX}match_regex_list", column="name", regex_list=several, **either)
    yield rule(f"{PREFIX}not_match_regex_list", column="name", regex_list=several)
    for patterns, escape in ((likes, None), (escaped, "!")):
        listed = draw(st.lists(patterns, min_size=1, max_size=3))
        for negated in ("", "not_"):
            single = {"like_pattern": draw(patterns), "escape": escape}
            yield rule(f"{PREFIX}{negated}match_like_pattern", column="name", **single)
        yield rule(
            f"{PREFIX}match_like_pattern_list",
            column="name",
            like_pattern_list=listed,
            escape=escape,
            **either,
        )
        yield rule(
            f"{PREFIX}not_match_like_pattern_list",
            column="name",
            like_pattern_list=listed,
            escape=escape,
        )
    lengths = ordered(st.integers(0, 4))
    yield rule("expect_column_value_lengths_to_equal", column="name", value=draw(st.integers(0, 3)))
    yield rule("expect_column_value_lengths_to_be_between", column="name", **draw(lengths))
    yield rule(f"{PREFIX}be_json_parseable", column="json")
    for strftime in draw(st.sets(formats, min_size=1, max_size=2)):
        yield rule(f"{PREFIX}match_strftime_format", column="moment", strftime_format=strftime)


def _of_several(draw: st.DrawFn) -> Iterator[dict[str, Any]]:
    pair_gap = st.sampled_from(
        ["both_values_are_missing", "either_value_is_missing", "neither", None]
    )
    record_gap = st.sampled_from(["all_values_are_missing", "any_value_is_missing", "never", None])
    pairs = [("a", "b"), ("price", "ratio"), ("name", "note"), ("day", "at")]
    for first, second in _some(draw, pairs, 2):
        pair = {"column_A": first, "column_B": second}
        gap, equal = {"ignore_row_if": draw(pair_gap)}, draw(st.sampled_from([True, False, None]))
        yield rule(
            f"{PAIR}a_to_be_greater_than_b", or_equal=equal, **pair, **gap, **_condition(draw)
        )
        yield rule(f"{PAIR}to_be_equal", **pair, **gap, **_condition(draw))
    members = st.tuples(st.none() | small, st.none() | texts).map(list)
    chosen = draw(st.lists(members, min_size=1, max_size=4))
    pair = {"column_A": "a", "column_B": "name", "ignore_row_if": draw(pair_gap)}
    yield rule(f"{PAIR}to_be_in_set", value_pairs_set=chosen, **pair)
    for columns in _some(draw, [["a", "b"], ["a", "b", "price"], ["name", "note"]], 1):
        record = {"column_list": columns, "ignore_row_if": draw(record_gap)}
        for kind in (
            "multicolumn_values_to_be_equal",
            "select_column_values_to_be_unique_within_record",
        ):
            yield rule(f"expect_{kind}", **record, **_condition(draw))
    for columns in _some(draw, [["a", "b"], ["a", "price"], ["price", "ratio"]], 1):
        record = {
            "column_list": columns,
            "ignore_row_if": draw(record_gap),
            "sum_total": draw(small),
        }
        yield rule("expect_multicolumn_sum_to_equal", **record, **_condition(draw))


@pytest.mark.slow
@settings(
    derandomize=True,
    max_examples=1,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(data=st.data())
def test_the_gate_rejects_exactly_the_rows_that_great_expectations_lists(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    drawn, rules = data.draw(rows), data.draw(expectations())
    assume(len({str(row) for row in drawn}) > 50)
    given_table = {
        "table": "t",
        "keys": ["row_id"],
        "source": {"format": "rows"},
        "expectations": rules,
    }
    table = Table.model_validate(given_table)
    assert find_problems(table) == []
    row_rules = {name for name, rule in EXPECTATIONS.items() if rule.scope == "row"}
    assert {expectation.type for expectation in table.expectations} == row_rules
    given = spark.createDataFrame([(n, *row) for n, row in enumerate(drawn)], SCHEMA).coalesce(1)
    folder = tmp_path_factory.mktemp("quality")
    theirs = [
        _listed(result)
        for result in evaluate_expectations(table, given, str(folder), COMPLETE, "r")
    ]
    ours = given.selectExpr(
        "row_id", *[f"{failing_sql(each)} AS r{n}" for n, each in enumerate(table.expectations)]
    )
    failed = [{row["row_id"] for row in ours.collect() if row[f"r{n}"]} for n in range(len(rules))]
    differing = [
        (_said(each), [drawn[key] for key in sorted(mine ^ yours)])
        for each, mine, yours in zip(table.expectations, failed, theirs, strict=True)
        if mine != yours
    ]
    assert differing == []


def _listed(result: dict[str, Any]) -> set[int]:
    assert "unexpected_count" in result["result"], result["exception_info"]
    return {row["row_id"] for row in result["result"].get("unexpected_index_list") or []}


def _said(expectation: Expectation) -> tuple[str, dict[str, Any]]:
    return expectation.type, expectation.arguments
