"""What a run that goes on has done, summed by table and layer, and what it does at its end."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from cdc_lakehouse.cli.work.rounds import is_worth_telling
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.durations import seconds
from lakehouse.run.memory import Memory

if TYPE_CHECKING:
    from lakehouse.run.ledger import Entry

Sums: TypeAlias = "dict[tuple[Layer, str], Entry]"
Do = Callable[[Layer, Sequence[Table]], "list[Entry]"]
Tell = Callable[["Entry"], None]


def settled(
    tables: Sequence[Table],
    told: "Sequence[Entry]",
    do: Do,
    tell: Tell,
    memory: Memory | None,
) -> "list[Entry]":
    """At the end of a run: applies what readers see and that waited to be applied."""
    waits = {entry.table for entry in told if entry.counts.get("pending", 0) > 0}
    left = [t for t in tables if t.table in waits and not seconds(t.max_staleness or 0)]
    if memory is None or not left:
        return list(told)
    memory.among = None
    sums: Sums = {(entry.layer, entry.table): entry for entry in told}
    sum_and_tell(sums, do("silver", left), tell)
    return list(sums.values())


def sum_and_tell(sums: "Sums", entries: "Sequence[Entry]", tell: Tell) -> None:
    """Adds entries to the sums, and tells of those that something came of."""
    for entry in entries:
        _add(sums, entry)
        if is_worth_telling(entry):
            tell(entry)


def _add(sums: "Sums", entry: "Entry") -> None:
    """Counts and times summed, the rest as it is now."""
    before = sums.get((entry.layer, entry.table))
    if before is not None:
        names = {**before.counts, **entry.counts}
        counts = {n: before.counts.get(n, 0) + entry.counts.get(n, 0) for n in names}
        duration = before.duration_ms + entry.duration_ms
        entry = entry.model_copy(update={"counts": counts, "duration_ms": duration})
    sums[entry.layer, entry.table] = entry
