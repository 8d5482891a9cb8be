"""What a run that goes on does at its end."""

from collections.abc import Sequence
from datetime import datetime, timezone

from cdc_lakehouse.cli.work.continuous import apply_pending
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory


def table(name: str, **options: object) -> Table:
    source = {"format": "debezium", "path": name}
    return Table.model_validate({"table": name, "source": source, "keys": ["id"]} | options)


def entry(name: str, **counts: int) -> Entry:
    began = datetime.now(timezone.utc)
    return ledger.make_entry("run", "silver", name, began).with_counts(counts)


def test_what_waits_is_applied_at_the_end_unless_it_may_lag() -> None:
    tables = [table("waits"), table("done"), table("lags", max_staleness="1 day")]
    tables.append(table("fresh", max_staleness=0))
    told = [entry("waits", pending=3), entry("done", updated=1), entry("lags", pending=2)]
    told.append(entry("fresh", pending=1))
    memory, asked, said = Memory(among=3), list[str](), list[Entry]()

    def do(layer: Layer, some: Sequence[Table]) -> list[Entry]:
        assert (layer, memory.among) == ("silver", None)
        asked.extend(one.table for one in some)
        return [entry("waits", updated=3, pending=-3)]

    ended = {e.table: e.counts for e in apply_pending(tables, told, do, said.append, memory)}
    assert (asked, [e.table for e in said]) == (["waits", "fresh"], ["waits"])
    assert ended["waits"] == {"pending": 0, "updated": 3}
