"""Changes of a whole table (full snapshots, truncates), and the order of changes among them.

The LSN alone is not the order of a Debezium PostgreSQL stream: a streamed change can carry a lower
LSN than the snapshot row it supersedes. The order is epoch, then the snapshot's rows before
everything streamed, then the LSN. A row of a full snapshot belongs to its snapshot's epoch. A
streamed change belongs to the newest snapshot that began at or before its own position (topic,
partition, offset; order of arrival where the record names no offset), but for a change that both
carries a lower LSN and was surely committed before the snapshot began: that one is a redelivery,
and the snapshot shows its effect already. A transaction that was open when the snapshot began has
lower LSNs, too. Its commit is in no record, and the snapshot's time is that of another clock, some
time after its rows were fixed: so what was committed shortly before that time counts as later.

A position's `domain` is its topic and partition; all records of a feed without partitions have one
domain. In a domain where a snapshot has no row, the commit time decides where it starts.

A full snapshot is a truncate at the start of its epoch that takes effect when its last row has
arrived. That the stream continues does not show that the snapshot is complete: a connector that is
restarted in a blocking snapshot continues without it (Debezium, DBZ-9055), and rows that such a
snapshot lacks may exist.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.names import literal
from silver.contract import DELETE, TRUNCATE, UPSERT
from silver.decode.debezium.events.order import OF_TABLE
from silver.decode.debezium.events.source_log import Restart
from silver.decode.facts import Rows, find_lowest
from silver.decode.values.sequences import WIDTH
from silver.fold.order_key import make_order, order_sql
from silver.fold.rules import Cutoff

RESTART = "restart:"
"""The prefix of the id of an epoch that began with another log of the source."""

_ABOVE_ALL = "G"
_UNSURE = 60_000_000
"""Microseconds before a snapshot's time in which a commit may have come after its rows."""
_EPOCH = (
    "struct<number int, snapshot string, started bigint, shown bigint, first map<string, string>,"
    " lsn string>"
)
_RECENT_EPOCHS = 4
SNAPSHOT_ID = f"substring_index(_snapshot, '{OF_TABLE}', 1)"
"""SQL of the full snapshot of a log row, whatever its source table."""
_DOMAIN = (
    "CASE WHEN _partition IS NULL THEN ''"
    " ELSE concat_ws('/', coalesce(_topic, ''), cast(_partition AS string)) END"
)
_POSITION = "coalesce(lpad(cast(_offset AS string), 20, '0'), _arrival)"


class Epoch(NamedTuple):
    """One full snapshot: its number in order, its begin in µs, its first position by domain.

    It is `complete` when its last row has come. In a table of several source tables it must also
    have every one that an earlier snapshot had, as no change before it counts any more.
    """

    snapshot: str
    number: int
    started: int | None
    first: dict[str, str]
    complete: bool

    @property
    def lsn(self) -> str:
        """The snapshot's position as a canonical sequence.

        The snapshot's id ends in PostgreSQL's LSN as a decimal number, or in the canonical
        sequence of another connector's position, which has several sections. Positions that start
        anew are not comparable with those before: only the commit time decides.
        """
        if self.snapshot.startswith(RESTART):
            return _ABOVE_ALL
        position = self.snapshot.rpartition(":")[2]
        return position if "/" in position else f"{int(position):0{WIDTH}X}"

    @property
    def shown(self) -> int:
        """The commit time before which the snapshot surely shows changes of a lower position.

        Only PostgreSQL's positions, which have one section, are not those of commits.
        """
        started, lsn = self.started or 0, self.lsn
        return started if "/" in lsn or lsn == _ABOVE_ALL else started - _UNSURE

    @property
    def cutoff(self) -> bytes:
        """The order key at the start of the epoch, before all its changes."""
        return make_order(f"{2 * self.number:0{WIDTH}X}")

    @property
    def streamed(self) -> bytes:
        """The order key at the end of the snapshot's rows, before all that is streamed."""
        return make_order(f"{2 * self.number + 1:0{WIDTH}X}")


class SnapshotProgress(NamedTuple):
    """How far one batch has one full snapshot, in one topic and partition (`domain`).

    `first_position` is that of its first row that is no dead letter, None without any.
    """

    snapshot: str
    domain: str
    first_position: str | None
    complete: bool
    started: int | None

    @property
    def parts(self) -> tuple[str, str]:
        """The snapshot's id and the source table; that is empty where no record names it."""
        snapshot, _, table = self.snapshot.partition(OF_TABLE)
        return snapshot, table

    def joined(self, other: "SnapshotProgress") -> "SnapshotProgress":
        """The progress of two batches together, of one snapshot in one domain."""
        return self._replace(
            first_position=find_lowest(self.first_position, other.first_position),
            complete=self.complete or other.complete,
            started=find_lowest(self.started, other.started),
        )


def describe_restart(restart: Restart) -> SnapshotProgress:
    """A place where positions start anew, as an epoch that deletes nothing of the table.

    Streamed changes from there on belong to it, except those that were committed no later than the
    old log's newest one: these are late ones of the old log. Restarts of one source in several
    domains are consecutive epochs, in the same order for every key.
    """
    id = f"{RESTART}{restart.domain}:{restart.time}:{restart.position}"
    return SnapshotProgress(id, restart.domain, restart.place, False, restart.started)


def number_epochs(snapshot_progress: list[SnapshotProgress]) -> list[Epoch]:
    """The table's epochs in order, numbered from 1; the changes before any snapshot are epoch 0."""
    epochs: list[Epoch] = []
    tables: set[str] = set()
    groups = _group_by_snapshot(snapshot_progress).items()
    for snapshot, group in sorted(groups, key=lambda item: _build_sort_key(item[1])):
        complete = {seen.parts[1] for seen in group if seen.complete}
        is_complete = bool(complete) and tables <= complete
        epochs.append(_build_epoch(snapshot, len(epochs) + 1, group, is_complete))
        tables |= {seen.parts[1] for seen in group} - {""}
    return epochs


def _group_by_snapshot(
    snapshot_progress: list[SnapshotProgress],
) -> dict[str, list[SnapshotProgress]]:
    """The progress by snapshot, but for one with only dead letters: it would empty the table."""
    groups: dict[str, list[SnapshotProgress]] = {}
    for seen in snapshot_progress:
        groups.setdefault(seen.parts[0], []).append(seen)
    return {id: group for id, group in groups.items() if any(s.first_position for s in group)}


def _build_sort_key(group: list[SnapshotProgress]) -> tuple[str, int]:
    feed_wide = find_lowest(*(seen.first_position for seen in group if seen.domain == ""))
    return (feed_wide or "", find_lowest(*(seen.started for seen in group)) or 0)


def _build_epoch(id: str, number: int, group: list[SnapshotProgress], complete: bool) -> Epoch:
    first: dict[str, str] = {}
    for seen in group:
        if seen.first_position is not None:
            earlier = first.get(seen.domain, seen.first_position)
            first[seen.domain] = min(earlier, seen.first_position)
    return Epoch(id, number, find_lowest(*(seen.started for seen in group)), first, complete)


class TableChanges(NamedTuple):
    """The full snapshots and truncates of a table."""

    snapshot_progress: list[SnapshotProgress]
    truncates: list[Cutoff]

    @property
    def epochs(self) -> list[Epoch]:
        """The table's full snapshots in order."""
        return number_epochs(self.snapshot_progress)

    @property
    def ended(self) -> int:
        """How many full snapshots have ended."""
        return sum(epoch.complete for epoch in self.epochs)

    def cutoffs(self, apply_truncates: bool) -> list[Cutoff]:
        """The cut-offs of complete full snapshots, and truncate points; oldest first."""
        of_snapshots = [Cutoff(e.cutoff, e.started, e.streamed) for e in self.epochs if e.complete]
        in_force = [*of_snapshots, *(self.truncates if apply_truncates else [])]
        return sorted(in_force, key=lambda cutoff: cutoff.order)


def list_progress(rows: Mapping[tuple[str | None, str], Rows]) -> list[SnapshotProgress]:
    """The progress of the full snapshots among rows."""
    return [
        SnapshotProgress(snapshot, domain, seen.position, seen.complete, seen.began)
        for (snapshot, domain), seen in rows.items()
        if snapshot is not None
    ]


def bound_orders(
    rows: Mapping[tuple[str | None, str], Rows], epochs: Sequence[Epoch] | None
) -> tuple[bytes | None, bytes | None]:
    """The bounds of the order keys of changes: no key is below the first or above the second.

    They are the lowest and the highest key, where one epoch holds all streamed changes. `epochs`
    are None where order keys have none in front.
    """
    first, last = list[bytes](), list[bytes]()
    for (snapshot, domain), seen in rows.items():
        if seen.lowest is None or seen.highest is None:
            continue
        fronts = [] if epochs is None else _bound_fronts(snapshot, domain, seen, epochs)
        for orders, (sequence, arrival), front in zip(
            (first, last), (seen.lowest, seen.highest), fronts or ("", ""), strict=True
        ):
            orders.append(make_order(f"{front}{sequence}", arrival))
    return min(first, default=None), max(last, default=None)


def _bound_fronts(
    snapshot: str | None, domain: str, seen: Rows, epochs: Sequence[Epoch]
) -> list[str]:
    """The sections in front of the lowest and of the highest sequence of rows."""
    if snapshot is not None:
        id = snapshot.partition(OF_TABLE)[0]
        number = max((epoch.number for epoch in epochs if epoch.snapshot == id), default=0)
        return [f"{2 * number:0{WIDTH}X}/"] * 2
    surely = (epoch.number for epoch in epochs if _is_surely_after(seen, domain, epoch))
    ends = max(surely, default=0), max((epoch.number for epoch in epochs), default=0)
    return [f"{2 * number + 1:0{WIDTH}X}/" for number in ends]


def _is_surely_after(seen: Rows, domain: str, epoch: Epoch) -> bool:
    """Whether all streamed changes with these bounds belong to an epoch (as `_is_after_sql`)."""
    began, place = epoch.started or 0, epoch.first.get(domain)
    if seen.position is None or place is None:
        return seen.began is None or seen.began >= began
    is_earlier = seen.began is not None and seen.began < epoch.shown
    is_lower = seen.lowest is not None and seen.lowest[0] < epoch.lsn
    return seen.position >= place and not (is_lower and is_earlier)


def find_truncates(ordered: DataFrame) -> list[Cutoff]:
    """The truncate points in a part of the log that has order keys."""
    truncating = ordered.where(F.col("_operation") == TRUNCATE)
    rows = truncating.select("_order", F.unix_micros("_source_time").alias("at")).collect()
    return [Cutoff(bytes(r["_order"]), r["at"]) for r in rows]


def order_of(table: Table, epochs: list[Epoch]) -> Column:
    """The order key of a row of the table's change log; null without a sequence."""
    sequence = sequence_sql(epochs) if table.format == "debezium" else "_sequence"
    return F.when(F.col("_sequence").isNotNull(), F.expr(order_sql(sequence)))


def add_order_keys(rows: DataFrame, table: Table, epochs: list[Epoch]) -> DataFrame:
    """Log rows that can be applied, with their order keys."""
    sound = rows.where(F.col("_reason").isNull())
    return sound.withColumn("_order", order_of(table, epochs))


def filter_changes(rows: DataFrame) -> DataFrame:
    """Upserts and deletes only."""
    return rows.where(F.col("_operation").isin(UPSERT, DELETE))


def domain_column() -> Column:
    """The topic and partition of a change, as `SnapshotProgress.domain` has them."""
    return F.expr(_DOMAIN)


def position_column() -> Column:
    """A change's position in its domain, as text that sorts."""
    return F.expr(_POSITION)


def epoch_number_column(epochs: list[Epoch]) -> Column:
    """The number of the epoch that a change belongs to."""
    return F.expr(_epoch_sql(epochs))


def sequence_sql(epochs: list[Epoch]) -> str:
    """SQL of a change's sequence with the epoch in front of it."""
    streamed = "CASE WHEN _snapshot IS NULL THEN 1 ELSE 0 END"
    front = f"cast(({_epoch_sql(epochs)}) * 2 + {streamed} AS bigint)"
    return f"concat_ws('/', lpad(hex({front}), {WIDTH}, '0'), _sequence)"


def _epoch_sql(epochs: list[Epoch]) -> str:
    """SQL of the number of the epoch that a change belongs to.

    The newest epochs, to which nearly all changes belong, have one condition each; all older ones
    are in one literal, as Spark cannot plan hundreds of nested conditions.
    """
    numbers = "0"
    if older := epochs[:-_RECENT_EPOCHS]:
        fields = _write_json_literal([_list_epoch_fields(e) for e in older], f"array<{_EPOCH}>")
        matching = f"filter({fields}, e -> {_belongs_sql('e')})"
        numbers = f"coalesce(array_max(transform({matching}, e -> e.number)), 0)"
    for epoch in epochs[-_RECENT_EPOCHS:]:
        belongs = _belongs_sql(_write_json_literal(_list_epoch_fields(epoch), _EPOCH))
        numbers = f"CASE WHEN {belongs} THEN {epoch.number} ELSE {numbers} END"
    return numbers


def _list_epoch_fields(epoch: Epoch) -> dict[str, object]:
    fields = {"number": epoch.number, "snapshot": epoch.snapshot, "started": epoch.started or 0}
    return fields | {"shown": epoch.shown, "first": epoch.first, "lsn": epoch.lsn}


def _write_json_literal(value: object, type: str) -> str:
    return f"from_json({literal(json.dumps(value))}, {literal(type)})"


def _belongs_sql(epoch: str) -> str:
    """Whether a change belongs to an epoch, or to a later one."""
    after = f"_snapshot IS NULL AND {_is_after_sql(epoch)}"
    return f"coalesce({SNAPSHOT_ID} = {epoch}.snapshot OR ({after}), false)"


def _is_after_sql(epoch: str) -> str:
    committed = f"coalesce(unix_micros(_source_time), {epoch}.started)"
    begins = f"coalesce({_POSITION} >= {epoch}.first[{_DOMAIN}], {committed} >= {epoch}.started)"
    is_lower = f"_sequence < {epoch}.lsn"
    return f"{begins} AND NOT ({is_lower} AND {committed} < {epoch}.shown)"
