"""Follows the source's log through the records that a task decodes, and keeps it as segments.

A segment ends where the next record is not simply the next one of the log: positions fall, records
come again or have caught up, or another log begins. So a task has few of them, whatever the number
of its records, and nothing is lost: `find_restarts` finds from the segments of all tasks what it
would find from every record.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from operator import ge, lt
from typing import Any, NamedTuple

from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import (
    Connector,
    connectors_of,
    proves_restarts,
    server_of,
)
from silver.decode.debezium.events.envelope import Envelope, SourceBlock
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    OFFSETS,
    Fact,
    Reached,
    Segment,
    follow_segment,
)
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import WIDTH

_FIRST_POSITION = f"{1:0{WIDTH}X}"
"""Sequences below have no position of a source: records are in order of their arrival."""

_CLOCK = "record time"
"""In the name of a log of offsets, that the time is the record's own."""

_NO_SERVER: tuple[str | None, int] = (None, 0)
_FEW, _MOST_WAITING = 8, 2_000
"""More records are looked at together; so many wait at most until they are followed."""


class SeenRecords(NamedTuple):
    """Records of a slice, in order, as the follower sees them: one entry per record.

    `reads` says which are rows that a snapshot read; `sequences`, `times` and `snapshots` are what
    `Change` calls `sequence`, `source_time` and `snapshot`.
    """

    topics: Sequence[str | None]
    partitions: Sequence[int | None]
    offsets: Sequence[int | None]
    arrivals: Sequence[str]
    stamps: Sequence[int | None]
    reads: Sequence[bool]
    sources: Sequence[SourceBlock | None]
    sequences: Sequence[str | None]
    times: Sequence[int | None]
    snapshots: Sequence[str | None]

    def at(self, places: Sequence[int]) -> "SeenRecords":
        """Some of them."""
        return SeenRecords._make([column[at] for at in places] for column in self)


class Moves(NamedTuple):
    """Records of a log: one entry per record.

    `positions` are those of their commits; no later transaction has its commit below `reaches`.
    Places and positions are texts or numbers; those of a log of offsets have no source block.
    """

    places: Sequence[Any]
    positions: Sequence[Any]
    reaches: Sequence[Any]
    times: Sequence[int]
    sources: Sequence[SourceBlock | None]


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
            self._follow_records(SeenRecords._make(map(list, zip(*waiting, strict=True))))

    def _follow_records(self, seen: SeenRecords) -> None:
        """Shows the records to the logs of their offsets and of their sources' positions."""
        blocks = [(None,) * 3 if s is None else (s.name, s.db, s.commit_lsn) for s in seen.sources]
        for clock in (None,) if None not in seen.times else (None, _CLOCK):
            names = [(OFFSETS, name, db, clock) for name, db, _ in blocks]
            for log, part in self._split_by_log(seen, names):
                log.follow(_offset_moves(part, clock is None))
        log_names = [(name, None if lsn is None else db) for name, db, lsn in blocks]
        for log, part in self._split_by_log(seen, log_names):
            log.follow(_position_moves(part))

    def _split_by_log(
        self, seen: SeenRecords, names: Sequence[tuple[object, ...]]
    ) -> Iterator[tuple["PartitionLog", SeenRecords]]:
        """Each log that the records are of, with its records."""
        keys = list(zip(seen.topics, seen.partitions, names, strict=True))
        if keys and all(map(keys[0].__eq__, keys)):
            yield self._find_log(_log_name(*keys[0])), seen
            return
        parts: dict[tuple[str, str], list[int]] = {}
        for at, key in enumerate(keys):
            parts.setdefault(_log_name(*key), []).append(at)
        for name, places in parts.items():
            yield self._find_log(name), seen.at(places)

    def _find_log(self, name: tuple[str, str]) -> "PartitionLog":
        if name not in self._logs:
            self._logs[name] = PartitionLog(*name, self._reached.get(" ".join(name)))
        return self._logs[name]


class PartitionLog:
    """One log of a partition: the position before the open segment, and that segment."""

    def __init__(self, domain: str, log: str, reached: Reached | None) -> None:
        self._domain, self._log, self._known = domain, log, reached
        self._closed: list[Segment] = []
        self._begin: Fact | None = None
        self._first: Any = None
        self._last: Any = None
        self._commit: Any = None
        self._reach: Any = None
        self._time = self._earliest = self._latest = 0
        self._server: str | None = None
        self._servers: dict[str, int] = {}
        self._simple = False

    def follow(self, moves: Moves) -> None:
        """Takes in records; most are simply the next ones of the log."""
        if len(moves.places) > _FEW and not self._simple:
            self._follow_each(Moves._make(column[:1] for column in moves))
            moves = Moves._make(column[1:] for column in moves)
        if not (len(moves.places) > _FEW and self._simple and self._goes_on(moves)):
            self._follow_each(moves)

    def _follow_each(self, moves: Moves) -> None:
        """Takes in records one by one; one that is not simply the next one opens a segment."""
        for place, position, reach, time, source in zip(*moves, strict=True):
            server, number = _server_of(source)
            is_next = self._begin is not None and self._is_next(place, position, time)
            if not (is_next and self._simple):
                proves = source is not None and proves_restarts(source)
                fact = Fact(_position_text(position), time, server, number, proves)
                if not is_next or self._parts_from(fact):
                    self._open_segment(place, fact, position, reach)
            self._last, self._commit, self._time = place, position, time
            if reach > self._reach:
                self._reach = reach
            if time < self._earliest:
                self._earliest = time
            elif time > self._latest:
                self._latest = time
            self._add_server(server, number)

    def _goes_on(self, moves: Moves) -> bool:
        """Takes in all records at once where each is simply the next one; whether they are."""
        places, positions, reaches, times, sources = moves
        if len({type(self._last), *map(type, places)}) > 1:
            return False
        read = positions.count(OF_SNAPSHOT)
        if read != (len(positions) if self._commit == OF_SNAPSHOT else 0):
            return False
        if not all(map(lt, (self._last, *places), places)):
            return False
        befores = [*accumulate(reaches, max, initial=self._reach)]
        if not all(map(ge, positions, befores)):
            commits = zip(positions, times, strict=True)
            steps = pairwise([(self._commit, self._time), *commits])
            falls = compress(steps, map(lt, positions, befores))
            if any(one != now for one, now in falls):
                return False
        self._last, self._commit, self._reach = places[-1], positions[-1], befores[-1]
        self._time = times[-1]
        for server, number in dict.fromkeys(map(_server_of, sources)):
            self._add_server(server, number)
        self._server = _server_of(sources[-1])[0]
        self._earliest, self._latest = min(self._earliest, *times), max(self._latest, *times)
        return True

    def _add_server(self, server: str | None, number: int) -> None:
        self._server = server
        if server is not None and number > self._servers.get(server, -1):
            self._servers[server] = number

    def segments(self) -> list[Segment]:
        """All segments, the open one included."""
        closed, begin = self._closed, self._begin
        return closed if begin is None else [*closed, self._make_segment(begin)]

    def _is_next(self, place: int | str, position: int | str, time: int) -> bool:
        """Whether a record comes behind the last one, at a position that does not fall.

        Records of one transaction have one position.
        """
        if position < self._reach and (position != self._commit or time != self._time):
            return False
        if (position == OF_SNAPSHOT) != (self._commit == OF_SNAPSHOT):
            return False
        last = self._last
        is_same = type(place) is type(last)
        return bool(place > last) if is_same else _place_text(place) > _place_text(last)

    def _parts_from(self, fact: Fact) -> bool:
        """Whether a record does not belong to the open segment, though its position is higher."""
        reached, begin = self._known, self._begin
        if reached is None or begin is None:
            return begin is None
        if reached.is_old(fact) != reached.is_old(begin) or reached.begins_anew(fact):
            return True
        return reached.falls(begin) and not reached.falls(fact)

    def _open_segment(
        self, place: int | str, fact: Fact, position: int | str, reach: int | str
    ) -> None:
        """Closes the open segment, and begins another one with a record."""
        if self._begin is not None:
            segment = self._make_segment(self._begin)
            self._closed.append(segment)
            self._known = follow_segment(segment, self._known).reached
        self._begin, self._first, self._last = fact, place, place
        self._commit, self._reach, self._time = position, reach, fact.time
        self._earliest, self._latest = fact.time, fact.time
        self._server, self._servers = fact.server, {}
        if self._known is not None and self._known.begins_anew(fact):
            self._servers = {} if fact.server is None else {fact.server: fact.number}
            self._known = follow_segment(self._make_segment(fact), self._known).reached
        self._simple = self._known is None or position == OF_SNAPSHOT
        if self._known is not None and self._known.since is None:
            self._simple |= not self._known.falls(fact)

    def _make_segment(self, begin: Fact) -> Segment:
        places = _place_text(self._first), _place_text(self._last)
        positions = _position_text(self._commit), _position_text(self._reach)
        times = self._earliest, self._latest
        servers = {**self._servers}
        named = self._domain, self._log, *places
        return Segment(*named, begin, *positions, *times, servers, self._server)


def _log_name(topic: object, partition: object, names: tuple[object, ...]) -> tuple[str, str]:
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
    clocks: Sequence[Any] = seen.times
    if not of_source:
        both = zip(seen.stamps, seen.times, strict=True)
        clocks = [stamp if time is None else None for stamp, time in both]
    given = zip(seen.offsets, clocks, seen.reads, strict=True)
    kept = [
        at
        for at, (offset, clock, read) in enumerate(given)
        if clock is not None and offset is not None and offset >= 0
        if not read and seen.partitions[0] is not None
    ]
    if len(kept) < len(clocks):
        seen, clocks = seen.at(kept), [clocks[at] for at in kept]
    offsets: Sequence[Any] = seen.offsets
    reaches = [offset + 1 for offset in offsets]
    return Moves(seen.arrivals, offsets, reaches, clocks, [None] * len(clocks))


def _position_moves(seen: SeenRecords) -> Moves:
    """The positions of records in the source's log.

    PostgreSQL names the commit before the change; the change's own comes after it. Records without
    a position or a commit time are left out. A row of an incremental snapshot, which was not read
    from the log, counts where it names the log's file, and with that the server.
    """
    connectors = connectors_of(seen.sources)
    columns = seen.sources, connectors, seen.sequences, seen.times, seen.reads, seen.snapshots
    commits = list(map(_commit_position, *columns))
    positions = [position for position in commits if position is not None]
    if len(positions) < len(commits):
        seen = seen.at([at for at, position in enumerate(commits) if position is not None])
    changes = [(text or "")[:WIDTH] for text in seen.sequences]
    reaches = [one and max(one, change) for one, change in zip(positions, changes, strict=True)]
    times: Sequence[Any] = seen.times
    places: Sequence[Any] = seen.offsets
    if None in places:
        both = zip(seen.offsets, seen.arrivals, strict=True)
        places = [arrival if offset is None else offset for offset, arrival in both]
    return Moves(places, positions, reaches, times, seen.sources)


def _commit_position(
    source: SourceBlock | None,
    connector: Connector | None,
    sequence: str | None,
    time: int | None,
    read: bool,
    snapshot: str | None,
) -> str | None:
    """The position of a record's commit in the log; None for a record that is left out."""
    if source is None or sequence is None or time is None or sequence < _FIRST_POSITION:
        return None
    if snapshot:
        return OF_SNAPSHOT
    if connector is None or connector.commit is None or (read and source.file is None):
        return None
    return connector.commit(source, sequence)


def _server_of(source: SourceBlock | None) -> tuple[str | None, int]:
    return _NO_SERVER if source is None or source.file is None else server_of(source)


def _position_text(position: int | str) -> str:
    """A position as text that sorts."""
    return position if isinstance(position, str) else f"{position:0{WIDTH}X}"


def _place_text(place: int | str) -> str:
    """A place as text that sorts."""
    return place if isinstance(place, str) else f"{place:020d}"
