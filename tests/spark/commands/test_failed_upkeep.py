"""Upkeep that fails before any of its writes fails its own table, and is ended when repeated.

LAKEHOUSE_EVERY says how many writes lie between two failures.
"""

import os
from collections.abc import Callable

import pytest

from bronze import job as bronze
from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from cdc_lakehouse.cli.work.maintain import tend_tables
from cdc_lakehouse.cli.work.rebuild import rebuild_renamed, rebuild_table
from cdc_lakehouse.cli.work.rounds import Round
from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.errors import LakehouseError
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver import job as silver
from tests.conftest import REMOTE
from tests.helpers.lakes import quiet, rows, run
from tests.spark.machine.kills import watched_writes
from tests.spark.silver.test_memory import drop, table

EVERY = int(os.environ.get("LAKEHOUSE_EVERY", "7"))
TYPES = {"id": "int", "v": "bigint"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REMOTE is not None, reason="it counts the writes of a session here"),
]


def rebuild(lake: Lake, tables: list[Table]) -> None:
    rebuild_table(lake, tables[0], quiet, tables)


def rename(lake: Lake, tables: list[Table]) -> None:
    for failure in rebuild_renamed(Round(lake, everything=tables), tables):
        assert "\n    do: lakehouse run again, or lakehouse rebuild" in str(failure)


def erase(lake: Lake, tables: list[Table]) -> None:
    erase_key(lake, Erasure(tables[0], {"id": "1"}, True, quiet), tables)


def maintain(lake: Lake, tables: list[Table]) -> None:
    entries = tend_tables(lake, tables, False, quiet)
    assert len([entry for entry in entries if entry.status == "failed"]) <= 1


RENAMED = {**TYPES, "label": {"type": "string", "renamed_from": "name"}}
COMMANDS: dict[str, tuple[Callable[[Lake, list[Table]], None], dict[str, object], set[int]]] = {
    "rebuild": (rebuild, {}, {1, 2}),
    "rename": (rename, {"columns": RENAMED}, {1, 2}),
    "erase": (erase, {}, {2}),
    "maintain": (maintain, {"cluster_by": ["v"]}, {1, 2}),
}
"""The command, what is new in the YAML, and the keys that are left."""


@pytest.mark.parametrize("name", COMMANDS)
def test_upkeep_that_fails_before_a_write_stops_no_other_table_and_is_ended_by_the_next(
    lake: Lake, name: str
) -> None:
    command, new, left = COMMANDS[name]
    options = {"columns": {**TYPES, "name": "string"}, "stored_as_scd_type": 2}
    other = table("o", **options)
    for one in ("t", "o"):
        drop(lake.target, one, "1.jsonl", [{"id": n, "v": n, "name": f"n{n}"} for n in (1, 2)])
    run(lake, [table("t", **options), other])
    tables, at, writes = [table("t", **options | new), other], 1, 1
    while writes >= at - EVERY:
        writes = fail_before(at, lambda: command(lake, tables))
        drop(lake.target, "o", f"{at + 1}.jsonl", [{"id": at + 2, "v": at + 2, "name": "n"}])
        entries = work(lake, tables)
        assert {entry.table for entry in entries if entry.status == "failed"} <= {"t"}, entries
        assert at + 2 in {row["id"] for row in rows(lake, "o")}
        at += EVERY
    run(lake, tables)
    assert {row["id"] for row in rows(lake, "t")} == left


def fail_before(number: int, do: Callable[[], None]) -> int:
    """Fails before one write of what is done; returns how many writes there were."""

    def fail(write: int) -> None:
        if write == number:
            raise ZeroDivisionError(f"before write {write}")

    with watched_writes(fail) as count:
        try:
            do()
        except (ZeroDivisionError, LakehouseError):
            if count.writes < number:
                raise
    return count.writes


def work(lake: Lake, tables: list[Table]) -> list[Entry]:
    """Everything once; a table that fails stays behind."""
    return [
        *bronze.ingest(lake, tables, "run", quiet),
        *silver.apply_all(lake, tables, "run", quiet),
        *gold.publish(lake, tables, "run", quiet),
    ]
