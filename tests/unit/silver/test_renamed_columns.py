"""`renamed_from`: what the YAML may say, and what a table that was built otherwise makes of it."""

from collections.abc import Mapping
from typing import Any

import pytest

from bronze.feeds import list_feeds
from gold.source_check.plan import name_at_source, plan_comparison
from gold.status.plan import Held, plan_changes
from gold.views.selects import select_shown
from lakehouse.config.table import Table
from lakehouse.config.table_rules import find_contradictions
from silver.state.fingerprint import build_fingerprint, list_differences, list_renames

NAME = {"type": "string", "renamed_from": "customer"}
BUILT = {"keys": "id", "source.format": "rows"}


def table(columns: Mapping[str, Any] | None = None, **options: Any) -> Table:
    given = {
        "table": "t",
        "keys": ["id"],
        "source": {"format": "rows", "path": "p"},
        "sequence_by": "v",
        "columns": {"customer_name": NAME} if columns is None else columns,
    }
    return Table.model_validate(given | options)


def renamed(*old: str, **options: Any) -> dict[str, Any]:
    return {"customer_name": {"type": "string", "renamed_from": [*old], **options}}


@pytest.mark.parametrize(
    ("columns", "found", "step"),
    [
        (renamed("customer_name"), "customer_name, the column itself", "remove it"),
        (renamed("Customer_Name"), "Customer_Name, the column itself", "remove it"),
        (
            renamed("customer") | {"customer": "string"},
            "customer, a column of the table",
            "remove the column customer, and write renamed_from: [customer]",
        ),
        (
            renamed("b") | {"b": {"type": "string", "renamed_from": "a"}},
            "b, a column of the table",
            "remove the column b, and write renamed_from: [b, a]",
        ),
        (renamed("ID"), "ID, a column of the table", "remove the column id"),
        (renamed("a", "A"), "A, which is named twice", "keep one"),
        (renamed("a") | {"c": NAME | {"renamed_from": "a"}}, "a, which is named twice", "keep one"),
        (renamed(""), "''", "leave it out"),
        (renamed("_id"), "'_id'", "leave it out"),
    ],
    ids=str,
)
def test_an_old_name_is_the_name_of_nothing_else(
    columns: dict[str, Any], found: str, step: str
) -> None:
    problems = [p for p in find_contradictions(table(columns)) if p.key.endswith(".renamed_from")]

    assert found in [problem.found for problem in problems]
    assert step in next(problem.action for problem in problems if problem.found == found)


def test_a_column_from_the_envelope_has_no_field_that_could_be_renamed() -> None:
    source = {"format": "debezium", "path": "p"}
    of = table({"db": {"from": "source.db", "renamed_from": "a"}}, source=source)
    assert "renamed_from with from" in [problem.found for problem in find_contradictions(of)]


@pytest.mark.parametrize(
    "options",
    [
        {"keys": ["customer"]},
        {"sequence_by": "customer"},
        {"sequence_by": ["v", "coalesce(customer, 'x')"]},
        {"sequence_by": "`Customer`"},
        {"apply_as_deletes": "op = 'd' AND customer IS NULL"},
        {"apply_as_truncates": "CUSTOMER = 'all'"},
        {"column_list": ["id", "customer"]},
        {"except_column_list": ["customer"]},
        {"stored_as_scd_type": 2, "track_history_column_list": ["customer"]},
        {"stored_as_scd_type": 2, "track_history_except_column_list": ["customer"]},
        {"ignore_null_updates": ["customer"]},
        {"columns_to_update": "customer"},
        {"sequence_groups": [{"sequence_by": "w", "columns": ["customer"]}]},
        {"sequence_groups": [{"sequence_by": "customer + 1", "columns": ["a"]}]},
        {"source": {"format": "rows", "path": "p", "time_column": "customer"}},
        {"expectations": [{"type": "expect_column_values_to_not_be_null", "column": "customer"}]},
        {"expectations": [{"type": "expect_x", "column_list": ["id", "customer"]}]},
    ],
    ids=str,
)
def test_the_rest_of_the_yaml_says_the_new_name(options: dict[str, Any]) -> None:
    found = [
        problem for problem in find_contradictions(table(**options)) if "customer" in problem.found
    ]
    assert found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": renamed("customer", "client", nullable=False, sensitive=True)},
        {"apply_as_deletes": "op = 'customer' OR kind = \"customer\" OR a.customer = 1"},
        {"apply_as_deletes": "customer(op) = 'd' OR customer_2 = 1 OR `the customer` = 1"},
        {"column_list": ["id", "customer_name", "the customer"]},
        {"sequence_by": "customer_name"},
    ],
    ids=str,
)
def test_a_renamed_column_is_sound(options: dict[str, Any]) -> None:
    assert [*find_contradictions(table(**options))] == []


def test_names_of_ydb_differ_by_case() -> None:
    ydb = {"source": {"format": "ydb", "path": "p"}, "sequence_by": None}
    of = Table.model_validate(
        {"table": "t", "keys": ["id"], "columns": renamed("Customer_Name")} | ydb
    )
    assert [p for p in find_contradictions(of) if p.key.endswith("renamed_from")] == []


def test_a_new_name_differs_from_what_a_table_was_built_with() -> None:
    of = table(renamed("customer", "client"))
    said = [f"column {old} is renamed to customer_name" for old in ("customer", "client")]

    assert [*list_differences(of, {})] == []
    assert [*list_differences(of, BUILT)] == said == list_renames(of, BUILT)
    now = build_fingerprint(of)
    assert [*list_differences(of, now)] == [] == list_renames(of, now)
    before = build_fingerprint(table(renamed("client")))
    assert list_renames(of, before) == said[:1]


def test_a_table_is_built_anew_by_itself_for_new_names_alone() -> None:
    before = build_fingerprint(table())

    gone = [*list_differences(table({}), before)]
    assert gone == ["renamed_from of column customer_name was customer, is gone"]
    assert list_renames(table({}), before) == []
    assert list_renames(table(keys=["v"]), BUILT) == []
    assert len([*list_differences(table(keys=["v"]), BUILT)]) == 2


def test_deleted_rows_that_have_lost_their_values_are_not_shown_before_a_rebuild() -> None:
    removing, flagging = (build_fingerprint(table(on_delete=how)) for how in ("remove", "flag"))
    said = ["on_delete was remove, is flag"]
    assert [*list_differences(table(on_delete="flag"), removing)] == said
    assert [*list_differences(table(on_delete="remove"), flagging)] == []


def test_another_condition_of_deletes_differs_from_what_a_table_was_built_with() -> None:
    rows = {"source": {"format": "rows", "path": "p"}, "sequence_by": "v"}
    of = Table.model_validate({"table": "t", "keys": ["id"], "apply_as_deletes": "op = 'd'"} | rows)
    mended = of.model_copy(update={"apply_as_deletes": "op = 'D'"})
    before = build_fingerprint(of)
    said = ["apply_as_deletes was op = 'd', is op = 'D'"]
    assert [*list_differences(of, before)] == []
    assert [*list_differences(mended, before)] == said
    of_earlier_version = {key: text for key, text in before.items() if key != "apply_as_deletes"}
    assert [*list_differences(mended, of_earlier_version)] == []


def test_the_plan_tells_of_the_new_name_once() -> None:
    of = table()
    held = {"id": "long", "v": "long", "customer": "string"}

    found = plan_changes(of, Held(held, [*list_differences(of, BUILT)], 20, 7))

    assert (found.effect, found.records) == ("rebuild", 20)
    assert found.why == ["column customer is renamed to customer_name"]
    assert plan_changes(of, Held({"id": "long"}, [], 20, 7)).effect == "add"


def test_a_sensitive_column_is_hidden_by_its_old_name_too() -> None:
    """Until the table is built anew its views have the old column."""
    of = table(renamed("customer", sensitive=True))
    assert select_shown(of, ["id", "Customer"], "remove") == {"id": "`id`"}


def test_bytes_of_a_text_column_are_text_by_each_of_its_names() -> None:
    (feed,) = list_feeds([table(renamed("customer") | {"n": {"type": "int", "renamed_from": "m"}})])
    assert feed.texts == ("customer_name", "customer")


def test_a_check_of_the_source_finds_a_column_by_the_name_that_the_source_has() -> None:
    of = table(renamed("customer", "client") | {"secret": {"type": "string", "sensitive": True}})
    types = {"id": "bigint", "client": "text", "secret": "text", "v": "bigint"}

    found = plan_comparison(of, "things", types, ["v", "customer_name", "secret", "id"])

    assert [(c.name, c.field) for c in found.columns] == [
        ("id", "id"), ("v", "v"), ("customer_name", "client"),
    ]  # fmt: skip
    assert found.left_out == ("secret",)
    assert name_at_source(of, "customer_name", types | {"customer": "text"}) == "customer"
    assert name_at_source(of, "customer_name", {}) == "customer_name"
