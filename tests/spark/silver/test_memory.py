"""What a run remembers is what the lake would tell, and less work to know."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bronze import job as bronze
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Arrived, Memory
from lakehouse.storage.lake import Lake
from silver import job as silver
from silver import reconciliation, table_runs
from silver.changelog import bronze_rows
from silver.state.table_state import read_states
from tests.helpers.arrivals import silver as stored
from tests.helpers.lakes import quiet, rows, settle
from tests.helpers.landed import failures, land
from tests.spark.groups.test_consistency_groups import Source, shop
from tests.spark.groups.test_consistency_groups import land as land_files


def table(name: str = "t", **options: Any) -> Table:
    given = {"table": name, "source": {"format": "rows", "path": name}, "keys": ["id"]}
    return Table.model_validate(given | {"sequence_by": "v"} | options)


def drop(target: Target, name: str, file: str, records: Sequence[dict[str, Any]]) -> None:
    folder = Path(target.landing, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("".join(f"{json.dumps(record)}\n" for record in records))


AT_ONCE = pytest.param({}, marks=pytest.mark.slow, id="at once")
WAITING = pytest.param({"max_staleness": "1 day"}, id="waiting")


def check(lake: Lake, tables: list[Table], memory: Memory) -> None:
    """What is remembered of every table is what the ledger tells of it."""
    stored = read_states(lake)
    assert {t.table: memory.tables[t.table] for t in tables} == {
        t.table: stored[t.table] for t in tables
    }


@pytest.mark.parametrize("options", [AT_ONCE, pytest.param(WAITING, marks=pytest.mark.slow)])
def test_what_is_remembered_is_what_the_ledger_tells(lake: Lake, options: dict[str, Any]) -> None:
    one, memory = table(**options), Memory()
    batches: list[list[Any]] = [
        [{"id": 1, "v": 1, "w": "a"}, {"id": 2, "v": 1, "w": "b"}],
        [{"id": 1, "v": 2}, {"id": 1, "v": 2}, "no JSON"],
        [{"id": 2, "v": 3, "w": "c"}],
    ]
    for number, records in enumerate(batches, 1):
        land(lake, one, number, records)
        assert failures(silver.apply(lake, [one], "run", quiet, memory)) == []
        check(lake, [one], memory)


@pytest.mark.slow
def test_of_a_group_is_remembered_what_waits_as_well(lake: Lake) -> None:
    source, memory, tables = Source(), Memory(), shop()
    late = source.order(2, 1, ended=False)
    for number, lines in enumerate([source.order(1, 2), late, source.order(3, 1)], 1):
        land_files(lake.target, str(number), lines)
        assert failures(bronze.ingest(lake, tables, "run", quiet, memory)) == []
        assert failures(silver.apply(lake, tables, "run", quiet, memory)) == []
        check(lake, tables, memory)


@pytest.mark.slow
def test_a_second_round_asks_the_lake_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    one, memory = table(), Memory()
    drop(lake.target, "t", "1.jsonl", [{"id": 1, "v": 1}])
    assert failures(bronze.ingest(lake, [one], "run", quiet, memory)) == []
    assert failures(silver.apply(lake, [one], "run", quiet, memory)) == []

    def asked(*_: object) -> None:
        raise AssertionError("the lake was asked")

    drop(lake.target, "t", "2.jsonl", [{"id": 1, "v": 2}, {"id": 2, "v": 2}])
    with monkeypatch.context() as patch:
        patch.setattr(table_runs, "read_states", asked)
        patch.setattr(bronze_rows, "_run_queries", asked)
        assert failures(bronze.ingest(lake, [one], "run", quiet, memory)) == []
        assert failures(silver.apply(lake, [one], "run", quiet, memory)) == []
    settle(lake, [one])
    assert sorted((row["id"], row["v"]) for row in rows(lake, "t")) == [(1, 2), (2, 2)]


@pytest.mark.slow
def test_the_write_of_a_run_tells_what_became_of_all_its_records(lake: Lake) -> None:
    one, memory = table(apply_as_deletes="gone = 'true'"), Memory()
    land(lake, one, 1, [{"id": 1, "v": 1}, {"id": 2, "v": 1}])
    assert failures(silver.apply(lake, [one], "run", quiet, memory)) == []
    changes = [{"id": 1, "v": 2}, {"id": 2, "v": 2, "gone": True}, {"id": 3, "v": 1}]
    for number, records in enumerate([[*changes, {"id": 4, "v": 1, "gone": True}], changes], 2):
        land(lake, one, number, records)
    (entry,) = silver.apply(lake, [one], "run", quiet, memory)
    told = {"inserted": 1, "updated": 1, "deleted": 1, "delete_unknown": 1, "duplicate": 3}
    assert (entry.message, entry.counts) == (None, {"records": 7, "incomplete": 4} | told)
    land(lake, one, 4, changes)
    (entry,) = silver.apply(lake, [one], "run", quiet, memory)
    assert (entry.message, entry.counts) == (None, {"records": 3, "incomplete": 2, "duplicate": 3})


@pytest.mark.slow
def test_what_a_killed_run_wrote_has_come_before(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table()
    land(lake, one, 1, [{"id": 1, "v": 1}, {"id": 2, "v": 1}])
    assert failures(silver.apply(lake, [one], "run", quiet)) == []
    land(lake, one, 2, [{"id": 1, "v": 2}, {"id": 3, "v": 1}])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(reconciliation, "count_outcomes", killed)
        silver.apply(lake, [one], "run", quiet)
    land(lake, one, 3, [{"id": 2, "v": 3}])
    (entry,) = silver.apply(lake, [one], "run", quiet)
    assert entry.counts == {"records": 3, "updated": 1, "duplicate": 2}
    assert {row["id"]: row["v"] for row in stored(lake, "t", "id")} == {1: 2, 2: 3, 3: 1}


def killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_table_that_failed_is_asked_for_again(lake: Lake) -> None:
    good, memory = table(), Memory()
    bad = table(keys=["v"])
    land(lake, good, 1, [{"id": 1, "v": 1}])
    assert failures(silver.apply(lake, [good], "run", quiet, memory)) == []
    land(lake, good, 2, [{"id": 2, "v": 2}])
    assert len(failures(silver.apply(lake, [bad], "run", quiet, memory))) == 1
    assert memory.tables == {}
    (entry,) = silver.apply(lake, [good], "run", quiet, memory)
    assert entry.counts["inserted"] == 1


def test_a_feed_that_was_watched_from_later_on_is_asked_for(lake: Lake) -> None:
    """Of a batch that came before it was watched its memory tells nothing."""
    source = {"format": "rows", "path": "f"}
    one = table("a", source=source | {"topic": "a"})
    land(lake, one, 1, [{"topic": "a", "offset": 1, "key": "1", "value": {"v": 1}}])
    (feed,) = bronze_rows.feeds_of(one)
    told = {feed: Arrived(2, {"b": 2}, since=1)}
    found = bronze_rows.find_arrived(lake, [one], {"a": {feed: 0}}, told)
    assert bronze_rows.has_new(one, {feed: 0}, found)
    found = bronze_rows.find_arrived(lake, [one], {"a": {feed: 1}}, told)
    assert found == told
    assert not bronze_rows.has_new(one, {feed: 1}, found)
