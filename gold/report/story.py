"""The ledger over time: what became of the records, and how long they waited."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehouse.run.ledger import Entry
from silver.contract import ACCOUNT_NOTES

BUCKETS = 48
NOT_CLASSES = ("records", *ACCOUNT_NOTES)
DEAD_LETTER = "dead_letter"


class RecordClass(NamedTuple):
    """A class of records: its name in the ledger, what it is called, and what came of it."""

    name: str
    label: str
    outcome: str


OUTCOMES = {
    "gold": "changed gold",
    "covered": "changed nothing",
    "waiting": "waiting",
    "letters": "to the dead letters",
}

KINDS = (
    RecordClass("inserted", "inserted", "gold"),
    RecordClass("updated", "updated", "gold"),
    RecordClass("deleted", "deleted", "gold"),
    RecordClass("truncate", "truncates", "gold"),
    RecordClass("I", "new in a snapshot file", "gold"),
    RecordClass("U", "changed in a snapshot file", "gold"),
    RecordClass("late", "late, put in their place", "gold"),
    RecordClass("superseded", "superseded by newer", "covered"),
    RecordClass("duplicate", "delivered again", "covered"),
    RecordClass("N", "unchanged in a snapshot file", "covered"),
    RecordClass("delete_unknown", "deletes of unknown keys", "covered"),
    RecordClass("without_change", "without a change", "covered"),
    RecordClass("filtered", "left out by source.where", "covered"),
    RecordClass("waiting", "waiting for their transaction", "waiting"),
    RecordClass("pending", "waiting to be applied", "waiting"),
    RecordClass(DEAD_LETTER, "rejected", "letters"),
)
KNOWN = {kind.name: kind for kind in KINDS}


class Span(NamedTuple):
    """A stretch of time cut into buckets of equal length."""

    begin: datetime
    end: datetime
    buckets: int = BUCKETS

    @property
    def step(self) -> timedelta:
        """The length of one bucket."""
        return (self.end - self.begin) / self.buckets

    def bucket(self, moment: datetime) -> int:
        """Which bucket a moment falls into; the last one has both its ends."""
        return max(0, min(int((moment - self.begin) / self.step), self.buckets - 1))


class Wait(NamedTuple):
    """How long the oldest record that one run applied had waited since bronze began to read it."""

    at: datetime
    seconds: float


def find_span(entries: Sequence[Entry]) -> Span | None:
    """From the first run to the last, at least a minute; None without any."""
    if not entries:
        return None
    begin, end = min(e.started_at for e in entries), max(e.ended_at for e in entries)
    return Span(min(begin, end - timedelta(minutes=1)), end)


def count_classes(counts: Mapping[str, int]) -> dict[str, int]:
    """A ledger entry's records by class, without other counts; all dead letters as one class."""
    totals: Counter[str] = Counter()
    for name, count in counts.items():
        if name not in NOT_CLASSES and count:
            totals[name.partition(":")[0]] += count
    return dict(totals)


def list_kinds(counted: Iterable[str]) -> list[RecordClass]:
    """The kinds of these classes in the order of KINDS; one it does not know comes last."""
    names = set(counted)
    unknown = sorted(names - KNOWN.keys())
    listed = [kind for kind in KINDS if kind.name in names]
    return listed + [RecordClass(name, name.replace("_", " "), "covered") for name in unknown]


def count_by_bucket(entries: Iterable[Entry], over: Span) -> list[dict[str, int]]:
    """Silver's classes of records, per bucket."""
    buckets: list[Counter[str]] = [Counter() for _ in range(over.buckets)]
    for entry in entries:
        if entry.layer == "silver":
            buckets[over.bucket(entry.ended_at)].update(count_classes(entry.counts))
    return [dict(bucket) for bucket in buckets]


def find_waits(entries: Iterable[Entry]) -> dict[str, list[Wait]]:
    """The waits of every table's runs, oldest first."""
    by_table: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda e: e.ended_at):
        by_table[entry.table].append(entry)
    return {table: list(_measure_waits(of_table)) for table, of_table in by_table.items()}


def _measure_waits(entries: Sequence[Entry]) -> Iterator[Wait]:
    since: datetime | None = None
    for entry in entries:
        if not entry.counts.get("records"):
            continue
        if entry.layer == "bronze":
            since = since or entry.started_at
        elif entry.layer == "silver" and entry.status == "ok":
            begun = min(since or entry.started_at, entry.started_at)
            yield Wait(entry.ended_at, (entry.ended_at - begun).total_seconds())
            since = None


def find_longest(waits_of_table: Iterable[Wait], over: Span) -> list[float | None]:
    """The longest wait per bucket; None where nothing was applied."""
    longest: list[float | None] = [None] * over.buckets
    for wait in waits_of_table:
        place = over.bucket(wait.at)
        longest[place] = max(longest[place] or 0.0, wait.seconds)
    return longest
