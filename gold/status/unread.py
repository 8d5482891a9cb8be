"""Records that no table reads, over all runs, from the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

from gold.status.table_status import states_of
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.unread import UNREAD, Unread, list_unread
from lakehouse.storage.lake import Lake


def unread_of(lake: Lake, tables: Sequence[Table]) -> list[Unread]:
    """What no table reads of the feeds that tables share; `tables` are all that are configured."""
    return list_unread(read_unread(lake), tables)


def read_unread(lake: Lake) -> list[tuple[str, str, int]]:
    """The ledger's counts of what no table reads: feed, name of the count, number."""
    if not lake.exists("silver", ledger.TABLE):
        return []
    place = lake.name("silver", ledger.TABLE)
    counts = f"SELECT `table`, explode(counts) AS (name, n) FROM {place} WHERE layer = 'bronze'"
    sums = f"SELECT `table`, name, sum(n) AS n FROM ({counts})"
    rows = lake.ask(
        f"{sums} WHERE split_part(name, ':', 1) = '{UNREAD}' GROUP BY `table`, name"
        " ORDER BY `table`, name"
    )
    return [(row["table"], row["name"], row["n"]) for row in rows]


def waiting_deletes(lake: Lake, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a sentence for each date whose deletes wait."""
    asked = [t.table for t in tables if t.format == "snapshot"]
    states = states_of(lake) if asked else {}
    return {t: describe_waiting(states[t].get("days", [])) for t in asked if t in states}


def describe_waiting(days: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each date of snapshot files whose deletes wait."""
    waiting = [day for day in days if day.get("unread_lines")]
    return [
        f"the deletes of {day['effective_date']} wait, as {day['unread_lines']:,} lines of its"
        " files cannot be read; do: drop the file again, repaired, or mend the configuration and"
        " `lakehouse dead-letters replay`"
        for day in sorted(waiting, key=lambda day: str(day["effective_date"]))
    ]
