"""The report: one self-contained HTML page about the state of the lakehouse."""

import os
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime, timezone
from hashlib import sha256
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from gold.report import page, story
from gold.report.history import DAYS, History
from gold.report.page import Record
from gold.report.runs import list_runs
from gold.report.tables import TableLines, describe_tables
from gold.status.trouble import PipelineStatus, name_state, worst_first
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.durations import render_duration
from lakehouse.places.place import write_whole
from lakehouse.run.ledger import Entry

RUNS_SHOWN = 25
COLOURED = ("records", *story.KNOWN, *story.OUTCOMES)
_CODE = re.compile("`([^`]+)`")


class Report(NamedTuple):
    """All that the page shows.

    Attributes:
        target: the target's name.
        moment: the time of the page.
        status: the status of the tables.
        entries: the ledger's entries.
        results: results of expectations.
        tables: columns, keys and rules of the tables.
        docs: the link to the Data Docs, where there are any.
    """

    target: str
    moment: datetime
    status: PipelineStatus
    entries: Sequence[Entry]
    results: Sequence[Record] = ()
    tables: Sequence[TableLines] = ()
    docs: str | None = None


def write_report(
    target: Target,
    tables: list[Table],
    file: Path,
    shown: tuple[PipelineStatus, History],
    docs: Path | None = None,
) -> None:
    """Writes the report about these tables; an existing one is replaced.

    It links the Data Docs in the folder `docs`, if they are there.
    """
    status, history = shown
    report = Report(
        target=target.name,
        moment=datetime.now(timezone.utc),
        status=status,
        entries=history.entries,
        results=history.results,
        tables=describe_tables(target, tables, history.results),
        docs=_link_docs(docs, file),
    )
    write_whole(file, render_page(report).encode())


def _link_docs(docs: Path | None, file: Path) -> str | None:
    """The way from the page to the index of the Data Docs, as a URL."""
    index = docs and docs / "docs" / "index.html"
    if index is None or not index.is_file():
        return None
    return quote(os.path.relpath(index, file.parent).replace(os.sep, "/"))


def render_page(report: Report) -> str:
    """The page's text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    environment.filters["code"] = _mark_code
    folder = files("gold.report")
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    script = folder.joinpath("report.js").read_text("utf-8")
    digest = b64encode(sha256(f"\n{script}\n".encode()).digest()).decode()
    return template.render(
        **_collect_parts(report),
        target=report.target,
        moment=report.moment.isoformat(),
        docs=report.docs,
        days=DAYS,
        style=folder.joinpath("report.css").read_text("utf-8"),
        script=script,
        script_digest=digest,
        coloured=COLOURED,
        buckets=story.BUCKETS,
        size=_describe_size,
        spoken=render_duration,
    )


def _mark_code(text: str) -> Markup:
    """A sentence whose commands, which stand between backticks, are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _collect_parts(report: Report) -> dict[str, Any]:
    records, entries, results = worst_first(report.status.records), report.entries, report.results
    over, runs = story.find_span(entries), list_runs(entries)
    drift = page.list_newest(records, "drift", "at")
    gaps = page.list_newest(records, "gaps", "found_at")
    return {
        "records": records,
        "states": {record["table"]: name_state(record) for record in records},
        "verdict": page.judge_status(report.status),
        "unread": report.status.unread,
        "described": {each.table: each for each in report.tables},
        "runs": runs,
        "runs_shown": RUNS_SHOWN,
        "tiles": page.build_tiles(records),
        "rows": sum(map(itemgetter("rows"), records)),
        "flow": page.build_flow(records),
        "freshness": page.build_freshness(records, entries, over),
        "over": over,
        "moments": page.label_moments(over) if over else [],
        "step": render_duration(max(round(over.step.total_seconds()), 1)) if over else "",
        "volumes": page.build_volumes(entries, over) if over else None,
        "letters": page.count_letters(records),
        "results": results,
        "passed": sum(map(itemgetter("success"), results)),
        "checked": max((str(result.get("at") or "") for result in results), default=""),
        "drift": drift,
        "drift_keys": _list_keys(drift),
        "gaps": gaps,
        "gap_keys": _list_keys(gaps),
        "most_bytes": max((record["bytes"] or 0 for record in records), default=0) or 1,
    }


def _list_keys(notes: Sequence[Record]) -> list[str]:
    """The columns of a list of entries, without the table and what only machines read."""
    left_out = ("table", "run_id", "feed", "transaction", "resolved_at")
    return [key for key in (notes[0] if notes else {}) if key not in left_out]


def _describe_size(count: int | None) -> str:
    """Bytes as a person reads them."""
    if count is None:
        return "unknown size"
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}" if size % 1 and size < 100 else f"{size:.0f} {units[0]}"
