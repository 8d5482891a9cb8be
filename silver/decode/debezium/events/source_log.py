"""What records tell of the log of their server: how far it has come, and when it was committed.

Positions grow along a server's log, and records come in the order of that log. A record that comes
again (redelivery) has a lower position, but it was committed no later than what came before. So a
record that was committed later than all before it, at a lower position, is of another log. So is
one with a GTID that is new, whatever its time.

That holds for positions of commits. PostgreSQL's own position of a change does not tell, because
transactions that ran side by side are sent one after the other: the commit before it, the first
part of `source.sequence`, does: it is no lower than any change of an earlier transaction.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from silver.decode.debezium.events.envelope import Source
from silver.decode.debezium.events.order import (
    DB2_WIDTH,
    SPANNER,
    SQL_SERVER_WIDTH,
    postgresql_commit,
    postgresql_commits,
)
from silver.decode.values.json_values import text_of

_DIGITS = "0123456789"
OF_SNAPSHOT = ""
"""The position of the rows of a full snapshot: below every other, as they begin an epoch anyway."""
OFFSETS = "(offsets)"
"""How the name of a log begins whose positions are the topic's offsets, and whose places are those
in order of arrival: a topic that was made anew counts from 0. They prove nothing, as files can
arrive in any order."""


class Fact(NamedTuple):
    """What one record tells.

    Attributes:
        position: the position of its commit in canonical text.
        time: commit time in microseconds since 1970.
        server: the server that wrote the change, where the connector tells one.
        number: the number in the change's GTID, which grows with each transaction of the server.
        proves: whether a position that falls while commit times rise proves another log.
    """

    position: str
    time: int
    server: str | None = None
    number: int = 0
    proves: bool = False


class Segment(NamedTuple):
    """Records that follow one another in a domain, at positions that do not fall.

    Attributes:
        domain: topic and partition, as epochs count them.
        log: what else tells one sequence of records from others in the domain.
        first: place of the first record; sorts.
        last: place of the last one.
        begin: what the first record tells.
        commit: position of the last record's commit.
        position: the highest position, below which no later transaction has its commit.
        earliest: the earliest commit time.
        latest: the latest commit time.
        servers: all servers that wrote the changes, with the highest number in their GTIDs.
        server: the server of the last record.
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

    @property
    def name(self) -> str:
        """Domain and log as one text."""
        return f"{self.domain} {self.log}"


@dataclass(frozen=True)
class Reached:
    """How far the records of a domain have come in the log of one server.

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
        known = self.servers.keys() | self.old.keys()
        may_mix = part.begin.server is None or not known.isdisjoint(part.servers)
        is_late = self.since is not None and part.earliest <= self.since
        if may_mix and is_late and not self.is_all_old(part):
            return True
        if self.begins_anew(part.begin):
            return may_mix and part.earliest <= self.time
        if not self.falls(part.begin):
            return False
        is_new = any(n > self.servers.get(server, -1) for server, n in part.servers.items())
        return is_new or part.latest > self.time

    def extended(self, part: Segment) -> "Reached":
        """How far the records have come after a segment of the same log."""
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
            servers=highest(self.servers, part.servers),
            again_from=None,
        )

    def passed(self, part: Segment) -> "Reached":
        """The same after a segment that is of no account."""
        return replace(self, place=max(self.place, part.last))

    def with_alarm(self) -> "Reached":
        """The same with an alarm raised."""
        return replace(self, alarmed=True)

    def restarted(self, part: Segment) -> "Reached":
        """How far the records have come after the first segment of another log."""
        since = max(self.time, self.since or 0)
        return replace(
            begun(part),
            place=max(self.place, part.last),
            since=since,
            started=since + 1 if part.begin.time > since else part.begin.time,
            old=highest(self.old, self.servers),
        )


def begun(part: Segment) -> Reached:
    """How far the records have come after a first segment."""
    if part.position == OF_SNAPSHOT:
        return Reached(part.last)
    found = Reached(part.last, part.position, part.latest, part.server, part.servers)
    return replace(found, commit=part.commit)


def to_text(reached: Reached) -> str:
    """How far records have come, as JSON without what is not told."""
    told = asdict(reached).items()
    return json.dumps({n: v for n, v in told if v is not False and v not in (None, "", {})})


def from_text(text: str) -> Reached:
    """What `to_text` gave a text of."""
    return Reached(**json.loads(text))


def highest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """All servers, each with its highest number."""
    both = {**one, **other}
    return {server: max(one.get(server, -1), other.get(server, -1)) for server in both}


def commit_position(source: Source, sequence: str) -> str | None:
    """The position of a change's commit, or of the commit before it; None without one.

    `sequence` is the change's own. Positions of TiCDC, YDB, MongoDB, Spanner and CockroachDB are
    times of the whole cluster, which never start anew.
    """
    if source.connector == SPANNER or source.ts_hlc is not None:
        return None
    if source.lsn is not None or source.sequence is not None:
        return postgresql_commit(source)
    if source.commit_ts is not None or source.step is not None or source.ord is not None:
        return None
    if source.file is not None:
        return sequence
    if source.commit_lsn is not None:
        width = DB2_WIDTH if source.connector == "db2" else SQL_SERVER_WIDTH
        return sequence.replace("/", "")[:width]
    if source.commit_scn is not None:
        return sequence.partition("/")[0]
    return None


def commit_positions(sources: Sequence[Source], sequences: Sequence[str]) -> list[str | None]:
    """What `commit_position` gives of many records."""
    if all(s.lsn is not None and s.ts_hlc is None and s.connector != SPANNER for s in sources):
        found = postgresql_commits([source.sequence for source in sources])
        if found is not None:
            return [*found]
    return [commit_position(*one) for one in zip(sources, sequences, strict=True)]


def proves_restarts(source: Source) -> bool:
    """Whether a position that falls while commit times rise proves another log: PostgreSQL's."""
    return source.lsn is not None or source.sequence is not None


def server_of(source: Source) -> tuple[str | None, int]:
    """The server, and the number in its GTID: `uuid:number`, of MariaDB `domain-server-number`.

    Without a GTID the id of MySQL's server with the base name of its binlog, and 0.
    """
    gtid = source.gtid
    if gtid is not None:
        gtid = gtid if isinstance(gtid, str) else str(text_of(gtid))
        server, _, number = gtid.rpartition(":" if ":" in gtid else "-")
        return server, int(number) if number.isascii() and number.isdigit() else 0
    if not source.file:
        return None, 0
    return f"{source.server_id} {str(text_of(source.file)).rstrip(_DIGITS)}", 0
