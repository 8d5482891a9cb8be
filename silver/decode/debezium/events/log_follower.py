"""Follows the source's log through the records that a task decodes, and keeps it as segments.

A segment ends where the next record is not simply the next one of the log: positions fall, records
come again or have caught up, or another log begins. So a task has few of them, whatever the number
of its records, and nothing is lost: `find_restarts` finds from the segments of all tasks what it
would find from every record.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import commit_position, proves_restarts, server_of
from silver.decode.debezium.events.envelope import Envelope, Source
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    OFFSETS,
    Fact,
    Reached,
    Segment,
    follow,
)
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import WIDTH

_FIRST_POSITION = f"{1:0{WIDTH}X}"
"""Sequences below have no position of a source: records are in order of their arrival."""

_CLOCK = "record time"
"""In the name of a log of offsets, that the time is the record's own."""

_MOST_WAITING = 2_000
"""So many records wait at most until they are followed together."""


class Sightings(NamedTuple):
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
    sources: Sequence[Source | None]
    sequences: Sequence[str | None]
    times: Sequence[int | None]
    snapshots: Sequence[str | None]


class LogFollower:
    """Follows the records of one task, in the order in which they come.

    `reached` is how far the records before had come, by the name of their segments; without it
    the first record of each domain begins a segment of which nothing is known.
    """

    def __init__(self, reached: Mapping[str, Reached]) -> None:
        self._reached = reached
        self._logs: dict[tuple[object, ...], DomainLog] = {}
        self._waiting: list[tuple[Any, ...]] = []

    def see(self, record: Record, envelope: Envelope, change: Change) -> None:
        """Takes in a change; those that come alone are followed together, in their order."""
        place = record.topic, record.partition, record.offset, record.arrival, record.timestamp
        known = change.sequence, change.source_time, change.snapshot
        self._waiting.append((*place, envelope.op == "r", envelope.source, *known))
        if len(self._waiting) >= _MOST_WAITING:
            self._follow_waiting()

    def see_all(self, seen: Sightings) -> None:
        """Takes in the changes of some records."""
        self._follow_waiting()
        self._follow(list(zip(*seen, strict=True)))

    def segments(self) -> str | None:
        """All segments so far as JSON; None without any."""
        self._follow_waiting()
        found = [segment for log in self._logs.values() for segment in log.segments()]
        return json.dumps(found) if found else None

    def _follow_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._follow(waiting)

    def _follow(self, rows: list[tuple[Any, ...]]) -> None:
        self._add_offsets(rows)
        self._add_positions(rows)
        for log in self._logs.values():
            log.follow()

    def _add_offsets(self, rows: list[tuple[Any, ...]]) -> None:
        """Shows the offsets to their logs: a topic that is made anew counts from 0 again.

        The offsets of each source in a topic are a log of their own, as one source may be hours
        behind another. The record's own time counts where the source's is not known.
        """
        key: tuple[object, ...] = ()
        log = DomainLog("", "", None)
        for topic, partition, offset, arrival, stamp, read, source, _, time, _ in rows:
            if partition is None or offset is None or offset < 0 or read:
                continue
            names = (None, None) if source is None else (source.name, source.db)
            now = topic, partition, OFFSETS, *names, None if time is not None else _CLOCK
            if now != key:
                key, log = now, self._log(*now)
            clock = stamp if time is None else time
            if clock is not None:
                log.moves.append((arrival, offset, offset + 1, clock, None))

    def _add_positions(self, rows: list[tuple[Any, ...]]) -> None:
        """Shows the positions to their logs.

        Without a position or a commit time a record tells nothing of the source's log. Rows of an
        incremental snapshot tell nothing either: they were not read from the log.
        """
        key: tuple[object, ...] = ()
        log = DomainLog("", "", None)
        for topic, partition, offset, arrival, _, read, source, sequence, time, snapshot in rows:
            if source is None or sequence is None or time is None or sequence < _FIRST_POSITION:
                continue
            position = _position(source, sequence, snapshot, read)
            if position is None:
                continue
            now = topic, partition, source.name, source.commit_lsn and source.db
            if now != key:
                key, log = now, self._log(*now)
            reach = position if source.sequence is None else _reach(position, sequence)
            log.moves.append((arrival if offset is None else offset, position, reach, time, source))

    def _log(self, topic: object, partition: object, *names: object) -> "DomainLog":
        """The log of this name in a topic's partition, or in dropped files of the topic."""
        domain = "" if partition is None else f"{topic or ''}/{partition}"
        given = names if partition is not None else (topic, *names)
        name = " ".join(str(text_of(name)) for name in given if name is not None)
        found = self._logs.get((domain, name))
        if found is None:
            known = self._reached.get(f"{domain} {name}")
            found = self._logs[domain, name] = DomainLog(domain, name, known)
        return found


class DomainLog:
    """The records of one domain: what is known before the open segment, and that segment.

    Attributes:
        moves: the records to follow: place, position of the commit, the position below which no
            later transaction has its commit, commit time, source block. The positions and places
            of a log are texts or numbers; those of a log of offsets have no source block.
    """

    def __init__(self, domain: str, log: str, known: Reached | None) -> None:
        self.moves: list[tuple[Any, Any, Any, int, Source | None]] = []
        self._domain, self._log, self._known = domain, log, known
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

    def follow(self) -> None:
        """Takes in the records that `moves` has; most are simply the next ones of the log."""
        for place, position, reach, time, source in self.moves:
            server, number = _server_of(source)
            is_next = self._begin is not None and self._is_next(place, position, time)
            if not (is_next and self._simple):
                proves = source is not None and proves_restarts(source)
                fact = Fact(_text(position), time, server, number, proves)
                if not is_next or self._parts_from(fact):
                    self._open(place, fact, position, reach)
            self._last, self._server, self._commit, self._time = place, server, position, time
            self._widen(reach, time)
            if server is not None and number > self._servers.get(server, -1):
                self._servers[server] = number
        self.moves = []

    def _widen(self, reach: int | str, time: int) -> None:
        if reach > self._reach:
            self._reach = reach
        if time < self._earliest:
            self._earliest = time
        elif time > self._latest:
            self._latest = time

    def segments(self) -> list[Segment]:
        """All segments, the open one included."""
        return self._closed if self._begin is None else [*self._closed, self._segment(self._begin)]

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
        known, begin = self._known, self._begin
        if known is None or begin is None:
            return begin is None
        if known.is_old(fact) != known.is_old(begin) or known.begins_anew(fact):
            return True
        return known.falls(begin) and not known.falls(fact)

    def _open(self, place: int | str, fact: Fact, position: int | str, reach: int | str) -> None:
        """Closes the open segment, and begins another one with a record."""
        if self._begin is not None:
            segment = self._segment(self._begin)
            self._closed.append(segment)
            self._known = follow(segment, self._known).reached
        self._begin, self._first, self._last = fact, place, place
        self._commit, self._reach, self._time = position, reach, fact.time
        self._earliest, self._latest = fact.time, fact.time
        self._server, self._servers = fact.server, {}
        if self._known is not None and self._known.begins_anew(fact):
            self._servers = {} if fact.server is None else {fact.server: fact.number}
            self._known = follow(self._segment(fact), self._known).reached
        self._simple = self._known is None or position == OF_SNAPSHOT
        if self._known is not None and self._known.since is None:
            self._simple |= not self._known.falls(fact)

    def _segment(self, begin: Fact) -> Segment:
        places = _place_text(self._first), _place_text(self._last)
        positions = _text(self._commit), _text(self._reach)
        times = self._earliest, self._latest
        servers = {**self._servers}
        named = self._domain, self._log, *places
        return Segment(*named, begin, *positions, *times, servers, self._server)


def segments_of(texts: Iterable[str]) -> list[Segment]:
    """The segments in what followers gave."""
    found = [one for text in texts for one in json.loads(text)]
    return [Segment._make([*one[:4], Fact._make(one[4]), *one[5:]]) for one in found]


def _position(source: Source, sequence: str, snapshot: object, read: bool) -> str | None:
    """The position of a record's commit in the log; None where it tells nothing."""
    if snapshot:
        return OF_SNAPSHOT
    return None if read else commit_position(source, sequence)


def _server_of(source: Source | None) -> tuple[str | None, int]:
    return (None, 0) if source is None or source.file is None else server_of(source)


def _reach(position: str, sequence: str) -> str:
    """The position below which no later transaction has its commit.

    PostgreSQL tells the commit before the change; the change's own comes after it.
    """
    return position if position == OF_SNAPSHOT else max(position, sequence[:WIDTH])


def _text(position: int | str) -> str:
    """A position as text that sorts."""
    return position if isinstance(position, str) else f"{position:0{WIDTH}X}"


def _place_text(place: int | str) -> str:
    """A place as text that sorts."""
    return place if isinstance(place, str) else f"{place:020d}"
