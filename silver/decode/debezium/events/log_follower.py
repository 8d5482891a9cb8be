"""Follows the source's log through the records that a task decodes, and keeps it as segments.

A segment ends where the next record is not simply the next one of the log: positions fall, records
come again or have caught up, or another log begins. So a task has few of them, whatever the number
of its records, and nothing is lost: `restarts` finds from the segments of all tasks what it would
find from every record.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import ge, lt
from typing import Any, NamedTuple

from silver.decode.change import Change, Record
from silver.decode.debezium.events.envelope import Envelope, Source
from silver.decode.debezium.events.restarts import follow
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    OFFSETS,
    Fact,
    Reached,
    Segment,
    commit_position,
    proves_restarts,
    server_of,
)
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import WIDTH

_FIRST_POSITION = f"{1:0{WIDTH}X}"
"""Sequences below have no position of a source: records are in order of their arrival."""

_FEWEST = 8
"""Fewer records are seen one by one."""

_Place = int | str
_Position = int | str


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

    def cut(self, start: int, end: int) -> "Sightings":
        """Some of them."""
        return Sightings(*[column[start:end] for column in self])


class LogFollower:
    """Follows the records of one task, in the order in which they come.

    `reached` is how far the records before had come, by the name of their segments; without it
    the first record of each domain begins a segment of which nothing is known.
    """

    def __init__(self, reached: Mapping[str, Reached]) -> None:
        self._reached = reached
        self._courses: dict[tuple[object, ...], _Course] = {}
        self._key: tuple[object, ...] = ()
        self._course = _Course("", "", None)
        self._offset_key: tuple[object, ...] = ()
        self._offsets = _Course("", "", None)

    def see(self, record: Record, envelope: Envelope, change: Change) -> None:
        """Takes in a change.

        Without a position or a commit time it tells nothing of the source's log. Rows of an
        incremental snapshot tell nothing either: they were not read from the log.
        """
        source, sequence, time = envelope.source, change.sequence, change.source_time
        offset = None if record.partition is None or envelope.op == "r" else record.offset
        if offset is not None and offset >= 0:
            self._see_offset(record, offset, source, time)
        if source is None or sequence is None or time is None or sequence < _FIRST_POSITION:
            return
        if envelope.op == "r" and change.snapshot is None:
            return
        self._turn_to(record.topic, record.partition, source)
        position = OF_SNAPSHOT if change.snapshot else commit_position(source, sequence)
        if position is not None:
            place = record.arrival if record.offset is None else record.offset
            self._course.see(place, position, _reach(position, source, sequence), time, source)

    def see_all(self, seen: Sightings) -> None:
        """Takes in records that follow one another; most are simply the next ones of the log."""
        start, end, alone = 0, len(seen.arrivals), 1
        while start < end:
            if end - start >= _FEWEST and self._go_on(seen.cut(start, end)):
                return
            for at in range(start, min(start + alone, end)):
                self._see_one(*[column[at] for column in seen])
            start, alone = start + alone, 4 * alone

    def _see_one(
        self,
        topic: str | None,
        partition: int | None,
        offset: int | None,
        arrival: str,
        stamp: int | None,
        *facts: Any,
    ) -> None:
        read, source, sequence, time, snapshot = facts
        record = Record(None, None, None, topic, partition, offset, stamp, 0, False, arrival)
        change = Change(None, (), sequence, snapshot=snapshot, source_time=time)
        self.see(record, Envelope(op="r" if read else None, source=source), change)

    def _go_on(self, seen: Sightings) -> bool:
        """Takes in records that all are the next ones of one log; whether they are."""
        sources = seen.sources
        logs = {(s.name, s.db, s.commit_lsn is None) if s else None for s in sources}
        if len({*seen.topics}) > 1 or len({*seen.partitions}) > 1 or len(logs) > 1:
            return False
        followed = self._followed(seen)
        if followed is None or not self._offsets_go_on(seen):
            return False
        if followed:
            self._course.go_on(*followed)
        return True

    def _offsets_go_on(self, seen: Sightings) -> bool:
        """Takes in the offsets where all are above those before; whether they are."""
        source, partition = seen.sources[0], seen.partitions[0]
        if partition is None or all(seen.reads) or set(seen.offsets) == {None}:
            return True
        if any(seen.reads) or None in seen.offsets or len({t is None for t in seen.times}) > 1:
            return False
        clocked = seen.times[0] is None
        times = seen.stamps if clocked else seen.times
        names = (None, None) if source is None else (source.name, source.db)
        course = self._courses.get((seen.topics[0], partition, OFFSETS, *names, clocked))
        if course is None or None in times:
            return False
        return course.go_on_with_offsets(seen.arrivals, seen.offsets, times)

    def _followed(self, seen: Sightings) -> tuple[Any, ...] | None:
        """What the records tell a course of the log that they go on with.

        Nothing where they tell nothing of a log; None where they have to be seen one by one.
        """
        source, sequences, times = seen.sources[0], seen.sequences, seen.times
        if source is None:
            return ()
        if None in times or None in sequences or len({bool(s) for s in seen.snapshots}) > 1:
            return None
        if any(seen.reads) and not all(seen.snapshots):
            return None
        if max(map(str, sequences)) < _FIRST_POSITION:
            return ()
        if min(map(str, sequences)) < _FIRST_POSITION:
            return None
        if seen.snapshots[0]:
            positions: list[str | None] = [OF_SNAPSHOT] * len(times)
        else:
            positions = list(map(commit_position, seen.sources, sequences))
        if None in positions:
            return () if not any(positions) else None
        self._turn_to(seen.topics[0], seen.partitions[0], source)
        reaches = list(map(_reach, positions, seen.sources, sequences))
        places = seen.arrivals if None in seen.offsets else seen.offsets
        if None in seen.offsets and set(seen.offsets) != {None}:
            return None
        told = places, positions, reaches, times, seen.sources
        return told if self._course.is_gone_on_with(*told[:4]) else None

    def _turn_to(self, topic: object, partition: object, source: Source) -> None:
        """Makes the course of a record's log the present one."""
        database = None if source.commit_lsn is None else source.db
        key = topic, partition, source.name, database
        if key != self._key:
            self._key = key
            if key not in self._courses:
                self._courses[key] = self._begun(*key)
            self._course = self._courses[key]

    def _see_offset(
        self, record: Record, offset: int, source: Source | None, time: int | None
    ) -> None:
        """Takes in an offset: a topic that is made anew counts from 0 again.

        Each source in a topic is followed by itself, as one may be hours behind another. The
        record's own time tells where the source's is not known.
        """
        names = (None, None) if source is None else (source.name, source.db)
        key = record.topic, record.partition, OFFSETS, *names, time is None
        if key != self._offset_key:
            self._offset_key = key
            if key not in self._courses:
                clock = "record time" if time is None else None
                self._courses[key] = self._begun(*key[:-1], clock)
            self._offsets = self._courses[key]
        time = record.timestamp if time is None else time
        if time is not None and not self._offsets.goes_on(record.arrival, offset, time):
            self._offsets.see(record.arrival, offset, offset + 1, time, None)

    def segments(self) -> str | None:
        """All segments so far as JSON; None without any."""
        found = [segment for course in self._courses.values() for segment in course.closed()]
        return json.dumps(found) if found else None

    def _begun(self, topic: object, partition: object, *names: object) -> "_Course":
        domain = _domain(topic, partition)
        given = names if partition is not None else (topic, *names)
        log = " ".join(str(text_of(name)) for name in given if name is not None)
        return _Course(domain, log, self._reached.get(f"{domain} {log}"))


class _Course:
    """The records of one domain: what is known before the open segment, and that segment."""

    __slots__ = (
        "_begin",
        "_closed",
        "_commit",
        "_domain",
        "_earliest",
        "_first",
        "_gtids",
        "_known",
        "_last",
        "_latest",
        "_log",
        "_reach",
        "_server",
        "_simple",
        "_time",
    )

    def __init__(self, domain: str, log: str, known: Reached | None) -> None:
        self._domain, self._log, self._known = domain, log, known
        self._closed: list[Segment] = []
        self._begin: Fact | None = None
        self._first: _Place = ""
        self._last: _Place = ""
        self._commit: _Position = OF_SNAPSHOT
        self._reach: _Position = OF_SNAPSHOT
        self._time = 0
        self._earliest, self._latest = 0, 0
        self._gtids: dict[str | None, int] = {}
        self._server: str | None = None
        self._simple = False

    def see(
        self, place: _Place, position: _Position, reach: _Position, time: int, source: Source | None
    ) -> None:
        """Takes in a record; most are simply the next one of the log.

        `position` is that of its commit; no later transaction has its commit below `reach`. Both
        are numbers, or both texts. Without `source` they are offsets.
        """
        server, number = (None, 0) if source is None or source.file is None else server_of(source)
        last, is_next = self._last, _is_at_least(position, self._reach)
        if not is_next:
            is_next = position == self._commit and time == self._time
        is_next &= (position == OF_SNAPSHOT) == (self._commit == OF_SNAPSHOT)
        if isinstance(place, int) and isinstance(last, int):
            is_next &= place > last
        else:
            is_next &= _text(place) > _text(last)
        if not (is_next and self._simple):
            proves = source is not None and proves_restarts(source)
            fact = Fact(_position_text(position), time, server, number, proves)
            if not is_next or self._parts_from(fact):
                self._open(place, fact, position, reach)
        self._last, self._server, self._commit, self._time = place, server, position, time
        if _is_at_least(reach, self._reach):
            self._reach = reach
        if time < self._earliest:
            self._earliest = time
        elif time > self._latest:
            self._latest = time
        if server is not None and number > self._gtids.get(server, -1):
            self._gtids[server] = number

    def goes_on(self, place: str, offset: int, time: int) -> bool:
        """Takes in the simple case, an offset above those before; whether it is that case."""
        reach, last = self._reach, self._last
        if not (self._simple and isinstance(reach, int) and isinstance(last, str)):
            return False
        if offset < reach or place <= last:
            return False
        self._last, self._commit, self._time, self._reach = place, offset, time, offset + 1
        if time < self._earliest:
            self._earliest = time
        elif time > self._latest:
            self._latest = time
        return True

    def go_on_with_offsets(
        self, places: Sequence[str], offsets: Sequence[Any], times: Sequence[Any]
    ) -> bool:
        """Takes in many records of which `goes_on` would say that they do; whether it would."""
        reach, last = self._reach, self._last
        if not (self._simple and isinstance(reach, int) and isinstance(last, str)):
            return False
        if offsets[0] < reach or places[0] <= last:
            return False
        if not all(map(lt, offsets, offsets[1:])) or not all(map(lt, places, places[1:])):
            return False
        self._last, self._commit, self._time = places[-1], offsets[-1], times[-1]
        self._reach = offsets[-1] + 1
        self._widen(times)
        return True

    def is_gone_on_with(
        self,
        places: Sequence[Any],
        positions: Sequence[Any],
        reaches: Sequence[Any],
        times: Sequence[Any],
    ) -> bool:
        """Whether records are the next ones of the log, of which `see` would open no segment."""
        last = self._last
        if not self._simple or type(last) is not type(places[0]) or isinstance(self._reach, int):
            return False
        if (positions[0] == OF_SNAPSHOT) != (self._commit == OF_SNAPSHOT):
            return False
        if not places[0] > last or not all(map(lt, places, places[1:])):
            return False
        before = list(accumulate(reaches, max, initial=self._reach))
        if all(map(ge, positions, before)):
            return True
        commits = pairwise([(self._commit, self._time), *zip(positions, times, strict=True)])
        pairs = zip(positions, before, commits, strict=False)
        return all(position >= reach or one == other for position, reach, (one, other) in pairs)

    def go_on(
        self,
        places: Sequence[Any],
        positions: Sequence[Any],
        reaches: Sequence[Any],
        times: Sequence[Any],
        sources: Sequence[Source],
    ) -> None:
        """Takes in records that are the next ones of the log."""
        self._last, self._commit, self._time = places[-1], positions[-1], times[-1]
        self._reach = max(self._reach, max(reaches))
        self._widen(times)
        self._server = None
        if any(source.file is not None for source in sources):
            for source in sources:
                found = (None, 0) if source.file is None else server_of(source)
                self._server, number = found
                if self._server is not None and number > self._gtids.get(self._server, -1):
                    self._gtids[self._server] = number

    def _widen(self, times: Sequence[int]) -> None:
        self._earliest = min(self._earliest, *times, self._earliest)
        self._latest = max(self._latest, *times, self._latest)

    def closed(self) -> list[Segment]:
        """All segments, the open one included."""
        return self._closed if self._begin is None else [*self._closed, self._segment(self._begin)]

    def _parts_from(self, fact: Fact) -> bool:
        """Whether a record does not belong to the open segment, though its position is higher."""
        known, begin = self._known, self._begin
        if known is None or begin is None:
            return begin is None
        if known.is_old(fact) != known.is_old(begin) or known.begins_anew(fact):
            return True
        return known.falls(begin) and not known.falls(fact)

    def _open(self, place: _Place, fact: Fact, position: _Position, reach: _Position) -> None:
        """Closes the open segment, and begins another one with a record."""
        if self._begin is not None:
            segment = self._segment(self._begin)
            self._closed.append(segment)
            self._known = follow(segment, self._known).reached
        self._begin, self._first, self._last = fact, place, place
        self._commit, self._reach, self._time = position, reach, fact.time
        self._earliest, self._latest = fact.time, fact.time
        self._server, self._gtids = fact.server, {}
        if self._known is not None and self._known.begins_anew(fact):
            self._gtids = {} if fact.server is None else {fact.server: fact.number}
            self._known = follow(self._segment(fact), self._known).reached
        self._simple = self._known is None or position == OF_SNAPSHOT
        if self._known is not None and self._known.since is None:
            self._simple |= not self._known.falls(fact)

    def _segment(self, begin: Fact) -> Segment:
        first, last = _text(self._first), _text(self._last)
        servers = {server: n for server, n in self._gtids.items() if server is not None}
        return Segment(
            self._domain,
            self._log,
            first,
            last,
            begin,
            _position_text(self._commit),
            _position_text(self._reach),
            self._earliest,
            self._latest,
            servers,
            self._server,
        )


def segments_of(texts: Iterable[str]) -> list[Segment]:
    """The segments in what followers gave."""
    found = [one for text in texts for one in json.loads(text)]
    return [Segment._make([*one[:4], Fact._make(one[4]), *one[5:]]) for one in found]


def _domain(topic: object, partition: object) -> str:
    return "" if partition is None else f"{topic or ''}/{partition}"


def _reach(position: str, source: Source, sequence: str) -> str:
    """The position below which no later transaction has its commit.

    PostgreSQL tells the commit before the change; the change's own comes after it.
    """
    is_own = source.sequence is None or position == OF_SNAPSHOT
    return position if is_own else max(position, sequence[:WIDTH])


def _is_at_least(one: _Position, other: _Position) -> bool:
    """Whether a position is no lower; an offset is above the text that no offset came before."""
    if isinstance(one, int):
        return not isinstance(other, int) or one >= other
    return isinstance(other, str) and one >= other


def _position_text(position: _Position) -> str:
    """A position as text that sorts."""
    return position if isinstance(position, str) else f"{position:0{WIDTH}X}"


def _text(place: _Place) -> str:
    """A place as text that sorts."""
    return place if isinstance(place, str) else f"{place:020d}"
