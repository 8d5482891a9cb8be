"""The captured events of the shop, and what PostgreSQL held after them, against what gold shows."""

import gzip
from pathlib import Path
from typing import Any

from lakehouse.config.loading import load_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views
from tests.helpers import lakes, truth

CONFIGURATIONS = (
    Path(__file__).parents[2] / "conf",
    Path(__file__).parents[1] / "fixtures" / "conf",
)
EVENTS = Path(__file__).parents[1] / "fixtures" / "shop" / "events"
TRUE_NAMES = {"mixed_case": "Mixed_Case"}
NOT_FROM_EVENTS = {"accounts"}


def shop() -> list[Table]:
    """All captured tables: those of the project's own configuration, and fixtures."""
    found = [table for conf in CONFIGURATIONS for table in load_tables(conf)]
    return sorted(found, key=lambda table: table.table)


def yaml_file(table: str) -> Path:
    """The YAML of a captured table."""
    files = [conf / "tables" / f"{table}.yml" for conf in CONFIGURATIONS]
    return next(file for file in files if file.is_file())


def lines(capture: str) -> list[str]:
    """The records of a capture, as they are dropped."""
    with gzip.open(EVENTS / f"{capture}.jsonl.gz", "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def check(lake: Lake, capture: str, tables: list[Table]) -> None:
    """Fails for the first table whose gold is not what PostgreSQL held at the end."""
    for table in tables:
        name = TRUE_NAMES.get(table.table, table.table)
        if table.table in NOT_FROM_EVENTS or (capture == "edge_slot" and name == "late"):
            continue
        types = truth.truth_schema(capture, name)
        got = lakes.rows(lake, table.table) if _is_there(lake.target, table) else []
        want = truth.truth_rows(capture, name)
        assert comparable(got, types) == comparable(want, types), table.table


def comparable(rows: list[dict[str, Any]], types: dict[str, str]) -> list[dict[str, Any]]:
    return sorted((truth.comparable(row, types) for row in rows), key=repr)


def _is_there(target: Target, table: Table) -> bool:
    return table.table in load_views(target, "gold")
