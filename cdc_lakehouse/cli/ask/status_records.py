"""Status records of tables: written at the end of a command, read by `status` and the report."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from bronze.contract import feed_name
from bronze.files.unreadable import unreadable_files
from bronze.loss.missing_input import missing_folders
from cdc_lakehouse.cli.front import open_lake
from cdc_lakehouse.cli.silence import join_by_table, lasting_warnings, without_yaml
from cdc_lakehouse.drafts.topic_notes import list_new_tables
from cdc_lakehouse.terminal.console import warn
from gold.capture_status import list_capture_lines
from gold.source_check.verified import list_verified
from gold.status import status_file
from gold.status.column_hints import find_rebuild, list_log_columns
from gold.status.figures import (
    Figures,
    Record,
    count_waiting,
    describe_waiting,
    render_record,
)
from gold.status.measure import find_unmeasured, measure_readable, read_gaps
from gold.status.pipeline import build_status_view
from gold.status.status_file import KnownStatus
from gold.status.trouble import PipelineStatus
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.unread import list_unread
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import publish_views

NOT_YET = "no run has worked on this table yet; do: `lakehouse run`"


def find_status(target: Target, tables: list[Table], everything: list[Table]) -> PipelineStatus:
    """The status of these tables: from the lake's file, or of Spark where there is a catalog.

    `everything` are all tables that are configured, of which `tables` may be some.

    Raises:
        ConfigurationError: no command has written it yet.
    """
    store = open_lake(target, tables) if target.catalog else target
    return read_status(target, tables, everything, status_file.require_known(store))


def read_status(
    target: Target,
    tables: list[Table],
    everything: list[Table],
    kept: KnownStatus | None = None,
) -> PipelineStatus:
    """The status as it was kept, with today's ages, YAML and landing folders.

    Raises:
        ConfigurationError: no command has written it yet.
    """
    kept = kept or status_file.require_known(target)
    rendered, records = _render_records(target, tables, everything, kept), list[Record]()
    for table, record in zip(tables, rendered, strict=True):
        of = kept.tables.get(table.table, Figures(warnings=[NOT_YET]))
        today = find_rebuild(table, of.columns)
        records.append(record | {"warnings": [*today, *of.warnings, *describe_waiting(of.days)]})
    unread = [(feed, name, n) for feed, of in kept.unread.items() for name, n in of.items()]
    status = _add_common(target, (tables, everything), records, unread)
    if not status_file.is_behind(target, kept):
        return status
    taken = max((of.as_of for of in kept.tables.values() if of.as_of), default=None)
    since = f" since {taken:%F %T} UTC, when these figures were taken" if taken else ""
    note = f"a run has written{since}: it is under way, or was broken off"
    return status._replace(notes=[note, *status.notes])


def _render_records(
    target: Target, tables: list[Table], everything: list[Table], kept: KnownStatus
) -> list[Record]:
    now = datetime.now(timezone.utc)
    waiting = count_waiting(kept.tables[t.table] for t in everything if t.table in kept.tables)
    return [
        render_record(target, t, kept.tables.get(t.table, Figures()), waiting[t.table], now)
        for t in tables
    ]


def keep_status(
    lake: Lake, everything: list[Table], anew: Sequence[Table] = ()
) -> KnownStatus | None:
    """Brings the kept status and `gold.pipeline_status` up to date; a failure is a warning.

    Measured are the tables of which the ledger has new entries, and those to be measured `anew`.
    What warns of input, and the gaps, are looked up for every table. Returns what is kept now.
    """
    measured = dict[str, Mapping[str, Any]]()
    try:
        measured = _measure(lake, everything, {table.table for table in anew})
    except TABLE_FAILURES as failure:
        warn(f"the status lacks what could not be measured: {describe_failure(failure)}")
    try:
        kept = status_file.update_known(lake, measured)
        records = _render_records(lake.target, everything, everything, kept)
        publish_views(lake, "gold", [build_status_view(records)])
    except TABLE_FAILURES as failure:
        warn(f"the status cannot be written: {describe_failure(failure)}")
        return None
    return kept


def _measure(
    lake: Lake, everything: list[Table], anew: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    kept = status_file.sum_up(lake)
    asked = find_unmeasured(everything, kept.tables, anew)
    measured, failures = measure_readable(lake, asked)
    for each in [each for each in asked if each.name in measured]:
        columns = list_log_columns(lake.target, each.table)
        measured[each.name] = {**measured[each.name], "columns": columns}
    for failure in failures:
        warn(f"the status lacks what could not be measured: {failure}")
    warned = [lasting_warnings(lake.target, everything), unreadable_files(lake, everything)]
    warnings, open_gaps = join_by_table(everything, warned), read_gaps(lake)
    for name in warnings:
        before = kept.tables.get(name, Figures())
        now = {"warnings": warnings[name], "gaps": open_gaps.get(name, [])}
        if name in measured or now != {"warnings": before.warnings, "gaps": before.gaps}:
            measured[name] = {**measured.get(name, {}), **now}
    return measured


def _add_common(
    target: Target,
    of: tuple[list[Table], list[Table]],
    records: Sequence[Record],
    counts: Sequence[tuple[str, str, int]],
) -> PipelineStatus:
    """The status of some of all tables, with what today's landing folders say.

    A record gets what no table reads of its table's feeds: `unread_topics` with their records, and
    `unread_lines`; and the position up to which the table was found equal to its source,
    `verified_through`, at `verified_at`.
    """
    tables, everything = of
    feeds = {t.table: {feed_name(t, source) for source in t.feeds} for t in tables}
    read = set[str]().union(*feeds.values())
    unread = [each for each in list_unread(counts, everything) if each.feed in read]
    missing, verified = missing_folders(target, tables), list_verified(target, list(feeds))
    shown = []
    for record in records:
        table = record["table"]
        unread_here = [each for each in unread if each.feed in feeds[table]]
        more = {
            "warnings": [*missing.get(table, ()), *record["warnings"]],
            "unread_topics": {topic: n for each in unread_here for topic, n in each.topics.items()},
            "unread_lines": sum(each.lines for each in unread_here),
        }
        shown.append(record | verified[table] | more)
    notes = [*list_capture_lines(target), *without_yaml(target, everything)]
    notes += list_new_tables(target, everything)
    return PipelineStatus(shown, unread, notes)
