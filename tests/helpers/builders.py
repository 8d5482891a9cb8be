import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bronze.contract import COLUMNS
from lakehouse.config.table import Table

ARRIVED_AT = datetime(2024, 5, 1, 12, 0, tzinfo=timezone.utc)
SCHEMA = ", ".join(f"{column.name} {column.type}" for column in COLUMNS) + ", _feed string"

Line = str | dict[str, Any] | None


def table(
    format: str, keys: list[str], source: Mapping[str, object] | None = None, **options: object
) -> Table:
    """A table of one source; `source` adds to that source's options."""
    feed = {"format": format, "path": "here", **(source or {})}
    return Table.model_validate({"table": "t", "source": feed, "keys": keys, **options})


def bronze_rows(
    spark: SparkSession, lines: Sequence[Line], batch: int = 1, whole: bool = False
) -> DataFrame:
    """Lines of one dropped file as bronze keeps them; `whole` when each is a whole record."""
    rows = [_row(line, number, batch, whole) for number, line in enumerate(lines)]
    return spark.createDataFrame(rows, SCHEMA)


def _row(line: Line, number: int, batch: int, whole: bool) -> tuple[Any, ...]:
    record = line if whole and isinstance(line, dict) else {}
    given = {f"_{name}": record.get(name) for name in ("topic", "partition", "offset")}
    row = given | {
        "_raw": json.dumps(line) if isinstance(line, dict) else line,
        "_file": "/landing/t/1.jsonl",
        "_line": number,
        "_whole": whole,
        "_batch": batch,
        "_arrived_at": ARRIVED_AT,
        "_arrival": f"{batch:08X}{0:06X}{0:010X}{number:08X}",
    }
    return (*(row.get(column.name) for column in COLUMNS), "t")


def decoded(changes: DataFrame, *names: str) -> list[Any]:
    """The rows in order of arrival: a value each for one name, tuples for several."""
    rows = [tuple(row) for row in changes.select("_arrival", *names).collect()]
    ordered = [row[1:] for row in sorted(rows, key=lambda row: row[0])]
    return [row[0] for row in ordered] if len(names) == 1 else ordered


def at(seconds: float) -> datetime:
    """The timestamp of so many seconds since 1970 as a session in UTC collects it."""
    return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)
