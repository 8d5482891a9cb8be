import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from gold.report.html import render_page
from tests.browser.conftest import Opened, look
from tests.helpers.report_parts import IN_TROUBLE, TROUBLE, large, record, report

SCHEMES = ("light", "dark")
WIDTHS = (1280, 400)

# WCAG's relative luminance of every visible text against the nearest background behind it.
CONTRASTS = """(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const linear = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const shown = [...document.querySelectorAll('body *')].filter(e => own(e) && e.offsetParent);
  return shown.map(e => {
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.trim().slice(0, 30)];
  });
})()"""

DRAWN = """[...document.querySelectorAll('svg.chart')].filter(e => e.getBoundingClientRect().height)
  .map(svg => [...svg.querySelectorAll('rect, path')].map(e => {
    const box = e.getBoundingClientRect(), paint = getComputedStyle(e).fill;
    return box.width > 0.5 && box.height > 0.5 && paint !== 'none' && paint !== 'rgb(0, 0, 0)';
  }))"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render_page(TROUBLE), encoding="utf-8")
    return file


@pytest.fixture(params=[(w, s) for w in WIDTHS for s in SCHEMES], ids=lambda p: f"{p[0]}-{p[1]}")
def opened(driver: Chrome, page: Path, request: pytest.FixtureRequest) -> Opened:
    width, scheme = request.param
    return look(driver, page, width, scheme)


def test_every_chart_is_drawn(opened: Opened) -> None:
    charts = opened.ask(DRAWN)
    on_a_phone = opened.ask("innerWidth") < 700
    assert [len(chart) for chart in charts] == ([2, 5] if on_a_phone else [2, 5, 6 + 1 + 3 + 3])
    assert all(all(chart) for chart in charts)
    bars = opened.ask(
        "[...document.querySelectorAll('.bars i')].map(e => e.getBoundingClientRect().width)"
    )
    assert max(bars) > 100


def test_the_console_is_silent_and_nothing_is_loaded(opened: Opened) -> None:
    assert (opened.complaints(), opened.requests()) == ([], [])


def test_nothing_is_wider_than_the_window(opened: Opened) -> None:
    wide = opened.ask(
        "[...document.querySelectorAll('main > * *')].filter(e => e.checkVisibility() &&"
        " !e.closest('.hidden') && e.getBoundingClientRect().right > 1 +"
        " document.querySelector('main > section').getBoundingClientRect().right)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert opened.ask("document.documentElement.scrollWidth") <= opened.ask("innerWidth")


def test_every_text_stands_out_from_what_is_behind_it(opened: Opened) -> None:
    contrasts = opened.ask(CONTRASTS)
    assert len(contrasts) > 50
    assert [pair for pair in contrasts if pair[0] < 4.5] == []


def test_the_colour_schemes_differ(driver: Chrome, page: Path) -> None:
    script = "getComputedStyle(document.body).backgroundColor"
    found = [look(driver, page, 1280, scheme).ask(script) for scheme in SCHEMES]
    lightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in found]
    assert lightness[0] > 700 > 100 > lightness[1]


def test_what_a_reader_sees_is_what_the_status_says(opened: Opened) -> None:
    assert numbers(opened, IN_TROUBLE) == expected(IN_TROUBLE)


def test_what_has_a_picture_has_a_name(opened: Opened) -> None:
    nameless = opened.ask(
        "[...document.querySelectorAll('svg')].filter(e => !e.closest('[aria-hidden]') &&"
        " !(e.getAttribute('role') === 'img' && e.getAttribute('aria-label'))).length"
    )
    assert nameless == 0
    assert opened.ask("document.documentElement.lang") == "en"


def test_links_lead_somewhere(opened: Opened) -> None:
    links = opened.ask("[...document.querySelectorAll('a')].map(e => e.getAttribute('href'))")
    assert links
    assert [link for link in links if not opened.ask(f"!!document.querySelector('{link}')")] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_an_empty_lake_is_a_clear_page(driver: Chrome, tmp_path: Path, width: int) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_page(report([record("orders")])), encoding="utf-8")
    opened = look(driver, file, width, "light")
    assert opened.texts("#verdict h2") == ["Nothing has arrived yet"]
    assert opened.complaints() == []
    assert opened.ask("document.documentElement.scrollWidth") <= width


TILES = {
    "rows": "rows",
    "pending": "pending_changes",
    "stale": "stale",
    "dead-letters": "dead_letters_total",
    "stale-keys": "stale_keys",
    "drift": "drift",
    "gaps": "gaps",
}
CELLS = {
    "rows": "rows",
    "pending": "pending_changes",
    "waiting": "waiting_transactions",
    "dead letters": "dead_letters_total",
    "stale keys": "stale_keys",
    "drift": "drift",
    "gaps": "gaps",
}


def numbers(opened: Opened, records: list[dict[str, Any]]) -> dict[str, int]:
    """The numbers that stand in the page: its tiles, and the rows of its table of tables."""
    places = {tile: f"[data-tile={tile}] b" for tile in TILES} | {
        f"{r['table']} {cell}": f"#tables [data-table={r['table']}] [data-label='{cell}']"
        for r in records
        for cell in CELLS
    }
    shown = {name: opened.texts(selector) for name, selector in places.items()}
    return {name: int(text.replace(",", "")) for name, [text] in shown.items()}


def expected(records: list[dict[str, Any]]) -> dict[str, int]:
    """The same numbers from the status."""

    def number(value: Any) -> int:
        return len(value) if isinstance(value, list) else int(value)

    tiles = {tile: sum(number(r[key]) for r in records) for tile, key in TILES.items()}
    cells = {f"{r['table']} {cell}": number(r[key]) for r in records for cell, key in CELLS.items()}
    return tiles | cells


def test_tables_and_runs_are_sorted_by_what_is_clicked(driver: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_page(large(tables=12, runs=300)), encoding="utf-8")
    opened = look(driver, file, 1280, "light")
    head = "#tables > table > thead th:nth-child(3) button"
    rows = "#tables > table td[data-label=rows]"
    numbers = [f"{1_000 * n:,}" if n else "0" for n in range(12)]
    opened.click(head)
    assert opened.texts(rows) == numbers[::-1]
    opened.click(head)
    assert opened.texts(rows) == numbers
    assert len(opened.texts("#run-lines tbody tr")) == 25
    opened.click("#more-runs")
    assert len(opened.texts("#run-lines tbody tr")) == 225
    opened.click("#run-lines thead th:nth-child(2) button")
    seconds = [float(text) for text in opened.texts("#run-lines [data-label=seconds]")]
    assert seconds == sorted(seconds, reverse=True)
    opened.click("#failed-runs")
    outcomes = opened.texts("#run-lines [data-label=outcome]")
    failed = [(7, "table_007"), (107, "table_011"), (207, "table_003")]
    assert set(outcomes) == {
        f"failed: {t} (bronze): disk {n} full; {t} (silver): disk {n} full" for n, t in failed
    }


def test_a_table_has_a_section_that_its_name_leads_to(driver: Chrome, page: Path) -> None:
    opened = look(driver, page, 1280, "light")
    opened.click("#tables > table a[href='#t-orders']")
    shown = " ".join(opened.texts("#t-orders details"))
    assert all(
        text in shown
        for text in ("what customers ordered", "free <text>", "bigint", "min_value: 0", "not met")
    )
    assert "promised 10 min" in shown
    opened.driver.find_element("id", "filter").send_keys("orders")
    assert len(opened.texts("#tables > table tbody tr")) == 1


def test_the_page_tells_its_age(driver: Chrome, tmp_path: Path) -> None:
    ages = ((0, "less than a minute", False), (5, "5 h", False), (72, "3 days", True))
    for hours, text, old in ages:
        file = tmp_path / f"{hours}.html"
        moment = datetime.now(timezone.utc) - timedelta(hours=hours)
        file.write_text(render_page(report([])._replace(moment=moment)), encoding="utf-8")
        opened = look(driver, file, 1280, "light")
        assert opened.texts("#age") == [f"This page is {text} old."]
        assert opened.ask("document.getElementById('age').classList.contains('old')") is old


def test_a_report_of_many_tables_and_runs_opens_at_once(driver: Chrome, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_page(large(tables=200, runs=10_000)), encoding="utf-8")
    opened = look(driver, file, 1280, "light")
    [loaded] = opened.ask("performance.getEntriesByType('navigation').map(e => e.loadEventEnd)")
    paint = "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0]"
    painted = WebDriverWait(driver, 10).until(lambda _: opened.ask(paint))
    assert max(loaded, painted) < 2_000
    assert len(opened.texts("#tables > table tbody tr")) == 200
    assert opened.texts("#more-runs") == ["Show 200 more of 10,000"]
    assert opened.complaints() == []


def test_the_status_can_be_taken_out_of_the_page(driver: Chrome, page: Path) -> None:
    opened = look(driver, page, 1280, "light")
    assert json.loads(opened.ask("document.getElementById('status').textContent")) == IN_TROUBLE
