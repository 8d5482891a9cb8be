"""Orders and their items in one consistency group, as a source writes them and gold shows them."""

import json
from typing import Any

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views
from tests.helpers import lakes
from tests.helpers.groups_core import members


def shop() -> list[Table]:
    """The tables of the group."""
    return members({"orders": ["id"], "order_items": ["order_id", "line"]})


class Source:
    """A source that writes what Debezium would: whole records of one transaction after another."""

    def __init__(self) -> None:
        self.lsn, self.number, self.offset = 1_000, 700, 0

    def order(self, id: int, items: int, ended: bool = True) -> list[str]:
        """The lines of a transaction that adds an order with its items."""
        rows = [("orders", {"id": id, "items": items})]
        rows += [("order_items", {"order_id": id, "line": at}) for at in range(items)]
        return self.transaction(rows, ended)

    def transaction(self, rows: list[tuple[str, dict[str, int]]], ended: bool = True) -> list[str]:
        self.number += 1
        lines = [self._marker("BEGIN", None)]
        counts: dict[str, int] = {}
        for at, (name, row) in enumerate(rows, start=1):
            self.lsn += 8
            counts[name] = counts.get(name, 0) + 1
            lines.append(self._change(name, row, at))
        self.lsn += 8
        end = self._marker("END", counts)
        return [*lines, end] if ended else lines

    def _marker(self, status: str, counts: dict[str, int] | None) -> str:
        named = [
            {"data_collection": f"shop.{t}", "event_count": n} for t, n in (counts or {}).items()
        ]
        id = f"{self.number}:{self.lsn}"
        value = {
            "status": status,
            "id": id,
            "event_count": sum(counts.values()) if counts else None,
            "data_collections": named or None,
            "ts_ms": self.number * 1000,
        }
        return self._record("shop.transaction", {"id": id}, value)

    def _change(self, name: str, row: dict[str, int], at: int) -> str:
        source = {
            "connector": "postgresql", "name": "shop", "snapshot": "false", "txId": self.number,
            "lsn": self.lsn, "ts_us": self.number * 1_000_000, "ts_ms": self.number * 1000,
        }  # fmt: skip
        value = {
            "before": None,
            "after": row,
            "source": source,
            "op": "c",
            "transaction": {"id": f"{self.number}:{self.lsn}", "total_order": at},
        }
        keys = ("id",) if name == "orders" else ("order_id", "line")
        return self._record(f"shop.shop.{name}", {k: row[k] for k in keys}, value)

    def _record(self, topic: str, key: dict[str, Any], value: dict[str, Any]) -> str:
        self.offset += 1
        return json.dumps({"topic": topic, "offset": self.offset, "key": key, "value": value})


def shown(lake: Lake) -> dict[int, int]:
    """The items that gold shows of each order; fails where it is not what the order says."""
    views = load_views(lake.target, "gold")
    if "orders" not in views:
        assert "order_items" not in views
        return {}
    query = (
        "SELECT o.id, o.items, count(i.line) AS n, count_if(o.id IS NULL) AS lost"
        " FROM ({orders}) o FULL JOIN ({items}) i ON i.order_id = o.id GROUP BY o.id, o.items"
    )
    text = query.format(orders=views["orders"].query, items=views["order_items"].query)
    rows = lake.spark.sql(text).collect()
    assert [row for row in rows if row["n"] != row["items"] or row["lost"]] == []
    return {row["id"]: row["n"] for row in rows}


def land(target: Target, name: str, lines: list[str]) -> None:
    lakes.land(target, "shop", f"{name}.jsonl", lines)
