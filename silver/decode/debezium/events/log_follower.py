"""Follows the source's log through the records that a task decodes, and keeps it as segments.

A segment ends where the next record is not simply the next one of the log: positions fall, records
come again or have caught up, or another log begins. So a task has few of them, whatever the number
of its records, and nothing is lost: `restarts` finds from the segments of all tasks what it would
find from every record.
"""

import json
from collections.abc import Iterable, Mapping

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

_Place = int | str
_Position = int | str


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
        database = None if source.commit_lsn is None else source.db
        key = record.topic, record.partition, source.name, database
        if key != self._key:
            self._key = key
            if key not in self._courses:
                self._courses[key] = self._begun(*key)
            self._course = self._courses[key]
        position = OF_SNAPSHOT if change.snapshot else commit_position(source, sequence)
        if position is not None:
            place = record.arrival if record.offset is None else record.offset
            # PostgreSQL tells the commit before the change; the change's own comes after it.
            is_own = source.sequence is None or position == OF_SNAPSHOT
            reach = position if is_own else max(position, sequence[:WIDTH])
            self._course.see(place, position, reach, time, source)

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
