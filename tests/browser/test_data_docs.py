"""The Data Docs in a real browser, from results in the shape that Great Expectations gives."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from gold.quality.docs import QualityRun, write_docs
from lakehouse.config.table import Table
from tests.browser.conftest import look

RUN = QualityRun("a" * 32, datetime(2026, 3, 4, 12, tzinfo=timezone.utc))
RULES = [
    {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0},
    {"type": "expect_table_row_count_to_be_between", "min_value": 1, "severity": "warning"},
    {"type": "expect_column_values_to_not_be_null", "column": "nowhere"},
]
FOUND: list[dict[str, Any]] = [
    {
        "success": False,
        "result": {
            "element_count": 1_234,
            "unexpected_count": 3,
            "unexpected_percent": 0.2431,
            "partial_unexpected_list": [-1, -1, -7],
        },
    },
    {"success": True, "result": {"observed_value": 1_234}, "exception_info": {}},
    {
        "success": False,
        "result": {},
        "exception_info": {"('metric',)": {"exception_message": "no column nowhere"}},
    },
]


def table(name: str) -> Table:
    given = {"table": name, "keys": ["id"], "source": {"format": "rows"}, "expectations": RULES}
    return Table.model_validate(given)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_index_leads_to_a_page_with_every_rule(
    driver: Chrome, tmp_path: Path, width: int
) -> None:
    for name in ("items", "orders"):
        write_docs(str(tmp_path), RUN, table(name), FOUND)
    opened = look(driver, tmp_path / "docs" / "index.html", width, "light")
    assert opened.texts("tbody th") == ["orders", "items"]
    assert opened.texts("tbody .badge") == ["1 of 3 met"] * 2
    opened.click("tbody a")
    assert opened.driver.title == "orders · 20260304T120000Z-aaaaaaaa · Data Docs"
    assert opened.texts("h1, h2") == ["orders", "1 of 3 expectations met"]
    assert opened.texts("tbody th") == [
        "column values to be between",
        "table row count to be between",
        "column values to not be null",
    ]
    shown = " ".join(opened.texts("tbody"))
    assert "3 of 1,234 (0.243 %)" in shown and "such as -1, -7" in shown
    assert "no column nowhere" in shown
    assert (opened.complaints(), opened.requests()) == ([], [])
    assert opened.ask("document.documentElement.scrollWidth") <= width
    opened.click("header a")
    assert opened.texts("h1") == ["Data Docs"]
