"""The runs of the report: one line each, from the ledger's entries of all tables and layers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from lakehouse.run.ledger import Entry

LAYERS = ("bronze", "silver", "gold")
MOST_NAMED, MOST_LETTERS = 3, 200


class RunLine(NamedTuple):
    """One run of the command.

    Attributes:
        began: when, ISO 8601 in UTC.
        seconds: from the beginning of its first piece of work to the end of its last.
        layers: the layers that it worked on.
        tables: how many tables it worked on.
        records: the records that silver dealt with, or that bronze read where silver had no part.
        failed: how many pieces of work failed.
        error: why, of the first of them.
    """

    began: str
    seconds: float
    layers: str
    tables: int
    records: int
    failed: int
    error: str


def list_runs(entries: Iterable[Entry]) -> list[RunLine]:
    """The runs, newest first."""
    by_run: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_run[entry.run_id].append(entry)
    return [*map(_summarise_run, sorted(by_run.values(), key=_find_begin, reverse=True))]


def _find_begin(entries: Sequence[Entry]) -> datetime:
    return min(entry.started_at for entry in entries)


def _summarise_run(entries: Sequence[Entry]) -> RunLine:
    began, ended = _find_begin(entries), max(entry.ended_at for entry in entries)
    failures = [entry for entry in entries if entry.status == "failed"]
    records = Counter[str]()
    for entry in entries:
        records[entry.layer] += entry.counts.get("records", 0)
    named = [f"{each.table} ({each.layer}): {_first_line(each)}" for each in failures[:MOST_NAMED]]
    more = [f"and {len(failures) - MOST_NAMED} more"] if len(failures) > MOST_NAMED else []
    layers = {entry.layer for entry in entries}
    return RunLine(
        began=began.isoformat().replace("+00:00", "Z"),
        seconds=round((ended - began).total_seconds(), 1),
        layers=", ".join(layer for layer in LAYERS if layer in layers),
        tables=len({entry.table for entry in entries}),
        records=records["silver"] or records["bronze"],
        failed=len(failures),
        error="; ".join([*named, *more]),
    )


def _first_line(entry: Entry) -> str:
    return (entry.message or "no reason given").splitlines()[0][:MOST_LETTERS]
