from typing import Any

import pytest

from lakehouse.table import LearnedColumn, Table
from silver.debezium_columns import normal, planned, unknown, wider
from silver.debezium_encoding import Encoding
from silver.debezium_schema import Survey, Version, fields_of, from_variant

INT, BIGINT, TEXT = (Encoding("plain", t) for t in ("int", "bigint", "string"))


def table(columns: dict[str, Any], **options: object) -> Table:
    source = {"format": "debezium", "path": "p"}
    made = Table.model_validate({"table": "t", "keys": ["id"], "source": source, **options})
    return made.model_copy(update={"columns": columns})


def seen(*versions: dict[str, Encoding], names: tuple[str, ...] = ()) -> Survey:
    numbered = [Version(at, fields) for at, fields in enumerate(versions)]
    return Survey(numbered, set(names), bool(names))


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
    found = planned(table({}), seen({"id": INT, "n": INT}, {"id": INT, "n": BIGINT}), {})

    assert [(plan.name, plan.type) for plan in found] == [("id", "int"), ("n", "bigint")]


def test_a_learned_column_widens_unless_told_not_to() -> None:
    learned = {"id": LearnedColumn(type="int"), "n": LearnedColumn(type="int")}
    kept = table(learned, schema_changes={"widen": "ignore"})

    assert planned(table(learned), seen({"n": BIGINT}), {})[1].type == "bigint"
    assert planned(kept, seen({"n": BIGINT}), {})[1].type == "int"


def test_a_version_of_another_kind_is_a_misfit() -> None:
    found = planned(table({}), seen({"id": INT, "v": TEXT}, {"id": INT, "v": INT}), {})

    assert (found[1].type, found[1].misfits) == ("string", frozenset({1}))


def test_types_are_asked_only_of_fields_that_nothing_tells() -> None:
    known = table({"a": LearnedColumn(type="int")})

    assert unknown(known, seen({"b": INT}, names=("a", "B", "c", "id"))) == {"c", "id"}


def test_fields_that_begin_with_an_underscore_are_left_out() -> None:
    found = planned(table({}), seen({"id": INT, "_batch": INT}), {})

    assert [plan.name for plan in found] == ["id"]


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
