"""Dead letters tried again after a fix: at their own place in order, once, however often."""

from typing import Any

import pytest
from pyspark.sql import functions as F

from cdc_lakehouse.cli.check.dead_letters import acknowledge_letters, print_remaining
from cdc_lakehouse.cli.run_warnings import warn_of_records
from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver.changelog.dead_letter_list import Wanted
from silver.changelog.dead_letters import count_too_many
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.helpers import lakes
from tests.helpers.landed import apply, failures, land
from tests.helpers.sums import sums

pytestmark = pytest.mark.slow


def table(**options: Any) -> Table:
    given = {"table": "t", "source": {"format": "rows", "path": "t"}, "keys": ["id"]}
    columns = {"id": "int", "qty": "int"}
    return Table.model_validate(given | {"sequence_by": "v", "columns": columns} | options)


def bounded(most: int | None, **options: Any) -> Table:
    """A table whose rule rejects quantities above `most`; None rejects nothing."""
    rule = {"type": "expect_column_values_to_be_between", "column": "qty", "max_value": most}
    return table(expectations=[] if most is None else [rule], **options)


def numbers(*quantities: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"id": key, "v": version, "qty": qty} for key, version, qty in quantities]


def shown(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted((r["id"], r["qty"]) for r in lakes.rows(lake, "t"))


def test_what_a_rule_rejected_is_stale_until_a_replay_puts_it_in_its_place(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    strict, loose = bounded(10, on_stale_key="hide"), bounded(None)
    first = numbers((1, 1, 1), (2, 1, 2), (1, 2, 99), (2, 2, 99), (2, 3, 5), (3, 1, 99))
    land(lake, strict, 1, [*first, '{"id": 4, "v"'])
    entries = apply(lake, strict)
    assert failures(entries) == []
    warn_of_records(lake, [strict], entries)
    told = " ".join(capfd.readouterr().err.split())
    assert "t has 4 unresolved dead letters, more than its" in told
    assert "do: `lakehouse dead-letters list --table t`" in told
    assert "t: the rule expect_column_values_to_be_between(qty) rejects rows for the first" in told
    gold.publish(lake, [strict], "run", lakes.quiet)
    assert shown(lake) == [(2, 5)]
    [record] = lakes.status(lake, [strict])
    assert (record["stale_keys"], record["dead_letters_total"]) == (1, 4)
    acknowledge_letters(lake, [strict], Wanted(["not_json"]), "a slip")
    [record] = lakes.status(lake, [strict])
    assert (record["dead_letters_total"], record["dead_letters_acknowledged"]) == (3, 1)
    assert "not_json" not in record["dead_letters"]
    assert count_too_many(lake, [strict], entries) == [(strict, 3)]
    print_remaining(lake, [strict], Wanted())
    assert "t: 3 stay, rule:expect" in capfd.readouterr().out
    for resolved in (3, 0):
        done = replay_table(SilverTable(lake, loose), F.lit(True), "replay")
        assert (done.tried, done.resolved) == (resolved + 1, resolved)
        gold.publish(lake, [strict], "run", lakes.quiet)
        assert shown(lake) == [(1, 99), (2, 5), (3, 99)]
    log = lake.spark.table(lake.name("silver", "t_changes"))
    assert (log.count(), log.where("_reason IS NOT NULL").count()) == (7, 1)
    letters = lake.spark.table(lake.name("silver", "t_dead_letters"))
    assert letters.where("resolved_by = 'replay' AND resolved_at IS NOT NULL").count() == 3
    notes, classes = sums(lake)
    assert (notes["records"], notes["replayed"]) == (7, 3)
    assert classes == {"inserted": 3, "updated": 1, "superseded": 2, "dead_letter:not_json": 1}


def test_a_replay_weaves_into_the_history_and_survives_a_kill_after_each_step(lake: Lake) -> None:
    strict, loose = (bounded(most, stored_as_scd_type=2) for most in (10, None))
    land(lake, strict, 1, numbers((1, 1, 1), (1, 2, 99), (1, 3, 3)))
    assert failures(apply(lake, strict)) == []
    letters = lake.name("silver", "t_dead_letters")
    for resolved_first in (True, False):
        replay_table(SilverTable(lake, loose), F.lit(True), "replay")
        if resolved_first:  # as if the run had been killed before its last step
            lake.spark.sql(f"UPDATE {letters} SET resolved_at = NULL, resolved_by = NULL")
    rows = lake.spark.table(lake.name("silver", "t_history")).where("_shown").collect()
    assert [row["qty"] for row in sorted(rows, key=lambda row: row["_from_order"])] == [1, 99, 3]
    sums(lake)
