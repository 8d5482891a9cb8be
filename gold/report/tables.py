"""A table's part of the report: columns, comments, keys and rules, as configured and published."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gold.quality.results import rule_text
from lakehouse.config.table import Expectation, Table
from lakehouse.config.target import Target
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.views import View, load_views
from silver.contract import kept_name

Record = Mapping[str, Any]


class ColumnLine(NamedTuple):
    """A column: its name in gold, its type where it is known, its comment, what else is said."""

    name: str
    type: str
    comment: str
    marks: str


class RuleLine(NamedTuple):
    """An expectation in words, with the verdict of the last check of gold; None without one."""

    text: str
    severity: str
    met: bool | None


class TableLines(NamedTuple):
    """What the report shows of a table besides its status."""

    table: str
    comment: str
    keys: str
    columns: list[ColumnLine]
    rules: list[RuleLine]


def describe_tables(
    target: Target, tables: Sequence[Table], results: Sequence[Record]
) -> list[TableLines]:
    """The report's part about each table; without a catalog its columns are those of the views."""
    views = {} if target.catalog else load_views(target, "gold")
    verdicts: dict[str, dict[str, bool]] = {}
    for each in results:
        verdicts.setdefault(each["table"], {})[each.get("rule") or ""] = each["success"]
    return [
        TableLines(
            table.table,
            table.comment or "",
            ", ".join(table.keys) or "none",
            _list_columns(table, views.get(table.table), _read_types(target, table)),
            [_describe_rule(rule, verdicts.get(table.table, {})) for rule in table.expectations],
        )
        for table in tables
    ]


def _read_types(target: Target, table: Table) -> dict[str, str]:
    """The columns' types in silver; none where there is a catalog, or no log."""
    log = None if target.catalog else read_table_log(target, "silver", kept_name(table))
    return log.columns if log is not None else {}


def _list_columns(table: Table, view: View | None, types: Mapping[str, str]) -> list[ColumnLine]:
    shown = view.columns if view is not None else dict.fromkeys([*table.keys, *table.columns])
    lines = []
    for name, comment in shown.items():
        declared = table.columns.get(name)
        kind = declared.type if declared is not None else types.get(name, "")
        text = comment or (declared.comment if declared is not None else None) or ""
        marks = ["key"] if name in table.keys else []
        marks += [mark for mark in ("sensitive", "operational") if getattr(declared, mark, False)]
        lines.append(ColumnLine(name, kind, text, ", ".join(marks)))
    return lines


def _describe_rule(rule: Expectation, verdicts: Mapping[str, bool]) -> RuleLine:
    words = rule.type.removeprefix("expect_").replace("_", " ")
    given = ", ".join(f"{name}: {value}" for name, value in rule.arguments.items())
    return RuleLine(
        f"{words} ({given})" if given else words, rule.severity, verdicts.get(rule_text(rule))
    )
