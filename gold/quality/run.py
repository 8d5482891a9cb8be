"""Quality: Great Expectations checks a table's expectations, unchanged, on what gold shows.

The gate in silver decides which rows get in. This checks all rows that got in, also by expectations
about the whole table.
"""

import warnings
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold.quality.docs import QualityRun, exception_message, write_docs
from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.contract import UPSERT

_FORMAT = {"result_format": "SUMMARY"}


class Result(BaseModel):
    """The result of one expectation.

    Counts are null for an expectation that is not about rows; `observed` is then what was found.
    `message` says why an expectation could not be evaluated at all, which counts as a failure.
    """

    model_config = ConfigDict(frozen=True)

    table: str
    expectation: str
    columns: tuple[str, ...] = ()
    severity: Literal["critical", "warning"]
    success: bool
    unexpected_count: int | None = None
    element_count: int | None = None
    observed: str | None = None
    message: str | None = None


def check_expectations(table: Table, rows: DataFrame, folder: str, run: QualityRun) -> list[Result]:
    """Checks these rows (the gold table's, or a batch's): one result per expectation, in order.

    FOLDER/results gets the full results as JSON and FOLDER/docs/index.html the Data Docs.
    """
    if not table.expectations:
        return []
    results = evaluate_expectations(table, rows, folder, _FORMAT, run.name)
    write_docs(folder, run, table, results)
    return [_parse_result(table, each) for each in results]


def newest_batch(lake: Lake, table: Table) -> DataFrame | None:
    """The rows that the newest batch brought, as they were accepted; None before the first one."""
    if not lake.exists("silver", f"{table.table}_changes"):
        return None
    log = lake.spark.table(lake.name("silver", f"{table.table}_changes"))
    newest = log.agg(F.max("_batch").alias("_newest"))
    rows = log.join(F.broadcast(newest), F.col("_batch") == F.col("_newest"), "left_semi")
    columns = [F.col(names.quote(c)) for c in log.columns if not c.startswith("_")]
    return rows.where(F.col("_operation") == UPSERT).select(*columns)


def evaluate_expectations(
    table: Table, rows: DataFrame, folder: str, result_format: dict[str, Any], run: str
) -> list[dict[str, Any]]:
    """Great Expectations' own result of each expectation, in the table's order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from gold.quality.validation import validate_rows

        return validate_rows(table, rows, folder, result_format, run)


def critical_failures(results: Iterable[Result]) -> list[Result]:
    """The results that make the `quality` command fail."""
    return [result for result in results if result.severity == "critical" and not result.success]


def _parse_result(table: Table, result: dict[str, Any]) -> Result:
    expectation = table.expectations[result["expectation_config"]["meta"]["position"]]
    given, counts = expectation.arguments, result["result"]
    single = [given[name] for name in ("column", "column_A", "column_B") if name in given]
    observed = counts.get("observed_value")
    return Result(
        table=table.table,
        expectation=expectation.type,
        columns=tuple(single or given.get("column_list", [])),
        severity=expectation.severity,
        success=result["success"],
        unexpected_count=counts.get("unexpected_count"),
        element_count=counts.get("element_count"),
        observed=None if observed is None else str(observed),
        message=exception_message(result),
    )
