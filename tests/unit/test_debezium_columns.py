from typing import Any

import pytest

from lakehouse.table import LearnedColumn, Table
from silver.debezium_columns import ColumnPlan, columns_of, normal, planned, renamed, unknown, wider
from silver.debezium_encoding import Encoding
from silver.debezium_schema import Survey, Version, fields_of, from_variant
from silver.inference import MOST_COLUMNS
from silver.shapes import Shape

INT, BIGINT, TEXT = (Encoding("plain", t) for t in ("int", "bigint", "string"))


def table(columns: dict[str, Any], **options: object) -> Table:
    source = {"format": "debezium", "path": "p"}
    made = Table.model_validate({"table": "t", "keys": ["id"], "source": source, **options})
    return made.model_copy(update={"columns": columns})


def seen(*versions: dict[str, Encoding], names: tuple[str, ...] = ()) -> Survey:
    numbered = [Version(at, fields) for at, fields in enumerate(versions)]
    shapes = [Shape({name: e.type for name, e in fields.items()}) for fields in versions]
    plain = [Shape(dict.fromkeys(names))] if names else []
    return Survey(numbered, bool(names), (*shapes, *plain))


def plans(of: Table, found: Survey, **types: str) -> list[ColumnPlan]:
    return planned(of, found, columns_of(of, found), types)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("smallint", "int", "int"),
        ("double", "float", "double"),
        ("decimal(12,2)", "decimal(14,4)", "decimal(14,4)"),
        ("decimal(12,4)", "decimal(12,2)", "decimal(14,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("int", "string", None),
        ("bigint", "double", None),
    ],
)
def test_only_types_of_one_kind_widen(one: str, other: str, expected: str | None) -> None:
    assert wider(one, other) == expected


@pytest.mark.parametrize(
    ("written", "printed"), [("INTEGER", "int"), ("Decimal(10, 2)", "decimal(10,2)")]
)
def test_types_are_compared_as_spark_prints_them(written: str, printed: str) -> None:
    assert normal(written) == printed


def test_a_new_column_has_the_widest_type_of_its_versions() -> None:
    found = plans(table({}), seen({"id": INT, "n": INT}, {"id": INT, "n": BIGINT}))

    assert [(plan.name, plan.type) for plan in found] == [("id", "int"), ("n", "bigint")]


def test_a_learned_column_widens_unless_told_not_to() -> None:
    learned = {"id": LearnedColumn(type="int"), "n": LearnedColumn(type="int")}
    kept = table(learned, schema_changes={"widen": "ignore"})

    assert plans(table(learned), seen({"n": BIGINT}))[1].type == "bigint"
    assert plans(kept, seen({"n": BIGINT}))[1].type == "int"


def test_a_version_of_another_kind_is_a_misfit() -> None:
    found = plans(table({}), seen({"id": INT, "v": TEXT}, {"id": INT, "v": INT}))

    assert (found[1].type, found[1].misfits) == ("string", frozenset({1}))


def test_types_are_asked_only_of_fields_that_nothing_tells() -> None:
    known = table({"a": LearnedColumn(type="int")})

    found = seen({"b": INT}, names=("a", "B", "c", "id"))

    assert unknown(known, found, columns_of(known, found)) == {"c", "id"}


def test_fields_that_begin_with_an_underscore_are_left_out() -> None:
    found = plans(table({}), seen({"id": INT, "_batch": INT}))

    assert [plan.name for plan in found] == ["id"]


def test_fields_that_differ_in_case_only_are_one_column_called_as_the_first() -> None:
    one = Survey([], True, (Shape({"id": None, "a": None}), Shape({"id": None, "A": None})))
    found = columns_of(table({}), one)

    assert (found.fields, found.unfit) == ({"id": ("id",), "a": ("a", "A")}, False)
    assert [shape.fields for shape in renamed(one.shapes, found, table({}))] == [
        {"id": None, "a": None}
    ] * 2
    assert [p.fields for p in planned(table({}), one, found, {"a": "string"})] == [
        ("id",),
        ("a", "A"),
    ]


@pytest.mark.parametrize(
    ("names", "options", "unfit"),
    [
        (("id", "a", "A"), {}, True),
        (("id", ""), {}, True),
        (("id", "_a", "_A"), {}, False),
        (("id", "a", "A"), {"schema_changes": {"add_column": "ignore"}}, False),
        (("id", "ID"), {"schema_changes": {"add_column": "ignore"}}, True),
        (("id", "a", "A"), {"column_list": ["id"]}, False),
    ],
)
def test_a_record_of_two_fields_for_one_column_is_unfit(
    names: tuple[str, ...], options: dict[str, Any], unfit: bool
) -> None:
    assert columns_of(table({}, **options), seen(names=names)).unfit is unfit


def test_new_columns_are_so_many_as_there_is_room_for_and_the_first_to_come() -> None:
    many = [f"c{at:04d}" for at in range(MOST_COLUMNS + 5)]
    each = [Shape({"id": None, name: None}) for name in reversed(many)]
    found = columns_of(table({}), Survey([], True, tuple(each)))

    assert list(found.fields) == ["id", *many[6:]]
    assert found.unfit
    wide = columns_of(table({}), Survey([], True, (Shape(dict.fromkeys(many)), each[-1])))
    assert (list(wide.fields), wide.unfit) == (["id", many[0]], True)


@pytest.mark.parametrize("text", ["", "5", "{", '{"fields":5}', '{"fields":[{"field":"after"}]}'])
def test_text_that_is_no_schema_block_has_no_fields(text: str) -> None:
    assert fields_of(text) == {}


@pytest.mark.parametrize(
    ("found", "type"),
    [
        ("VOID", None),
        ("BIGINT", "bigint"),
        ("DECIMAL(20,0)", "decimal(38,0)"),
        ("DECIMAL(3,1)", "double"),
        ("ARRAY<VOID>", "array<string>"),
        ("ARRAY<BIGINT>", "array<bigint>"),
        ("OBJECT<a: BIGINT>", "string"),
        ("VARIANT", "string"),
    ],
)
def test_types_of_json_values(found: str, type: str | None) -> None:
    assert from_variant(found) == type
