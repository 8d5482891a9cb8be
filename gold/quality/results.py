"""`gold.pipeline_quality`: what every run of the expectations found, and which rules it ran.

Append-only, one row per expectation and run. The rules are kept as they were written, so that a
rule that was added, changed or removed since the last run shows.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.config.table import Expectation, Table
from lakehouse.storage.lake import Lake
from lakehouse.storage.writing import DeclaredTable

if TYPE_CHECKING:
    from gold.quality.run import Result

TABLE, COMMENT = "pipeline_quality", "what every run of the expectations found"

COLUMNS = (
    ("run_id", "string", "one run of `lakehouse quality`"),
    ("at", "timestamp", "when it ended"),
    ("table", "string", "the table"),
    ("checked", "string", "gold: what gold shows; batch: the rows of the newest batch"),
    ("expectation", "string", "Great Expectations' name of it"),
    ("columns", "array<string>", "columns it is about; empty when it is about the table"),
    ("severity", "string", "critical or warning"),
    ("success", "boolean", "whether it holds"),
    ("unexpected_count", "bigint", "rows that break it; null when it is not about rows"),
    ("element_count", "bigint", "rows looked at; null when it is not about rows"),
    ("observed", "string", "what was found, when it is not about rows"),
    ("message", "string", "why it could not be evaluated, else null"),
    ("rule", "string", "the expectation as JSON, with all its arguments"),
    ("rules", "string", "digest of all the table's rules in this run"),
)


class RuleChanges(NamedTuple):
    """Rules of a table that are new since its last run, and rules that are gone, as JSON."""

    table: str
    added: list[str]
    removed: list[str]


def rule_text(expectation: Expectation) -> str:
    """An expectation as one line of JSON; equal for equal rules."""
    given = {"type": expectation.type, "severity": expectation.severity, **expectation.arguments}
    return json.dumps(given, sort_keys=True, default=str, ensure_ascii=False)


def append_results(
    lake: Lake, table: Table, results: "Sequence[Result]", run_id: str, checked: str = "gold"
) -> None:
    """Keeps the results of one table, which are in the order of its expectations."""
    texts = "\n".join(sorted(map(rule_text, table.expectations)))  # whatever their order
    rules, at = sha256(texts.encode()).hexdigest()[:16], datetime.now(timezone.utc)
    about = {"run_id": run_id, "at": at, "checked": checked, "rules": rules}
    rows = [
        {**result.model_dump(), **about, "rule": rule_text(expectation)}
        for result, expectation in zip(results, table.expectations, strict=True)
    ]
    DeclaredTable("gold", TABLE, COMMENT, COLUMNS).append(lake, rows)


def find_rule_changes(lake: Lake, tables: Iterable[Table]) -> list[RuleChanges]:
    """The tables whose rules differ from their last run's; to be called before `append_results`."""
    last_rules = _last_rules(lake)
    changes = []
    for table in tables:
        rules = set(map(rule_text, table.expectations))
        before = last_rules.get(table.table, rules)
        if rules != before:
            changes.append(RuleChanges(table.table, sorted(rules - before), sorted(before - rules)))
    return changes


def _last_rules(lake: Lake) -> dict[str, set[str]]:
    from pyspark.sql import functions as F

    if not lake.exists("gold", TABLE):
        return {}
    rows = lake.spark.table(lake.name("gold", TABLE))
    last = rows.groupBy("table", "run_id").agg(
        F.max("at").alias("at"), F.collect_set("rule").alias("rules")
    )
    newest = last.groupBy("table").agg(F.max_by("rules", "at").alias("rules"))
    return {row["table"]: set(row["rules"]) for row in newest.collect()}
