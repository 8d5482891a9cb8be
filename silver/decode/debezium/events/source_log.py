"""How far records have come in the log of their server, and where another log begins.

Positions grow along a server's log, and records come in the order of that log. A record that comes
again (redelivery) has a lower position, but it was committed no later than what came before. So a
record that was committed later than all before it, at a lower position, is of another log. So is
one with a GTID that is new, whatever its time.

That holds for positions of commits. PostgreSQL's own position of a change does not count,
because transactions that ran side by side are sent one after the other. The commit before it, the
first part of `source.sequence`, does: it is no lower than any change of an earlier transaction.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

OF_SNAPSHOT = ""
"""The position of the rows of a full snapshot: below every other, as they begin an epoch anyway."""
OFFSETS = "(offsets)"
"""How the name of a log begins whose positions are the topic's offsets, and whose places are those
in order of arrival: a topic that was made anew counts from 0. They prove nothing, as files can
arrive in any order."""


class Fact(NamedTuple):
    """The position of one record in the log.

    Attributes:
        position: the position of its commit in canonical text.
        time: commit time in microseconds since 1970.
        server: the server that wrote the change, where the connector names one.
        number: the number in the change's GTID, which grows with each transaction of the server.
        proves: whether a position that falls while commit times rise proves another log.
    """

    position: str
    time: int
    server: str | None = None
    number: int = 0
    proves: bool = False


class Segment(NamedTuple):
    """Records that follow one another in a partition, at positions that do not fall.

    Among them are records that come again: of lower positions, committed no later than what came
    before, by servers that are known.

    Attributes:
        domain: topic and partition, as epochs count them.
        log: what else distinguishes one sequence of records from others in the partition.
        first: place of the first record; sorts.
        last: place of the last one.
        begin: the first record.
        commit: position of the commit of the last record that did not come again.
        position: the highest position, below which no later transaction has its commit.
        earliest: the earliest commit time.
        latest: the latest commit time.
        servers: all servers that wrote the changes, with the highest number in their GTIDs.
        server: the server of the last record that did not come again.
        again_from: place of the first record since that one, all of which come again; None where
            there is none.
    """

    domain: str
    log: str
    first: str
    last: str
    begin: Fact
    commit: str
    position: str
    earliest: int
    latest: int
    servers: Mapping[str, int]
    server: str | None
    again_from: str | None = None

    @property
    def name(self) -> str:
        """Domain and log as one text."""
        return f"{self.domain} {self.log}"


@dataclass(frozen=True)
class Reached:
    """The log position of a partition: how far its records have come in one server's log.

    Attributes:
        place: the last record's.
        position: the highest position, below which no later transaction has its commit.
        commit: position of the last commit.
        time: the latest commit time.
        server: the server that wrote the change at that position.
        servers: all servers that wrote changes in this log, as several can replicate into one,
            with the highest number in their GTIDs.
        again_from: place of the first record below `position` since the last one that reached it;
            None while nothing is coming again.
        since: the latest commit time of the logs before this one; None where there was none.
        started: commit time from which on changes count as this log's.
        old: the servers of the logs before, with the highest number in their GTIDs.
        alarmed: whether changes of this log were found that may be of either log.
    """

    place: str
    position: str = OF_SNAPSHOT
    time: int = 0
    server: str | None = None
    servers: Mapping[str, int] = field(default_factory=dict)
    again_from: str | None = None
    since: int | None = None
    started: int | None = None
    old: Mapping[str, int] = field(default_factory=dict)
    commit: str = OF_SNAPSHOT
    alarmed: bool = False

    def is_old(self, fact: Fact) -> bool:
        """Whether a record is a late one of a log before this one."""
        if self.since is None or fact.time > self.since:
            return False
        return fact.server is None or fact.number <= self.old.get(fact.server, -1)

    def falls(self, fact: Fact) -> bool:
        """Whether a record has a lower position; not as one of the last transaction."""
        if not OF_SNAPSHOT < fact.position < self.position:
            return False
        return fact.position != self.commit or fact.time != self.time

    def begins_anew(self, fact: Fact) -> bool:
        """Whether a record is of another, newer log."""
        if not self.falls(fact) or self.is_old(fact):
            return False
        return self.is_new_server(fact) or fact.time > self.time

    def is_new_server(self, fact: Fact) -> bool:
        """Whether the server that wrote a change, or its GTID, is new in this log."""
        return fact.server is not None and fact.number > self.servers.get(fact.server, -1)

    def is_all_old(self, part: Segment) -> bool:
        """Whether all records of a segment are late ones of a log before this one."""
        if self.since is None or part.latest > self.since:
            return False
        return all(n <= self.old.get(server, -1) for server, n in part.servers.items())

    def is_unclear(self, part: Segment) -> bool:
        """Whether records within a segment may be of another log than its first one."""
        if part.position == OF_SNAPSHOT or part.first == part.last:
            return False
        servers = self.servers.keys() | self.old.keys()  # which may not distinguish the records
        may_mix = part.begin.server is None or not servers.isdisjoint(part.servers)
        is_late = self.since is not None and part.earliest <= self.since
        if may_mix and is_late and not self.is_all_old(part):
            return True
        if self.begins_anew(part.begin):
            return may_mix and part.earliest <= self.time
        if not self.falls(part.begin):
            return False
        is_known = merge_servers(self.servers, part.servers) == {**self.servers}
        return part.latest > self.time or not is_known

    def extended(self, part: Segment) -> "Reached":
        """The log position after a segment of the same log."""
        place = max(self.place, part.last)
        if self.falls(part.begin) and part.position < self.position:
            return replace(self, place=place, again_from=self.again_from or part.first)
        return replace(
            self,
            place=place,
            position=max(self.position, part.position),
            commit=part.commit,
            time=max(self.time, part.latest),
            server=part.server,
            servers=merge_servers(self.servers, part.servers),
            again_from=part.again_from,
        )

    def restarted(self, part: Segment) -> "Reached":
        """The log position after the first segment of another log."""
        since = max(self.time, self.since or 0)
        return replace(
            start_log(part),
            place=max(self.place, part.last),
            since=since,
            started=since + 1 if part.begin.time > since else part.begin.time,
            old=merge_servers(self.old, self.servers),
        )


def start_log(part: Segment) -> Reached:
    """The log position after a first segment."""
    if part.position == OF_SNAPSHOT:
        return Reached(part.last)
    given = part.last, part.position, part.latest, part.server, part.servers
    return Reached(*given, commit=part.commit, again_from=part.again_from)


def to_text(reached: Reached) -> str:
    """The log position as JSON, without empty members."""
    members = asdict(reached).items()
    return json.dumps({n: v for n, v in members if v is not False and v not in (None, "", {})})


def from_text(text: str) -> Reached:
    """The log position that `to_text` wrote."""
    return Reached(**json.loads(text))


def merge_servers(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """All servers, each with its highest number."""
    both = {**one, **other}
    return {server: max(one.get(server, -1), other.get(server, -1)) for server in both}


Exact = Callable[[Segment, Reached], list[Segment]]
"""Follows the records of a segment once more, knowing how far those before had come."""


class Restart(NamedTuple):
    """A place where the positions of a partition begin to be those of another log.

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
    """The log position after a segment, and the restart or alarm that the segment shows."""

    reached: Reached
    restart: Restart | None = None
    alarm: Alarm | None = None


class Findings(NamedTuple):
    """Restarts and uncertain ones that segments show, and the log positions after them."""

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
        exact: called for a segment that leaves open which log its records are of.
    """
    findings = Findings([], [], dict(reached))
    for segment in sorted(segments, key=lambda one: (one.name, one.first, one.last)):
        before, parts = findings.reached.get(segment.name), [segment]
        if before is not None and before.is_unclear(segment):
            parts = exact(segment, before) or parts
        for part in parts:
            step = follow_segment(part, findings.reached.get(part.name))
            findings.reached[part.name] = step.reached
            findings.restarts.extend([step.restart] if step.restart else [])
            findings.alarms.extend([step.alarm] if step.alarm else [])
    return findings


def is_late(segments: Iterable[Segment], reached: Mapping[str, Reached]) -> bool:
    """Whether a segment begins before records that were followed already."""
    pairs = ((segment.first, reached.get(segment.name)) for segment in segments)
    return any(place is not None and first <= place.place for first, place in pairs)


def follow_segment(part: Segment, reached: Reached | None) -> Followed:
    """Adds a segment, all of one log, to the log position."""
    if reached is None or part.position == OF_SNAPSHOT:
        return Followed(start_log(part))
    if reached.is_all_old(part):  # keeps its epoch; without a server id it raises an alarm
        now = replace(reached, place=max(reached.place, part.last))
        if part.begin.server is not None or reached.alarmed:
            return Followed(now)
        alarm = _build_alarm(part, reached, part.earliest)
        return Followed(replace(now, alarmed=True), None, alarm)
    if reached.begins_anew(part.begin):
        return _follow_new_log(part, reached)
    if reached.started is not None and part.earliest < reached.started and not reached.alarmed:
        alarm = _build_alarm(part, reached, part.earliest)
        return Followed(replace(reached.extended(part), alarmed=True), None, alarm)
    return Followed(reached.extended(part))


def _follow_new_log(part: Segment, reached: Reached) -> Followed:
    """A new epoch where it is proven; an alarm where it is not, or not from which record on."""
    begin, now = part.begin, reached.restarted(part)
    started, alarm = now.started or 0, None
    is_new = reached.is_new_server(begin)
    proven = is_new or begin.server != reached.server or begin.proves
    restart = Restart(part.domain, part.first, begin.position, begin.time, started)
    unsure_from = None if is_new else reached.again_from
    if not proven or unsure_from is not None or part.earliest < started:
        alarm = _build_alarm(part, reached, begin.time)._replace(first=unsure_from or part.first)
        now = replace(now, alarmed=True)
    return Followed(now, restart if proven else None, alarm)


def _build_alarm(part: Segment, reached: Reached, time: int) -> Alarm:
    before, after = (reached.position, reached.time), (part.begin.position, time)
    of_offsets = part.log.startswith(OFFSETS)
    return Alarm(part.domain, part.first, part.first, before, after, of_offsets)
