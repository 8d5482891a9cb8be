"""What a part of the change log holds, counted: while it is written, or afterwards.

A write is observed as it goes, which costs no look at what was written. What one row of sums cannot
tell, records of several snapshots or dead letters by their reasons, is asked for afterwards.
"""

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.fold.order_key import order_sql
from silver.state.epochs import Sighting, domain, lowest, position


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a part of the log holds.

    `incomplete` counts changes that do not carry every column, of which `partial` names the
    columns; `heirs` counts those among them that moved from another key; `rejected` counts dead
    letters by reason; `sightings` are the full snapshots that show: a last row that is a dead
    letter has come all the same; `oldest` is the lowest sequence of a change; `came` is when its
    write began, in µs since 1970, where that write told the summary; so are `first_order` and
    `last_order`, the lowest and the highest order key of a change.
    """

    records: int = 0
    changes: int = 0
    truncates: int = 0
    without_change: int = 0
    incomplete: int = 0
    heirs: int = 0
    rejected: dict[str, int] = {}
    sightings: list[Sighting] = []
    partial: list[str] = []
    oldest: str | None = None
    came: int | None = None
    first_order: bytes | None = None
    last_order: bytes | None = None

    def replace(self, **changes: object) -> "Summary":
        """The summary with other values of some attributes."""
        return msgspec.structs.replace(self, **changes)

    def joined(self, later: "Summary") -> "Summary":
        """The summary of both parts, of which the later one came to the log after this one."""
        counts = {
            name: getattr(self, name) + getattr(later, name)
            for name in ("records", "changes", "truncates", "without_change", "incomplete", "heirs")
        }
        reasons = {**self.rejected, **later.rejected}
        rejected = {r: self.rejected.get(r, 0) + later.rejected.get(r, 0) for r in reasons}
        return self.replace(
            **counts,
            rejected=rejected,
            sightings=[*self.sightings, *later.sightings],
            partial=sorted({*self.partial, *later.partial}),
            oldest=lowest(self.oldest, later.oldest),
            came=lowest(self.came, later.came),
            first_order=lowest(self.first_order, later.first_order),
            last_order=max((p for p in (self.last_order, later.last_order) if p), default=None),
        )


def summarize(rows: DataFrame) -> Summary:
    """Counts a part of the log in one small job.

    A second one names the columns of partial changes.
    """
    found = _kinds(rows).collect()
    sound = [row for row in found if row["_reason"] is None]
    rejected: dict[str, int] = {}
    for row in found:
        if row["_reason"] is not None:
            rejected[row["_reason"]] = rejected.get(row["_reason"], 0) + row["records"]
    incomplete = _count(row for row in sound if row["incomplete"])
    return Summary(
        records=_count(found),
        changes=_count(row for row in sound if row["_operation"] in (UPSERT, DELETE)),
        truncates=_count(row for row in sound if row["_operation"] == TRUNCATE),
        without_change=_count(row for row in sound if row["_operation"] == NONE),
        incomplete=incomplete,
        heirs=_count(row for row in sound if row["heir"]),
        rejected=rejected,
        sightings=_sightings(row for row in found if row["_snapshot"] is not None),
        partial=_absent_columns(rows) if incomplete else [],
        oldest=min((row["oldest"] for row in sound if row["oldest"] is not None), default=None),
    )


def _kinds(rows: DataFrame) -> DataFrame:
    """One row per kind of record; those of a full snapshot apart by snapshot and domain.

    The set among the aggregates lets Spark hash by kind: for text alone it would sort all rows.
    """
    shows = F.col("_snapshot").isNotNull() & F.col("_sequence").isNotNull()
    incomplete = F.col("_absent").isNotNull()
    kinds = {
        "_operation": F.col("_operation"),
        "_reason": F.col("_reason"),
        "_snapshot": F.when(shows, F.col("_snapshot")),
        "domain": F.when(shows, domain()),
        "incomplete": incomplete,
        "heir": incomplete & F.col("_old_key").isNotNull(),
    }
    return rows.groupBy(*[kind.alias(name) for name, kind in kinds.items()]).agg(
        F.count(F.lit(1)).alias("records"),
        F.min(F.when(shows & F.col("_reason").isNull(), position())).alias("first_position"),
        F.array_contains(F.collect_set("_snapshot_last"), True).alias("complete"),
        F.min(F.unix_micros("_source_time")).alias("started"),
        F.min("_sequence").alias("oldest"),
    )


def _count(rows: Iterable[Row]) -> int:
    return sum(row["records"] for row in rows)


def _sightings(rows: Iterable[Row]) -> list[Sighting]:
    """The snapshots by domain; rows of one that differ in kind are put together."""
    found: dict[tuple[str, str], Sighting] = {}
    for r in rows:
        seen = (r["_snapshot"], r["domain"], r["first_position"], r["complete"], r["started"])
        known = found.get(seen[:2])
        found[seen[:2]] = Sighting(*seen) if known is None else known.joined(Sighting(*seen))
    return list(found.values())


def _absent_columns(rows: DataFrame) -> list[str]:
    absent = rows.where("_reason IS NULL").select(F.explode("_absent").alias("column")).distinct()
    return sorted(row["column"] for row in absent.collect())


class Watched(NamedTuple):
    """Rows on their way into the log, and what will have been seen of them once they are written.

    Their write must be one stage: what is computed twice is counted twice.
    """

    rows: DataFrame
    seen: Observation
    began: int

    def unlike(self) -> int:
        """How many of the records show columns or types that they were decoded without."""
        return int(self.seen.get["unlike"])

    def records(self) -> int:
        """How many records were written."""
        return int(self.seen.get["records"])

    def source_log(self) -> list[str]:
        """What the records tell of the source's log."""
        return list(self.seen.get["source_log"] or [])

    def summary(self) -> Summary | None:
        """The summary of what was written; None where the sums do not tell it all."""
        found = self.seen.get
        several = found["rejected"] or (found["first_shown"] != found["last_shown"])
        return None if several else _told(found, self.began)


def watched(rows: DataFrame, sequence: str) -> Watched:
    """The rows, counted while they are written; `sequence` is SQL of a change's sequence."""
    seen, sums = Observation(), [told.alias(name) for name, told in _sums(sequence).items()]
    return Watched(rows.observe(seen, *sums), seen, _now())


def _now() -> int:
    return int(datetime.now(timezone.utc).timestamp() * 1_000_000)


def _sums(sequence: str) -> dict[str, Column]:
    sound = F.col("_reason").isNull()
    changes = sound & F.col("_operation").isin(UPSERT, DELETE)
    order = F.when(changes, F.expr(order_sql(sequence)))
    shows, lacks = sound & F.col("_snapshot").isNotNull(), sound & F.col("_absent").isNotNull()
    shown = F.when(shows, F.struct(F.col("_snapshot"), domain().alias("domain")))
    return {
        "records": F.count(F.lit(1)),
        "rejected": F.count("_reason"),
        "unlike": F.count("_unlike"),
        "changes": F.count_if(changes),
        "truncates": F.count_if(sound & (F.col("_operation") == TRUNCATE)),
        "without_change": F.count_if(sound & (F.col("_operation") == NONE)),
        "incomplete": F.count_if(lacks),
        "heirs": F.count_if(lacks & F.col("_old_key").isNotNull()),
        "partial": F.array_sort(F.array_distinct(F.flatten(F.collect_set("_absent")))),
        "oldest": F.min(F.when(sound, F.col("_sequence"))),
        "first_order": F.min(order),
        "last_order": F.max(order),
        "source_log": F.collect_list("_source_log"),
        "first_shown": F.min(shown),
        "last_shown": F.max(shown),
        "first_position": F.min(F.when(shows, position())),
        "complete": F.max(F.when(shows, F.col("_snapshot_last"))),
        "started": F.min(F.when(shows, F.unix_micros("_source_time"))),
    }


def _told(found: dict[str, Any], began: int) -> Summary:
    shown, sightings = found["first_shown"], list[Sighting]()
    if shown is not None:
        about = found["first_position"], bool(found["complete"]), found["started"]
        sightings = [Sighting(shown["_snapshot"], shown["domain"], *about)]
    counts = ("records", "changes", "truncates", "without_change", "incomplete", "heirs")
    return Summary(
        **{name: int(found[name]) for name in counts},
        rejected={},
        sightings=sightings,
        partial=found["partial"] or [],
        oldest=found["oldest"],
        came=began,
        first_order=_bytes(found["first_order"]),
        last_order=_bytes(found["last_order"]),
    )


def _bytes(order: bytearray | None) -> bytes | None:
    return None if order is None else bytes(order)
