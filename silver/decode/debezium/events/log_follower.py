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

from silver.decode.debezium.events.connectors import Connector, connectors_of
from silver.decode.debezium.events.envelope import SourceBlock, SourceColumns
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
from silver.decode.slices import ReadPart
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import WIDTH

_FIRST_POSITION = f"{1:0{WIDTH}X}"
"""Sequences below have no position of a source: records are in order of their arrival."""

_OF_RECORD = ("_topic", "_partition", "_offset", "_arrival", "_timestamp")
"""The columns of bronze that `SeenRecords` begins with."""

_CLOCK = "record time"
"""In the name of a log of offsets, that the time is the record's own."""


class SeenRecords(NamedTuple):
    """Records of a slice, in order, as the follower sees them: one entry per record.

    `reads` says which are rows that were read, `of_snapshots` which of these belong to a full
    snapshot; `sequences` and `times` are what `Change` calls `sequence` and `source_time`.
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
    of_snapshots: pa.Array
    commits: pa.Array = pa.nulls(0, pa.string())

    def at(self, fits: pa.Array) -> "SeenRecords":
        """Those whose `fits` is true."""
        if pc.all(fits).as_py():
            return self
        indices = pc.indices_nonzero(fits)
        columns: tuple[Any, ...] = self
        return SeenRecords._make(one.take(indices) if len(one) else one for one in columns)


class SeenChanges(NamedTuple):
    """Some changes of a slice by the indices of their records; see `SeenRecords`."""

    indices: Sequence[int]
    reads: pa.Array
    sources: SourceColumns
    sequences: pa.Array
    times: pa.Array
    of_snapshots: pa.Array


class SeenChange(NamedTuple):
    """One of them, decoded alone."""

    place: int
    read: bool
    source: SourceBlock | None
    sequence: str | None
    time: int | None
    of_snapshot: bool


def see_changes(changes: Sequence[SeenChange]) -> SeenChanges:
    """Changes that were decoded alone."""
    indices, reads, sources, sequences, times, of_snapshots = zip(*changes, strict=True)
    columns = pa.array(sequences, pa.string()), pa.array(times, pa.int64())
    is_read, of_snapshot = [pa.array(flags, pa.bool_()) for flags in (reads, of_snapshots)]
    return SeenChanges(indices, is_read, SourceColumns(sources), *columns, of_snapshot)


def see_plain(part: ReadPart) -> SeenChanges:
    """Changes that were read by columns; the facts of the part are what else is seen of them."""
    reads, sources = part.facts
    blocks = sources if isinstance(sources, SourceColumns) else SourceColumns(sources)
    columns = part.columns["_sequence"], part.columns["_source_time"].cast(pa.int64())
    of_snapshots = pc.fill_null(pc.not_equal(part.columns["_snapshot"], ""), False)
    return SeenChanges(part.places, pa.array(reads, pa.bool_()), blocks, *columns, of_snapshots)


def join_changes(records: pa.RecordBatch, parts: Sequence[SeenChanges]) -> SeenRecords:
    """The changes of all parts, in the order of their records in bronze."""
    indices = pa.array([at for part in parts for at in part.indices], pa.int64())
    columns: list[Any] = [*parts[0][1:]]
    if len(parts) > 1:
        order = pc.sort_indices(indices)
        blocks = [block for part in parts for block in part.sources.blocks]
        lists: list[tuple[Any, ...]] = [*zip(*[part[1:] for part in parts], strict=True)]
        lists[1] = ()
        columns = [pa.concat_arrays(arrays).take(order) if arrays else None for arrays in lists]
        columns[1], indices = SourceColumns(blocks).take(order), indices.take(order)
    places = [records.column(name) for name in _OF_RECORD]
    if len(indices) < records.num_rows:
        places = [column.take(indices) for column in places]
    return SeenRecords._make([*places, *columns, pa.nulls(0, pa.string())])


class LogFollower:
    """Follows the records of one task, in the order in which they come.

    `reached` is the log position of earlier records, by the name of their segments; without it the
    first record of each partition begins a segment of which nothing is known.
    """

    def __init__(self, reached: Mapping[str, Reached]) -> None:
        self._reached = reached
        self._logs: dict[tuple[str, str], PartitionLog] = {}

    def follow(self, seen: SeenRecords) -> None:
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

    def segments(self) -> str | None:
        """All segments so far as JSON; None without any."""
        segments = [segment for log in self._logs.values() for segment in log.segments()]
        return json.dumps(segments) if segments else None

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
    of_snapshot = seen.of_snapshots
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
