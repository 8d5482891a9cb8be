"""What a source's shapes mean for a table, in plain Python."""

from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.columns import Shape
from silver.state.drift import KnownColumns, find_drifts


def table(columns: dict[str, str] | None = None, **options: Any) -> Table:
    source = {"format": "debezium", "path": "p"}
    given = {"table": "t", "keys": ["id"], "source": source, "columns": columns or {}}
    return Table.model_validate(given | options)


def found(
    *shapes: dict[str, str | None],
    before: dict[str, str | None] | None = None,
    held: dict[str, str] | None = None,
    config: Table | None = None,
    complete: bool = True,
) -> list[tuple[Any, ...]]:
    met = [Shape(shape, complete=complete) for shape in shapes]
    changes, _ = find_drifts(met, KnownColumns(before), held or {}, config or table())
    return [(d.kind, d.column, d.from_type, d.to_type, d.action) for d in changes]


def test_the_first_shape_of_a_new_table_is_no_change() -> None:
    assert found({"id": "int", "a": "string"}) == []


def test_a_further_column_is_added_once() -> None:
    shapes = ({"id": "int"}, {"id": "int", "a": "string"}, {"id": "int", "a": "string"})
    assert found(*shapes) == [("add_column", "a", None, "string", "applied")]


def test_a_wider_type_widens_what_the_table_holds() -> None:
    changes = found({"id": "int"}, {"id": "bigint"})
    assert changes == [("widen", "id", "int", "bigint", "applied")]


def test_a_narrower_type_fits_and_is_no_change() -> None:
    assert found({"a": "int"}, before={"a": "bigint"}, held={"a": "bigint"}) == []


def test_a_column_that_complete_records_lack_is_dropped() -> None:
    changes = found({"id": "int"}, before={"id": "int", "a": "string"}, held={"a": "string"})
    assert changes == [("drop_column", "a", "string", None, "applied")]


def test_a_column_that_rows_may_leave_out_is_not() -> None:
    assert found({"id": "int"}, before={"id": "int", "a": "string"}, complete=False) == []


def test_another_kind_of_type_is_incompatible() -> None:
    changes = found({"a": "string"}, before={"a": "int"}, held={"a": "int"})
    assert changes == [("incompatible", "a", "int", "string", "dead_letter")]


def test_a_column_that_comes_back_with_another_type_is_incompatible() -> None:
    changes = found({"id": "int", "a": "int"}, before={"id": "int"}, held={"a": "string"})
    assert changes == [("incompatible", "a", "string", "int", "dead_letter")]


def test_a_rename_is_a_drop_and_an_addition() -> None:
    changes = found({"a": "int"}, {"b": "int"})
    assert sorted(changes) == [
        ("add_column", "b", None, "int", "applied"),
        ("drop_column", "a", "int", None, "applied"),
    ]


def test_a_declared_type_stays_whatever_the_source_does() -> None:
    config = table({"a": "bigint"})
    changes = found({"a": "int"}, {"a": "string"}, held={"a": "bigint"}, config=config)
    assert changes == [("incompatible", "a", "bigint", "string", "declared")]


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        ("add_column", ({"id": "int"}, {"id": "int", "a": "int"})),
        ("widen", ({"a": "int"}, {"a": "bigint"})),
        ("drop_column", ({"id": "int", "a": "int"}, {"id": "int"})),
    ],
)
def test_each_kind_has_its_own_policy(kind: str, shapes: tuple[dict[str, str | None], ...]) -> None:
    for policy, action in (("apply", "applied"), ("ignore", "ignored"), ("fail", "failed")):
        config = table(schema_changes={kind: policy})
        assert [(c[0], c[4]) for c in found(*shapes, config=config)] == [(kind, action)]


def test_columns_that_the_table_leaves_out_do_not_drift() -> None:
    config = table(except_column_list=["a"])
    assert found({"id": "int"}, {"id": "int", "a": "int"}, config=config) == []


def test_records_from_before_a_change_of_the_columns_change_nothing_again() -> None:
    old, new, newest = {"id": "int", "a": "int"}, {"id": "int", "b": "int"}, {"id": "int"}
    first = [Shape(old, times=(100, 100)), Shape(new, times=(300, 400))]
    changes, known = find_drifts(first, KnownColumns(None), {}, table())
    assert [(d.kind, d.column) for d in changes] == [("add_column", "b"), ("drop_column", "a")]
    assert (known.fields, known.since) == (new, 300)
    held = {"id": "int", "a": "int", "b": "int"}
    late = Shape(old, times=(100, 200))
    assert find_drifts([late], known, held, table()) == ([], known)
    unheard = Shape({"id": "int", "c": "int"}, times=(200, 200))
    changes, after = find_drifts([unheard, late], known, held, table())
    assert ([(d.kind, d.column) for d in changes], after) == ([("add_column", "c")], known)
    changes, after = find_drifts([Shape(newest, times=(200, 500))], known, held, table())
    assert [(d.kind, d.column) for d in changes] == [("drop_column", "b")]
    assert after == KnownColumns(newest, 300)


def test_a_declared_column_is_not_new() -> None:
    strict = table({"a": "string"}, schema_changes={"add_column": "fail"})
    shapes = ({"id": "int"}, {"id": "int", "a": "string"})
    assert found(*shapes, held={"a": "string"}, config=strict) == []
