"""What `verify --source` does: gold against the database that the table comes from."""

import json
from typing import TYPE_CHECKING

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import SourceDiffers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gold.source_check.digests import Difference
    from gold.source_check.verdict import SourceDatabase, Verdict

MOST_NAMED = 100


def checked(url: str) -> str:
    """The URL, once it is known to be one and its driver to be here; before Spark starts.

    Raises:
        ConfigurationError: it is not, or the driver is not.
    """
    from gold.source_check import database

    return database.checked(url)


def source(url: str, named: str | None, at_rest: bool) -> "SourceDatabase":
    """The database to compare with, see `gold.source_check.verdict.SourceDatabase`."""
    from gold.source_check.verdict import SourceDatabase

    return SourceDatabase(url, named, at_rest)


def check(
    spark: "SparkSession", target: Target, table: Table, given: "SourceDatabase", as_json: bool
) -> None:
    """Compares a table with its source and shows every row that differs.

    Raises:
        SourceDiffers: some difference is real.
    """
    from cdc_lakehouse.terminal.console import progress, wrapped
    from gold.source_check.verdict import verdict

    with progress(f"comparing {table.table} with its source"):
        found = verdict(spark, target, table, given)
    show = _json if as_json else _text
    for sort, rows in (("real", found.real), ("in flight", found.in_flight)):
        for row in rows[:MOST_NAMED]:
            print(show(sort, row) if as_json else "\n".join(wrapped(show(sort, row))))
    print(_summary(found, as_json))
    if found.real:
        raise SourceDiffers(table.table, len(found.real))


def _text(sort: str, row: "Difference") -> str:
    key = ", ".join(f"{name}={value}" for name, value in row.key.items())
    line = f"{sort:<10} {row.what:<22} {key}"
    if row.gold is None or row.source is None:
        return line
    sides = [f"{c}: gold {row.gold[c]!r}, source {row.source[c]!r}" for c in row.gold]
    return f"{line}  ({'; '.join(sides)})"


def _json(sort: str, row: "Difference") -> str:
    told = {"difference": sort, "what": row.what, "key": row.key, "gold": row.gold}
    return json.dumps(told | {"source": row.source}, ensure_ascii=False)


def _summary(found: "Verdict", as_json: bool) -> str:
    if as_json:
        counts = {"real": len(found.real), "in_flight": len(found.in_flight)}
        rows = {"gold_rows": found.gold_rows, "source_rows": found.source_rows}
        told = {"source": found.source, **rows, **counts, "not_compared": found.left_out}
        return json.dumps(told, ensure_ascii=False)
    lines = [
        f"{found.gold_rows:,} rows in gold, {found.source_rows:,} in {found.source}: "
        f"{len(found.real):,} real differences, {len(found.in_flight):,} in flight"
    ]
    if found.left_out:
        lines.append(f"not compared: {', '.join(found.left_out)}")
    if found.in_flight:
        lines.append(
            "in flight: newer at the source than what is applied; run again, or with --at-rest "
            "when everything has been applied"
        )
    return "\n".join(lines)
