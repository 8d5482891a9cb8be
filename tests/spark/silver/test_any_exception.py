"""An exception of any kind, at any step of one table's run, is that table's failure alone."""

import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

from bronze import job as bronze
from bronze.feeds import Feed
from gold import job as gold
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver import job as silver
from tests.helpers import lakes
from tests.spark.silver.test_memory import drop, quiet, table

STEPS = {
    "bronze": [
        "bronze.job.prepare_table",
        "bronze.job.read_state",
        "bronze.job.ingest_files",
        "bronze.job.recover_files",
        "bronze.files.ingest.append_readable",
    ],
    "silver": [
        "silver.table_runs.extend_log",
        "silver.changelog.extend.write_decoded",
        "silver.changelog.batch.add_order_keys",
        "silver.table_run.write_batch",
        "silver.table_run.dead_letters.keep_dead_letters",
        "silver.table_run.reconciliation.count_outcomes",
    ],
    "gold": ["gold.job.table_views"],
}
DO = {"bronze": bronze.ingest, "silver": silver.apply, "gold": gold.publish}


@pytest.mark.slow
def test_the_other_tables_are_done_and_each_table_is_named(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each layer one table for each step, which fails there; nothing happens to the last one."""
    tables = [table(f"t{at}") for at in range(1 + max(map(len, STEPS.values())))]
    for one in tables:
        drop(lake.target, one.table, "1.jsonl", [{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    for layer, steps in STEPS.items():
        failing = dict(zip([one.table for one in tables], steps, strict=False))
        with monkeypatch.context() as patch:
            for name, step in failing.items():
                patch.setattr(step, _broken(step, name))
            entries = {e.table: e for e in DO[layer](lake, tables, "run", quiet)}
        assert {name for name, e in entries.items() if e.status == "failed"} == {*failing}
        for name, step in failing.items():
            assert f"ZeroDivisionError: at {step}" in str(entries[name].message)
        _is_right(layer, entries[tables[-1].table])
        again = DO[layer](lake, tables, "run", quiet)
        assert {entry.status for entry in again} == {"ok"}
    for one in tables:
        rows = lakes.rows(lake, one.table)
        assert sorted((row["id"], row["v"]) for row in rows) == [(1, 1), (2, 2)]


def _is_right(layer: str, entry: Entry) -> None:
    wanted = {"bronze": {"records": 2}, "silver": {"inserted": 2}, "gold": {}}[layer]
    assert entry.status == "ok" and wanted.items() <= entry.counts.items()


def _broken(step: str, name: str) -> Callable[..., Any]:
    """The function of a step, which raises for the table of that name."""
    right = pkgutil.resolve_name(step)

    def broken(*given: Any, **more: Any) -> Any:
        if any(_table_of(one) == name for one in given):
            raise ZeroDivisionError(f"at {step}")
        return right(*given, **more)

    return broken


def _table_of(given: Any) -> Any:
    """The name of the table that an argument is, or belongs to; of a feed, its own name."""
    for inner in ("table", "config", "table", "table"):
        given = getattr(given, inner, given)
    return given.name if isinstance(given, Feed) else given
