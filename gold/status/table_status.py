"""How every table does: `gold.pipeline_status`, and what `status` and `report` add to it."""

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.report import story
from gold.status import pipeline, stale
from gold.status.pipeline import Sources, TableFacts
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.durations import seconds
from lakehouse.run import ledger
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage import names
from lakehouse.storage.views import View
from silver.contract import (
    KEY_PARTS,
    LACKED_KEYS,
    LEFT_OUT,
    ORDER,
    waits_in_log,
)

Record = dict[str, Any]

_LISTS = {KEY_PARTS: "key_parts", LACKED_KEYS: "lacked_keys", LEFT_OUT: "left_out"}

# Planning a query over many tables keeps one processor busy: it is asked in so many parts at once.
PARTS = 2

_KEYLESS_LIVE = (
    "NOT _removes AND row_number() OVER (PARTITION BY _content, _removes ORDER BY _order)"
    " > count_if(_removes) OVER (PARTITION BY _content)"
)


def status(spark: SparkSession, target: Target, tables: list[Table]) -> list[Record]:
    """One record per table: the columns of `gold.pipeline_status` (`pipeline.STATUS`).

    In place of a number, `dead_letters` says how many of which reason (beside it their total), and
    `drift` and `gaps` (open ones) list what was noted, oldest first. Besides, `counts` has every
    class of record over all runs, and `accounted` says whether the classes add up to the records.
    `order` says what the records of Debezium are ordered by (`source`, `change` or `arrival`),
    `key_parts` which parts of their keys are no keys of the table, `lacked_keys` which keys of the
    table their keys lack and have unknown old values, `left_out` which fields are in no column.
    Times are ISO 8601 in UTC.
    """
    kept = sources(spark, target)
    known = [facts(spark, target, table) for table in tables]
    parts = [known[n::PARTS] for n in range(min(PARTS, len(known)))]
    with ThreadPoolExecutor(PARTS) as pool:
        asked = [pool.submit(_asked, spark, part, kept) for part in parts]
        counts = _counts(spark, target)
        gaps = _noted(spark, kept.gaps, "found_at", "resolved_at IS NULL")
        states = {t: json.loads(s) for t, s in ledger.read_states(spark, target).items()}
        rows = {name: row for part in asked for name, row in part.result().items()}
    return [
        _record(rows[name], counts.get(name, {}), gaps.get(name, []), states.get(name, {}))
        for name in (table.table for table in tables)
    ]


def _asked(spark: SparkSession, known: list[TableFacts], kept: Sources) -> dict[str, Record]:
    query = pipeline.status(known, kept).query
    return {row["table"]: row.asDict() for row in spark.sql(query).collect()}


def views(spark: SparkSession, target: Target, tables: list[Table]) -> list[View]:
    """`gold.pipeline_runs`, and `gold.pipeline_status` of these tables."""
    kept = sources(spark, target)
    known = [facts(spark, target, table) for table in tables]
    return [pipeline.runs(kept), pipeline.status(known, kept)]


def facts(spark: SparkSession, target: Target, table: Table) -> TableFacts:
    """What the status of a table is asked from."""
    history = table.stored_as_scd_type == 2
    current = f"{table.table}_history" if history else table.table
    place = _place(spark, target, current)
    live = "_is_current" if history else "NOT _deleted"
    return TableFacts(
        table=table.table,
        live=live if table.keys else _KEYLESS_LIVE,
        max_staleness=None if table.max_staleness is None else seconds(table.max_staleness),
        current=place,
        log=_place(spark, target, f"{table.table}_changes"),
        letters=_place(spark, target, f"{table.table}_dead_letters"),
        files=pipeline.measure(spark, target, current) if place else pipeline.Files(),
        stale=_stale(spark, target, table),
        max_dead_letters=table.max_dead_letters,
        shown=waits_in_log(target, table) and not seconds(table.max_staleness or 0),
    )


def _stale(spark: SparkSession, target: Target, table: Table) -> str | None:
    """The query of the table's stale keys; None as well where the table cannot be read."""
    try:
        return stale.of(spark, target, table)
    except SPARK_FAILURES:
        return None


def sources(spark: SparkSession, target: Target) -> Sources:
    """Where the notes over all tables lie, as far as there are any."""
    return Sources(
        ledger=_place(spark, target, ledger.TABLE),
        gaps=_place(spark, target, "_gaps"),
        acknowledged=_place(spark, target, "_acknowledged"),
    )


def _place(spark: SparkSession, target: Target, table: str) -> str | None:
    known = names.exists(spark, target, "silver", table)
    return names.name(target, "silver", table) if known else None


def _counts(spark: SparkSession, target: Target) -> dict[str, dict[str, int]]:
    """Every class of record over all silver runs, by table."""
    silver = ledger.read(spark, target).where("layer = 'silver'")
    classes = silver.select("table", F.explode("counts").alias("class", "n"))
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in classes.groupBy("table", "class").agg(F.sum("n").alias("n")).collect():
        found[row["table"]][row["class"]] = row["n"]
    return found


def _noted(
    spark: SparkSession, source: str | None, time: str, condition: str = "true"
) -> dict[str, list[Record]]:
    """The rows of a table of notes by the table that they are about, oldest first."""
    found: dict[str, list[Record]] = defaultdict(list)
    if source is not None:
        for row in spark.table(source).where(condition).orderBy(time).collect():
            note = row.asDict(recursive=True)
            table = note.pop("table")
            found[table].append({key: _plain(value) for key, value in note.items()})
    return found


def _record(row: Record, counts: dict[str, int], gaps: list[Record], state: Record) -> Record:
    """The columns of the view, and what the ledger, the gaps and the table's state add to them."""
    record = {key: _plain(value) for key, value in row.items() if key != "dead_letter_reasons"}
    reasons, built = row["dead_letter_reasons"] or {}, state.get("built", {})
    return record | {
        "dead_letters": dict(sorted(reasons.items())),
        "dead_letters_total": row["dead_letters"],
        "drift": state.get("schema_changes", []),
        "gaps": gaps,
        "counts": dict(sorted(counts.items())),
        "order": built.get(ORDER),
        **{name: json.loads(built.get(aspect) or "[]") for aspect, name in _LISTS.items()},
        "accounted": sum(story.classes(counts).values()) == counts.get("records", 0),
    }


def _plain(value: object) -> object:
    """What JSON can say; Spark's times come without a zone and are UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, Decimal)):
        return str(value)
    return value
