"""A small lake of tables in all states, made by plain SQL, for tests of the status."""

from datetime import datetime, timedelta, timezone
from typing import Any

from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver.state.table_state import GroupState, SchemaChange, TableState, WaitingTransaction

NOW = datetime.now(timezone.utc)
SOURCE = {"format": "debezium", "path": "shop"}


def table(name: str, **options: Any) -> Table:
    return Table.model_validate({"table": name, "keys": ["id"], "source": SOURCE} | options)


TABLES = [
    table("clicks", keys=[]),
    table("fresh"),
    table("orders", max_staleness="10 minutes"),
    table("people", stored_as_scd_type=2, max_staleness="1 hour"),
]


def entry(name: str, minutes_ago: int, **more: Any) -> Entry:
    ended = NOW - timedelta(minutes=minutes_ago)
    given = {"run_id": "r", "layer": "silver", "table": name, "started_at": ended}
    return Entry.model_validate(given | {"ended_at": ended} | more)


RUNS = [
    *[
        entry("orders", 200 - n, batch=1, duration_ms=1000 * n, counts={"records": 1, "late": 1})
        for n in range(20)
    ],
    entry("orders", 90, batch=1, counts={"records": 5, "inserted": 3, "superseded": 2}),
    entry("orders", 80, batch=2, counts={"records": 2, "dead_letter:no_key": 1, "woven": 1}),
    entry("orders", 70, batch=3, status="failed", message="no space"),
    entry("orders", 60, batch=3, status="failed", message="no space left"),
    entry("clicks", 90, batch=1, counts={"records": 3, "applied": 2, "key_changes": 1}),
    entry("clicks", 95, layer="bronze", status="failed", message="no broker"),
    entry("clicks", 93, layer="gold", status="failed", message="no view"),
    entry("clicks", 91, layer="gold"),
    entry("people", 95, layer="bronze", status="failed", message="no broker"),
    entry("people", 90, layer="bronze"),
]

KEPT = {
    "orders": "SELECT * FROM VALUES (1, false, 'a'), (2, true, 'b'), (3, false, 'c'),"
    " (4, false, 'd') AS t(id, _deleted, _order)",
    "orders_changes": "SELECT _batch, _reason, timestamp_seconds(n * 100000000) AS _source_time"
    " FROM VALUES (1L, NULL, 1), (2L, NULL, 17), (2L, 'no_key', 19), (3L, NULL, 18), (3L, NULL, 2)"
    " AS t(_batch, _reason, n)",
    "people_history": "SELECT * FROM VALUES (1, true), (1, false) AS t(id, _is_current)",
    "people_changes": "SELECT 1L AS _batch, 'bad_value' AS _reason,"
    " timestamp_seconds(1700000000) AS _source_time",
    "clicks": "SELECT * FROM VALUES ('x', false, '1'), ('x', false, '2'), ('x', true, '3'),"
    " ('y', true, '4') AS t(_content, _removes, _order)",
    "orders_dead_letters": "SELECT *, current_timestamp() AS at, 'p' AS position,"
    " if(resolved, current_timestamp(), NULL) AS resolved_at"
    " FROM VALUES ('no_key', false, NULL, NULL), ('no_key', false, '{\"id\":1}', 'A'),"
    " ('too_late', false, '{\"id\":3}', 'd'), ('no_key', true, '{\"id\":4}', 'e')"
    " AS t(reason, resolved, _key, _order)",
    "_gaps": "SELECT 'people' AS `table`, current_timestamp() - n * INTERVAL 1 HOUR AS found_at,"
    " n AS `from`, if(n = 2, current_timestamp(), NULL) AS resolved_at"
    " FROM VALUES (1), (2), (3) AS t(n)",
}


def added(days_ago: int, column: str) -> SchemaChange:
    at = (NOW - timedelta(days=days_ago)).isoformat().replace("+00:00", "Z")
    return SchemaChange(at, "r", "add_column", column, None, "int", "applied", "p")


def waits(transaction: str, **records: int) -> WaitingTransaction:
    return WaitingTransaction(transaction, None, records, "its END", False)


OLD = GroupState("g", 1, waiting=[waits("1", orders=1)])
NEW = GroupState("g", 2, waiting=[waits("2", orders=2, people=1), waits("3", people=1)])
STATES = {
    "orders": TableState(
        batch=2,
        pending=2,
        waiting_since=int(NOW.timestamp() * 1e6),
        group=OLD,
        schema_changes=[added(10, "c2"), added(5, "c1"), added(0, "c0")],
    ),
    "people": TableState(group=NEW, pending=1, waiting_since=int(NOW.timestamp() * 1e6)),
}


def fill(lake: Lake) -> None:
    """Makes silver's tables and the ledger; one row of `orders` is hidden by a deletion vector."""
    for name, query in KEPT.items():
        lake.spark.sql(
            f"CREATE TABLE {lake.name('silver', name)} USING delta"
            " TBLPROPERTIES (delta.enableDeletionVectors = true)"
            f" AS SELECT /*+ COALESCE(1) */ * FROM ({query})"
        )
    lake.spark.sql(f"DELETE FROM {lake.name('silver', 'orders')} WHERE id = 4")
    states = [
        entry(name, 300, status="begun", state=state.to_text()) for name, state in STATES.items()
    ]
    ledger.append_entries(lake, [*states, *RUNS])
