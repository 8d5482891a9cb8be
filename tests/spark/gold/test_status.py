import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.ask import status_records
from gold.status.pipeline import STATUS_COLUMNS
from gold.status.status_file import require_known
from gold.views import catalog
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.helpers import lakes
from tests.helpers.lakes import land, run
from tests.helpers.status_lake import NOW, TABLES, entry, fill, table


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    target = target_at(tmp_path_factory.mktemp("status"))
    fill(Lake(spark, target))
    return target


@pytest.fixture(scope="module")
def records(spark: SparkSession, lake: Target) -> dict[str, dict[str, Any]]:
    return {record["table"]: record for record in lakes.status(Lake(spark, lake), TABLES)}


def asked(record: dict[str, Any]) -> datetime:
    """When the status was asked."""
    return datetime.fromisoformat(record["checked_at"].replace("Z", "+00:00"))


def test_rows_are_those_that_gold_shows(records: dict[str, dict[str, Any]]) -> None:
    found = {name: record["rows"] for name, record in records.items()}
    assert found == {"clicks": 1, "fresh": 0, "orders": 2, "people": 1}


def test_the_watermark_is_the_newest_applied_commit_time(
    records: dict[str, dict[str, Any]],
) -> None:
    orders = records["orders"]
    assert orders["watermark"] == "2023-11-14T22:13:20Z"
    assert abs(orders["lag_seconds"] - (asked(orders).timestamp() - 1_700_000_000)) < 2
    assert (records["fresh"]["watermark"], records["fresh"]["lag_seconds"]) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("promise", [0, "1 day"])
def test_a_row_that_came_after_a_delete_moves_the_watermark(
    spark: SparkSession, target: Target, promise: Any
) -> None:
    seconds = 1_700_000_000
    for number, (op, row) in enumerate([("c", 1), ("c", 2), ("d", 1), ("u", 2)]):
        sides = {"before": {"id": row}} if op == "d" else {"after": {"id": row, "n": number}}
        source = {"connector": "postgresql", "lsn": number, "ts_ms": (seconds + number) * 1000}
        event = {"op": op, "source": source, "before": None, "after": None, **sides}
        land(target, "shop", f"{number}.jsonl", [json.dumps(event)])
        run(Lake(spark, target), [watched := table("t", max_staleness=promise)])
    (record,) = lakes.status(Lake(spark, target), [watched])
    shown = 0 if promise else 3
    assert record["watermark"] == f"2023-11-14T22:13:2{shown}Z", record


def test_pending_changes_are_those_above_the_applied_pass(
    records: dict[str, dict[str, Any]],
) -> None:
    found = {name: record["pending_changes"] for name, record in records.items()}
    assert found == {"clicks": 0, "fresh": 0, "orders": 2, "people": 1}


def test_a_table_is_stale_when_a_change_waits_for_longer_than_promised(
    records: dict[str, dict[str, Any]],
) -> None:
    orders, people = records["orders"], records["people"]
    assert orders["stale"] is True
    since = (asked(orders) - NOW).total_seconds()
    assert 69 * 60 <= orders["staleness_seconds"] - since < 80 * 60
    assert (people["stale"], 0 <= people["staleness_seconds"] < 3600) == (False, True)
    assert records["clicks"]["staleness_seconds"] == 0
    assert (orders["max_staleness_seconds"], people["max_staleness_seconds"]) == (600, 3600)
    assert orders["last_failure"] == "no space left"


def test_a_failure_of_any_layer_shows_until_that_layer_is_done(
    records: dict[str, dict[str, Any]],
) -> None:
    found = {name: record["last_failure"] for name, record in records.items()}
    assert found == {
        "clicks": "bronze: no broker",
        "fresh": None,
        "orders": "no space left",
        "people": None,
    }


def test_the_ledger_tells_which_work_failed_last(spark: SparkSession, lake: Target) -> None:
    assert ledger.find_failing(Lake(spark, lake)) == {("bronze", "clicks"), ("silver", "orders")}


def test_the_recommended_promise_is_twice_the_p95_and_seven_minutes(
    records: dict[str, dict[str, Any]],
) -> None:
    assert records["orders"]["apply_p95_seconds"] == pytest.approx(17.95)
    assert records["orders"]["recommended_max_staleness_minutes"] == 8
    assert records["fresh"]["recommended_max_staleness_minutes"] is None


def test_unresolved_dead_letters_are_counted_by_reason(records: dict[str, dict[str, Any]]) -> None:
    orders = records["orders"]
    assert orders["dead_letters"] == {"no_key": 2, "too_late": 1}
    assert orders["dead_letters_total"] == 3
    assert (orders["dead_letters_alert"], records["clicks"]["dead_letters_alert"]) == (True, False)
    assert (records["clicks"]["dead_letters"], records["clicks"]["dead_letters_total"]) == ({}, 0)


def test_drift_is_listed_oldest_first(records: dict[str, dict[str, Any]]) -> None:
    assert [note["column"] for note in records["orders"]["drift"]] == ["c2", "c1", "c0"]
    assert "table" not in records["orders"]["drift"][0]
    assert records["people"]["drift"] == []


def test_open_gaps_are_listed_oldest_first(records: dict[str, dict[str, Any]]) -> None:
    assert [gap["from"] for gap in records["people"]["gaps"]] == [3, 1]
    assert records["orders"]["gaps"] == []


def test_waiting_transactions_are_those_of_the_groups_newest_pass(
    records: dict[str, dict[str, Any]],
) -> None:
    found = {name: record["waiting_transactions"] for name, record in records.items()}
    assert found == {"clicks": 0, "fresh": 0, "orders": 1, "people": 2}


def test_the_classes_add_up_to_the_records_without_the_notes(
    records: dict[str, dict[str, Any]],
) -> None:
    assert records["orders"]["counts"]["records"] == 27
    assert records["orders"]["accounted"] is True
    assert records["clicks"]["accounted"] is False


def test_files_and_deletion_vectors_are_counted(records: dict[str, dict[str, Any]]) -> None:
    orders = records["orders"]
    assert (orders["deletion_vectors"], orders["files"] >= 1, orders["bytes"] > 0) == (
        1,
        True,
        True,
    )
    assert records["fresh"]["files"] is None


def test_the_view_says_what_status_says(
    spark: SparkSession, lake: Target, records: dict[str, dict[str, Any]]
) -> None:
    query = "SELECT * FROM gold.pipeline_status"
    catalog.open_catalog(Lake(spark, lake), query)
    answer = spark.sql(query)
    assert answer.dtypes == [(name, kind) for name, kind, _ in STATUS_COLUMNS]
    rows = {row["table"]: row.asDict() for row in answer.collect()}
    spark.sql("DROP VIEW gold.pipeline_status")
    catalog.open_catalog(Lake(spark, lake), query, as_of="2026-01-31 00:00:00")
    assert not spark.catalog.tableExists("gold.pipeline_status")
    assert {name: row["drift"] for name, row in rows.items() if row["drift"]} == {"orders": 2}
    assert {name: row["dead_letters"] for name, row in rows.items()} == {
        name: record["dead_letters_total"] for name, record in records.items()
    }
    same = ("rows", "stale", "pending_changes", "waiting_transactions", "files", "gaps")
    for name, record in records.items():
        assert [rows[name][key] for key in same] == [
            len(record[key]) if isinstance(record[key], list) else record[key] for key in same
        ]


@pytest.mark.slow
def test_in_a_catalog_the_status_is_a_table_to_which_each_entry_is_added_once(
    spark: SparkSession, tmp_path: Path, records: dict[str, dict[str, Any]]
) -> None:
    folders = {name: str(tmp_path / name) for name in ("landing", "checkpoints")}
    schemas = {layer: f"{layer}_of_status" for layer in ("silver", "gold")}
    given = {"catalog": "spark_catalog", "kind": "connect", "schemas": schemas}
    target = Target.model_validate(given | folders)
    lake = Lake(spark, target)
    for schema in schemas.values():
        spark.sql(f"CREATE DATABASE {schema} LOCATION '{(tmp_path / schema).as_uri()}'")
    try:
        with pytest.raises(ConfigurationError, match="`lakehouse run` writes it"):
            require_known(lake)
        fill(lake)
        for _ in range(2):
            status_records.keep_status(lake, TABLES)
        kept = status_records.read_status(target, TABLES, TABLES, require_known(lake))
        found = {record["table"]: record for record in kept.records}
        same = ("rows", "counts", "stale", "dead_letters", "apply_p95_seconds", "last_failure")
        assert {n: [r[c] for c in same] for n, r in found.items()} == {
            n: [r[c] for c in same] for n, r in records.items()
        }
        late = entry("clicks", 100, batch=2, counts={"records": 1, "applied": 1})
        ledger.append_entries(lake, [late])
        for _ in range(2):
            assert require_known(lake).tables["clicks"].counts["records"] == 4
            status_records.keep_status(lake, TABLES)
        shown = spark.table(lake.name("gold", "pipeline_status")).where("stale").collect()
        assert [row["table"] for row in shown] == ["orders"]
    finally:
        for schema in schemas.values():
            spark.sql(f"DROP DATABASE {schema} CASCADE")


@pytest.mark.slow
def test_a_table_that_cannot_be_measured_leaves_the_others_their_figures(
    spark: SparkSession, target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = [table("one"), table("two")]
    land(target, "shop", "1.jsonl", [json.dumps({"after": {"id": 1}, "op": "c"})])
    run(Lake(spark, target), tables)
    for file in Path(target.lake, "silver", "two").rglob("*.parquet"):
        file.unlink()
    spark.catalog.clearCache()
    status_records.keep_status(Lake(spark, target), tables)
    assert "warning: the status lacks what could not be measured: two:" in capsys.readouterr().err
    known = require_known(target).tables
    assert (known["one"].rows, known["one"].measured) == (1, known["one"].entries)
    assert known["two"].measured == -1


def test_a_record_is_json(records: dict[str, dict[str, Any]]) -> None:
    assert json.loads(json.dumps(records)) == records


def test_an_empty_lake_has_a_status(spark: SparkSession, target: Target) -> None:
    found = lakes.status(Lake(spark, target), TABLES)
    assert [(r["table"], r["rows"], r["stale"], r["accounted"]) for r in found] == [
        (t.table, 0, False, True) for t in TABLES
    ]


def test_a_key_is_stale_when_a_dead_letter_is_newer_than_its_row(
    records: dict[str, dict[str, Any]],
) -> None:
    assert {name: record["stale_keys"] for name, record in records.items() if record["rows"]} == {
        "clicks": 0,
        "orders": 1,
        "people": 0,
    }
    assert records["orders"]["stale_keys_since"] is not None
