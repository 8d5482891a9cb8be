"""What is known of a table: the sum of its ledger entries, and what was measured after them.

A status record is rendered from it when somebody asks: ages, the promises of the table's YAML and
percentiles are as of then.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from gold.report import story
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.durations import to_seconds
from lakehouse.run.gaps import list_strict
from lakehouse.run.ledger import Entry
from silver.contract import KEY_PARTS, LACKED_KEYS, LEFT_OUT, MEMBER_TYPES, ORDER, waits_in_log

Record = dict[str, Any]
_LISTS = {KEY_PARTS: "key_parts", LACKED_KEYS: "lacked_keys", LEFT_OUT: "left_out"}
WINDOW, MOST_TIMES = timedelta(days=7), 2_000
"""Runs older than this do not count for the 95th percentile; so many are kept."""


class Failure(msgspec.Struct, frozen=True):
    """How the newest work on a layer ended: when, and why it failed; None where it did not."""

    at: datetime
    message: str | None = None


class Group(msgspec.Struct, frozen=True):
    """A consistency group after a run: the tables of each transaction that waits."""

    name: str
    number: int
    waiting: list[list[str]]


class Figures(msgspec.Struct, omit_defaults=True):
    """What is known of a table.

    Attributes:
        counts: every class of record over all silver runs.
        applied: the newest batch that is applied.
        published: the newest batch that the published table shows.
        last_run: the end of the last work of silver.
        newest: by layer how the newest work ended.
        failing_since: the beginning of the first failed run since the last good one.
        times: of the last runs that applied something, their beginning and milliseconds.
        pending: how many changes are pending.
        waiting_since: when the oldest of them came.
        group: its consistency group.
        drift: the changes of the source's columns.
        built: what the source has shown, by aspect.
        days: the dates of snapshot files.
        entries: how many ledger entries these are the sum of.
        measured: how many of them there were when the following was measured; -1 before.
        measured_batch: `applied` at that time.
        as_of: when it was measured.
        rows: the live rows.
        watermark: the newest commit time at the source.
        letters: unresolved dead letters by reason; acknowledged ones apart.
        acknowledged: how many dead letters somebody has acknowledged.
        stale_keys: how many keys are stale; `stale_since`: since when.
        files: data files, bytes and deletion vectors.
        gaps: the open gaps.
        warnings: sentences that hold until the next run.
        columns: the columns of the change log with their types.
    """

    counts: dict[str, int] = {}
    applied: int | None = None
    published: int | None = None
    last_run: datetime | None = None
    newest: dict[str, Failure] = {}
    failing_since: datetime | None = None
    times: list[tuple[datetime, int]] = []
    pending: int = 0
    waiting_since: datetime | None = None
    group: Group | None = None
    drift: list[Record] = []
    built: dict[str, str] = {}
    days: list[Record] = []
    entries: int = 0
    measured: int = -1
    measured_batch: int | None = None
    as_of: datetime | None = None
    rows: int = 0
    watermark: datetime | None = None
    letters: dict[str, int] = {}
    acknowledged: int = 0
    stale_keys: int = 0
    stale_since: datetime | None = None
    files: tuple[int | None, int | None, int | None] = (None, None, None)
    gaps: list[Record] = []
    warnings: list[str] = []
    columns: dict[str, str] = {}

    def add_entry(self, entry: Entry) -> None:
        """Adds a ledger entry of the table; entries come in the order of their ends."""
        self.entries += 1
        if entry.layer == "silver":
            self._add_silver(entry)
        elif entry.layer == "gold" and entry.batch is not None:
            self.published = entry.batch
        if entry.status != "begun":
            before = self.newest.get(entry.layer)
            if before is None or entry.ended_at >= before.at:
                self.newest = {**self.newest, entry.layer: Failure(entry.ended_at, entry.message)}

    def _add_silver(self, entry: Entry) -> None:
        counts = Counter(self.counts)
        counts.update(entry.counts)
        self.counts, self.last_run = dict(counts), entry.ended_at
        if entry.status == "failed":
            self.failing_since = self.failing_since or entry.started_at
        elif entry.status == "ok":
            self.failing_since = None
            self.applied = max(filter(None, (self.applied, entry.batch)), default=None)
            waits = entry.counts.get("pending", 0)
            if waits <= 0 and entry.counts.get("records", 0) > waits:
                recent = [time for time in self.times if time[0] > entry.ended_at - WINDOW]
                self.times = [*recent, (entry.started_at, entry.duration_ms)][-MOST_TIMES:]
        if entry.state is not None:
            self._add_state(json.loads(entry.state), entry.started_at)

    def _add_state(self, state: Mapping[str, Any], began: datetime) -> None:
        self.pending = state.get("pending", 0)
        since = state.get("waiting_since")
        came = datetime.fromtimestamp(since / 1e6, timezone.utc) if since else self.waiting_since
        self.waiting_since = (came or began) if self.pending else None
        built = state.get("built", {})
        self.drift = state.get("schema_changes", [])
        self.built = {name: built[name] for name in (ORDER, MEMBER_TYPES, *_LISTS) if name in built}
        self.days, group = state.get("days", []), state.get("group")
        if group is not None:
            waiting = [sorted(each.get("records", {})) for each in group.get("waiting", [])]
            self.group = Group(group.get("name", ""), group.get("number", 0), waiting)


def count_waiting(figures: Iterable[Figures]) -> Counter[str]:
    """By table the transactions that wait, as of the newest run of each group."""
    newest: dict[str, Group] = {}
    for group in [each.group for each in figures if each.group is not None]:
        if group.number >= newest.get(group.name, group).number:
            newest[group.name] = group
    return Counter(table for group in newest.values() for of in group.waiting for table in of)


def render_record(
    target: Target, table: Table, figures: Figures, waiting: int, now: datetime
) -> Record:
    """The status record of a table at a moment: the columns of `gold.pipeline_status`, and more.

    In place of a number, `dead_letters` says how many of which reason (beside it their total), and
    `drift` and `gaps` (open ones) list the entries, oldest first. Besides, `counts` has every
    class of record over all runs, and `accounted` says whether the classes add up to the records.
    `order` says what the records of Debezium are ordered by (`source`, `change` or `arrival`),
    `key_parts` which parts of their keys are no keys of the table, `lacked_keys` which keys of the
    table their keys lack and have unknown old values, `left_out` which fields are in no column.
    Times are ISO 8601 in UTC.
    """
    promised = None if table.max_staleness is None else to_seconds(table.max_staleness)
    since = find_oldest_wait(figures, waits_in_log(target, table) and not promised)
    waits, total = _measure_age(since, now) or 0, sum(figures.letters.values())
    p95 = find_percentile([ms for at, ms in figures.times if at > now - WINDOW], 0.95)
    apply = None if p95 is None else round(p95 / 1000, 3)
    counts = figures.counts
    files, size, vectors = figures.files
    return {
        "table": table.table,
        "rows": figures.rows,
        "watermark": to_text(figures.watermark),
        "lag_seconds": _measure_age(figures.watermark, now),
        "staleness_seconds": waits,
        "max_staleness_seconds": promised,
        "waiting_since": to_text(since),
        "stale": promised is not None and waits > promised,
        "pending_changes": figures.pending,
        "waiting_transactions": waiting,
        "dead_letters": dict(sorted(figures.letters.items())),
        "dead_letters_total": total,
        "dead_letters_acknowledged": figures.acknowledged,
        "dead_letters_alert": total > table.max_dead_letters,
        "stale_keys": figures.stale_keys,
        "stale_keys_since": to_text(figures.stale_since),
        "drift": figures.drift,
        "gaps": figures.gaps,
        "files": files,
        "bytes": size,
        "deletion_vectors": vectors,
        "apply_p95_seconds": apply,
        "recommended_max_staleness_minutes": None if p95 is None else recommend_minutes(p95),
        "applied_batch": figures.applied,
        "published_batch": figures.published,
        "last_run": to_text(figures.last_run),
        "last_failure": _find_failure(figures.newest),
        "checked_at": to_text(now),
        "as_of": to_text(figures.as_of),
        "counts": dict(sorted(counts.items())),
        "order": figures.built.get(ORDER),
        **{name: json.loads(figures.built.get(aspect) or "[]") for aspect, name in _LISTS.items()},
        "accounted": sum(story.count_classes(counts).values()) == counts.get("records", 0),
        "on_data_loss": "fail" if list_strict([table]) else "continue",
    }


def describe_waiting(days: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each date of snapshot files whose deletes wait."""
    waiting = [day for day in days if day.get("unread_lines")]
    return [
        f"the deletes of {day['effective_date']} wait, as {day['unread_lines']:,} lines of its"
        " files cannot be read; do: drop the file again, repaired, or mend the configuration and"
        " `lakehouse dead-letters replay`"
        for day in sorted(waiting, key=lambda day: str(day["effective_date"]))
    ]


def find_oldest_wait(figures: Figures, shows_pending: bool) -> datetime | None:
    """Since when the oldest change waits: one that gold does not show, or that failed."""
    waits = None if shows_pending else figures.waiting_since
    return min(filter(None, (waits, figures.failing_since)), default=None)


def find_percentile(values: Sequence[int], part: float) -> float | None:
    """The percentile, between two values in proportion, as Spark's `percentile` has it."""
    if not values:
        return None
    ordered, at = sorted(values), (len(values) - 1) * part
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))


def recommend_minutes(p95: float) -> int:
    """BigQuery's recommended promise: twice the 95th percentile (ms) in minutes, and 7."""
    return math.ceil(p95 / 1000 * 2 / 60) + 7


def _find_failure(newest: Mapping[str, Failure]) -> str | None:
    failed = [(of.at, layer, of.message) for layer, of in newest.items() if of.message is not None]
    if not failed:
        return None
    _, layer, message = max(failed)
    return message if layer == "silver" else f"{layer}: {message}"


def to_text(moment: datetime | None) -> str | None:
    """A time as ISO 8601 in UTC."""
    if moment is None:
        return None
    return moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _measure_age(since: datetime | None, now: datetime) -> int | None:
    return None if since is None else int((now - since).total_seconds())
