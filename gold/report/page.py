"""What the report shows, in the order of the page: from status records and ledger entries alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gold.report import drawing, story
from gold.report.drawing import Bar, Flow
from gold.report.story import RecordClass, Span, Wait
from gold.status.trouble import PipelineStatus, list_lines
from lakehouse.durations import render_duration
from lakehouse.run.ledger import Entry

VOLUME_HEIGHT = 100.0
NOTES_SHOWN = 100

Record = Mapping[str, Any]


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


class Headline(NamedTuple):
    """The box at the top: its kind (bad, look, empty, unpromised or good), headline and lines.

    A line is (table, sentence, whether that is serious); the table is empty where none is meant.
    """

    kind: str
    headline: str
    text: str
    lines: list[tuple[str, str, bool]]


class Freshness(NamedTuple):
    """A table's waits over time; `line` is the percent of the promise on the axis, if there is one.

    `kept` and `broken` are the outlines of the marks of the waits that kept the promise, and of
    those that did not.
    """

    table: str
    now: str
    latest: str
    longest: str
    promised: str
    recommended: str
    line: float | None
    kept: str
    broken: str
    stale: bool


class FreshnessCharts(NamedTuple):
    """A chart per table over one axis: marks as (label, percent) on a logarithmic scale."""

    charts: list[Freshness]
    marks: list[tuple[str, float]]


class Letters(NamedTuple):
    """Unresolved dead letters of one reason; `percent` of the most frequent one's number."""

    reason: str
    number: int
    percent: float
    tables: str


def judge_status(status: PipelineStatus) -> Headline:
    """The verdict on the whole: all is well only where something is promised, and kept."""
    lines = list_lines(status)
    serious, others = sum(line[2] for line in lines), sum(not line[2] for line in lines)
    if serious:
        return Headline("bad", _count_things(serious, "asks", "ask", "for attention"), "", lines)
    if others:
        return Headline("look", _count_things(others, "is", "are", "worth a look"), "", lines)
    if not any(record["counts"].get("records") for record in status.records):
        text = "The lake is empty: drop files of events into the landing folder, then run"
        return Headline("empty", "Nothing has arrived yet", f"{text} `lakehouse run`.", lines)
    promised = sum(record["max_staleness_seconds"] is not None for record in status.records)
    if not promised:
        text = "Every change that arrived is accounted for. No table promises a freshness"
        text = f"{text} (`max_staleness`), so none can be late."
        return Headline("unpromised", "Nothing asks for attention", text, lines)
    text = "Every change that arrived is accounted for, and the promise of freshness is kept"
    text = f"{text} by {promised} of {len(status.records)} tables."
    return Headline("good", "All is well", text, lines)


def _count_things(number: int, one: str, many: str, rest: str) -> str:
    return f"{number} {'thing' if number == 1 else 'things'} {one if number == 1 else many} {rest}"


def build_tiles(records: Sequence[Record]) -> list[Tile]:
    """The big numbers, over all tables."""

    def total(key: str) -> int:
        return sum(len(r[key]) if isinstance(r[key], list) else r[key] for r in records)

    bad = ("stale", "dead-letters", "stale-keys", "gaps")
    tiles = (
        ("tables", len(records), "tables"),
        ("rows", total("rows"), "rows in gold"),
        ("pending", total("pending_changes"), "pending changes"),
        ("stale", total("stale"), "staler than promised"),
        ("dead-letters", total("dead_letters_total"), "open dead letters"),
        ("stale-keys", total("stale_keys"), "stale keys"),
        ("drift", total("drift"), "schema changes"),
        ("gaps", total("gaps"), "gaps in the source"),
        ("unverified", sum(not r["verified_at"] for r in records), "tables never verified"),
    )
    return [Tile(name, f"{n:,}", label, name in bad and n > 0) for name, n, label in tiles]


def build_flow(records: Iterable[Record]) -> Flow | None:
    """What became of all records; None before there are any."""
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(story.count_classes(record["counts"]))
    return drawing.draw_flow(story.list_kinds(counts), counts) if counts else None


def build_volumes(entries: Sequence[Entry], over: Span) -> Volumes:
    """Silver's records by class over time."""
    buckets = story.count_by_bucket(entries, over)
    totals: Counter[str] = Counter()
    for bucket in buckets:
        totals.update(bucket)
    kinds = story.list_kinds(totals)
    highest = max(sum(bucket.values()) for bucket in buckets)
    marks = [(at, at / highest * 100 if highest else 0.0) for at in drawing.choose_marks(highest)]
    return Volumes(drawing.stack_bars(buckets, kinds, VOLUME_HEIGHT), kinds, totals, marks)


def build_freshness(
    records: Sequence[Record], entries: Sequence[Entry], over: Span | None
) -> FreshnessCharts:
    """One small chart per table, all over one logarithmic axis."""
    waits = story.find_waits(entries)
    promises = [record["max_staleness_seconds"] or 0 for record in records]
    longest = [wait.seconds for record in records for wait in waits.get(record["table"], [])]
    axis = drawing.LogAxis(max([*longest, *promises], default=0))
    charts = [
        _chart_table(record, waits.get(record["table"], []), over, axis) for record in records
    ]
    return FreshnessCharts(charts, [(render_duration(at), axis.percent(at)) for at in axis.marks])


def _chart_table(
    record: Record, waits: Sequence[Wait], over: Span | None, axis: drawing.LogAxis
) -> Freshness:
    promised = record["max_staleness_seconds"]
    recommended = record["recommended_max_staleness_minutes"]
    buckets = list(enumerate(story.find_longest(waits, over) if over else []))
    marks = [(place, long) for place, long in buckets if long is not None]
    kept = [each for each in marks if not promised or each[1] <= promised]
    return Freshness(
        table=record["table"],
        now=render_duration(record["staleness_seconds"]),
        latest=render_duration(waits[-1].seconds if waits else None),
        longest=render_duration(max((wait.seconds for wait in waits), default=None)),
        promised=render_duration(promised),
        recommended="" if recommended is None else f"{recommended} min",
        line=axis.percent(promised) if promised else None,
        kept=axis.outline(kept),
        broken=axis.outline([each for each in marks if each not in kept]),
        stale=record["stale"],
    )


def count_letters(records: Iterable[Record]) -> list[Letters]:
    """Unresolved dead letters, the most frequent reason first."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for record in records:
        for reason, count in record["dead_letters"].items():
            counts[reason][record["table"]] = count
    totals = {reason: sum(by_table.values()) for reason, by_table in counts.items()}
    most = max(totals.values(), default=1)
    letters = []
    for reason, total in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
        tables = ", ".join(f"{table} {n:,}" for table, n in sorted(counts[reason].items()))
        letters.append(Letters(reason, total, total / most * 100, tables))
    return letters


def list_newest(records: Iterable[Record], key: str, time: str) -> list[dict[str, Any]]:
    """The newest entries of drift or gaps over all tables, by their column `time`, newest first."""
    entries = [{"table": record["table"], **note} for record in records for note in record[key]]
    return sorted(entries, key=lambda note: str(note[time]), reverse=True)[:NOTES_SHOWN]


def label_moments(over: Span) -> list[str]:
    """Five labels for an axis of time, as short as they can be."""
    whole = over.end - over.begin
    long = whole.total_seconds()
    pattern = "%d %b" if long > 5 * 86_400 else "%d %b %H:%M" if long > 7_200 else "%H:%M:%S"
    return [(over.begin + whole * quarter / 4).strftime(pattern) for quarter in range(5)]
