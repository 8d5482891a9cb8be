"""Positions of a source that start anew: failover to another server, restore, a new cluster.

Positions grow along a server's log, and records come in the order of that log. A record that comes
again (redelivery) has a lower position, but it was committed no later than what came before. So a
record that was committed later than all before it, at a lower position, is of another log. So is
one with a GTID that is new in its domain, whatever its time.

That holds for positions of commits. PostgreSQL's own position of a change does not tell, because
transactions that ran side by side are sent one after the other: the commit before it, the first
part of `source.sequence`, does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from silver.decode.debezium.events.envelope import Source
from silver.decode.debezium.events.order import (
    DB2_WIDTH,
    SQL_SERVER_WIDTH,
    db2_sequence,
    mysql_sequence,
    oracle_sequence,
    postgresql_commit,
    sql_server_sequence,
)
from silver.decode.values.json_values import text_of


class Fact(NamedTuple):
    """What one record tells of its server's log.

    Attributes:
        domain: topic and partition, in which records are in order.
        place: the record's place in its domain; sorts.
        position: the position of its commit in canonical text; None for a row of a full snapshot,
            which begins an epoch anyway.
        time: commit time in microseconds since 1970.
        server: the server that wrote the change, where the connector tells one.
        number: the number in the change's GTID, which grows with each transaction of the server.
        proves: whether a position that falls while commit times rise proves another log.
    """

    domain: str
    place: str
    position: str | None
    time: int | None
    server: str | None = None
    number: int = 0
    proves: bool = False


@dataclass(frozen=True)
class Reached:
    """How far the records of a domain have come in the log of one server.

    Attributes:
        position: the highest position of a commit.
        time: the latest commit time.
        server: the server that wrote the change at that position.
        servers: all servers that wrote changes in this log, as several can replicate into one,
            with the highest number in their GTIDs.
        again_from: place of the first record below `position` since the last one that reached it;
            None while nothing is coming again.
    """

    position: str
    time: int
    server: str | None
    servers: Mapping[str, int]
    again_from: str | None = None


class Restart(NamedTuple):
    """A place where the positions of a domain begin to be those of another log.

    Attributes:
        domain: topic and partition.
        place: the first record that is known to be of the new log.
        position: its position.
        time: its commit time in microseconds since 1970; earlier changes are of the old log.
        server: the new server, where the connector tells one.
        before: how far the old log had come.
        proven: whether the records prove it, so that a new epoch may begin. Else positions run
            backwards for a reason that a person has to find: that is an alarm.
        unsure_from: the first of the records just before `place` that may be of either log,
            because they were committed no later than the old log's newest; None without any.
    """

    domain: str
    place: str
    position: str
    time: int
    server: str | None
    before: Reached
    proven: bool
    unsure_from: str | None


def find_restarts(
    facts: Iterable[Fact], reached: Mapping[str, Reached]
) -> tuple[list[Restart], dict[str, Reached]]:
    """Finds where positions start anew.

    Args:
        facts: what a batch's changes tell, those of one domain in order of their places; a change
            without a position or a commit time is left out.
        reached: how far earlier batches had come, by domain.

    Returns:
        The restarts, and how far all batches have come.
    """
    found: list[Restart] = []
    now = dict(reached)
    for fact in facts:
        if fact.position is None:
            now.pop(fact.domain, None)
            continue
        if fact.time is None:
            continue
        known = now.get(fact.domain)
        restart = None if known is None else _restart(fact, fact.position, fact.time, known)
        if restart is not None:
            found.append(restart)
            known = None
        now[fact.domain] = _after(fact, fact.position, fact.time, known)
    return found, now


def fact_of(domain: str, place: str, source: Source, time: int | None) -> Fact | None:
    """What a streamed change's source block tells; None for a connector of which nothing is told.

    `time` is the commit time. TiCDC's and YDB's positions are times of the whole cluster, which
    never start anew.
    """
    if source.commit_ts is not None or source.step is not None:
        return None
    fact = Fact(domain, place, _commit_position(source), time)
    if fact.position is None:
        return None
    if source.file is not None:
        server, number = _mysql_server(source)
        return fact._replace(server=server, number=number)
    return fact._replace(proves=source.sequence is not None and source.commit_lsn is None)


def _restart(fact: Fact, position: str, time: int, known: Reached) -> Restart | None:
    if position >= known.position:
        return None
    seen = None if fact.server is None else known.servers.get(fact.server, -1)
    is_new = seen is not None and fact.number > seen
    if not is_new and time <= known.time:
        return None
    proven = is_new or fact.server != known.server or fact.proves
    return Restart(
        fact.domain, fact.place, position, time, fact.server, known, proven, known.again_from
    )


def _after(fact: Fact, position: str, time: int, known: Reached | None) -> Reached:
    servers = {} if known is None else known.servers
    if fact.server is not None and servers.get(fact.server, -1) < fact.number:
        servers = {**servers, fact.server: fact.number}
    if known is None:
        return Reached(position, time, fact.server, servers)
    if position < known.position:
        return known if known.again_from else replace(known, again_from=fact.place)
    return Reached(position, max(time, known.time), fact.server, servers)


def _commit_position(source: Source) -> str | None:
    """The position of a change's commit, or of the commit before it; None without one."""
    if source.file is not None:
        return mysql_sequence(source)
    if source.commit_lsn is not None:
        is_db2 = source.connector == "db2"
        packed = db2_sequence(source) if is_db2 else sql_server_sequence(source)
        return packed and packed.replace("/", "")[: DB2_WIDTH if is_db2 else SQL_SERVER_WIDTH]
    if source.commit_scn is not None:
        sections = oracle_sequence(source, None)
        return sections and sections.partition("/")[0]
    return postgresql_commit(source)


def _mysql_server(source: Source) -> tuple[str | None, int]:
    """The server, and the number in its GTID: `uuid:number`, of MariaDB `domain-server-number`.

    Without a GTID the id of the server, and 0.
    """
    if source.gtid is not None:
        gtid = str(text_of(source.gtid))
        server = gtid.partition(":")[0] if ":" in gtid else gtid.rpartition("-")[0]
        number = gtid[len(server) :].rpartition(":" if ":" in gtid else "-")[2]
        return server, int(number) if number.isascii() and number.isdigit() else 0
    return None if source.server_id in (None, 0) else str(text_of(source.server_id)), 0
