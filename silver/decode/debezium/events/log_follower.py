"""Follows the source's log through the records that a task decodes, and keeps it as segments.

A segment ends where the next record is not simply the next one of the log: positions fall, records
come again or have caught up, or another log begins. So a task has few of them, whatever the number
of its records, and nothing is lost: `restarts` finds from the segments of all tasks what it would
find from every record.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from silver.decode.change import Change, Record
from silver.decode.debezium.events.domain_log import NO_MOVES, DomainLog, Moves
from silver.decode.debezium.events.envelope import Envelope, Source
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    OFFSETS,
    Fact,
    Reached,
    Segment,
    commit_position,
    commit_positions,
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
        return Sightings._make(column[start:end] for column in self)


class LogFollower:
    """Follows the records of one task, in the order in which they come.

    `reached` is how far the records before had come, by the name of their segments; without it
    the first record of each domain begins a segment of which nothing is known.
    """

    def __init__(self, reached: Mapping[str, Reached]) -> None:
        self._reached = reached
        self._courses: dict[tuple[object, ...], DomainLog] = {}
        self._key: tuple[object, ...] = ()
        self._course = DomainLog("", "", None)
        self._offset_key: tuple[object, ...] = ()
        self._offsets = DomainLog("", "", None)

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
                self._see_one(seen, at)
            start, alone = start + alone, 4 * alone

    def _see_one(self, seen: Sightings, at: int) -> None:
        place = seen.topics[at], seen.partitions[at], seen.offsets[at], seen.stamps[at]
        record = Record(None, None, None, *place, 0, False, seen.arrivals[at])
        change = Change(None, (), seen.sequences[at], source_time=seen.times[at])
        change.snapshot = seen.snapshots[at]
        op = "r" if seen.reads[at] else None
        self.see(record, Envelope(op=op, source=seen.sources[at]), change)

    def _go_on(self, seen: Sightings) -> bool:
        """Takes in records that all are the next ones of one log; whether they are."""
        sources = seen.sources
        logs = {(s.name, s.db, s.commit_lsn is None) if s else None for s in sources}
        if len({*seen.topics}) > 1 or len({*seen.partitions}) > 1 or len(logs) > 1:
            return False
        followed = self._followed(seen)
        if followed is None or not self._offsets_go_on(seen):
            return False
        if followed.places:
            self._course.go_on(followed)
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

    def _followed(self, seen: Sightings) -> Moves | None:
        """What the records tell a course of the log that they go on with.

        Nothing where they tell nothing of a log; None where they have to be seen one by one.
        """
        sources = [source for source in seen.sources if source is not None]
        sequences = [text for text in seen.sequences if text is not None]
        times = [time for time in seen.times if time is not None]
        if not sources:
            return NO_MOVES
        if not len(sources) == len(sequences) == len(times) or _are_mixed(seen):
            return None
        if min(sequences) < _FIRST_POSITION:
            return NO_MOVES if max(sequences) < _FIRST_POSITION else None
        told: list[str | None] = [OF_SNAPSHOT] * len(times)
        if not seen.snapshots[0]:
            told = commit_positions(sources, sequences)
        positions = [position for position in told if position is not None]
        if len(positions) < len(times):
            return None if positions else NO_MOVES
        self._turn_to(seen.topics[0], seen.partitions[0], sources[0])
        reaches = positions
        if positions[0] != OF_SNAPSHOT:
            reaches = list(map(_reach, positions, sources, sequences))
        by_arrival = seen.offsets[0] is None
        places = seen.arrivals if by_arrival else seen.offsets
        moves = Moves(places, positions, reaches, times, sources)
        return moves if self._course.is_gone_on_with(moves) else None

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

    def _begun(self, topic: object, partition: object, *names: object) -> "DomainLog":
        domain = _domain(topic, partition)
        given = names if partition is not None else (topic, *names)
        log = " ".join(str(text_of(name)) for name in given if name is not None)
        return DomainLog(domain, log, self._reached.get(f"{domain} {log}"))


def segments_of(texts: Iterable[str]) -> list[Segment]:
    """The segments in what followers gave."""
    found = [one for text in texts for one in json.loads(text)]
    return [Segment._make([*one[:4], Fact._make(one[4]), *one[5:]]) for one in found]


def _domain(topic: object, partition: object) -> str:
    return "" if partition is None else f"{topic or ''}/{partition}"


def _are_mixed(seen: Sightings) -> bool:
    """Whether records have to be seen one by one: some were read, some not, or lack an offset."""
    if any(seen.snapshots) != all(seen.snapshots) or any(seen.reads) > all(seen.snapshots):
        return True
    return None in seen.offsets and set(seen.offsets) != {None}


def _reach(position: str, source: Source, sequence: str) -> str:
    """The position below which no later transaction has its commit.

    PostgreSQL tells the commit before the change; the change's own comes after it.
    """
    is_own = source.sequence is None or position == OF_SNAPSHOT
    return position if is_own else max(position, sequence[:WIDTH])
