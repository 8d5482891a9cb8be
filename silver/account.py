"""What became of every record of a batch: the classes add up to the records."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver.compact import column
from silver.log import Summary
from silver.order import Placed


def classes(
    spark: SparkSession,
    target: Target,
    table: Table,
    placed: Placed,
    summary: Summary,
    rejected: dict[str, int],
) -> dict[str, int]:
    """Counts the records of a batch by what was done with them.

    `inserted`, `updated`, `deleted` and `delete_unknown` changed a row; `duplicate` is a repeat
    within the batch; `superseded` had a newer change in the batch or in the table, and is woven
    into the history where one is kept; `refolded` ones were applied with all others anew;
    `truncate`, `without_change` and `dead_letter:<reason>` are what they say. A table without a key
    has the one class `applied`: each change is kept once, a repeat not again. Beside the classes
    stand `records`, their sum, and `incomplete` and `heirs`: changes without all columns.
    """
    counts = {f"dead_letter:{reason}": n for reason, n in rejected.items()}
    counts |= {"records": summary.records, "truncate": summary.truncates}
    counts |= {"without_change": summary.without_change}
    if summary.changes and not table.keys:
        counts["applied"] = summary.changes
    elif summary.changes and not placed.refold:
        written = _written(spark, target, table, placed.batch.number)
        distinct = _distinct(placed.batch.changes, table.keys)
        counts |= written | {"duplicate": summary.changes - distinct}
        counts["superseded"] = distinct - sum(written.values())
    elif summary.changes:
        counts["refolded"] = summary.changes
    notes = {"incomplete": summary.incomplete, "heirs": summary.heirs}
    return {name: n for name, n in (counts | notes).items() if n or name == "records"}


def _distinct(changes: DataFrame, keys: list[str]) -> int:
    identity = [column(k) for k in keys] + [
        F.col(c) for c in ("_sequence", "_operation", "_digest")
    ]
    return changes.select(*identity).distinct().count()


def _written(spark: SparkSession, target: Target, table: Table, batch: int) -> dict[str, int]:
    if table.stored_as_scd_type == 2:
        return _versions(spark, target, table, batch)
    rows = spark.table(names.name(target, "silver", table.table)).where(F.col("_batch") == batch)
    found = rows.groupBy("_class").count().collect()
    return {row["_class"]: row["count"] for row in found if row["_class"] != "late"}


def _versions(spark: SparkSession, target: Target, table: Table, batch: int) -> dict[str, int]:
    name = names.name(target, "silver", f"{table.table}_history")
    mine = spark.table(name).where(F.col("_batch") == batch)
    kind = F.when(F.col("_operation") == "delete", F.lit("deleted")).when(
        F.col("_shown"), F.lit("version")
    )
    found = mine.groupBy(F.coalesce(kind, F.lit("woven")).alias("kind")).count().collect()
    return {row["kind"]: row["count"] for row in found}
