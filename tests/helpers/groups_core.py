"""Drives the passes of a consistency group with changes that are decoded already."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from gold import job
from gold.views import groups
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake, LakeTable
from lakehouse.storage.views import load_views
from silver.changelog import log
from silver.changelog.batch import Batch
from silver.contract import GATED_COLUMNS, TRANSACTIONS
from silver.groups import group_runs
from silver.groups.group_runs import Upstream, advance_groups
from silver.run import Run, SilverTable, be_silent
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.layout import TRANSACTION_COLUMNS
from silver.table_run import TableResult, run_table

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
ORDERS, ITEMS = "orders", "items"
KEYS = {ORDERS: ["id"], ITEMS: ["id", "line"]}
SCHEMA = "id int, items int, line int, " + ", ".join(f"{c.name} {c.type}" for c in GATED_COLUMNS)
ENDS = ", ".join(f"`{c.name}` {c.type}" for c in TRANSACTION_COLUMNS)


class Killed(BaseException):
    """The process ends here."""


class Change(NamedTuple):
    """A row that a transaction adds: an order with so many items, or a line of one."""

    table: str
    transaction: int
    order: int
    id: int
    value: int


class End(NamedTuple):
    """The END of a transaction: how many changes it has of each table."""

    transaction: int
    counts: dict[str, int]


def members(keys: Mapping[str, list[str]], **options: Any) -> list[Table]:
    """The tables of one consistency group, by their key columns."""
    return [
        Table.model_validate(
            {
                "table": name,
                "source": {"format": "debezium", "path": "shop", "topic": f"shop.shop.{name}"},
                "keys": columns,
                "consistency_group": "shop",
            }
            | options
        )
        for name, columns in keys.items()
    ]


def order(transaction: int, id: int, items: int) -> tuple[list[Change], End]:
    """A transaction that adds an order and its items."""
    rows = [Change(ORDERS, transaction, 1, id, items)]
    rows += [Change(ITEMS, transaction, 2 + at, id, at) for at in range(items)]
    return rows, End(transaction, {ORDERS: 1, ITEMS: items} if items else {ORDERS: 1})


class Shop:
    """A lake with the group, whose ledger is this object: a kill forgets what it had not noted."""

    def __init__(self, spark: SparkSession, target: Target, scd: int = 1) -> None:
        self.lake = Lake(spark, target)
        self.spark, self.target, self.tables = spark, target, members(KEYS, stored_as_scd_type=scd)
        self.known = {table.table: TableState() for table in self.tables}
        self.counts: dict[str, dict[str, int]] = {table.table: {} for table in self.tables}
        self.arrived = self.feed_batch = 0

    def deliver(self, *records: Change | End) -> None:
        """Appends one batch to the members' logs, and the ENDs."""
        for table in self.tables:
            own = [r for r in records if isinstance(r, Change) and r.table == table.table]
            if own:
                rows = local_rows(self.spark, [self._row(r) for r in own], SCHEMA)
                silver_table = SilverTable(self.lake, table)
                at = max(log.find_newest_batch(silver_table), self.known[table.table].logged) + 1
                log.append_batch(silver_table, rows, at)
        ends = [r for r in records if isinstance(r, End)]
        if ends:
            kept = LakeTable(self.lake, "silver", TRANSACTIONS)
            layout.ensure_table(kept, [], TRANSACTION_COLUMNS)
            self.feed_batch += 1
            rows = local_rows(self.spark, [self._end(end) for end in ends], ENDS)
            rows.writeTo(kept.name).append()

    def run(self, dies: str | None = None) -> None:
        """One pass and its publication; `dies` names the member at whose turn it is killed.

        `ledger` dies after the pass and before the ledger is written.
        """

        lake, run = self.lake, Run("run", be_silent)
        logged = {t.table: log.find_newest_batch(SilverTable(lake, t)) for t in self.tables}

        def killed(run: Run, batch: Batch) -> TableResult:
            if batch.table.name == dies:
                raise Killed
            return run_table(run, batch)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_runs, "run_table", killed)
            upstream = Upstream(logged, {})
            found = advance_groups(run, lake, self.tables, self.known, upstream)
        if dies == "ledger":
            raise Killed
        entries = []
        for table, (began, done, message) in found.items():
            assert message is None
            self.known[table] = done.state
            for name, n in done.counts.items():
                self.counts[table][name] = self.counts[table].get(name, 0) + n
            entry = ledger.make_entry("run", "silver", table, began)
            entries.append(entry.model_copy(update={"state": done.state.to_text()}))
        ledger.append_entries(Lake(self.spark, self.target), entries)
        job.publish(Lake(self.spark, self.target), self.tables, "run", be_silent)

    def shown(self) -> set[int]:
        """The orders in gold; fails where one has not just its items, or items have no order."""
        views = load_views(self.target, "gold")
        if ORDERS not in views:
            assert ITEMS not in views
            return set()
        items = views[ITEMS].query if ITEMS in views else "SELECT 0 AS id, 0 AS line WHERE false"
        rows = self.spark.sql(
            f"SELECT o.id, o.items, i.n FROM ({views[ORDERS].query}) o FULL JOIN"
            f" (SELECT id, count(*) AS n FROM ({items}) GROUP BY id) i ON i.id = o.id"
        ).collect()
        assert [r for r in rows if r["id"] is None or (r["n"] or 0) != r["items"]] == []
        return {row["id"] for row in rows}

    def waiting(self) -> groups.Waits:
        return groups.find_waiting(Lake(self.spark, self.target), self.tables)["shop"]

    def _row(self, change: Change) -> dict[str, Any]:
        self.arrived += 1
        return {
            "id": change.id,
            "items": change.value,
            "line": change.value,
            "_operation": "upsert",
            "_sequence": f"{change.transaction * 100:016X}/{change.order:016X}",
            "_source_time": START + timedelta(seconds=change.transaction),
            "_transaction": str(change.transaction),
            "_transaction_order": change.order,
            "_position": f"{self.arrived}",
            "_arrival": f"{self.arrived:08X}",
            "_feed": "feed_shop",
            "_feed_batch": 1,
        }

    def _end(self, end: End) -> dict[str, Any]:
        return {
            "group": "shop",
            "transaction": str(end.transaction),
            "place": f"{end.transaction * 100 + 50:016X}",
            "expected": end.counts,
            "ended_at": START + timedelta(seconds=end.transaction),
            "feed": "feed_shop",
            "feed_batch": self.feed_batch,
        }
