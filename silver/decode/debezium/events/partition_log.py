"""The segments of one log: which records go on in it, and where another segment begins."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from silver.decode.debezium.events.connectors import OF_INNODB, proves_restarts
from silver.decode.debezium.events.envelope import SourceBlock, SourceColumns
from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    Fact,
    Reached,
    Segment,
    follow_segment,
)
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import WIDTH

_NO_SERVER: tuple[str | None, int] = (None, 0)
_DIGITS = "0123456789"
_FEW = 8
"""More records are looked at together."""

_Numbers = npt.NDArray[np.int64]


class Moves(NamedTuple):
    """Records of a log: one entry per record.

    `positions` are those of their commits; no later transaction has its commit below `reaches`.
    Places and positions are texts or numbers; those of a log of offsets have no source block.
    """

    places: pa.Array
    positions: pa.Array
    reaches: pa.Array
    times: _Numbers
    sources: SourceColumns | None

    def cut(self, start: int, end: int | None = None) -> "Moves":
        """Those from `start` until `end`."""
        sources = None if self.sources is None else SourceColumns(self.sources.blocks[start:end])
        columns: tuple[Any, ...] = self[:4]
        return Moves._make([*[column[start:end] for column in columns], sources])

    def each(self) -> Iterator[tuple[Any, ...]]:
        """Place, position, reach, time and source block of each record."""
        columns = [column.to_pylist() for column in self[:3]]
        blocks = [None] * len(self.times) if self.sources is None else self.sources.blocks
        yield from zip(*columns, self.times.tolist(), blocks, strict=True)


class PartitionLog:
    """One log of a partition: the position before the open segment, and that segment.

    A segment takes in a record that comes again, too: one below the position that the segment has
    reached, which was committed no later than what came before, by no new server. So changes in
    disorder make no more segments than changes in order.
    """

    def __init__(self, domain: str, log: str, reached: Reached | None) -> None:
        self._domain, self._log, self._known = domain, log, reached
        self._closed: list[Segment] = []
        self._begin: Fact | None = None
        self._first: Any = None
        self._last: Any = None
        self._again_from: Any = None
        self._commit: Any = None
        self._reach: Any = None
        self._time = self._earliest = self._latest = 0
        self._server: str | None = None
        self._servers: dict[str, int] = {}
        self._simple = False

    def follow(self, moves: Moves) -> None:
        """Takes in records; most are simply the next ones of the log, or come again."""
        alone = 1
        while len(moves.times):
            if self._simple and len(moves.times) > _FEW:
                taken = self._take_in(moves)
                alone = 1 if taken > _FEW else 2 * alone
                moves = moves.cut(taken)
            is_short = not self._simple or len(moves.times) <= _FEW
            count = len(moves.times) if is_short and self._begin is not None else alone
            self._follow_each(moves.cut(0, count))
            moves = moves.cut(count)

    def _follow_each(self, moves: Moves) -> None:
        """Takes in records one by one; one that does not go on opens a segment."""
        for place, position, reach, time, source in moves.each():
            server, number = _server_of(source)
            rises = self._begin is not None and self._rises(place, position)
            is_next = rises and (
                position >= self._reach or (position, time) == (self._commit, self._time)
            )
            comes_again = rises and self._simple and not is_next
            comes_again = comes_again and self._comes_again(reach, time, server, number)
            if not (comes_again or (is_next and self._simple)):
                proves = source is not None and proves_restarts(source)
                fact = Fact(_position_text(position), time, server, number, proves)
                if not is_next or self._parts_from(fact):
                    self._open_segment(place, fact, position, reach)
            self._last, self._earliest = place, min(self._earliest, time)
            if comes_again:
                self._again_from = place if self._again_from is None else self._again_from
                continue
            self._commit, self._time, self._again_from = position, time, None
            self._reach, self._latest = max(self._reach, reach), max(self._latest, time)
            self._add_server(server, number)

    def _rises(self, place: int | str, position: int | str) -> bool:
        """Whether a record comes behind the last one, and both are of a full snapshot or none."""
        if (position == OF_SNAPSHOT) != (self._commit == OF_SNAPSHOT):
            return False
        last = self._last
        is_same = type(place) is type(last)
        return bool(place > last) if is_same else place_text(place) > place_text(last)

    def _comes_again(self, reach: int | str, time: int, server: str | None, number: int) -> bool:
        """Whether a record below the position reached can be of no other log."""
        is_known = server is None or number <= self._servers.get(server, -1)
        return is_known and time <= self._latest and bool(reach <= self._reach)

    def _take_in(self, moves: Moves) -> int:
        """Takes in records until the first that does not go on; how many these are.

        Each one is the next of the log, or comes again, as `_follow_each` has it.
        """
        positions, reaches = _rank([self._commit, self._reach], moves.positions, moves.reaches)
        befores = np.maximum.accumulate(reaches)[:-1]
        times = np.concatenate([[self._time], moves.times])
        is_next = positions[1:] >= befores
        lasts = np.maximum.accumulate(np.where(is_next, np.arange(1, len(times)), 0))
        lasts = np.concatenate([[0], lasts[:-1]])  # of those before, the last that was the next
        is_next |= (positions[1:] == positions[lasts]) & (times[1:] == times[lasts])
        latest = np.maximum.accumulate(np.concatenate([[self._latest], moves.times]))[:-1]
        is_odd = ~is_next & ((moves.times > latest) | (reaches[1:] > befores))
        servers = _servers_of(moves)
        for name in {name for name, _ in servers if name is not None}:
            numbers = np.array([number if one == name else -1 for one, number in servers])
            highest = np.concatenate([[self._servers.get(name, -1)], numbers])
            is_odd |= ~is_next & (numbers > np.maximum.accumulate(highest)[:-1])
        is_odd |= ~self._all_rise(moves)
        count = int(is_odd.argmax()) if is_odd.any() else len(is_odd)
        if count:
            self._add_records(moves.cut(0, count), reaches, is_next[:count], servers[:count])
        return count

    def _all_rise(self, moves: Moves) -> npt.NDArray[np.bool_]:
        """Which records come behind the ones before them, as `_rises` has it."""
        places, count = moves.places, len(moves.times)
        rising = np.ones(count, np.bool_)
        if count > 1:
            rising[1:] = as_numpy(pc.greater(places[1:], places[: count - 1]))
        rising[0] = self._rises(places[0].as_py(), moves.positions[0].as_py())
        if pa.types.is_string(moves.positions.type):
            of_snapshot = as_numpy(pc.equal(moves.positions, OF_SNAPSHOT))
            rising &= of_snapshot == (self._commit == OF_SNAPSHOT)
        return rising

    def _add_records(
        self,
        moves: Moves,
        reaches: _Numbers,
        is_next: npt.NDArray[np.bool_],
        servers: Sequence[tuple[str | None, int]],
    ) -> None:
        """Adds records to the open segment, which begins below them or which they come again in."""
        count = len(is_next)
        highest = int(reaches[: count + 1].argmax())
        if highest:
            self._reach = moves.reaches[highest - 1].as_py()
        self._last = moves.places[count - 1].as_py()
        self._earliest = min(self._earliest, int(moves.times.min()))
        self._latest = max(self._latest, int(moves.times.max()))
        followed = np.flatnonzero(is_next)
        newest = int(followed[-1]) if len(followed) else -1
        if newest >= 0:
            self._commit, self._time = moves.positions[newest].as_py(), int(moves.times[newest])
            self._server, self._again_from = servers[newest][0], None
        if newest < count - 1 and self._again_from is None:
            self._again_from = moves.places[newest + 1].as_py()
        server = self._server
        for one in dict.fromkeys(servers):
            self._add_server(*one)
        self._server = server

    def _add_server(self, server: str | None, number: int) -> None:
        self._server = server
        if server is not None and number > self._servers.get(server, -1):
            self._servers[server] = number

    def segments(self) -> list[Segment]:
        """All segments, the open one included."""
        closed, begin = self._closed, self._begin
        return closed if begin is None else [*closed, self._make_segment(begin)]

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
        self._again_from = None
        self._earliest, self._latest = fact.time, fact.time
        self._server, self._servers = fact.server, {}
        if self._known is not None and self._known.begins_anew(fact):
            self._servers = {} if fact.server is None else {fact.server: fact.number}
            self._known = follow_segment(self._make_segment(fact), self._known).reached
        self._simple = self._known is None or position == OF_SNAPSHOT
        if self._known is not None and self._known.since is None:
            self._simple |= not self._known.falls(fact)

    def _make_segment(self, begin: Fact) -> Segment:
        places = place_text(self._first), place_text(self._last)
        positions = _position_text(self._commit), _position_text(self._reach)
        times = self._earliest, self._latest
        servers = {**self._servers}
        named = self._domain, self._log, *places
        again_from = None if self._again_from is None else place_text(self._again_from)
        last = servers, self._server, again_from
        return Segment._make([*named, begin, *positions, *times, *last])


def _rank(
    ranked: Sequence[Any], positions: pa.Array, reaches: pa.Array
) -> tuple[_Numbers, _Numbers]:
    """Positions and reaches as numbers of the same order, each behind one that is ranked."""
    count = len(positions) + 1
    columns = [pa.array([ranked[0]], positions.type), positions]
    columns += [pa.array([ranked[1]], positions.type), reaches]
    given = pa.concat_arrays(columns)
    if pa.types.is_string(given.type):
        ranks = pc.rank(given, tiebreaker="min").to_numpy().astype(np.int64)
    else:
        ranks = given.to_numpy()
    return ranks[:count], ranks[count:]


def as_numpy(values: pa.Array) -> npt.NDArray[Any]:
    """The values as numpy has them."""
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


def server_of(source: SourceBlock) -> tuple[str | None, int]:
    """The server, and the number in its GTID: `uuid:number`, of MariaDB `domain-server-number`.

    A tag (`uuid:tag:number`) counts by itself, so it is part of the server. Without a GTID the
    server is the id of MySQL's with the base name of its binlog, and the number 0.
    """
    if source.gtid is not None:
        gtid = str(text_of(source.gtid))
        server, _, number = gtid.rpartition(":" if ":" in gtid else "-")
        return server, int(number) if number.isascii() and number.isdigit() else 0
    if not source.file:
        return None, 0
    file = str(text_of(source.file)).removesuffix(OF_INNODB)
    return f"{source.server_id} {file.rstrip(_DIGITS)}", 0


def _server_of(source: SourceBlock | None) -> tuple[str | None, int]:
    return _NO_SERVER if source is None or source.file is None else server_of(source)


def _servers_of(moves: Moves) -> Sequence[tuple[str | None, int]]:
    """The server of each record, as `server_of` has it."""
    sources = moves.sources
    if sources is None or sources.kinds("file") == {type(None)}:
        return [_NO_SERVER] * len(moves.times)
    marks = sources.marks(("gtid", "file", "server_id"))
    lasts = dict(zip(marks, sources.blocks, strict=True))
    servers = {mark: _server_of(block) for mark, block in lasts.items()}
    return [servers[mark] for mark in marks]


def _position_text(position: int | str) -> str:
    """A position as text that sorts."""
    return position if isinstance(position, str) else f"{position:0{WIDTH}X}"


def place_text(place: int | str) -> str:
    """A place as text that sorts."""
    return place if isinstance(place, str) else f"{place:020d}"
