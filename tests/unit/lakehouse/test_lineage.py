"""OpenLineage events of runs, written by the client's own file transport."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import event_v2

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.lineage import Lineage, inputs_of, outputs_of

NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)


def table(name: str, **options: Any) -> Table:
    source = {"format": "debezium", "path": "shop"}
    return Table.model_validate({"table": name, "keys": ["id"], "source": source} | options)


def entry(name: str, message: str | None = None) -> Entry:
    status = "failed" if message else "ok"
    given = {"run_id": "r", "layer": "silver", "table": name, "started_at": NOW, "ended_at": NOW}
    return Entry.model_validate(given | {"status": status, "message": message})


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    (tmp_path / "openlineage.yml").write_text(json.dumps({"transport": transport}))
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    return file


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_table_starts_and_completes_or_fails(events: Path, tmp_path: Path) -> None:
    target, tables = Target(root=str(tmp_path / "lake")), [table("orders"), table("people")]
    lineage = Lineage(target, tables)
    with lineage.running():
        lineage.report([entry("orders"), entry("people", "no space")])
    found = [(event["job"]["name"], event["eventType"]) for event in read(events)]
    assert found == [
        ("orders", "START"), ("people", "START"), ("orders", "COMPLETE"), ("people", "FAIL"),
    ]  # fmt: skip
    start, _, complete, fail = read(events)
    assert start["run"]["runId"] == complete["run"]["runId"] != fail["run"]["runId"]
    assert fail["run"]["facets"]["errorMessage"]["message"] == "silver: no space"
    assert [each["name"] for each in complete["inputs"]] == [f"{target.landing}/shop"]
    assert [each["name"] for each in complete["outputs"]] == [
        f"{target.lake}/silver/orders", f"{target.lake}/gold/orders",
    ]  # fmt: skip
    assert lineage.problems == []


def test_a_run_that_breaks_off_is_aborted(events: Path, tmp_path: Path) -> None:
    lineage = Lineage(Target(root=str(tmp_path)), [table("orders")])
    with pytest.raises(RuntimeError), lineage.running():
        raise RuntimeError
    assert [event["eventType"] for event in read(events)] == ["START", "ABORT"]


def test_a_run_that_goes_on_tells_each_piece_of_work(events: Path, tmp_path: Path) -> None:
    lineage = Lineage(Target(root=str(tmp_path)), [table("orders")])
    lineage.report([entry("orders")])
    lineage.report([entry("orders", "no"), entry("feed_shop")])
    first, second = read(events)[1], read(events)[3]
    assert (first["eventType"], second["eventType"]) == ("COMPLETE", "FAIL")
    assert first["run"]["runId"] != second["run"]["runId"]
    assert datetime.fromisoformat(first["eventTime"]) == NOW


def test_the_clients_own_model_reads_the_events(events: Path, tmp_path: Path) -> None:
    lineage = Lineage(Target(root=str(tmp_path)), [table("orders")])
    lineage.report([entry("orders", "no")])
    for told in read(events):
        run, job = told["run"], told["job"]
        event = event_v2.RunEvent(
            eventTime=told["eventTime"], eventType=event_v2.RunState(told["eventType"]),
            producer=told["producer"], run=event_v2.Run(run["runId"]),
            job=event_v2.Job(job["namespace"], job["name"]),
        )  # fmt: skip
        assert event.schemaURL == told["schemaURL"]


def test_a_receiver_that_is_gone_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "events").mkdir()
    transport = {"type": "file", "log_file_path": str(tmp_path / "events"), "append": True}
    (tmp_path / "config.yml").write_text(json.dumps({"transport": transport}))
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "config.yml"))
    lineage = Lineage(Target(root=str(tmp_path)), [table("orders")])
    lineage.report([entry("orders")])
    (problem,) = lineage.problems
    assert "cannot be sent" in problem


def test_unconfigured_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    lineage = Lineage(Target(root=str(tmp_path)), [table("orders")])
    with lineage.running():
        lineage.report([entry("orders")])
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_topics_buckets_and_catalogs_have_names_of_their_own() -> None:
    kafka = {"topic": "shop.orders", "bootstrap_servers": "one:9092,two:9092"}
    from_kafka = table("orders", source={"format": "debezium", "kafka": kafka})
    target = Target(catalog="main", landing="s3a://drop/in", checkpoints="/c", kind="databricks")
    assert inputs_of(target, from_kafka) == [("kafka://one:9092", "shop.orders")]
    assert inputs_of(target, table("orders")) == [("s3a://drop", "in/shop")]
    history = table("orders", stored_as_scd_type=2)
    assert outputs_of(target, history) == [
        ("unitycatalog", "main.silver.orders_history"), ("unitycatalog", "main.gold.orders"),
    ]  # fmt: skip
