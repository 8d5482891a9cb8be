"""Follows the source's log through the records that a task decodes, and keeps it as segments.

A segment ends where the next record is not simply the next one of the log: positions fall, records
come again or have caught up, or another log begins. So a task has few of them, whatever the number
of its records, and nothing is lost: `find_restarts` finds from the segments of all tasks what it
would find from every record.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import Connector, connectors_of
from silver.decode.debezium.events.envelope import Envelope, SourceColumns
from silver.decode.debezium.events.partition_log import (
    Moves,
    PartitionLog,
    as_numpy,
    place_text,
)
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    OFFSETS,
    Fact,
    Reached,
    Segment,
)
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import WIDTH

_FIRST_POSITION = f"{1:0{WIDTH}X}"
"""Sequences below have no position of a source: records are in order of their arrival."""

_CLOCK = "record time"
"""In the name of a log of offsets, that the time is the record's own."""

_MOST_WAITING = 2_000
"""So many records wait at most until they are followed."""


class SeenRecords(NamedTuple):
    """Records of a slice, in order, as the follower sees them: one entry per record.

    `reads` says which are rows that a snapshot read; `sequences`, `times` and `snapshots` are what
    `Change` calls `sequence`, `source_time` (as a number) and `snapshot`.
    """

    topics: pa.Array
    partitions: pa.Array
    offsets: pa.Array
    arrivals: pa.Array
    stamps: pa.Array
    reads: pa.Array
    sources: SourceColumns
    sequences: pa.Array
    times: pa.Array
    snapshots: pa.Array
    commits: pa.Array = pa.nulls(0, pa.string())

    def at(self, fits: pa.Array) -> "SeenRecords":
        """Those whose `fits` is true."""
        if pc.all(fits).as_py():
            return self
        indices = pc.indices_nonzero(fits)
        columns: tuple[Any, ...] = self
        return SeenRecords._make(one.take(indices) if len(one) else one for one in columns)


_TYPES = (pa.string(), pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.bool_())
_TYPES_IN_ORDER = (pa.string(), pa.int64(), pa.string())


class LogFollower:
    """Follows the records of one task, in the order in which they come.

    `reached` is the log position of earlier records, by the name of their segments; without it the
    first record of each partition begins a segment of which nothing is known.
    """

    def __init__(self, reached: Mapping[str, Reached]) -> None:
        self._reached = reached
        self._logs: dict[tuple[str, str], PartitionLog] = {}
        self._waiting: list[tuple[Any, ...]] = []

    def see(self, record: Record, envelope: Envelope, change: Change) -> None:
        """Takes in a change; those that come alone are followed together, in their order."""
        place = record.topic, record.partition, record.offset, record.arrival, record.timestamp
        order = change.sequence, change.source_time, change.snapshot
        self._waiting.append((*place, envelope.op == "r", envelope.source, *order))
        if len(self._waiting) >= _MOST_WAITING:
            self._follow_waiting()

    def see_all(self, seen: SeenRecords) -> None:
        """Takes in the changes of some records."""
        self._follow_waiting()
        self._follow_records(seen)

    def segments(self) -> str | None:
        """All segments so far as JSON; None without any."""
        self._follow_waiting()
        segments = [segment for log in self._logs.values() for segment in log.segments()]
        return json.dumps(segments) if segments else None

    def _follow_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            *places, sources, sequences, times, snapshots = zip(*waiting, strict=True)
            columns = [*map(pa.array, places, _TYPES), SourceColumns(sources)]
            columns += map(pa.array, (sequences, times, snapshots), _TYPES_IN_ORDER)
            self._follow_records(SeenRecords._make([*columns, pa.nulls(0, pa.string())]))

    def _follow_records(self, seen: SeenRecords) -> None:
        """Shows the records to the logs of their offsets and of their sources' positions."""
        count, sources = len(seen.topics), seen.sources
        names, dbs = sources.of("name"), sources.of("db")
        clocks = () if seen.partitions.null_count == count else (None, _CLOCK)
        for clock in clocks if seen.times.null_count else clocks[:1]:
            columns = [OFFSETS] * count, names, dbs, [clock] * count
            for log, part in self._split_by_log(seen, columns):
                log.follow(_offset_moves(part, clock is None))
        commits = _find_commits(seen)
        if commits.null_count == count:
            return
        lsns = sources.of("commit_lsn")
        if not _are_all(None, lsns):
            dbs = [None if lsn is None else db for lsn, db in zip(lsns, dbs, strict=True)]
        else:
            dbs = [None] * count
        for log, part in self._split_by_log(seen._replace(commits=commits), (names, dbs)):
            log.follow(_position_moves(part))

    def _split_by_log(
        self, seen: SeenRecords, names: Sequence[Sequence[object]]
    ) -> Iterator[tuple[PartitionLog, SeenRecords]]:
        """Each log that the records are of, with its records; `names` are columns."""
        ends = seen.topics, seen.partitions
        if all(len(end.unique()) == 1 for end in ends) and all(_are_all(n[0], n) for n in names):
            topic, partition = [end[0].as_py() for end in ends]
            yield self._find_log(_log_name(topic, partition, [name[0] for name in names])), seen
            return
        texts = [[None if one is None else text_of(one) for one in column] for column in names]
        keys = zip(*[end.to_pylist() for end in ends], *texts, strict=True)
        parts: dict[tuple[object, ...], int] = {}
        codes = pa.array([parts.setdefault(key, len(parts)) for key in keys])
        for (topic, partition, *given), code in parts.items():
            log = self._find_log(_log_name(topic, partition, given))
            yield log, seen.at(pc.equal(codes, code))

    def _find_log(self, name: tuple[str, str]) -> PartitionLog:
        if name not in self._logs:
            self._logs[name] = PartitionLog(*name, self._reached.get(" ".join(name)))
        return self._logs[name]


def _log_name(topic: object, partition: object, names: Sequence[object]) -> tuple[str, str]:
    """The partition (empty for files) and the log's name in it."""
    domain = "" if partition is None else f"{topic or ''}/{partition}"
    given = names if partition is not None else (topic, *names)
    return domain, " ".join(str(text_of(name)) for name in given if name is not None)


def segments_of(texts: Iterable[str]) -> list[Segment]:
    """The segments in what followers gave."""
    entries = [one for text in texts for one in json.loads(text)]
    return [Segment._make([*one[:4], Fact._make(one[4]), *one[5:]]) for one in entries]


def _offset_moves(seen: SeenRecords, of_source: bool) -> Moves:
    """The offsets of records in order of arrival: a topic that is made anew counts from 0 again.

    The record's own time counts where the source's is not known: such offsets are of a log of
    their own (`of_source` is false).
    """
    clocks = seen.times
    if not of_source:
        clocks = pc.if_else(seen.times.is_null(), seen.stamps, pa.scalar(None, pa.int64()))
    counts = pc.fill_null(pc.greater_equal(seen.offsets, 0), False)
    fits = pc.and_(pc.and_not(counts, seen.reads), clocks.is_valid())
    kept = pc.and_(fits, seen.partitions.is_valid())
    arrivals, offsets, clocks = [c.filter(kept) for c in (seen.arrivals, seen.offsets, clocks)]
    return Moves(arrivals, offsets, pc.add(offsets, 1), as_numpy(clocks), None)


def _position_moves(seen: SeenRecords) -> Moves:
    """The positions of records in the source's log.

    PostgreSQL names the commit before the change; the change's own comes after it. Records without
    a position or a commit time are left out. A row of an incremental snapshot, which was not read
    from the log, counts where it names the log's file, and with that the server.
    """
    seen = seen.at(seen.commits.is_valid())
    positions, places = seen.commits, seen.offsets
    changes = pc.utf8_slice_codeunits(seen.sequences, 0, WIDTH)
    is_higher = pc.and_(pc.greater(changes, positions), pc.not_equal(positions, OF_SNAPSHOT))
    reaches = pc.if_else(is_higher, changes, positions)
    if places.null_count:
        texts = [None if place is None else place_text(place) for place in places.to_pylist()]
        places = pc.coalesce(pa.array(texts, pa.string()), seen.arrivals)
    return Moves(places, positions, reaches, as_numpy(seen.times), seen.sources)


def _find_commits(seen: SeenRecords) -> pa.Array:
    """The position of each record's commit in the log; null for a record that is left out."""
    sequences, nothing = seen.sequences, pa.scalar(None, pa.string())
    of_snapshot = pc.fill_null(pc.not_equal(seen.snapshots, ""), False)
    if pc.all(of_snapshot).as_py():
        commits = pa.repeat(OF_SNAPSHOT, len(sequences))
    else:
        files = pa.array([file is not None for file in seen.sources.of("file")], pa.bool_())
        streamed = pc.or_(pc.invert(seen.reads), files)
        commits = pc.if_else(streamed, _find_streamed_commits(seen), nothing)
        commits = pc.if_else(of_snapshot, OF_SNAPSHOT, commits)
    is_placed = pc.fill_null(pc.greater_equal(sequences, _FIRST_POSITION), False)
    return pc.if_else(pc.and_(is_placed, seen.times.is_valid()), commits, nothing)


def _find_streamed_commits(seen: SeenRecords) -> pa.Array:
    """The position of each record's commit as its connector has it."""
    connectors = connectors_of(seen.sources)
    different: dict[int, Connector | None] = {id(one): one for one in connectors}
    commits = pa.nulls(len(connectors), pa.string())
    for name, connector in different.items():
        if connector is None or connector.commits is None:
            continue
        fits = pa.array([id(one) == name for one in connectors])
        part = seen.at(fits)
        named = connector.commits(part.sources, part.sequences)
        commits = pc.replace_with_mask(commits, fits, named) if len(different) > 1 else named
    return commits


def _are_all(value: object, values: Sequence[object]) -> bool:
    return values.count(value) == len(values)
