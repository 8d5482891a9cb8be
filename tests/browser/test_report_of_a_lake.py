import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from selenium.webdriver import Chrome

from cdc_lakehouse.cli.ask.queries import print_status
from cdc_lakehouse.cli.ask.status_records import ask_status
from gold.report import html
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.browser.conftest import look
from tests.browser.test_report_page import expected, numbers
from tests.helpers.status_lake import TABLES, fill


def test_the_report_of_a_lake_shows_what_status_prints(
    driver: Chrome,
    spark: SparkSession,
    target: Target,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(spark, target)
    page, docs = tmp_path / "report" / "report.html", tmp_path / "_docs"
    (docs / "docs").mkdir(parents=True)
    (docs / "docs" / "index.html").write_text("<title>Data Docs</title>")
    html.write_report(
        spark, target, TABLES, page, ask_status(Lake(spark, target), TABLES, TABLES), docs
    )
    print_status(Lake(spark, target), TABLES, as_json=True)
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    opened = look(driver, page, 1280, "light")
    assert numbers(opened, records) == expected(records)
    assert sum(expected(records).values()) > 0
    assert opened.complaints() == []
    opened.click("nav a[href$='index.html']")
    assert opened.driver.title == "Data Docs"
