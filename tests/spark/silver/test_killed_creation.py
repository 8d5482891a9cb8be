"""A table whose creation was killed before its first commit: an empty log, and no table."""

import json
import shutil
import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.storage import writing
from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.helpers import lakes

PEOPLE = Table.model_validate(
    {
        "table": "people",
        "keys": ["id"],
        "source": {"format": "debezium", "path": "people"},
        "columns": {"id": "int", "name": "string"},
        "stored_as_scd_type": 2,
        "max_staleness": "1h",
        "expectations": [
            {
                "type": "expect_column_values_to_not_be_null",
                "column": "name",
                "severity": "critical",
            }
        ],
    }
)


def record(number: int, name: str | None, op: str = "c") -> str:
    row = {"id": number, "name": name, "added": 1}
    source = {"connector": "postgresql", "lsn": 100 + number, "ts_us": 10**15 + number}
    return json.dumps({"before": None, "after": row, "source": source, "op": op})


def shown(lake: Lake) -> list[tuple[object, object]]:
    lines = [record(1, "Ann"), record(2, None), "not a record", record(3, "Bo")]
    lakes.land(lake.target, "people", "a.jsonl", lines)
    lakes.run(lake, [PEOPLE])
    return sorted((row["id"], row["name"]) for row in lakes.rows(lake, "people"))


def logs(target: Target) -> list[Path]:
    return sorted(log.relative_to(target.lake) for log in Path(target.lake).rglob("_delta_log"))


@pytest.mark.slow
def test_every_table_is_created_where_its_creation_was_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PATIENCE_SECONDS", 0.1)
    calm, killed = target_at(tmp_path / "calm"), target_at(tmp_path / "killed")
    want = shown(Lake(spark, calm))
    made = logs(calm)
    assert {"people", "people_history", "people_dead_letters", "_runs"} <= {
        log.parent.name for log in made
    }
    for log in made:
        Path(killed.lake, log).mkdir(parents=True)
        Path(killed.lake, log, f".{0:020d}.json.5f0c.tmp").touch()
    assert shown(Lake(spark, killed)) == want == [(1, "Ann"), (3, "Bo")]
    assert logs(killed) == made


def test_a_table_that_another_run_is_creating_is_left_to_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The other run's commit comes while this one waits; its rows stay."""
    theirs, ours = target_at(tmp_path / "theirs"), target_at(tmp_path / "ours")
    entry = ledger.make_entry("theirs", "silver", "t", datetime.now(timezone.utc))
    ledger.append_entries(Lake(spark, theirs), [entry])
    shutil.copytree(theirs.lake, ours.lake)
    commits = sorted(Path(ours.lake, "silver", "_runs", "_delta_log").glob("*.json"))
    for commit in commits:
        commit.rename(commit.with_suffix(".later"))

    def end() -> None:
        for commit in commits:
            commit.with_suffix(".later").rename(commit)

    other = threading.Timer(0.5, end)
    other.start()
    ledger.append_entries(Lake(spark, ours), [entry.model_copy(update={"run_id": "ours"})])
    other.join()
    assert {row["run_id"] for row in ledger.read_entries(Lake(spark, ours)).collect()} == {
        "theirs",
        "ours",
    }
