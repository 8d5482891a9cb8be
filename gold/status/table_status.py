"""The status of every table: `gold.pipeline_status`, and what `status` and `report` add to it."""

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gold.report import story
from gold.status import pipeline, stale
from gold.status.measure import read_gaps, to_json
from gold.status.pipeline import Sources, TableFacts
from lakehouse.config.table import Table
from lakehouse.durations import to_seconds
from lakehouse.run import ledger
from lakehouse.run.gaps import list_strict
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import View
from silver.contract import KEY_PARTS, LACKED_KEYS, LEFT_OUT, ORDER, kept_name, waits_in_log

Record = dict[str, Any]

_LISTS = {KEY_PARTS: "key_parts", LACKED_KEYS: "lacked_keys", LEFT_OUT: "left_out"}

_KEYLESS_LIVE = (
    "NOT _removes AND row_number() OVER (PARTITION BY _content, _removes ORDER BY _order)"
    " > count_if(_removes) OVER (PARTITION BY _content)"
)


def status_of(lake: Lake, tables: list[Table]) -> list[Record]:
    """One record per table: the columns of `gold.pipeline_status` (`pipeline.STATUS`).

    In place of a number, `dead_letters` says how many of which reason (beside it their total), and
    `drift` and `gaps` (open ones) list the entries, oldest first. Besides, `counts` has every
    class of record over all runs, and `accounted` says whether the classes add up to the records.
    `order` says what the records of Debezium are ordered by (`source`, `change` or `arrival`),
    `key_parts` which parts of their keys are no keys of the table, `lacked_keys` which keys of the
    table their keys lack and have unknown old values, `left_out` which fields are in no column.
    Times are ISO 8601 in UTC.
    """
    kept = find_sources(lake)
    facts = [collect_facts(lake, table) for table in tables]
    parts = [facts[n :: lake.at_once] for n in range(min(lake.at_once, len(facts)))]
    with ThreadPoolExecutor(lake.at_once) as pool:
        asked = [pool.submit(_ask_status, lake, part, kept) for part in parts]
        rows = {name: row for part in asked for name, row in part.result().items()}
    counts, lost, states = _read_counts(lake, kept), read_gaps(lake), states_of(lake)
    names, strict = [table.table for table in tables], list_strict(tables)
    return [
        _build_record(rows[name], counts.get(name, {}), lost.get(name, []), states.get(name, {}))
        | {"on_data_loss": "fail" if name in strict else "continue"}
        for name in names
    ]


def states_of(lake: Lake) -> dict[str, Record]:
    """The newest state of every table, as its JSON says."""
    if not lake.exists("silver", ledger.TABLE):
        return {}
    newest = lake.ask(ledger.newest_states_sql(lake.name("silver", ledger.TABLE)))
    return {row["table"]: json.loads(row[ledger.STATE]) for row in newest}


def _ask_status(lake: Lake, facts: list[TableFacts], kept: Sources) -> dict[str, Record]:
    return {row["table"]: row for row in lake.ask(pipeline.build_status_view(facts, kept).query)}


def build_status_views(lake: Lake, tables: list[Table]) -> list[View]:
    """`gold.pipeline_runs`, and `gold.pipeline_status` of these tables."""
    kept, facts = find_sources(lake), [collect_facts(lake, table) for table in tables]
    return [pipeline.build_runs_view(kept), pipeline.build_status_view(facts, kept)]


def collect_facts(lake: Lake, table: Table) -> TableFacts:
    """What the status query of a table reads."""
    current = kept_name(table)
    place = _find_table(lake, current)
    live = "_is_current" if table.stored_as_scd_type == 2 else "NOT _deleted"
    return TableFacts(
        table=table.table,
        live=live if table.keys else _KEYLESS_LIVE,
        max_staleness=None if table.max_staleness is None else to_seconds(table.max_staleness),
        current=place,
        log=_find_table(lake, f"{table.table}_changes"),
        letters=_find_table(lake, f"{table.table}_dead_letters"),
        files=pipeline.measure_files(lake, current) if place else pipeline.Files(),
        stale=_build_stale_query(lake, table),
        max_dead_letters=table.max_dead_letters,
        shown=waits_in_log(lake.target, table) and not to_seconds(table.max_staleness or 0),
    )


def _build_stale_query(lake: Lake, table: Table) -> str | None:
    """The query of the table's stale keys; None as well where Spark cannot read the table."""
    from lakehouse.spark.spark_failures import SPARK_FAILURES

    try:
        return stale.build_stale_query(lake, table)
    except SPARK_FAILURES:
        return None


def find_sources(lake: Lake) -> Sources:
    """SQL names of what is kept over all tables, as far as it exists."""
    return Sources(
        ledger=_find_table(lake, ledger.TABLE),
        gaps=_find_table(lake, "_gaps"),
        acknowledged=_find_table(lake, "_acknowledged"),
    )


def _find_table(lake: Lake, table: str) -> str | None:
    return lake.name("silver", table) if lake.exists("silver", table) else None


def _read_counts(lake: Lake, kept: Sources) -> dict[str, dict[str, int]]:
    """Every class of record over all silver runs, by table."""
    totals: dict[str, dict[str, int]] = defaultdict(dict)
    if kept.ledger is not None:
        classes = f"SELECT `table`, explode(counts) AS (class, n) FROM {kept.ledger}"
        query = f"SELECT `table`, class, sum(n) AS n FROM ({classes} WHERE layer = 'silver')"
        for row in lake.ask(f"{query} GROUP BY `table`, class"):
            totals[row["table"]][row["class"]] = row["n"]
    return totals


def _build_record(row: Record, counts: dict[str, int], gaps: list[Record], state: Record) -> Record:
    """The columns of the view, and what the ledger, the gaps and the table's state add to them."""
    record = {key: to_json(value) for key, value in row.items() if key != "dead_letter_reasons"}
    reasons, built = row["dead_letter_reasons"] or {}, state.get("built", {})
    return record | {
        "dead_letters": dict(sorted(reasons.items())),
        "dead_letters_total": row["dead_letters"],
        "drift": state.get("schema_changes", []),
        "gaps": gaps,
        "counts": dict(sorted(counts.items())),
        "order": built.get(ORDER),
        **{name: json.loads(built.get(aspect) or "[]") for aspect, name in _LISTS.items()},
        "accounted": sum(story.count_classes(counts).values()) == counts.get("records", 0),
    }
