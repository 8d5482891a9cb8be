"""Which full snapshot a change belongs to, and the order that follows from it.

The LSN alone is not the order of a Debezium PostgreSQL stream: a streamed change can carry a lower
LSN than the snapshot row it supersedes. The order is epoch, then the snapshot's rows before
everything streamed, then the LSN. A row of a full snapshot belongs to its snapshot's epoch. A
streamed change belongs to the newest snapshot that began at or before its own position (topic,
partition, offset; order of arrival where the record names no offset), but for a change that both
carries a lower LSN and was committed before the snapshot began: that one is a redelivery, and the
snapshot shows its effect already.

A position's domain is its topic and partition; a record without a partition counts in one domain
for the whole feed. In a domain where a snapshot put no row, its start is told by the commit time
instead.
"""

import json
from typing import NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from silver.sequence import section

_Known = TypeVar("_Known", str, int)
_EPOCH = (
    "struct<number int, snapshot string, started bigint, first map<string, string>, lsn string>"
)
_RECENT = 4


class Epoch(NamedTuple):
    """One full snapshot of a table: its number in order, and where it begins."""

    snapshot: str
    number: int
    started: int | None
    first: dict[str, str]
    complete: bool

    @property
    def lsn(self) -> str:
        """The snapshot's LSN as a canonical section."""
        return f"{int(self.snapshot.rpartition(':')[2]):016X}"

    @property
    def sweep(self) -> str:
        """The stamp of the truncate that stands at the start of the epoch."""
        return f"{2 * self.number:016X} "


class Sighting(NamedTuple):
    """What one batch showed of one snapshot in one domain.

    The position of its first row that is no dead letter, None without any.
    """

    snapshot: str
    domain: str
    first_position: str | None
    complete: bool
    started: int | None

    def joined(self, other: "Sighting") -> "Sighting":
        """Two sightings of one snapshot in one domain as one."""
        return self._replace(
            first_position=_first(self.first_position, other.first_position),
            complete=self.complete or other.complete,
            started=_first(self.started, other.started),
        )


def number(sightings: list[Sighting]) -> list[Epoch]:
    """The table's epochs in order, numbered from 1; the changes before any snapshot are epoch 0.

    A snapshot whose rows are all dead letters begins none: it would leave nothing of the table.
    """
    groups: dict[str, list[Sighting]] = {}
    for seen in sightings:
        groups.setdefault(seen.snapshot, []).append(seen)
    shown = {name: seen for name, seen in groups.items() if any(s.first_position for s in seen)}
    ordered = sorted(shown.items(), key=lambda item: _order(item[1]))
    return [_epoch(snapshot, at, seen) for at, (snapshot, seen) in enumerate(ordered, start=1)]


def _order(seen: list[Sighting]) -> tuple[str, int]:
    feed_wide = _first(*(s.first_position for s in seen if s.domain == ""))
    return (feed_wide or "", _first(*(s.started for s in seen)) or 0)


def _epoch(snapshot: str, at: int, seen: list[Sighting]) -> Epoch:
    first: dict[str, str] = {}
    for s in seen:
        if s.first_position is not None:
            first[s.domain] = min(first.get(s.domain, s.first_position), s.first_position)
    started = _first(*(s.started for s in seen))
    return Epoch(snapshot, at, started, first, any(s.complete for s in seen))


def _first(*values: _Known | None) -> _Known | None:
    """The lowest of those that are known."""
    return min((value for value in values if value is not None), default=None)


def domain() -> Column:
    """The domain that a change's position counts in."""
    known = F.concat_ws("/", F.coalesce("_topic", F.lit("")), F.col("_partition").cast("string"))
    return F.when(F.col("_partition").isNull(), F.lit("")).otherwise(known)


def position() -> Column:
    """A change's position in its domain, as text that sorts."""
    return F.coalesce(F.lpad(F.col("_offset").cast("string"), 20, "0"), F.col("_arrival"))


def epoch(epochs: list[Epoch]) -> Column:
    """The number of the epoch that a change belongs to.

    The newest epochs, to which nearly all changes belong, are asked one by one; all older ones
    stand in one literal, as a plan does not bear hundreds of conditions within each other.
    """
    numbers = F.lit(0)
    if older := epochs[:-_RECENT]:
        known = F.filter(_literal([_fields(e) for e in older], f"array<{_EPOCH}>"), _has)
        numbers = F.coalesce(F.array_max(F.transform(known, lambda e: e["number"])), numbers)
    for one in epochs[-_RECENT:]:
        has = _has(_literal(_fields(one), _EPOCH))
        numbers = F.when(has, F.lit(one.number)).otherwise(numbers)
    return numbers


def _fields(known: Epoch) -> dict[str, object]:
    given = {"number": known.number, "snapshot": known.snapshot, "started": known.started or 0}
    return given | {"first": known.first, "lsn": known.lsn}


def _literal(value: object, type: str) -> Column:
    return F.from_json(F.lit(json.dumps(value)), type)


def _has(known: Column) -> Column:
    """Whether a change belongs to an epoch, or to a later one."""
    own = F.col("_snapshot") == known["snapshot"]
    return F.coalesce(own | (F.col("_snapshot").isNull() & _after(known)), F.lit(False))


def _after(known: Column) -> Column:
    committed = F.coalesce(F.unix_micros("_source_time"), known["started"])
    begins = F.coalesce(position() >= known["first"][domain()], committed >= known["started"])
    lower = F.substring("_sequence", 1, 16) < known["lsn"]
    return begins & ~(lower & (committed < known["started"]))


def in_epochs(changes: DataFrame, epochs: list[Epoch]) -> DataFrame:
    """The changes with the epoch put in front of their sequence."""
    streamed = F.when(F.col("_snapshot").isNull(), F.lit(1)).otherwise(F.lit(0))
    front = section((epoch(epochs) * 2 + streamed).cast("bigint"))
    return changes.withColumn("_sequence", F.concat_ws("/", front, F.col("_sequence")))
