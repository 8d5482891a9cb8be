"""What the report shows, in the order of the page: from status records and ledger entries alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gold.report import drawing, story
from gold.report.drawing import Bar, Flow
from gold.report.story import RecordClass, Span, Wait
from gold.status.trouble import list_serious
from lakehouse.durations import spoken
from lakehouse.run.ledger import Entry

VOLUME_HEIGHT, LEAST_BAR = 100.0, 2.5
FAILURES_SHOWN, NOTES_SHOWN = 20, 100

Record = dict[str, Any]


class Tile(NamedTuple):
    """One of the big numbers at the top; `bad` when it asks for attention."""

    name: str
    number: str
    label: str
    bad: bool = False


class Volumes(NamedTuple):
    """Records by class over time, with round numbers for its axis as (number, percent)."""

    bars: list[Bar]
    kinds: list[RecordClass]
    totals: dict[str, int]
    marks: list[tuple[int, float]]


class Freshness(NamedTuple):
    """A table's waits over time: bars as (bucket, percent, kept, label); the promise's percent."""

    table: str
    now: str
    latest: str
    longest: str
    promised: str
    recommended: str
    line: float | None
    bars: list[tuple[int, float, bool, str]]
    stale: bool


class Letters(NamedTuple):
    """Unresolved dead letters of one reason; `percent` of the most frequent one's number."""

    reason: str
    number: int
    percent: float
    tables: str


def troubles(records: Iterable[Record]) -> list[tuple[str, str]]:
    """What asks for attention, as (table, sentence): warnings too, where the record has them."""
    return [
        (record["table"], text)
        for record in records
        for text in (*(each.text for each in list_serious(record)), *record.get("warnings", ()))
    ]


def tiles(records: Sequence[Record]) -> list[Tile]:
    """The big numbers, over all tables."""

    def total(key: str) -> int:
        return sum(len(r[key]) if isinstance(r[key], list) else r[key] for r in records)

    def tile(name: str, number: int, label: str, bad: bool = False) -> Tile:
        return Tile(name, f"{number:,}", label, bad)

    stale, letters, gaps = total("stale"), total("dead_letters_total"), total("gaps")
    keys = total("stale_keys")
    return [
        tile("tables", len(records), "tables"),
        tile("rows", total("rows"), "rows in gold"),
        tile("pending", total("pending_changes"), "pending changes"),
        tile("waiting", total("waiting_transactions"), "waiting transactions"),
        tile("stale", stale, "staler than promised", stale > 0),
        tile("dead-letters", letters, "open dead letters", letters > 0),
        tile("stale-keys", keys, "stale keys", keys > 0),
        tile("drift", total("drift"), "schema changes"),
        tile("gaps", gaps, "gaps in the source", gaps > 0),
    ]


def flow(records: Iterable[Record]) -> Flow | None:
    """What became of all records; None before there are any."""
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(story.classes(record["counts"]))
    return drawing.flow(story.kinds(counts), counts) if counts else None


def volumes(entries: Sequence[Entry], over: Span) -> Volumes:
    """Silver's records by class over time."""
    buckets = story.volumes(entries, over)
    totals: Counter[str] = Counter()
    for bucket in buckets:
        totals.update(bucket)
    kinds = story.kinds(totals)
    highest = max(sum(bucket.values()) for bucket in buckets)
    marks = [(mark, mark / highest * 100 if highest else 0.0) for mark in drawing.marks(highest)]
    return Volumes(drawing.stacked(buckets, kinds, VOLUME_HEIGHT), kinds, totals, marks)


def freshness(
    records: Iterable[Record], entries: Sequence[Entry], over: Span | None
) -> list[Freshness]:
    """One small chart per table."""
    waited = story.waits(entries)
    return [_freshness(record, waited.get(record["table"], []), over) for record in records]


def _freshness(record: Record, waits: Sequence[Wait], over: Span | None) -> Freshness:
    promised = record["max_staleness_seconds"]
    recommended = record["recommended_max_staleness_minutes"]
    longest = max((wait.seconds for wait in waits), default=None)
    top = max(filter(None, (longest, promised)), default=1)
    buckets = story.longest(waits, over) if over else []
    bars = [
        (place, max(long / top * 100, LEAST_BAR), not promised or long <= promised, spoken(long))
        for place, long in enumerate(buckets)
        if long is not None
    ]
    return Freshness(
        table=record["table"],
        now=spoken(record["staleness_seconds"]),
        latest=spoken(waits[-1].seconds if waits else None),
        longest=spoken(longest),
        promised=spoken(promised),
        recommended="" if recommended is None else f"{recommended} min",
        line=promised / top * 100 if promised else None,
        bars=bars,
        stale=record["stale"],
    )


def letters(records: Iterable[Record]) -> list[Letters]:
    """Unresolved dead letters, the most frequent reason first."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for record in records:
        for reason, count in record["dead_letters"].items():
            found[reason][record["table"]] = count
    totals = {reason: sum(by_table.values()) for reason, by_table in found.items()}
    most = max(totals.values(), default=1)
    return [
        Letters(
            reason,
            totals[reason],
            totals[reason] / most * 100,
            ", ".join(f"{table} {count:,}" for table, count in sorted(by_table.items())),
        )
        for reason, by_table in sorted(found.items(), key=lambda item: (-totals[item[0]], item[0]))
    ]


def notes(records: Iterable[Record], key: str, time: str) -> list[Record]:
    """The newest notes of drift or gaps over all tables, by their column `time`, newest first."""
    found = [{"table": record["table"], **note} for record in records for note in record[key]]
    return sorted(found, key=lambda note: str(note[time]), reverse=True)[:NOTES_SHOWN]


def failures(entries: Iterable[Entry]) -> list[Entry]:
    """The newest failed runs of a table."""
    failed = [entry for entry in entries if entry.status == "failed"]
    return sorted(failed, key=lambda entry: entry.ended_at, reverse=True)[:FAILURES_SHOWN]


def moments(over: Span) -> list[str]:
    """Five labels for an axis of time, as short as they can be."""
    long = (over.end - over.begin).total_seconds()
    pattern = "%d %b" if long > 5 * 86_400 else "%d %b %H:%M" if long > 7_200 else "%H:%M:%S"
    return [_moment(over, quarter).strftime(pattern) for quarter in range(5)]


def _moment(over: Span, quarter: int) -> datetime:
    return over.begin + (over.end - over.begin) * quarter / 4
