"""The report: one self-contained HTML page about how the lakehouse does."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.quality.results import TABLE as QUALITY_RESULTS
from gold.report import page, story
from gold.report.page import Record
from gold.status.table_status import status
from gold.status.unread import unread_records
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.durations import spoken
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage import names

DAYS, MOST_ENTRIES = 30, 20_000
COLOURED = ("records", *story.KNOWN, *story.OUTCOMES)


def write(
    spark: SparkSession,
    target: Target,
    tables: list[Table],
    file: Path,
    records: list[Record] | None = None,
    everything: list[Table] | None = None,
) -> None:
    """Writes the report about these tables, in place of the one that lies there.

    `everything` are all tables that are configured, where `tables` are only some.

    It shows the status (`records`, or as of now), and the runs of the last `DAYS` days: the newest
    `MOST_ENTRIES` entries of the ledger.
    """
    known = status(spark, target, tables) if records is None else records
    entries = recent(spark, target, [table.table for table in tables])
    results = checked(spark, target, [table.table for table in tables])
    unread = unread_records(spark, target, everything or tables)
    told = [sentence for each in unread for sentence in each.sentences()]
    text = render(known, entries, results, target.name, datetime.now(timezone.utc), told)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.part")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def recent(spark: SparkSession, target: Target, tables: list[str]) -> list[Entry]:
    """The ledger's newest entries about these tables."""
    rows = ledger.read(spark, target).where(F.col("table").isin(tables))
    rows = rows.where(f"started_at > current_timestamp() - INTERVAL {DAYS} DAYS")
    newest = rows.orderBy(F.desc("ended_at")).limit(MOST_ENTRIES).collect()
    return [_entry(row.asDict()) for row in newest]


def checked(spark: SparkSession, target: Target, tables: list[str]) -> list[Record]:
    """What the last run of `lakehouse quality` found in gold, of each of these tables."""
    if not names.exists(spark, target, "gold", QUALITY_RESULTS):
        return []
    rows = spark.table(names.name(target, "gold", QUALITY_RESULTS))
    mine = rows.where((F.col("checked") == "gold") & F.col("table").isin(tables))
    last = mine.groupBy("table").agg(F.max_by("run_id", "at").alias("run_id"))
    newest = mine.join(last, ["table", "run_id"], "left_semi").orderBy("table", "rule")
    return [row.asDict(recursive=True) for row in newest.collect()]


def render(
    records: list[Record],
    entries: list[Entry],
    results: list[Record],
    target: str,
    moment: datetime,
    unread: Sequence[str] = (),
) -> str:
    """The page's text, from status records, ledger entries and results of expectations.

    `unread` are sentences about what no table reads.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    folder = files("gold.report")
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    style = folder.joinpath("report.css").read_text("utf-8")
    return template.render(
        **_parts(records, entries, results),
        unread=unread,
        target=target,
        moment=moment.isoformat(),
        days=DAYS,
        style=style,
        coloured=COLOURED,
        buckets=story.BUCKETS,
        size=_size,
        spoken=spoken,
    )


def _parts(records: list[Record], entries: list[Entry], results: list[Record]) -> dict[str, Any]:
    over = story.span(entries)
    drift, gaps = page.notes(records, "drift", "at"), page.notes(records, "gaps", "found_at")
    return {
        "records": records,
        "troubles": page.troubles(records),
        "tiles": page.tiles(records),
        "rows": sum(map(itemgetter("rows"), records)),
        "flow": page.flow(records),
        "freshness": page.freshness(records, entries, over),
        "over": over,
        "moments": page.moments(over) if over else [],
        "step": _step(over.step) if over else "",
        "volumes": page.volumes(entries, over) if over else None,
        "letters": page.letters(records),
        "results": results,
        "passed": sum(map(itemgetter("success"), results)),
        "checked": max((str(result.get("at") or "") for result in results), default=""),
        "drift": drift,
        "drift_keys": _keys(drift),
        "gaps": gaps,
        "gap_keys": _keys(gaps),
        "most_bytes": max((record["bytes"] or 0 for record in records), default=0) or 1,
        "failures": page.failures(entries),
    }


def _keys(notes: list[Record]) -> list[str]:
    """The columns of a list of notes, but for the table and what only machines read."""
    left_out = ("table", "run_id", "feed", "transaction", "resolved_at")
    return [key for key in (notes[0] if notes else {}) if key not in left_out]


def _step(step: timedelta) -> str:
    return spoken(max(round(step.total_seconds()), 1))


def _size(count: int | None) -> str:
    """Bytes as a person reads them."""
    if count is None:
        return "unknown size"
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f} {units[0]}" if size % 1 and size < 100 else f"{size:.0f} {units[0]}"


def _entry(row: dict[str, Any]) -> Entry:
    """Spark's times come without a zone and are UTC."""
    times = {key: row[key].replace(tzinfo=timezone.utc) for key in ("started_at", "ended_at")}
    return Entry.model_validate(row | times)
