from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.columns import (
    MOST_COLUMNS,
    Columns,
    adds_columns,
    is_published,
    is_wanted,
    known_columns,
    required_columns,
    settle_names,
    shown_by,
    with_shown,
)


def table(**options: Any) -> Table:
    source = {"format": "debezium", "path": "p"}
    return Table.model_validate({"table": "t", "keys": ["id"], "source": source, **options})


def test_names_that_differ_in_case_only_are_set_apart_in_their_order() -> None:
    assert settle_names(["b", "B", "Id", "c", ""], ["id"]) == (["b", "c"], ["B", "Id", ""])


def test_names_beyond_the_room_of_a_table_are_set_apart() -> None:
    known = [f"k{at}" for at in range(MOST_COLUMNS - 2)]

    assert settle_names(["c", "b", "a"], known) == (["c", "b"], ["a"])
    assert settle_names(["c"], [*known, "x", "y", "z"]) == ([], ["c"])


def test_known_columns_are_keys_then_learned_then_declared() -> None:
    of = table(columns={"b": "decimal(3,1)", "d": "int"})

    found = known_columns(of, {"a": T.LongType(), "b": T.StringType(), "_x": T.StringType()})

    assert found.names == ["id", "a", "b", "d"]
    assert [c.type.simpleString() for c in found.columns] == [
        *("string", "bigint", "decimal(3,1)", "int"),
    ]
    assert [c.provisional for c in found.columns] == [True, False, False, False]
    assert found.schema()["b"].dataType == T.DecimalType(3, 1)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [True, True, True]),
        ({"column_list": ["a"]}, [True, True, False]),
        ({"except_column_list": ["a", "id"]}, [True, False, True]),
    ],
)
def test_a_table_keeps_its_keys_and_what_its_lists_say(
    options: dict[str, Any], kept: list[bool]
) -> None:
    assert [is_published(table(**options), name) for name in ("id", "a", "b")] == kept


def test_a_column_that_is_left_out_is_wanted_where_a_group_is_ordered_by_it() -> None:
    groups = [{"sequence_by": "coalesce(stock_version, 0)", "columns": ["stock"]}]
    of = table(except_column_list=["stock_version", "note"], sequence_groups=groups)

    assert [is_wanted(of, name) for name in ("stock_version", "note", "a", "_a")] == [
        *(True, False, True, False),
    ]


def test_new_columns_are_added_unless_the_policy_ignores_them() -> None:
    assert adds_columns(table())
    assert adds_columns(table(schema_changes={"add_column": "fail"}))
    assert not adds_columns(table(schema_changes={"add_column": "ignore"}))


def test_required_columns_are_kept_ones_that_are_neither_keys_nor_in_a_group() -> None:
    needed = {"type": "int", "nullable": False}
    groups = [{"sequence_by": "v", "columns": ["b"]}]
    columns = dict.fromkeys(["id", "a", "b", "d", "v"], needed) | {"c": "int"}

    of = table(columns=columns, sequence_groups=groups, except_column_list=["d"])

    assert required_columns(of) == {"a"}


def test_a_name_with_half_a_surrogate_pair_has_no_column() -> None:
    assert settle_names(["a", "b\ud800"], []) == (["a"], ["b\ud800"])


def test_what_records_showed_of_their_source_is_remembered_as_texts() -> None:
    shown = Columns((), envelope="full", decimal_texts="plain", order="source", key_parts=("a",))
    shown = replace(shown, source_table=("shop", None, "t"), left_out=("_x",))
    shown = replace(shown, whole_old_rows=True, lacked_keys=("b",))

    assert with_shown(Columns(()), shown_by(shown)) == shown
    assert shown_by(Columns(())) == {}
    assert with_shown(Columns(()), {}) == Columns(())


def test_that_old_rows_are_whole_clears_keys_that_were_lacked_before() -> None:
    before = shown_by(replace(Columns(()), lacked_keys=("b",)))
    after = replace(Columns(()), whole_old_rows=True)

    assert with_shown(Columns(()), before | shown_by(after)) == after
