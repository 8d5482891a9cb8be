"""Measures what the ledger does not say of a table: rows, watermark, dead letters, stale keys.

One query over the tables that have changed. Batches of the change log that were looked at before
are left out, and rows are counted only where a batch was applied.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple

from gold.status import pipeline, stale
from gold.status.figures import Figures
from lakehouse.config.table import Table
from lakehouse.durations import to_seconds
from lakehouse.run import gaps
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal
from silver.contract import kept_name, waits_in_log

ROWS, WATERMARK, LETTER, KNOWN_LETTER, STALE = "rows", "watermark", "letter", "known", "stale"
_NO_TIME = "CAST(NULL AS timestamp)"
_KEYLESS_ROWS = (
    "sum(greatest(added - removed, 0L)) AS n FROM (SELECT count_if(NOT _removes) AS added,"
    " count_if(_removes) AS removed FROM {} GROUP BY _content)"
)


class TableToMeasure(NamedTuple):
    """A table to be measured: what is known of it, and whether that may be wrong."""

    table: Table
    figures: Figures
    anew: bool

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.table

    @property
    def starts_anew(self) -> bool:
        """Whether nothing that was measured before counts."""
        return self.anew or self.figures.measured < 0 or self.figures.failing_since is not None


def measure_tables(lake: Lake, asked: Sequence[TableToMeasure]) -> dict[str, Mapping[str, Any]]:
    """By table the values of the attributes of `Figures` that were measured now."""
    parts = [part for each in asked for part in _build_parts(lake, each)]
    values: dict[str, dict[str, Any]] = defaultdict(dict)
    letters: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in lake.ask(" UNION ALL ".join(parts)) if parts else ():
        name, what, number, time = row["table"], row["what"], row["n"] or 0, _to_utc(row["at"])
        if what == ROWS:
            values[name]["rows"] = number
        elif what == STALE:
            values[name] |= {"stale_keys": number, "stale_since": time}
        elif what == WATERMARK:
            of = next(each for each in asked if each.name == name)
            before = None if of.starts_anew else of.figures.watermark
            values[name]["watermark"] = max(filter(None, (before, time)), default=None)
        else:
            letters[name, what][row["reason"]] = number
    now = datetime.now(timezone.utc)
    return {
        each.name: {
            "stale_keys": 0,
            "stale_since": None,
            **values[each.name],
            "letters": letters[each.name, LETTER],
            "acknowledged": sum(letters[each.name, KNOWN_LETTER].values()),
            "files": _measure_files(lake, each.table),
            "as_of": now,
            "measured": each.figures.entries,
            "measured_batch": each.figures.applied,
        }
        for each in asked
    }


def measure_readable(
    lake: Lake, asked: Sequence[TableToMeasure]
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """As `measure_tables`, without the tables that cannot be measured; and why they cannot."""
    try:
        return measure_tables(lake, asked), []
    except TABLE_FAILURES as failure:
        if len(asked) == 1:
            return {}, [f"{asked[0].name}: {describe_failure(failure)}"]
        halves = asked[: len(asked) // 2], asked[len(asked) // 2 :]
        (one, failed), (other, also) = (measure_readable(lake, half) for half in halves)
        return one | other, failed + also


def _build_parts(lake: Lake, each: TableToMeasure) -> Iterator[str]:
    """The SELECTs about a table: `table`, `what`, `reason`, `n`, `at`."""
    current, log = kept_name(each.table), f"{each.name}_changes"
    letters = f"{each.name}_dead_letters"
    first = f"SELECT {literal(each.name)} AS `table`, '{{}}' AS what, {{}} AS reason"
    if lake.exists("silver", current) and (
        each.starts_anew or each.figures.measured_batch != each.figures.applied
    ):
        counted = f"{_count_rows(each.table, lake.name('silver', current))}"
        yield f"{first.format(ROWS, 'NULL')}, {counted}"
    if lake.exists("silver", log):
        yield f"{first.format(WATERMARK, 'NULL')}, NULL AS n, {_find_watermark(lake, each, log)}"
    if lake.exists("silver", letters):
        yield from _count_letters(lake, first, letters)
        query = stale.build_stale_query(lake, each.table)
        if query is not None:
            yield f"{first.format(STALE, 'NULL')}, count(*) AS n, min(since) AS at FROM ({query})"


def _count_rows(table: Table, rows: str) -> str:
    if not table.keys:
        return _KEYLESS_ROWS.format(rows).replace(" FROM", f", {_NO_TIME} AS at FROM", 1)
    live = "_is_current" if table.stored_as_scd_type == 2 else "NOT _deleted"
    return f"count_if({live}) AS n, {_NO_TIME} AS at FROM {rows}"


def _find_watermark(lake: Lake, each: TableToMeasure, log: str) -> str:
    """The newest commit time of the batches that gold shows and that were not looked at before."""
    table, figures = each.table, each.figures
    shows_pending = waits_in_log(lake.target, table) and not to_seconds(table.max_staleness or 0)
    since = 0 if each.starts_anew else figures.measured_batch or 0
    shown = "true" if shows_pending else f"_batch <= {figures.applied or 0}"
    time = f"max(if({shown} AND _reason IS NULL, _source_time, NULL)) AS at"
    return f"{time} FROM {lake.name('silver', log)} WHERE _batch > {since}"


def _count_letters(lake: Lake, first: str, letters: str) -> Iterator[str]:
    """SELECTs of the unresolved dead letters by reason: those that count, and acknowledged ones."""
    rows = f"{lake.name('silver', letters)} AS letters"
    counted = f"count(*) AS n, {_NO_TIME} AS at FROM {rows}"
    where = "WHERE resolved_at IS NULL"
    if not lake.exists("silver", "_acknowledged"):
        yield f"{first.format(LETTER, 'reason')}, {counted} {where} GROUP BY reason"
        return
    noted = f"(SELECT DISTINCT _feed, _arrival FROM {lake.name('silver', '_acknowledged')})"
    for what, join in ((LETTER, "LEFT ANTI JOIN"), (KNOWN_LETTER, "LEFT SEMI JOIN")):
        joined = f"{join} {noted} AS noted USING (_feed, _arrival)"
        yield f"{first.format(what, 'reason')}, {counted} {joined} {where} GROUP BY reason"


def read_gaps(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """The open gaps by the table that they are about, oldest first."""
    values: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if lake.exists("silver", gaps.TABLE):
        rows = f"SELECT * FROM {lake.name('silver', gaps.TABLE)} WHERE resolved_at IS NULL"
        for note in lake.ask(f"{rows} ORDER BY found_at"):
            table = note.pop("table")
            gap = {key: to_json(value) for key, value in note.items() if not key.startswith("_")}
            values[table].append(gap)
    return values


def _measure_files(lake: Lake, table: Table) -> pipeline.Files:
    current = kept_name(table)
    exists = lake.exists("silver", current)
    return pipeline.measure_files(lake, current) if exists else pipeline.Files()


def _to_utc(time: datetime | None) -> datetime | None:
    """Spark's times come without a zone and are UTC."""
    return time and time.replace(tzinfo=timezone.utc)


def to_json(value: object) -> object:
    """A value that JSON can hold; Spark's times come without a zone and are UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, Decimal)):
        return str(value)
    return value


def find_unmeasured(
    tables: Iterable[Table], figures: Mapping[str, Figures], anew: Iterable[str] = ()
) -> list[TableToMeasure]:
    """The tables with ledger entries since they were measured, or that are to be measured anew."""
    asked, wanted = list(tables), set(anew)
    figures = {table.table: figures.get(table.table, Figures()) for table in asked}
    due = {n for n, of in figures.items() if n in wanted or of.entries != of.measured}
    return [TableToMeasure(t, figures[t.table], t.table in wanted) for t in asked if t.table in due]
