import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from selenium.webdriver import Chrome

from cdc_lakehouse.cli.ask.queries import show_status
from cdc_lakehouse.cli.ask.status_records import keep_status, read_status
from gold.report import html
from gold.report.history import read_history
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
    fill(Lake(spark, target))
    page, docs = tmp_path / "report" / "report.html", tmp_path / "_docs"
    (docs / "docs").mkdir(parents=True)
    (docs / "docs" / "index.html").write_text("<title>Data Docs</title>")
    keep_status(Lake(spark, target), TABLES)
    status = read_status(target, TABLES, TABLES)
    html.write_report(target, TABLES, page, (status, read_history(target, TABLES)), docs)
    show_status(status, as_json=True, wide=False)
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    opened = look(driver, page, 1280, "light")
    assert numbers(opened, records) == expected(records)
    assert sum(expected(records).values()) > 0
    assert opened.complaints() == []
    opened.click("nav a[href$='index.html']")
    assert opened.driver.title == "Data Docs"
