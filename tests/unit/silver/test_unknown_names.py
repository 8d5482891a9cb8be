"""Names in expectations: their types, and columns that nobody knows."""

from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from silver.expectations.problems import find_problems, find_unknown_columns
from tests.unit.lakehouse.test_delta_log import commit, metadata


def table(columns: dict[str, str], **expectation: Any) -> Table:
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "source": source, "keys": ["id"], "columns": columns}
    return Table.model_validate(given | {"expectations": [expectation]})


@pytest.mark.parametrize(
    ("written", "suggested"),
    [
        ("expect_column_values_not_to_be_null", "expect_column_values_to_not_be_null"),
        ("expect_column_values_to_be_notnull", "expect_column_values_to_not_be_null"),
        ("expect_column_values_to_be_nul", "expect_column_values_to_be_null"),
        ("expect_column_values_not_to_be_in_set", "expect_column_values_to_not_be_in_set"),
        ("expect_column_values_not_to_match_regex", "expect_column_values_to_not_match_regex"),
        ("expect_column_values_to_be_betwen", "expect_column_values_to_be_between"),
    ],
)
def test_a_typo_is_never_answered_with_its_opposite(written: str, suggested: str) -> None:
    (line,) = find_problems(table({}, type=written, column="id"))
    assert line == f"expectations[0].type: found {written!r}, expected {suggested}"


def test_a_name_like_no_other_is_answered_with_an_example() -> None:
    (line,) = find_problems(table({}, type="expect_it_all", column="id"))
    assert "such as expect_column_values_to_not_be_null" in line


def test_a_known_type_is_no_problem() -> None:
    rule = table({}, type="expect_column_values_to_be_null", column="id")
    assert find_problems(rule) == []


NULL = "expect_column_values_to_not_be_null"


def test_a_column_that_complete_columns_lack_is_unknown(tmp_path: Path) -> None:
    declared = {"id": "int", "customer_id": "int"}
    rule = table(declared, type=NULL, column="custmer_id")
    assert find_unknown_columns(Target(root=str(tmp_path)), rule) == [
        "expectations[0].column: found 'custmer_id', "
        "expected customer_id, or declare it in `columns`"
    ]


@pytest.mark.parametrize("declared", [{}, {"id": "int"}, {"qty": "int"}])
def test_where_columns_may_flow_through_no_name_is_unknown(
    tmp_path: Path, declared: dict[str, str]
) -> None:
    rule = table(declared, type=NULL, column="anything")
    assert find_unknown_columns(Target(root=str(tmp_path)), rule) == []


def test_a_table_that_is_there_knows_its_columns(tmp_path: Path) -> None:
    commit(tmp_path / "lake" / "silver" / "t_changes", 0, metadata("id", "qty", "_operation"))
    target = Target(root=str(tmp_path))
    assert find_unknown_columns(target, table({}, type=NULL, column="qty")) == []
    assert len(find_unknown_columns(target, table({}, type=NULL, column="price"))) == 1
    assert len(find_unknown_columns(target, table({}, type=NULL, column="_operation"))) == 1


def test_every_argument_that_names_columns_is_looked_at(tmp_path: Path) -> None:
    declared, target = {"id": "int", "a": "int"}, Target(root=str(tmp_path))
    pair = table(declared, type="expect_column_pair_values_to_be_equal", column_A="a", column_B="b")
    several = table(
        declared, type="expect_compound_columns_to_be_unique", column_list=["id", "b", "c"]
    )
    assert [line.partition(": ")[2][:9] for line in find_unknown_columns(target, pair)] == [
        "found 'b'"
    ]
    assert len(find_unknown_columns(target, several)) == 2


def test_a_rule_about_missing_columns_may_name_one(tmp_path: Path) -> None:
    rule = table({"id": "int", "a": "int"}, type="expect_column_to_exist", column="b")
    assert find_unknown_columns(Target(root=str(tmp_path)), rule) == []
