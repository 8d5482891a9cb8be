"""Positions of a source that start anew: failover to another server, restore, a new cluster."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from silver.decode.debezium.events.source_log import (
    OF_SNAPSHOT,
    OFFSETS,
    Reached,
    Segment,
    begun,
)

Exact = Callable[[Segment, Reached], list[Segment]]
"""Follows the records of a segment once more, knowing how far those before had come."""


class Restart(NamedTuple):
    """A place where the positions of a domain begin to be those of another log.

    Attributes:
        domain: topic and partition.
        place: the first record that is known to be of the new log.
        position: its position.
        time: its commit time in microseconds since 1970.
        started: commit time from which on changes count as the new log's.
    """

    domain: str
    place: str
    position: str
    time: int
    started: int


class Alarm(NamedTuple):
    """Positions run backwards, and the records do not prove which log changes are of.

    Attributes:
        domain: topic and partition.
        first: place of the first record that may be of either log.
        last: place of the first one that contradicts.
        before: the highest position of the log so far, and its latest commit time.
        after: position and commit time of a record that contradicts.
        of_offsets: whether the positions are offsets, of a topic that was made anew it seems.
    """

    domain: str
    first: str
    last: str
    before: tuple[str, int]
    after: tuple[str, int]
    of_offsets: bool = False


class Followed(NamedTuple):
    """What a segment showed: how far the records have come now, and what of it is to be told."""

    reached: Reached
    restart: Restart | None = None
    alarm: Alarm | None = None


class Findings(NamedTuple):
    """What segments showed: places where positions start anew, and where that is not proven."""

    restarts: list[Restart]
    alarms: list[Alarm]
    reached: dict[str, Reached]


def find_restarts(
    segments: Iterable[Segment], reached: Mapping[str, Reached], exact: Exact
) -> Findings:
    """Finds where positions start anew.

    Args:
        segments: what the tasks that decoded a batch have kept, in any order.
        reached: how far earlier batches had come, by the name of the segments; none of `segments`
            begins before (see `is_late`).
        exact: asked about a segment that began in one task and tells too little.
    """
    found = Findings([], [], dict(reached))
    for segment in sorted(segments, key=lambda one: (one.name, one.first, one.last)):
        known, parts = found.reached.get(segment.name), [segment]
        if known is not None and known.is_unclear(segment):
            parts = exact(segment, known) or parts
        for part in parts:
            step = follow(part, found.reached.get(part.name))
            found.reached[part.name] = step.reached
            found.restarts.extend([step.restart] if step.restart else [])
            found.alarms.extend([step.alarm] if step.alarm else [])
    return found


def is_late(segments: Iterable[Segment], reached: Mapping[str, Reached]) -> bool:
    """Whether a segment begins before records that were followed already."""
    known = ((segment.first, reached.get(segment.name)) for segment in segments)
    return any(place is not None and first <= place.place for first, place in known)


def follow(part: Segment, known: Reached | None) -> Followed:
    """What a segment shows that is all of one log."""
    if known is None or part.position == OF_SNAPSHOT:
        return Followed(begun(part))
    if known.is_all_old(part):
        return _of_old_log(part, known)
    if known.begins_anew(part.begin):
        return _of_new_log(part, known)
    if known.started is not None and part.earliest < known.started and not known.alarmed:
        alarm = _alarm(part, known, part.earliest)
        return Followed(known.extended(part).with_alarm(), None, alarm)
    return Followed(known.extended(part))


def _of_old_log(part: Segment, known: Reached) -> Followed:
    """Late records keep their epoch; without a server only their time tells that they are late."""
    now = known.passed(part)
    if part.begin.server is not None or known.alarmed:
        return Followed(now)
    return Followed(now.with_alarm(), None, _alarm(part, known, part.earliest))


def _of_new_log(part: Segment, known: Reached) -> Followed:
    """A new epoch where it is proven; an alarm where it is not, or not from which record on."""
    begin, now = part.begin, known.restarted(part)
    is_new = known.is_new_server(begin)
    proven = is_new or begin.server != known.server or begin.proves
    restart, alarm = None, None
    if proven and now.started is not None:
        restart = Restart(part.domain, part.first, begin.position, begin.time, now.started)
    unsure_from = None if is_new else known.again_from
    is_doubtful = now.started is not None and part.earliest < now.started
    if not proven or unsure_from is not None or is_doubtful:
        alarm = _alarm(part, known, begin.time)._replace(first=unsure_from or part.first)
        now = now.with_alarm()
    return Followed(now, restart, alarm)


def _alarm(part: Segment, known: Reached, time: int) -> Alarm:
    before, after = (known.position, known.time), (part.begin.position, time)
    of_offsets = part.log.startswith(OFFSETS)
    return Alarm(part.domain, part.first, part.first, before, after, of_offsets)
