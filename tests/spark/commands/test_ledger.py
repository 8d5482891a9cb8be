from datetime import datetime, timezone
from pathlib import Path

import pytest

from cdc_lakehouse.cli.work.rounds import Round, do_layer, write_entries_together
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.run import ledger
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from tests.helpers import lakes

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def entry(table: str, **more: object) -> ledger.Entry:
    given = {"run_id": "r1", "layer": "silver", "table": table, "batch": 3, **more}
    return ledger.Entry.model_validate(given | {"started_at": BEGIN, "ended_at": BEGIN})


def test_the_ledger_is_empty_before_the_first_run(lake: Lake) -> None:
    assert ledger.read_entries(lake).count() == 0


def test_entries_are_read_back_as_written(lake: Lake) -> None:
    ledger.append_entries(lake, [entry("a", counts={"inserted": 2})])
    ledger.append_entries(lake, [entry("b", batch=None, status="failed", message="why")])
    shown = ledger.read_entries(lake).selectExpr(
        "table", "batch", "status", "counts['inserted']", "message", "string(started_at)"
    )
    at = "2026-01-02 03:04:05.678901"
    assert sorted(tuple(row) for row in shown.collect()) == [
        ("a", 3, "ok", 2, None, at),
        ("b", None, "failed", None, "why", at),
    ]


def test_many_entries_are_one_commit(lake: Lake) -> None:
    ledger.append_entries(lake, [entry("a"), entry("b")])
    before = ledger.read_entries(lake).count()
    log = lake.spark.sql(f"DESCRIBE HISTORY delta.`{lake.target.lake}/silver/_runs`")
    assert (before, log.where("operation <> 'CREATE TABLE'").count()) == (2, 1)


def test_a_dozen_commits_write_no_checkpoint(lake: Lake) -> None:
    for _ in range(12):
        ledger.append_entries(lake, [entry("a")])
    log = Path(lake.target.lake, "silver", "_runs") / "_delta_log"
    assert len([*log.glob("*.json")]) > 12
    assert [*log.glob("*.checkpoint*")] == []


def test_what_waits_is_written_with_what_comes(lake: Lake) -> None:
    memory = Memory()
    memory.waiting.append(entry("a", layer="bronze"))
    ledger.append_with_waiting(lake, [entry("a")], memory)
    ledger.append_with_waiting(lake, [], memory)
    log = lake.spark.sql(f"DESCRIBE HISTORY delta.`{lake.target.lake}/silver/_runs`")
    assert (layers(lake), memory.pop_deferred()) == (["bronze", "silver"], [])
    assert log.where("operation <> 'CREATE TABLE'").count() == 1


def test_what_could_not_be_written_waits_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError("the disk is full")

    memory, both = Memory(), [entry("a", layer="bronze"), entry("b", layer="bronze")]
    memory.waiting.extend(both)
    monkeypatch.setattr(ledger, "append_entries", failing)
    with pytest.raises(OSError, match="full"):
        ledger.append_with_waiting(lake, [entry("a")], memory)
    assert memory.pop_deferred() == both


@pytest.mark.slow
def test_a_round_tells_of_bronze_with_silver(lake: Lake) -> None:
    source = {"format": "rows", "path": "t"}
    given = {"table": "t", "source": source, "keys": ["id"], "sequence_by": "v"}
    tables, memory = [Table.model_validate(given)], Memory()

    def work(layer: Layer, number: int) -> None:
        Path(lake.target.landing, "t").mkdir(parents=True, exist_ok=True)
        Path(lake.target.landing, "t", str(number)).write_text(f'{{"id": {number}, "v": 1}}')
        done = do_layer(Round(lake, "r", memory=memory), tables, layer, lakes.quiet)
        assert [one.message for one in done] == [None]

    with write_entries_together(lake, ["bronze", "silver"], memory):
        work("bronze", 1)
        assert layers(lake) == []
        work("silver", 1)
        assert layers(lake) == ["bronze", "silver"]
        work("bronze", 2)
        assert layers(lake) == ["bronze", "silver"]
    assert layers(lake) == ["bronze", "bronze", "silver"]
    with write_entries_together(lake, ["bronze"], memory):
        work("bronze", 3)
        assert layers(lake) == ["bronze", "bronze", "bronze", "silver"]


def layers(lake: Lake) -> list[str]:
    done = ledger.read_entries(lake).where("status <> 'begun'")
    return sorted(row["layer"] for row in done.collect())
