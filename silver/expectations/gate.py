"""The gate: a table's row-level expectations decide which changes may be applied.

A rule is a plain Spark expression, made from the expectation's own name and arguments. What the
gate looks at: upserts that nothing else has rejected, and of those the columns that the change
carries; deletes and truncates pass. A critical rule rejects the row, a warning is noted on it.
An expectation with `mostly` below 1 is about a share of rows, so no single row breaks it: the rows
it counts are noted as warnings, whatever its severity, and `quality` gives the verdict.
"""

import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_
from typing import Literal, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Expectation, Table
from lakehouse.storage.names import quote
from silver.contract import GATED_COLUMNS, UPSERT
from silver.expectations.mismatches import mismatch
from silver.expectations.names import EXPECTATIONS
from silver.expectations.row_condition import comparisons, sql_text, structured
from silver.expectations.row_rules import columns_of, failing

_LONGEST_FOUND = 200
_NOT_EXPECTED = (
    "column",
    "column_A",
    "column_B",
    "column_list",
    "meta",
    "notes",
    "description",
    "condition_parser",
)


class RowRule(NamedTuple):
    """A row-level expectation as the gate uses it.

    `condition` takes the columns' types by name and is true where the row fails, else false.
    """

    name: str
    severity: Literal["critical", "warning"]
    columns: tuple[str, ...]
    expectation: Expectation
    condition: Callable[[Mapping[str, str]], Column]


def conditions(table: Table) -> list[RowRule]:
    """The table's row rules in the order of its expectations; those about the table are left out.

    A rule is named after its expectation and columns; a repeated name gets a number.
    """
    rules: list[RowRule] = []
    for expectation in table.expectations:
        if EXPECTATIONS[expectation.type].scope == "row":
            label = f"{expectation.type}({', '.join(columns_of(expectation))})"
            twins = sum(rule.name.partition("#")[0] == label for rule in rules)
            rules.append(_rule(f"{label}#{twins + 1}" if twins else label, expectation))
    return rules


def gate(changes: DataFrame, table: Table) -> DataFrame:
    """Changes with the verdict of the row rules: business columns, then GATED_COLUMNS.

    A rejected upsert gets `_reason` rule:<name>, `_rule` and what was found as `_message`. Changes
    with a reason, new or old, have no operation and keep `_raw`; all others lose it. `_warnings`
    names the warning rules that a row breaks which is not rejected.
    """
    types = {field.name: field.dataType.simpleString() for field in changes.schema.fields}
    rules = [rule for rule in conditions(table) if _carried_by_batch(rule, changes)]
    open_upsert = (F.col("_operation") == UPSERT) & F.col("_reason").isNull()
    verdict = _first(
        [_verdict(rule, table, types) for rule in rules if rule.severity == "critical"]
    )
    judged = changes.withColumn("_verdict", F.when(open_upsert, verdict))
    passed = open_upsert & F.col("_verdict").isNull()
    warned = [_broken(rule, types) for rule in rules if rule.severity == "warning"]
    noted = judged.withColumn("_warnings", F.when(passed, _names(warned)))
    said = _said()
    own = [said.get(c.name, F.col(c.name)).alias(c.name) for c in GATED_COLUMNS]
    return noted.select(*_business(changes), *own)


def _rule(name: str, expectation: Expectation) -> RowRule:
    severity = expectation.severity if expectation.arguments.get("mostly", 1) >= 1 else "warning"
    return RowRule(
        name,
        severity,
        columns_of(expectation),
        expectation,
        lambda types: _condition(expectation, types),
    )


def _condition(expectation: Expectation, types: Mapping[str, str]) -> Column:
    """Rows with a value that the rule cannot be evaluated on fail, rather than stop the stream."""
    if mismatch(expectation, types) is None:
        return failing(expectation)
    return reduce(and_, [~_is_null(name) for name in columns_of(expectation)])


def _is_null(name: str) -> Column:
    return F.col(quote(name)).isNull()


def _carried_by_batch(rule: RowRule, changes: DataFrame) -> bool:
    """Whether every column of the rule and of its row condition is in the batch at all."""
    named = [*rule.columns, *_condition_columns(rule.expectation)]
    return set(named) <= set(changes.columns) and _resolves(rule.expectation, changes)


def _condition_columns(expectation: Expectation) -> list[str]:
    return [name for name, _ in comparisons(structured(expectation.arguments))]


def _resolves(expectation: Expectation, changes: DataFrame) -> bool:
    """Whether the batch has every column of a condition in SQL; other mistakes are raised."""
    text = sql_text(expectation.arguments)
    if text is None:
        return True
    try:
        return bool(changes.select(F.expr(text)).schema)
    except AnalysisException as error:
        if str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            return False
        raise


def _broken(rule: RowRule, types: Mapping[str, str]) -> Column:
    """The rule's name where the row breaks it, else null. Absent columns leave it unevaluated."""
    words = set(re.findall(r"\w+", sql_text(rule.expectation.arguments) or "")) & set(types)
    looked_at = sorted({*rule.columns, *_condition_columns(rule.expectation), *words})
    absent = F.arrays_overlap(F.col("_absent"), F.array(*[F.lit(name) for name in looked_at]))
    carried = ~F.coalesce(absent, F.lit(False))
    return F.when(carried & rule.condition(types), F.lit(rule.name))


def _verdict(rule: RowRule, table: Table, types: Mapping[str, str]) -> Column:
    broken = _broken(rule, types)
    verdict = F.struct(broken.alias("rule"), _message(rule, table, types).alias("message"))
    return F.when(broken.isNotNull(), verdict)


def _message(rule: RowRule, table: Table, types: Mapping[str, str]) -> Column:
    found = [F.concat(F.lit(f"{name} is "), _found(name, table)) for name in rule.columns]
    arguments = rule.expectation.arguments
    given = {name: value for name, value in arguments.items() if name not in _NOT_EXPECTED}
    expected = mismatch(rule.expectation, types) or ", ".join(f"{k}: {v}" for k, v in given.items())
    ending = f"; expected {rule.expectation.type}" + (f" ({expected})" if expected else "")
    return F.concat(F.concat_ws(", ", *found), F.lit(ending))


def _found(name: str, table: Table) -> Column:
    """The value as text for a person, cut when long; a sensitive column's is not shown."""
    if name in table.columns and table.columns[name].sensitive:
        return F.when(_is_null(name), F.lit("null")).otherwise(F.lit("(sensitive)"))
    return F.coalesce(
        F.substring(F.col(quote(name)).cast("string"), 1, _LONGEST_FOUND), F.lit("null")
    )


def _first(verdicts: list[Column]) -> Column:
    none = F.lit(None).cast("struct<rule: string, message: string>")
    return F.coalesce(*verdicts, none)


def _names(warned: list[Column]) -> Column:
    broken = F.array_compact(F.array(*[*warned, F.lit(None).cast("string")]))
    return F.when(F.size(broken) > 0, broken)


def _business(changes: DataFrame) -> list[Column]:
    layer = {column.name for column in GATED_COLUMNS}
    return [F.col(quote(name)) for name in changes.columns if name not in layer]


def _said() -> dict[str, Column]:
    verdict = F.col("_verdict")
    reason = F.coalesce(F.col("_reason"), F.concat(F.lit("rule:"), verdict["rule"]))
    return {
        "_operation": F.when(reason.isNull(), F.col("_operation")),
        "_reason": reason,
        "_message": F.coalesce(verdict["message"], F.col("_message")),
        "_rule": F.coalesce(verdict["rule"], F.col("_rule")),
        "_raw": F.when(reason.isNotNull(), F.col("_raw")),
    }
