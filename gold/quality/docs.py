"""The Data Docs: a page per table and run of the expectations, and an index of these pages.

Great Expectations' own site loads its styles and scripts from elsewhere, and shows no list without
them. These pages are self-contained.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from lakehouse.config.table import Expectation, Table
from lakehouse.places.place import write_whole

INDEX, PAGES, MOST_PAGES, MOST_EXAMPLES = "index.html", "pages.json", 1_000, 10
CHECKED = {"gold": "what gold shows", "batch": "the rows of the newest batch"}


class QualityRun(NamedTuple):
    """A run of the expectations: its id, when it began, and what it checks (gold or batch)."""

    id: str
    at: datetime
    checked: str = "gold"

    @property
    def name(self) -> str:
        """Its name in files and in Great Expectations' results."""
        return f"{self.at:%Y%m%dT%H%M%SZ}-{self.id[:8]}"


def write_docs(folder: str, run: QualityRun, table: Table, given: Sequence[dict[str, Any]]) -> None:
    """Writes the page of a table's results, as Great Expectations gives them, and the index."""
    docs = Path(folder, "docs")
    rules = [_to_rule(table, rule, of) for rule, of in zip(table.expectations, given, strict=True)]
    page = {
        "run": run.name,
        "at": run.at.strftime("%Y-%m-%d %H:%M"),
        "table": table.table,
        "checked": CHECKED[run.checked],
        "met": sum(rule["success"] for rule in rules),
        "of": len(rules),
        "failed": any(rule["severity"] == "critical" and not rule["success"] for rule in rules),
    }
    before: list[dict[str, Any]] = []  # the newest first
    with suppress(OSError, ValueError):
        before = list(json.loads((docs / PAGES).read_text(encoding="utf-8")))
    pages = [page, *before][:MOST_PAGES]
    texts = {
        docs / run.name / f"{table.table}.html": _render(page=page, rules=rules, pages=None),
        docs / PAGES: json.dumps(pages),
        docs / INDEX: _render(page=None, rules=None, pages=pages),
    }
    for file, text in texts.items():
        write_whole(file, text.encode())


def exception_message(result: dict[str, Any]) -> str | None:
    """Why an expectation could not be evaluated; None where it could."""
    information = result.get("exception_info") or {}
    each = [information, *[value for value in information.values() if isinstance(value, dict)]]
    return next(
        (entry["exception_message"] for entry in each if entry.get("exception_message")), None
    )


def _render(**given: object) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = files("gold.quality").joinpath("docs.html.j2").read_text("utf-8")
    style = files("gold.report").joinpath("report.css").read_text("utf-8")
    return environment.from_string(template).render(style=style, **given)


def _to_rule(table: Table, rule: Expectation, result: dict[str, Any]) -> dict[str, Any]:
    """An expectation and its result: counts of rows or a value, and values that break it.

    `observed` is the error message if it could not be evaluated. Values of sensitive columns, which
    gold does not show, are left out.
    """
    counts = result["result"]
    unexpected, percent = counts.get("unexpected_count"), counts.get("unexpected_percent") or 0.0
    elements = f"{counts.get('element_count') or 0:,} ({percent:.3g} %)"
    observed = exception_message(result) or counts.get("observed_value")
    broken = dict.fromkeys(map(str, counts.get("partial_unexpected_list") or ()))
    arguments = str(rule.arguments)
    hidden = any(column.sensitive and name in arguments for name, column in table.columns.items())
    return {
        "rule": rule.type.removeprefix("expect_").replace("_", " "),
        "arguments": ", ".join(f"{name}: {value}" for name, value in rule.arguments.items()),
        "severity": rule.severity,
        "success": result["success"],
        "unexpected": "" if unexpected is None else f"{unexpected:,} of {elements}",
        "observed": "" if observed is None else str(observed),
        "examples": [] if hidden else list(broken)[:MOST_EXAMPLES],
    }
