"""`quality`: the expectations through Great Expectations, and rules that are only tried."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import Field

from cdc_lakehouse.cli.ask.queries import ShownStatus
from cdc_lakehouse.cli.front import check_lake, command, load_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import show_progress, show_records
from gold.quality import results as kept
from gold.quality.results import RuleChanges, append_results, rule_text
from lakehouse.config.loading import read_yaml, select_tables
from lakehouse.config.strict import Strict
from lakehouse.config.table import Expectation, Table
from lakehouse.config.target import Target
from lakehouse.config.unpacking import Check, refuse_lines, unpack_model
from lakehouse.errors import ConfigurationError, ExpectationsFailed
from lakehouse.remedies import install_extra
from lakehouse.storage.lake import Lake
from silver.expectations.problems import find_problems

if TYPE_CHECKING:
    from gold.quality.docs import QualityRun
    from gold.quality.run import Result


Docs = Annotated[
    Path | None, typer.Option(help="Folder for Data Docs and results; default lake/_docs.")
]
Checked = Annotated[
    Literal["gold", "batch"], typer.Option("--of", help="What gold shows, or the newest batch.")
]
Attempt = Annotated[
    Path | None,
    typer.Option("--try", help="Only count what the rules of this file would reject in gold."),
]


@command("quality")
def quality(
    chosen: Chosen,
    docs: Docs = None,
    checked: Checked = "gold",
    attempt: Attempt = None,
    shown: ShownStatus = "table",
) -> None:
    """Check gold with Great Expectations; exit code 1 when a critical expectation fails.

    Builds the Data Docs (DOCS/docs/index.html), keeps the results in gold.pipeline_quality and
    says which rules changed since the last run. --try FILE counts what new rules would reject.
    """
    target, tables = load_conf(chosen)
    if attempt is not None:
        try_rules(target, tables, attempt, shown == "json")
        return
    folder = _find_folder(target, docs)
    if find_spec("great_expectations") is None:
        missing, expected = "not installed", "the package great-expectations"
        action = install_extra("quality")
        raise ConfigurationError("this Python", "great_expectations", missing, expected, action)
    check_lake(target)
    lake = open_lake(target, tables)

    from gold.quality.run import critical_failures

    results = check_all(lake, tables, folder, checked, shown == "json")
    failed = critical_failures(results)
    if failed:
        raise ExpectationsFailed(
            [f"{each.table} {each.expectation}({', '.join(each.columns)})" for each in failed]
        )


def check_all(
    lake: Lake, tables: Sequence[Table], folder: str, checked: str, as_json: bool
) -> "list[Result]":
    """Checks every table with expectations, keeps and prints the results; returns them all."""
    from gold.quality.docs import QualityRun

    asked = [table for table in tables if table.expectations]
    changes = kept.find_rule_changes(lake, asked)
    by_table: dict[str, list[Result] | None] = {}
    run = QualityRun(uuid.uuid4().hex, datetime.now(timezone.utc), checked)
    with show_progress("quality") as tell:
        for table in asked:
            tell(table.table)
            by_table[table.table] = _check_table(lake, table, folder, run)
    results = [result for of_table in by_table.values() for result in of_table or []]
    rows = [result.model_dump() for result in results] if as_json else _build_rows(results)
    show_records(rows, as_json)
    if not as_json:
        docs = [f"Data Docs: {folder}/docs/index.html"] if results else []
        print("\n".join([*_list_unchecked(tables, by_table), *_describe_changes(changes), *docs]))
    return results


def _check_table(lake: Lake, table: Table, folder: str, run: "QualityRun") -> "list[Result] | None":
    """The results of one table, kept; None before there is anything to check."""
    from gold.quality.run import check_expectations, newest_batch
    from gold.views.catalog import read_view

    rows = read_view(lake, table.table) if run.checked == "gold" else newest_batch(lake, table)
    if rows is None:
        return None
    results: list[Result] = check_expectations(table, rows, folder, run)
    append_results(lake, table, results, run.id, run.checked)
    return results


def _build_rows(results: "Sequence[Result]") -> list[dict[str, object]]:
    """What the grid shows; the column `observed` only if it has a value."""
    rows = [_build_row(result) for result in results]
    if any(row["observed"] for row in rows):
        return rows
    return [{name: row[name] for name in row if name != "observed"} for row in rows]


def _build_row(result: "Result") -> dict[str, object]:
    counted = f"{result.unexpected_count or 0:,} of {result.element_count or 0:,}"
    return {
        "table": result.table,
        "expectation": result.expectation,
        "columns": ", ".join(result.columns),
        "severity": result.severity,
        "verdict": "ok" if result.success else "FAILED",
        "unexpected": None if result.unexpected_count is None else counted,
        "observed": result.message or result.observed,
    }


def _list_unchecked(
    tables: Sequence[Table], by_table: "dict[str, list[Result] | None]"
) -> Iterator[str]:
    for table in tables:
        if not table.expectations:
            yield f"{table.table}: no expectations"
        elif by_table[table.table] is None:
            yield f"{table.table}: nothing there yet, not checked"


def _describe_changes(changes: Sequence[RuleChanges]) -> Iterator[str]:
    for change in changes:
        yield f"{change.table}: its rules are others than in the last run"
        yield from (f"  + {rule}" for rule in change.added)
        yield from (f"  - {rule}" for rule in change.removed)


def _find_folder(target: Target, docs: Path | None) -> str:
    if docs is not None:
        return str(docs.absolute())
    if target.catalog or "://" in target.lake:
        expected = "a folder, such as a volume's"
        raise ConfigurationError("command line", "--docs", "nothing", expected, "name it")
    return f"{target.lake}/_docs"


def try_rules(target: Target, tables: list[Table], file: Path, as_json: bool) -> None:
    """Prints how many rows of gold each rule of the file would reject.

    Raises:
        ConfigurationError: the file is wrong, or it is not clear which table is meant.
    """
    rules = read_rules(file)
    chosen = select_tables(tables, [rules.table] if rules.table else [])
    if len(chosen) != 1:
        action = "name it with --table, or as `table:` in the file"
        problem = f"{len(chosen)} tables"
        raise ConfigurationError(str(file), "table", problem, "the one that is meant", action)
    table = with_rules(chosen[0], rules, file, [find_problems])
    check_lake(target)
    lake = open_lake(target, [table])

    from gold.views.catalog import read_view
    from silver.expectations.row_sql import try_expectation

    rows = read_view(lake, table.table)
    if rows is None:
        expected, action = "a table that gold shows", "run `lakehouse run` first"
        raise ConfigurationError(str(file), "table", table.table, expected, action)
    tried = [
        {"table": table.table, **try_expectation(rows, rule)._asdict(), "rule": rule_text(rule)}
        for rule in table.expectations
    ]
    show_records(tried, as_json)


class Rules(Strict):
    """Expectations, and the table that they are meant for."""

    table: str | None = None
    expectations: list[Expectation] = Field(min_length=1)


def read_rules(file: Path) -> Rules:
    """The rules of a file.

    Raises:
        ConfigurationError: it cannot be read.
        ManyConfigurationErrors: everything that is wrong in it.
    """
    document = read_yaml(file)
    given = {"expectations": document} if isinstance(document, list) else document
    return unpack_model(Rules, given, str(file))


def with_rules(table: Table, rules: Rules, file: Path, checks: Sequence[Check]) -> Table:
    """The table with these expectations in place of its own.

    Raises:
        ManyConfigurationErrors: what the checks find wrong with them.
    """
    other = table.model_copy(update={"expectations": rules.expectations})
    refuse_lines(str(file), [line for check in checks for line in check(other)])
    return other
