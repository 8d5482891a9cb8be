"""The gate: a table's row-level expectations decide which changes may be applied.

A rule is plain Spark SQL, made from the expectation's own name and arguments. The gate checks
upserts that nothing else has rejected, and only the columns that they carry; deletes and truncates
pass. A critical rule rejects the row, a warning is recorded in it. An expectation with `mostly`
below 1 is about a share of rows, so no single row breaks it: the rows that it counts get warnings,
whatever its severity, and `quality` gives the verdict.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Expectation, Table
from lakehouse.storage.names import literal, quote
from silver.contract import GATED_COLUMNS, UPSERT
from silver.expectations.mismatches import find_mismatch
from silver.expectations.row_condition import list_comparisons, read_condition
from silver.expectations.row_sql import failing_sql
from silver.expectations.rules import EXPECTATIONS, columns_of

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
_OPEN = f"(_operation = {literal(UPSERT)} AND _reason IS NULL)"
_REASON = "coalesce(_reason, concat('rule:', _verdict.rule))"
_VERDICT = "CAST(NULL AS struct<rule: string, message: string>)"


class RowRule(NamedTuple):
    """A row-level expectation as the gate uses it: `columns` are those that it looks at."""

    name: str
    severity: Literal["critical", "warning"]
    columns: tuple[str, ...]
    expectation: Expectation


def list_row_rules(table: Table) -> list[RowRule]:
    """The table's row rules in the order of its expectations; those about the table are left out.

    A rule is named after its expectation and columns; a repeated name gets a number.
    """
    rules: list[RowRule] = []
    for each in table.expectations:
        if EXPECTATIONS[each.type].scope == "row":
            label = f"{each.type}({', '.join(columns_of(each))})"
            twins = sum(rule.name.partition("#")[0] == label for rule in rules)
            severity = each.severity if each.arguments.get("mostly", 1) >= 1 else "warning"
            name = f"{label}#{twins + 1}" if twins else label
            rules.append(RowRule(name, severity, columns_of(each), each))
    return rules


def gate_changes(changes: DataFrame, table: Table) -> DataFrame:
    """Changes with the verdict of the row rules: business columns, then GATED_COLUMNS.

    A rejected upsert gets `_reason` rule:<name>, `_rule`, and the values found as `_message`. All
    changes with a reason have no operation and keep `_raw`; the others lose it. `_warnings` has the
    warning rules that a row breaks which is not rejected.
    """
    types = {field.name: field.dataType.simpleString() for field in changes.schema.fields}
    rules = [rule for rule in list_row_rules(table) if _is_carried(rule, changes)]
    verdicts = [_verdict_sql(r, table, types) for r in rules if r.severity == "critical"]
    verdict = f"CASE WHEN {_OPEN} THEN coalesce({', '.join([*verdicts, _VERDICT])}) END"
    warned = [_broken_sql(rule, types) for rule in rules if rule.severity == "warning"]
    written = {
        "_operation": f"CASE WHEN {_REASON} IS NULL THEN _operation END",
        "_reason": _REASON,
        "_message": "coalesce(_verdict.message, _message)",
        "_rule": "coalesce(_verdict.rule, _rule)",
        "_raw": f"CASE WHEN {_REASON} IS NOT NULL THEN _raw END",
        "_warnings": f"CASE WHEN {_OPEN} AND _verdict IS NULL THEN {_names_sql(warned)} END",
    }
    layer = {column.name: written.get(column.name, column.name) for column in GATED_COLUMNS}
    business = [quote(name) for name in changes.columns if name not in layer]
    judged = changes.selectExpr("*", f"{verdict} AS _verdict")
    return judged.selectExpr(*business, *(f"{sql} AS {name}" for name, sql in layer.items()))


def _is_carried(rule: RowRule, changes: DataFrame) -> bool:
    """Whether the batch has every column of the rule and of its row condition.

    Raises AnalysisException for other mistakes of a condition in SQL.
    """
    if not {*rule.columns, *_list_condition_columns(rule)} <= set(changes.columns):
        return False
    text = _find_sql_condition(rule)
    try:
        return text is None or bool(changes.select(F.expr(text)).schema)
    except AnalysisException as error:
        if str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            return False
        raise


def _list_condition_columns(rule: RowRule) -> list[str]:
    return [name for name, _ in list_comparisons(read_condition(rule.expectation.arguments))]


def _find_sql_condition(rule: RowRule) -> str | None:
    """The row condition's Spark SQL where it was written as such, else None."""
    return (read_condition(rule.expectation.arguments) or {}).get("pass_through_filter")


def _broken_sql(rule: RowRule, types: Mapping[str, str]) -> str:
    """The rule's name where the row breaks it, else null; null too where a column is absent.

    Values that the rule cannot be evaluated on break it, rather than fail the run.
    """
    words = set(re.findall(r"\w+", _find_sql_condition(rule) or "")) & set(types)
    looked_at = sorted({*rule.columns, *_list_condition_columns(rule), *words})
    absent = f"arrays_overlap(_absent, array({', '.join(map(literal, looked_at))}))"
    if find_mismatch(rule.expectation, types) is None:
        fails = failing_sql(rule.expectation)
    else:
        fails = " AND ".join(f"{quote(name)} IS NOT NULL" for name in rule.columns)
    return f"CASE WHEN NOT coalesce({absent}, false) AND {fails} THEN {literal(rule.name)} END"


def _verdict_sql(rule: RowRule, table: Table, types: Mapping[str, str]) -> str:
    broken, message = _broken_sql(rule, types), _message_sql(rule, table, types)
    verdict = f"named_struct('rule', {literal(rule.name)}, 'message', {message})"
    return f"CASE WHEN {broken} IS NOT NULL THEN {verdict} END"


def _message_sql(rule: RowRule, table: Table, types: Mapping[str, str]) -> str:
    arguments = rule.expectation.arguments
    given = [f"{name}: {value}" for name, value in arguments.items() if name not in _NOT_EXPECTED]
    expected = find_mismatch(rule.expectation, types) or ", ".join(given)
    ending = f"; expected {rule.expectation.type}" + (f" ({expected})" if expected else "")
    values = [
        f"concat({literal(name + ' is ')}, {_found_sql(name, table)})" for name in rule.columns
    ]
    return f"concat(concat_ws(', ', {', '.join(values)}), {literal(ending)})"


def _found_sql(name: str, table: Table) -> str:
    """The value as text for a person, cut when long; a sensitive column's is not shown."""
    if table.is_sensitive(name):
        return f"IF({quote(name)} IS NULL, 'null', '(sensitive)')"
    return f"coalesce(substring(CAST({quote(name)} AS STRING), 1, {_LONGEST_FOUND}), 'null')"


def _names_sql(warned: Sequence[str]) -> str:
    if not warned:
        return "CAST(NULL AS array<string>)"
    broken = f"array_compact(array({', '.join([*warned, 'CAST(NULL AS STRING)'])}))"
    return f"nullif({broken}, CAST(array() AS array<string>))"
