import json
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gold.status import pipeline
from tests.bundle.conftest import PROJECT
from tests.bundle.lint.reading import read, resolved

STATUS = """`table` string, rows bigint, watermark timestamp, lag_seconds bigint,
  max_staleness_seconds bigint, stale boolean, pending_changes bigint, waiting_transactions bigint,
  dead_letters bigint, drift bigint, gaps bigint, files bigint, deletion_vectors bigint,
  apply_p95_seconds double, checked_at timestamp"""
RUNS = """run_id string, layer string, `table` string, batch bigint, started_at timestamp,
  ended_at timestamp, status string, counts map<string,bigint>, message string,
  duration_ms bigint"""
DASHBOARD = json.loads((PROJECT / "resources" / "pipeline.lvdash.json").read_text())
DATASETS = {dataset["name"]: "".join(dataset["queryLines"]) for dataset in DASHBOARD["datasets"]}
WIDGETS = [item["widget"] for page in DASHBOARD["pages"] for item in page["layout"]]


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> SparkSession:
    """The two gold tables that the dashboard and the alert read: one table is in trouble."""
    now = datetime.now(timezone.utc)
    counts = {"records": 5, "inserted": 3, "superseded": 2, "incomplete": 4}
    run = ("r", "silver", "orders", 1, now, now, "ok", counts, None, 100)
    spark.createDataFrame([run], RUNS).createOrReplaceTempView("pipeline_runs")
    calm = ("orders", 3, None, 5, 600, False, 0, 0, 0, 0, 0, 1, 0, 0.5, None)
    late = ("clicks", 3, None, 900, 600, True, 0, 0, 2, 0, 0, 1, 0, 0.5, None)
    spark.createDataFrame([calm, late], STATUS).createOrReplaceTempView("pipeline_status")
    return spark


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_of_the_dashboard_has_the_fields_its_widgets_show(
    lake: SparkSession, name: str
) -> None:
    queries = [query["query"] for widget in WIDGETS for query in widget["queries"]]
    shown = {
        field["name"]
        for query in queries
        if query["datasetName"] == name
        for field in query["fields"]
    }
    assert shown
    assert shown <= set(lake.sql(DATASETS[name]).columns)


def test_what_is_asked_of_the_status_is_what_gold_publishes() -> None:
    asked = re.findall(r"(\w+)`? (string|bigint|timestamp|boolean|double)", STATUS)
    assert len(asked) == STATUS.count(",") + 1
    assert set(asked) <= {(name, kind) for name, kind, _ in pipeline.STATUS_COLUMNS}


def test_a_record_counts_once_in_the_volume(lake: SparkSession) -> None:
    assert [row["changes"] for row in lake.sql(DATASETS["volume"]).collect()] == [5]


def test_every_widget_shows_fields_that_it_asks_for() -> None:
    for widget in WIDGETS:
        asked = {field["name"] for query in widget["queries"] for field in query["query"]["fields"]}
        encodings = widget["spec"]["encodings"]
        shown = encodings.get("columns") or encodings.values()
        assert {encoding["fieldName"] for encoding in shown} == asked


def test_widgets_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for item in (item for page in DASHBOARD["pages"] for item in page["layout"]):
        place = item["position"]
        columns = range(place["x"], place["x"] + place["width"])
        rows = range(place["y"], place["y"] + place["height"])
        cells = {(column, row) for column in columns for row in rows}
        assert not taken & cells
        taken |= cells


def test_the_alert_names_the_tables_in_trouble_only(lake: SparkSession, project: Path) -> None:
    bundle = read(project, "dev")
    alert = bundle.resources["alerts"]["trouble"]
    query = resolved(alert["query_text"], bundle.known)
    rows = lake.sql(query.replace("lakehouse_dev.gold.", "")).collect()
    assert [row[alert["evaluation"]["source"]["name"]] for row in rows] == ["clicks"]
