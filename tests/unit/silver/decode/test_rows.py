from typing import Any

import pytest

from silver.decode.expressions.names import FAULT, MEMBER, has_expressions, members_read
from silver.decode.protocols.rows import OF_VALUES
from tests.helpers.builders import table
from tests.helpers.flat_records import decoded


def test_members_with_an_underscore_are_read_for_the_expressions_that_name_them() -> None:
    users = table("rows", ["id"], sequence_by="_seq", apply_as_deletes="gone or _op = 'D'")
    assert members_read(users) == ["_seq", "_op"]
    found = decoded(users, [{"id": 1, "_seq": 7, "_op": "D", "_own": 5}])
    assert found.columns.names == ["id", f"{MEMBER}_seq", f"{MEMBER}_op", FAULT]
    assert found.values(f"{MEMBER}_seq", f"{MEMBER}_op") == [(7, "D")]
    assert found.told("absent") == [None]
    assert decoded(users, [{"id": 1, "_seq": 1}]).types() == {
        "id": "bigint",
        f"{MEMBER}_seq": "bigint",
        FAULT: "string",
    }


@pytest.mark.parametrize(
    ("format", "options", "has"),
    [
        ("rows", {"sequence_by": "seq"}, True),
        ("bigquery", {}, False),
        ("bigquery", {"sequence_by": "seq"}, True),
        ("bigquery", {"source": {"time_column": "at"}}, True),
        ("ydb", {}, False),
        ("ydb", {"sequence_groups": [{"sequence_by": "v", "columns": ["a"]}]}, True),
        ("snapshot", {"source": {"mode": "full"}}, False),
    ],
)
def test_expressions_are_those_of_the_yaml(format: str, options: dict[str, Any], has: bool) -> None:
    assert has_expressions(table(format, ["id"], **options)) is has


def test_a_text_that_no_table_can_hold_rules_out_an_upsert_and_keeps_the_other_values() -> None:
    named = table("rows", ["id"], sequence_by="id", columns={"id": "int", "name": "string"})

    found = decoded(named, ['{"id": 1, "name": "\\ud800"}', '{"id": 2, "name": "b"}'])

    assert found.values("id", "name", FAULT) == [(1, None, OF_VALUES), (2, "b", None)]
    assert found.told("message") == [r"column name: found '\ud800', expected string", None]


def test_of_rows_that_are_read_together_the_last_of_two_equal_names_counts_too() -> None:
    users = table("rows", ["id"], sequence_by="seq")

    found = decoded(users, ['{"id": 1, "seq": 1, "a": 1, "a": 2}'] * 20)

    assert found.values("a") == [2] * 20


@pytest.mark.parametrize(
    ("preset", "values", "operation"),
    [
        ("fivetran", [True, 1, "t", "T", "True", "TRUE", "1", "yes", "Y", " true"], "delete"),
        ("fivetran", [False, 0, None, "f", "F", "False", "0", "no", "N", ""], "upsert"),
        ("fivetran", ["NULL", "\\N", "maybe", "2"], "upsert"),
        ("airbyte", ["2024-05-01T12:00:00Z", 1714564800000], "delete"),
        ("airbyte", [None, "", " ", "\\N", "null", "NULL"], "upsert"),
    ],
)
def test_a_preset_knows_a_delete_however_its_sign_is_written(
    preset: str, values: list[Any], operation: str
) -> None:
    sign = {"fivetran": "_fivetran_deleted", "airbyte": "_ab_cdc_deleted_at"}[preset]
    users = table(preset, ["id"])
    found = decoded(users, [{"id": 1, sign: value} for value in values])
    assert found.told("operation") == [operation] * len(values)


def test_a_flag_may_be_a_delete_where_it_is_false() -> None:
    source = {"format": "rows", "path": "t", "envelope": {"operation": "live", "deletes": [False]}}
    users = table("rows", ["id"], source=source, sequence_by="id")
    found = decoded(users, [{"id": 1, "live": value} for value in ("F", 0, "t", "", None)])
    assert found.told("operation") == ["delete", "delete", "upsert", "upsert", "upsert"]


def test_an_operation_that_is_a_letter_is_no_flag() -> None:
    envelope = {"operation": "op", "deletes": ["1", "t"]}
    source = {"format": "rows", "path": "t", "envelope": envelope}
    users = table("rows", ["id"], source=source, sequence_by="id")
    found = decoded(users, [{"id": 1, "op": value} for value in (1, "t", "T", True)])
    assert found.told("operation") == ["delete", "delete", "upsert", "upsert"]
