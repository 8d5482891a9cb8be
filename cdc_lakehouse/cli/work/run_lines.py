"""What a run prints of each table: one line over all layers, its parts in a fixed order."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdc_lakehouse.terminal.console import entry_line, fit_line, get_width, log_line, say
from cdc_lakehouse.terminal.verbosity import Level, current_level, is_json
from lakehouse.run.ledger import Entry
from lakehouse.run.unread import is_of_feed, unread_of
from lakehouse.words import render_count
from silver.contract import ACCOUNT_NOTES

WORDS = {
    "I": "inserted",
    "U": "updated",
    "D": "deleted",
    "X": "not supplied",
    "N": "unchanged",
    "late": "late",
    "delete_unknown": "deletes of unknown keys",
    "truncate": "truncates",
    "snapshots": "full snapshots",
    "dead_letter": "dead letters",
}
CHANGES = {
    "add_column": "new column {column}",
    "drop_column": "column {column} is gone",
    "widen": "column {column} was {from_type}, is {to_type}",
    "incompatible": "column {column} has values of another kind than {from_type}",
}
ONE = {
    "dead letters": "dead letter",
    "deletes of unknown keys": "delete of an unknown key",
    "truncates": "truncate",
    "full snapshots": "full snapshot",
}
"""The singular of the nouns in WORDS."""
ORDER = ("inserted", "updated", "deleted", "late", "dead letters")
"""What a line names first; all else follows in the order of the ledger."""
WIDEST_NAME = 32


def show_entries(entries: Sequence[Entry]) -> None:
    """One line per table over all layers, then how columns changed and what no table reads.

    With --verbose one line per table and layer comes before. In a log of JSON lines there is one
    object per table and layer.
    """
    for entry in entries:
        if is_json():
            print(_entry_to_json(entry), flush=True)
        elif current_level() is Level.VERBOSE:
            print(fit_line(entry_line(entry)), flush=True)
    shown = [] if is_json() else [e for e in entries if not is_of_feed(e)]
    for line in run_lines(shown, get_width()):
        say(line)
    unread = [sentence for of_feed in unread_of(entries) for sentence in of_feed.sentences()]
    for sentence in [*column_news(entries), *unread]:
        say(sentence, whole=True)


def _entry_to_json(entry: Entry) -> str:
    kind = "error" if entry.status == "failed" else "info"
    fields = entry.model_dump(mode="json", include={"run_id", "layer", "table", "status"})
    counts = {name: count for name, count in entry.counts.items() if count}
    return log_line(kind, entry.message, **fields, seconds=entry.duration_ms / 1000, counts=counts)


def column_news(entries: Iterable[Entry]) -> list[str]:
    """A sentence for each table whose columns changed in these runs."""
    sentences = []
    for entry in entries:
        state = json.loads(entry.state) if entry.layer == "silver" and entry.state else {}
        changes = [c for c in state.get("schema_changes", []) if c["run_id"] == entry.run_id]
        if changes:
            text = ", ".join(CHANGES[change["kind"]].format(**change) for change in changes)
            sentences.append(f"{entry.table}: {text}")
    return sentences


def run_lines(entries: Sequence[Entry], width: int | None) -> list[str]:
    """A line per table in the order of the entries: records, what became of them, seconds.

    Where a line is wider than `width`, it goes on below, under its records.
    """
    by_table: dict[str, list[Entry]] = {}
    for entry in entries:
        by_table.setdefault(entry.table, []).append(entry)
    room = min(WIDEST_NAME, max(map(len, by_table), default=0))
    return [
        line
        for table, of_table in by_table.items()
        for line in _build_table_lines(table, of_table, room, width)
    ]


def _build_table_lines(
    table: str, entries: Sequence[Entry], room: int, width: int | None
) -> list[str]:
    seconds = f"{sum(entry.duration_ms for entry in entries) / 1000:.1f} s"
    parts = [*_list_parts(entries)] or ["nothing new"]
    name = f"{table if len(table) <= room else table[: room - 1] + '…':<{room}}"
    lines = [name]
    for part in [*parts, seconds]:
        if width is not None and len(lines[-1]) + 2 + len(part) > width and lines[-1].strip():
            lines.append(" " * room)
        lines[-1] += f"  {part}"
    return lines


def _list_parts(entries: Sequence[Entry]) -> "Iterator[str]":
    """What became of a table: layers that failed, its records, and these by outcome."""
    failed = [entry.layer for entry in entries if entry.status == "failed"]
    if failed:
        yield f"FAILED in {', '.join(failed)}"
    by_layer = {entry.layer: entry.counts.get("records", 0) for entry in entries}
    records = by_layer.get("silver", by_layer.get("bronze", 0))
    if records:
        yield render_count(records, "record")
    for word, count in _count_outcomes(entries).items():
        yield f"{count:,} {ONE.get(word, word) if count == 1 else word}"
    if any(entry.counts.get("pins_lost") for entry in entries):
        yield "shown as it is now: the version that its group showed is too old to be read"
    # A published table is written anew if its columns or types have changed.
    if any(entry.counts.get("rewritten") for entry in entries if entry.layer == "gold"):
        yield "published anew, in another form"


def _count_outcomes(entries: Iterable[Entry]) -> Mapping[str, int]:
    """Silver's records by outcome, in words for a person; counts of other things are left out."""
    outcomes: Counter[str] = Counter()
    left_out = {"records", *ACCOUNT_NOTES} - WORDS.keys()
    for entry in entries:
        for name, count in entry.counts.items() if entry.layer == "silver" else ():
            if count > 0 and name not in left_out:
                kind = name.partition(":")[0]
                outcomes[WORDS.get(kind, kind.replace("_", " "))] += count
    return {word: outcomes[word] for word in ORDER if word in outcomes} | dict(outcomes)
