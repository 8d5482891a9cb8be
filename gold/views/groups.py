"""Consistency groups as gold shows them: which versions belong together, and what waits."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from silver.contract import GROUP_TYPE

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Waits(NamedTuple):
    """What waits in a group: transactions, records of each table, since when, overdue ones."""

    transactions: int
    records: dict[str, int]
    since: datetime | None
    overdue: tuple[str, ...]


def find_versions(lake: Lake, tables: Sequence[Table]) -> dict[str, dict[str, int]]:
    """Of each group the newest set of Delta versions that show the same transactions."""
    if all(table.consistency_group is None for table in tables):
        return {}
    local = ledger.read_local_states(lake.target)
    if local is None:
        states = _read_groups(lake, tables)
        return {name: dict(group["versions"] or {}) for name, group in states.items()}
    groups = [g for g in (json.loads(state).get("group") for state in local.values()) if g]
    newest = sorted(groups, key=lambda group: group.get("number", 0))
    return {group.get("name", ""): group.get("versions", {}) for group in newest}


def find_waiting(lake: Lake, tables: Iterable[Table]) -> dict[str, Waits]:
    """What waits in each group, by its name."""
    states = _read_groups(lake, tables)
    return {name: _sum_waits(group["waiting"] or []) for name, group in states.items()}


def version_at(lake: Lake, kept: str, as_of: str) -> int | None:
    """The version of a silver table that its group had reached at a time; None before its first."""
    runs = ledger.read_entries(lake).where(F.col("ended_at") <= F.to_timestamp(F.lit(as_of)))
    versions = [dict(group["versions"] or {}) for group in _select_newest(runs).values()]
    return next((of[kept] for of in versions if kept in of), None)


def _read_groups(lake: Lake, tables: Iterable[Table]) -> dict[str, Any]:
    """The states of the tables' groups, by name; nothing is read if no table is in a group."""
    named = {t.consistency_group for t in tables if t.consistency_group is not None}
    if not named:
        return {}
    states = _select_newest(ledger.read_entries(lake))
    return {name: group for name, group in states.items() if name in named}


def _select_newest(runs: DataFrame) -> dict[str, Any]:
    """The newest state of each group, out of the newest states of the tables."""
    rows = runs.where(f"layer = 'silver' AND {ledger.STATE} IS NOT NULL")
    newest = rows.groupBy("table").agg(F.max_by(ledger.STATE, "ended_at").alias("state"))
    groups = newest.select(F.from_json("state", GROUP_TYPE).alias("of")).select("of.group.*")
    chosen = groups.where("name IS NOT NULL").groupBy("name")
    states = chosen.agg(F.max_by(F.struct("versions", "waiting"), "number").alias("group"))
    return {row["name"]: row["group"] for row in states.collect()}


def _sum_waits(rows: list[Any]) -> Waits:
    records: dict[str, int] = {}
    for row in rows:
        for table, count in row["records"].items():
            records[table] = records.get(table, 0) + count
    first = min((row["since"] for row in rows if row["since"] is not None), default=None)
    since = None if first is None else EPOCH + timedelta(microseconds=first)
    overdue = tuple(row["transaction"] for row in rows if row["overdue"])
    return Waits(len(rows), records, since, overdue)
