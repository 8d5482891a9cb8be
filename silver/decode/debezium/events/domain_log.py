"""The records of one domain of a source's log: what is known before, and the open segment."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import ge, lt
from typing import Any, NamedTuple

from silver.decode.debezium.events.envelope import Source
from silver.decode.debezium.events.restarts import follow
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    Fact,
    Reached,
    Segment,
    proves_restarts,
    server_of,
)
from silver.decode.values.sequences import WIDTH

_Place = int | str
_Position = int | str


class Moves(NamedTuple):
    """What records of one log tell of it: one entry per record; see `DomainLog.see`."""

    places: Sequence[Any]
    positions: Sequence[str]
    reaches: Sequence[str]
    times: Sequence[int]
    sources: Sequence[Source]


NO_MOVES = Moves((), (), (), (), ())


class DomainLog:
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

    def is_gone_on_with(self, moves: Moves) -> bool:
        """Whether records are the next ones of the log, of which `see` would open no segment."""
        places, positions, times = moves.places, moves.positions, moves.times
        last: Any = self._last
        if not self._simple or type(last) is not type(places[0]) or isinstance(self._reach, int):
            return False
        if (positions[0] == OF_SNAPSHOT) != (self._commit == OF_SNAPSHOT):
            return False
        if not places[0] > last or not all(map(lt, places, places[1:])):
            return False
        before = list(accumulate(moves.reaches, max, initial=self._reach))
        if all(map(ge, positions, before)):
            return True
        commits = pairwise([(self._commit, self._time), *zip(positions, times, strict=True)])
        pairs = zip(positions, before, commits, strict=False)
        return all(position >= reach or one == other for position, reach, (one, other) in pairs)

    def go_on(self, moves: Moves) -> None:
        """Takes in records that are the next ones of the log."""
        self._last, self._commit = moves.places[-1], moves.positions[-1]
        self._time = moves.times[-1]
        self._reach = max([str(self._reach), *moves.reaches])
        self._widen(moves.times)
        self._server = None
        if any(source.file is not None for source in moves.sources):
            for source in moves.sources:
                self._server, number = (None, 0) if source.file is None else server_of(source)
                if self._server is not None and number > self._gtids.get(self._server, -1):
                    self._gtids[self._server] = number

    def _widen(self, times: Sequence[int]) -> None:
        self._earliest = min(self._earliest, min(times))
        self._latest = max(self._latest, max(times))

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
