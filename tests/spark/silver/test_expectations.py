import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.config.table import Table
from silver.contract import GATED_COLUMNS
from silver.expectations.gate import gate_changes, list_row_rules
from tests.helpers.builders import bronze_rows
from tests.helpers.decoding import to_changes

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

GIVEN = "id int, qty int, name string, _operation string, _absent array<string>, _reason string"
NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"


def table(*expectations: dict[str, Any], **keys: object) -> Table:
    given = {"table": "orders", "keys": ["id"], "source": {"format": "rows"}, **keys}
    return Table.model_validate({**given, "expectations": list(expectations)})


def qty(kind: str = BETWEEN, **arguments: object) -> dict[str, Any]:
    return {
        "type": kind,
        "column": "qty",
        **({"min_value": 0} if kind == BETWEEN else {}),
        **arguments,
    }


def change(key: int, qty: int | None, **given: object) -> tuple[Any, ...]:
    fields = {"name": "a", "_operation": "upsert", "_absent": None, "_reason": None, **given}
    return (key, qty, *fields.values())


def gated(spark: "SparkSession", rules: Table, *changes: tuple[Any, ...]) -> "dict[int, Row]":
    """Changes through the gate by key; a decoder's other columns are null, the raw record is R."""
    given = spark.createDataFrame(list(changes), GIVEN)
    others = [c for c in GATED_COLUMNS if c.name not in (*given.columns, "_warnings")]
    nulls = [f"cast(null as {column.type}) {column.name}" for column in others]
    changes = given.selectExpr("*", *nulls).withColumn("_raw", F.lit("R"))
    return {row["id"]: row for row in gate_changes(changes, rules).collect()}


def verdicts(rows: "dict[int, Row]") -> dict[int, str | None]:
    return {key: row["_reason"] for key, row in rows.items()}


def test_a_row_that_breaks_a_critical_rule_is_rejected_and_keeps_its_record(
    spark: "SparkSession",
) -> None:
    rows = gated(spark, table(qty()), change(1, -5), change(2, 5))
    rejected, passed = rows[1], rows[2]
    assert rejected["_reason"] == f"rule:{BETWEEN}(qty)"
    assert rejected["_rule"] == f"{BETWEEN}(qty)"
    assert rejected["_message"] == f"qty is -5; expected {BETWEEN} (min_value: 0)"
    assert (rejected["_operation"], rejected["_raw"], rejected["_warnings"]) == (None, "R", None)
    assert passed["_operation"] == "upsert"
    assert (passed["_reason"], passed["_rule"], passed["_message"], passed["_raw"]) == (None,) * 4


def test_the_columns_are_the_business_columns_and_then_the_contract(spark: "SparkSession") -> None:
    row = gated(spark, table(qty()), change(1, 1))[1]
    assert row.__fields__ == ["id", "qty", "name", *[column.name for column in GATED_COLUMNS]]


def test_a_table_without_expectations_passes_everything(spark: "SparkSession") -> None:
    row = gated(spark, table(), change(1, -5))[1]
    assert (row["_reason"], row["_warnings"], row["_raw"]) == (None, None, None)


def test_a_warning_is_noted_and_the_row_passes(spark: "SparkSession") -> None:
    rules = table(qty(severity="warning"), {**qty(), "column": "id", "max_value": 1})
    rows = gated(spark, rules, change(1, -5), change(2, -5), change(0, 5))
    assert rows[1]["_warnings"] == [f"{BETWEEN}(qty)"]
    assert (rows[2]["_reason"], rows[2]["_warnings"]) == (f"rule:{BETWEEN}(id)", None)
    assert rows[0]["_warnings"] is None


def test_the_first_broken_rule_in_the_order_of_the_table_is_named(spark: "SparkSession") -> None:
    rules = table(qty(), qty(max_value=9), qty(NOT_NULL))
    rows = gated(spark, rules, change(1, -5), change(2, 50), change(3, None))
    names = {1: f"{BETWEEN}(qty)", 2: f"{BETWEEN}(qty)#2", 3: f"{NOT_NULL}(qty)"}
    assert verdicts(rows) == {key: f"rule:{name}" for key, name in names.items()}


def test_deletes_and_truncates_pass(spark: "SparkSession") -> None:
    others = [change(n, None, _operation=o) for n, o in enumerate(("delete", "truncate", "none"))]
    rows = gated(spark, table(qty(NOT_NULL)), *others)
    assert verdicts(rows) == {0: None, 1: None, 2: None}


def test_an_earlier_reason_stays_with_its_record(spark: "SparkSession") -> None:
    row = gated(spark, table(qty()), change(1, -5, _reason="bad_value"))[1]
    assert (row["_reason"], row["_rule"], row["_raw"]) == ("bad_value", None, "R")


def test_a_rule_on_a_column_that_the_change_does_not_carry_is_not_evaluated(
    spark: "SparkSession",
) -> None:
    partial = change(1, None, _absent=["qty"])
    conditional = {**qty(NOT_NULL), "column": "id", "row_condition": "qty is null and id > 5"}
    other = change(9, None, _absent=["name"])
    rows = gated(spark, table(qty(NOT_NULL), conditional), partial, other)
    assert verdicts(rows) == {1: None, 9: f"rule:{NOT_NULL}(qty)"}


def test_a_condition_on_a_column_that_the_change_does_not_carry_leaves_the_rule_unevaluated(
    spark: "SparkSession",
) -> None:
    rule = {**qty(max_value=0), "column": "id", "row_condition": "qty is null"}
    rows = gated(spark, table(rule), change(1, None, _absent=["qty"]), change(2, None))
    assert verdicts(rows) == {1: None, 2: f"rule:{BETWEEN}(id)"}


def test_a_rule_on_a_column_that_no_change_of_the_batch_has_is_not_evaluated(
    spark: "SparkSession",
) -> None:
    unknown = {**qty(NOT_NULL), "column": "later"}
    condition = {**qty(NOT_NULL), "row_condition": "later > 3"}
    spoken = {"type": "comparison", "column": {"name": "later"}, "operator": "==", "parameter": 1}
    structured = {**qty(NOT_NULL), "row_condition": spoken}
    rows = gated(spark, table(unknown, condition, structured), change(1, None))
    assert verdicts(rows) == {1: None}


def test_a_critical_rule_with_mostly_rejects_no_single_row(spark: "SparkSession") -> None:
    row = gated(spark, table(qty(mostly=0.9)), change(1, -5))[1]
    assert (row["_reason"], row["_warnings"]) == (None, [f"{BETWEEN}(qty)"])


def test_expectations_about_the_table_are_no_gates(spark: "SparkSession") -> None:
    whole = table({"type": "expect_table_row_count_to_be_between", "min_value": 100})
    assert list_row_rules(whole) == []
    assert verdicts(gated(spark, whole, change(1, 1))) == {1: None}


def test_rows_that_a_rule_cannot_be_evaluated_on_are_rejected_rather_than_stop_the_stream(
    spark: "SparkSession",
) -> None:
    rule = {"type": BETWEEN, "column": "name", "min_value": 0}
    rows = gated(spark, table(rule), change(1, 1), change(2, 2, name=None))
    assert verdicts(rows) == {1: f"rule:{BETWEEN}(name)", 2: None}
    assert "name is string" in rows[1]["_message"]


def test_the_value_of_a_sensitive_column_is_not_told(spark: "SparkSession") -> None:
    hidden = {"qty": {"type": "int", "sensitive": True}}
    row = gated(spark, table(qty(), columns=hidden), change(1, -12345))[1]
    assert "12345" not in row["_message"]


def test_a_decoded_change_that_is_rejected_keeps_the_record_as_it_arrived(
    spark: "SparkSession",
) -> None:
    rules = table(qty(), sequence_by="seq", columns={"id": "int", "qty": "int", "seq": "int"})
    lines = [{"id": 1, "qty": -5, "seq": 1}, {"id": 2, "qty": 5, "seq": 1}]
    rows = gate_changes(to_changes(bronze_rows(spark, lines), rules), rules).collect()
    raw = {row["id"]: row["_raw"] for row in rows}
    assert (json.loads(raw[1]), raw[2]) == (lines[0], None)
