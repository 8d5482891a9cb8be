"""Positions that start anew: found where a source moved, and never where records come again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from silver.decode.change import Change, Record
from silver.decode.columns import known_columns
from silver.decode.debezium.decoder import DebeziumDecoder
from silver.decode.debezium.events.connectors import connector_of
from silver.decode.debezium.events.envelope import Envelope, SourceBlock, SourceColumns
from silver.decode.debezium.events.log_follower import (
    LogFollower,
    SeenRecords,
    segments_of,
)
from silver.decode.debezium.events.order import ordered_change
from silver.decode.debezium.events.partition_log import Moves, PartitionLog, server_of
from silver.decode.debezium.events.source_log import (
    OFFSETS,
    Fact,
    Findings,
    Reached,
    Segment,
    find_restarts,
    from_text,
    is_late,
    to_text,
)
from tests.helpers.debezium_records import table, whole
from tests.helpers.flat_records import slice_of
from tests.helpers.records import SHOP, captured
from tests.properties.budget import count_examples

STREAMS = count_examples(30)


class Sent(NamedTuple):
    """A record of a topic's only partition."""

    offset: int
    position: int | None
    time: int
    server: str | None = None
    number: int = 0
    proves: bool = False


def segment(sent: Sent) -> Segment:
    text = "" if sent.position is None else f"{sent.position:016X}"
    fact = Fact(text, sent.time, sent.server, sent.number, sent.proves)
    place = f"{sent.offset:020d}"
    servers = {} if sent.server is None else {sent.server: sent.number}
    times = sent.time, sent.time
    return Segment("t/0", "", place, place, fact, text, text, *times, servers, sent.server)


def found_in(sent: list[Sent], reached: dict[str, Reached] | None = None) -> Findings:
    """What is found where every record is a segment of its own, so that nothing is unclear."""
    return find_restarts(map(segment, sent), reached or {}, lambda one, known: [])


def places(found: Findings) -> list[tuple[int, bool]]:
    """Where positions start anew, and whether that is proven."""
    proven = {(int(one.place), True) for one in found.restarts}
    alarms = {(int(one.last), False) for one in found.alarms}
    return sorted(proven | {one for one in alarms if (one[0], True) not in proven})


def test_a_lower_position_with_a_later_commit_is_of_another_log() -> None:
    sent = [Sent(0, 900, 10), Sent(1, 950, 20), Sent(2, 5, 30), Sent(3, 6, 31)]

    found = found_in(sent)

    assert places(found) == [(2, False)]
    assert found.alarms[0].before == (f"{950:016X}", 20)
    assert found.reached["t/0 "].position == f"{6:016X}"


def test_records_that_come_again_are_none() -> None:
    first = [Sent(n, 10 * n, n) for n in range(1, 6)]
    again = [one._replace(offset=n) for n, one in enumerate(first[2:], start=6)]

    found = found_in([*first, *again, Sent(9, 50, 5)])

    assert (found.restarts, found.alarms) == ([], [])
    known = found.reached["t/0 "]
    assert (known.position, known.again_from) == (f"{50:016X}", None)


def test_what_earlier_batches_reached_counts() -> None:
    before = {"t/0 ": Reached(f"{6:020d}", f"{900:016X}", 10)}

    assert places(found_in([Sent(7, 5, 11)], before)) == [(7, False)]
    assert places(found_in([Sent(7, 5, 10)], before)) == []
    other = segment(Sent(7, 5, 11))._replace(domain="t/1")
    assert find_restarts([other], before, lambda one, known: []).alarms == []


def test_a_full_snapshot_begins_anew_by_itself() -> None:
    assert places(found_in([Sent(0, 900, 10), Sent(1, None, 20), Sent(2, 5, 30)])) == []


@pytest.mark.parametrize(
    ("last", "proven"),
    [
        ({"server": "b"}, True),
        ({"server": "a"}, False),
        ({"server": "a", "number": 8}, True),
        ({"proves": True}, True),
        ({}, True),
    ],
)
def test_what_proves_another_log(last: dict[str, Any], proven: bool) -> None:
    sent = [Sent(0, 900, 10, "a", 7), Sent(1, 5, 30, **last)]

    assert places(found_in(sent)) == [(1, proven)]


def test_a_server_that_is_new_or_a_gtid_that_is_new_needs_no_later_commit() -> None:
    old = Sent(0, 900, 10, "a", 7)

    for new in (Sent(1, 5, 9, "b", 1), Sent(1, 5, 9, "a", 8)):
        [restart] = found_in([old, new]).restarts
        assert (restart.place, restart.started) == (f"{1:020d}", 9)
    assert places(found_in([old, Sent(1, 5, 9, "a", 7)])) == []


def test_records_that_may_be_of_either_log_are_named() -> None:
    [alarm] = found_in([Sent(0, 900, 10), Sent(1, 5, 9), Sent(2, 6, 10), Sent(3, 7, 11)]).alarms

    assert (int(alarm.first), int(alarm.last)) == (1, 3)


def test_records_that_came_again_from_a_server_with_a_name_are_of_its_log() -> None:
    again = [Sent(1, 890, 9, "a"), Sent(2, 5, 20, "b"), Sent(3, 895, 9, "a"), Sent(4, 6, 21, "b")]

    found = found_in([Sent(0, 900, 10, "a"), *again])

    assert [(int(one.place), one.started) for one in found.restarts] == [(2, 11)]
    assert found.alarms == []
    assert found.reached["t/0 "].position == f"{6:016X}"


@pytest.mark.parametrize("server", ["a", "b"])
def test_a_source_may_move_back(server: str) -> None:
    """The old server's log goes on, or begins anew; each time its changes are the newest."""
    sent = [Sent(0, 900, 10, server), Sent(1, 5, 20, "c"), Sent(2, 910, 30, server), Sent(3, 3, 40)]

    found = found_in(sent[:3])

    assert [int(one.place) for one in found.restarts] == [1]
    assert found.alarms == []
    assert [int(one.place) for one in found_in(sent).restarts] == [1, 3]


def test_changes_of_a_new_server_with_an_earlier_clock_raise_an_alarm() -> None:
    sent = [Sent(0, 900, 10, "a", 7), Sent(1, 5, 9, "b", 1), Sent(2, 6, 8, "b", 2)]

    found = found_in(sent)

    assert [int(one.last) for one in found.alarms] == [2]
    without = [one._replace(server=None, proves=True) for one in sent]
    late = found_in([without[0], Sent(1, 5, 12, proves=True), Sent(2, 6, 9, proves=True)])
    assert ([int(r.place) for r in late.restarts], len(late.alarms)) == ([1], 1)


def test_records_that_come_after_those_that_follow_them_are_late() -> None:
    reached = found_in([Sent(5, 900, 10)]).reached

    assert is_late([segment(Sent(4, 800, 9))], reached)
    assert not is_late([segment(Sent(6, 800, 9))], reached)


@pytest.mark.parametrize(
    ("source", "position", "server"),
    [
        ({"lsn": 7, "sequence": '["5","7"]'}, f"{5:016X}", (None, 0)),
        ({"lsn": 7, "sequence": '[null,"7"]'}, None, (None, 0)),
        ({"lsn": 7}, None, (None, 0)),
        (
            {"file": "b.000002", "pos": 5, "server_id": 101},
            f"{2:016X}/{5:016X}/{0:016X}",
            ("101 b.", 0),
        ),
        (
            {"file": "b.000002", "pos": 5, "server_id": 101, "gtid": "aa-bb:17"},
            f"{2:016X}/{5:016X}/{0:016X}",
            ("aa-bb", 17),
        ),
        (
            {"file": "b.000002", "pos": 5, "gtid": "0-1-17"},
            f"{2:016X}/{5:016X}/{0:016X}",
            ("0-1", 17),
        ),
        (
            {"file": "b.3", "pos": 4, "gtid": "uuid:nightly:17"},
            f"{3:016X}/{4:016X}/{0:016X}",
            ("uuid:nightly", 17),
        ),
        (
            {"file": "binlog-000003.ibb", "pos": 0, "gtid": "0-1-17"},
            f"{3:016X}/{17:016X}/{0:016X}",
            ("0-1", 17),
        ),
        (
            {"file": "binlog-000003.ibb", "pos": 0, "server_id": 5},
            f"{3:016X}/{0:016X}/{0:016X}",
            ("5 binlog-", 0),
        ),
        ({"commit_lsn": "0000002a:00000d50:0003"}, "0000002A00000D500003", (None, 0)),
        (
            {"connector": "db2", "commit_lsn": "00000000:00001e36:000000000004a1b4"},
            "0000000000001E36000000000004A1B4",
            (None, 0),
        ),
        ({"connector": "informix", "commit_lsn": "42"}, f"{42:016X}", (None, 0)),
        ({"commit_scn": "9", "scn": "8"}, f"{9:016X}", (None, 0)),
        ({"file": "", "commit_ts": 9}, None, (None, 0)),
        ({"step": 9, "txId": 5}, None, (None, 0)),
        ({"ord": 9, "ts_ms": 5}, None, (None, 0)),
        ({"connector": "spanner", "ts_ms": 5, "sequence": "1"}, None, (None, 0)),
        ({"ts_hlc": "5.0000000000"}, None, (None, 0)),
    ],
)
def test_what_a_source_block_tells(
    source: dict[str, Any], position: str | None, server: tuple[str | None, int]
) -> None:
    block = SourceBlock(**source)
    sequence = ordered_change(Envelope(source=block, op="u"), "upsert").sequence

    assert sequence is not None
    connector = connector_of(block)
    commits = connector and connector.commits
    found = commits(SourceColumns([block]), pa.array([sequence])).to_pylist() if commits else [None]
    assert found == [position]
    assert server_of(block) == server


@dataclass
class Log:
    """The log of one server: transactions that run side by side, in order of commit."""

    chance: random.Random
    clock: int
    position: int
    server: str
    number: int = 0
    last_commit: int = 0
    open: list[list[tuple[int, int]]] = field(default_factory=list)

    def commits(self, many: int) -> Iterator[dict[str, Any]]:
        """So many transactions; each change has the position where it was written."""
        done = 0
        while done < many:
            if len(self.open) < 3 and self.chance.random() < 0.6:
                self.open.append([])
            running = self.chance.choice(self.open) if self.open else None
            if running is None:
                continue
            if self.chance.random() < 0.6:
                self.position += self.chance.randrange(1, 9)
                locked = {k for other in self.open if other is not running for _, k in other}
                free = [key for key in range(9) if key not in locked]
                running += [(self.position, self.chance.choice(free))] if free else []
                continue
            self.open.remove(running)
            self.position += 1
            self.clock += max(0, self.chance.randrange(-9, 50))
            self.number += 1
            for lsn, key in running:
                yield self.change(lsn, key)
            self.last_commit = self.position
            done += 1

    def change(self, lsn: int, key: int) -> dict[str, Any]:
        return {
            "lsn": lsn,
            "commit": self.position,
            "before": self.last_commit,
            "key": key,
            "time": self.clock,
            "server": self.server,
            "number": self.number,
        }


def with_redelivery(chance: random.Random, changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes, parts of which come again after the connector was killed."""
    sent: list[dict[str, Any]] = []
    for at, change in enumerate(changes):
        if at and chance.random() < 0.05:
            sent += changes[max(0, at - chance.randrange(1, 20)) : at]
        sent.append(change)
    return sent


class Seen(NamedTuple):
    """A record with its source block, and the change that it says."""

    record: Record
    envelope: Envelope
    change: Change


def records_of(connector: str, sent: list[dict[str, Any]]) -> list[Seen]:
    """The changes as records of two partitions, by offset."""
    return [_seen(connector, at, change) for at, change in enumerate(sent)]


def _seen(connector: str, at: int, change: dict[str, Any]) -> Seen:
    commit = change["commit"]
    sources = {
        "postgresql": {"lsn": change["lsn"], "sequence": f'["{change["before"]}","1"]'},
        "mysql": {"file": "b.000001", "pos": commit, "server_id": change["server"]},
        "mysql with gtid": {
            "file": "b.000001",
            "pos": commit,
            "gtid": f"{change['server']}:{change['number']}",
        },
        "sqlserver": {
            "commit_lsn": f"{commit:08x}:00000000:0001",
            "change_lsn": str(change["lsn"]),
        },
        "oracle": {"commit_scn": str(commit), "scn": str(change["lsn"])},
    }
    source = SourceBlock(**sources[connector], ts_us=change["time"])
    partition = change["key"] % 2
    record = Record(b"", None, None, "t", partition, at, None, 0, f"{at:08X}")
    envelope = Envelope(source=source, op="u")
    return Seen(record, envelope, ordered_change(envelope, "upsert"))


def followed(records: list[Seen], reached: dict[str, Reached]) -> list[Segment]:
    """What one task keeps of the records."""
    follower = LogFollower(reached)
    if records:
        follower.follow(as_seen(records))
    text = follower.segments()
    return [] if text is None else segments_of([text])


def in_batches(chance: random.Random, records: list[Seen], longest: int = 40) -> Findings:
    """What is found where the records come in batches, of which each is cut into tasks."""

    def exact(segment: Segment, known: Reached) -> list[Segment]:
        within = [
            one
            for one in records
            if segment.domain == f"t/{one.record.partition}"
            and segment.first <= _place(segment, one.record) <= segment.last
        ]
        again = followed(within, {segment.name: known})
        return [one for one in again if one.name == segment.name]

    whole, rest = Findings([], [], {}), records
    while rest:
        size = chance.randrange(1, longest)
        batch, rest = rest[:size], rest[size:]
        segments: list[Segment] = []
        while batch:
            size = chance.randrange(1, longest)
            segments += followed(batch[:size], {})
            batch = batch[size:]
        chance.shuffle(segments)
        found = find_restarts(segments, whole.reached, exact)
        whole = Findings(
            whole.restarts + found.restarts, whole.alarms + found.alarms, found.reached
        )
    return whole


def _place(segment: Segment, record: Record) -> str:
    return record.arrival if segment.log.startswith(OFFSETS) else f"{record.offset:020d}"


CONNECTORS = ("postgresql", "mysql", "mysql with gtid", "sqlserver", "oracle")


@pytest.mark.parametrize("connector", CONNECTORS)
def test_interleaved_transactions_and_redelivery_raise_no_false_alarm(connector: str) -> None:
    for seed in range(STREAMS // len(CONNECTORS)):
        chance = random.Random(f"{connector} {seed}")
        log = Log(chance, clock=1_000, position=100, server="aa")
        sent = with_redelivery(chance, list(log.commits(30)))

        found = in_batches(chance, records_of(connector, sent))

        assert (found.restarts, found.alarms) == ([], []), seed


def moved(chance: random.Random) -> list[dict[str, Any]]:
    """Changes of a server, then of another one; each delivers some of its own again.

    The other server's log may begin just below where the old one ended, and a record of the old
    server may come late.
    """
    old = Log(chance, clock=1_000, position=5_000, server="aa")
    sent = with_redelivery(chance, list(old.commits(chance.randrange(5, 25))))
    if chance.random() < 0.3:
        again = sent[-chance.randrange(5, 50) :]
        sent += again[: chance.randrange(1, 5)]
    start = chance.choice([0, 10, 4_900, 6_000, old.position - chance.randrange(99)])
    new = Log(chance, clock=old.clock + chance.randrange(1, 99), position=start, server="bb")
    new.last_commit = start
    moved = with_redelivery(chance, list(new.commits(chance.randrange(5, 25))))
    if sent and chance.random() < 0.3:
        moved.insert(chance.randrange(len(moved) + 1), chance.choice(sent))
    return sent + moved


def epoch(found: Findings, one: Seen) -> int:
    """The number of the epoch of a change, as `silver.state.epochs` counts them."""
    number = 0
    for at, restart in enumerate(sorted(found.restarts, key=lambda r: r.started), start=1):
        is_here = restart.domain == f"t/{one.record.partition}"
        begins = not is_here or f"{one.record.offset:020d}" >= restart.place
        if begins and (one.change.source_time or 0) >= restart.started:
            number = at
    return number


@pytest.mark.parametrize("connector", CONNECTORS)
def test_no_change_of_a_new_server_is_lost_in_silence(connector: str) -> None:
    """Either the newest change of every key wins, or an alarm is raised."""
    proven = 0
    for seed in range(STREAMS // len(CONNECTORS)):
        chance = random.Random(f"{connector} moved {seed}")
        sent = moved(chance)
        records = records_of(connector, sent)

        found = in_batches(chance, records)

        proven += bool(found.restarts) and not found.alarms
        if found.alarms:
            continue
        order = [(epoch(found, one), one.change.sequence or "") for one in records]
        for key in range(9):
            of_key = [at for at, change in enumerate(sent) if change["key"] == key]
            if not of_key:
                continue
            newest = max(of_key, key=lambda at: order[at])
            expected = max(of_key, key=lambda at: _by_commit(sent[at]))
            assert sent[newest]["commit"] == sent[expected]["commit"], seed
    by_proof = connector in ("postgresql", "mysql", "mysql with gtid")
    assert (proven > STREAMS // len(CONNECTORS) // 5) == by_proof


@pytest.mark.parametrize("connector", CONNECTORS)
def test_any_cut_into_batches_and_tasks_finds_the_same(connector: str) -> None:
    for seed in range(STREAMS // len(CONNECTORS)):
        chance = random.Random(f"{connector} cut {seed}")
        records = records_of(connector, moved(chance))

        one_by_one = in_batches(chance, records, 2)

        for longest in (5, 40, 1_000):
            found = in_batches(chance, records, longest)
            assert sorted(found.restarts) == sorted(one_by_one.restarts), seed
            assert found.reached == one_by_one.reached, seed
            assert sorted(found.alarms) == sorted(one_by_one.alarms), seed


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("one_partition", [True, False])
def test_records_seen_together_tell_what_they_tell_one_by_one(
    connector: str, one_partition: bool
) -> None:
    for seed in range(STREAMS // len(CONNECTORS)):
        chance = random.Random(f"{connector} together {seed}")
        records = records_of(connector, moved(chance))
        if one_partition:
            records = [one for one in records if one.record.partition == 0]
        reached = in_batches(chance, records[: len(records) // 3]).reached
        rest, together = records[len(records) // 3 :], LogFollower(reached)
        while rest:
            size = chance.choice([1, 9, 40])
            together.follow(as_seen(rest[:size]))
            rest = rest[size:]

        text = together.segments()
        found = [] if text is None else segments_of([text])
        assert sorted(found) == sorted(followed(records[len(records) // 3 :], reached)), seed


def as_seen(seen: list[Seen]) -> SeenRecords:
    """The records as a slice has them."""
    records, envelopes, changes = (list(part) for part in zip(*seen, strict=True))
    return SeenRecords(
        topics=pa.array([record.topic for record in records], pa.string()),
        partitions=pa.array([record.partition for record in records], pa.int32()),
        offsets=pa.array([record.offset for record in records], pa.int64()),
        arrivals=pa.array([record.arrival for record in records], pa.string()),
        stamps=pa.array([record.timestamp for record in records], pa.int64()),
        reads=pa.array([envelope.op == "r" for envelope in envelopes], pa.bool_()),
        sources=SourceColumns([envelope.source for envelope in envelopes]),
        sequences=pa.array([change.sequence for change in changes], pa.string()),
        times=pa.array([change.source_time for change in changes], pa.int64()),
        of_snapshots=pa.array([bool(change.snapshot) for change in changes], pa.bool_()),
    )


def _by_commit(change: dict[str, Any]) -> tuple[bool, int, int]:
    return change["server"] == "bb", change["commit"], change["lsn"]


@pytest.mark.parametrize("connector", CONNECTORS)
def test_changes_in_disorder_make_one_segment_and_no_alarm(connector: str) -> None:
    chance = random.Random(connector)
    log = Log(chance, clock=1_000, position=100, server="aa")
    sent = sorted(log.commits(300), key=lambda one: (one["commit"], one["lsn"]))
    for at, one in enumerate(sent):  # each is a transaction
        one |= {"key": 0, "lsn": 10 * at + 5, "commit": 10 * at + 6, "before": 10 * at - 4}
        one |= {"time": 1_000 + at, "number": at}
    late = with_redelivery(chance, sent)
    chance.shuffle(late)
    records = records_of(connector, [sent[0], *late])

    segments = [one for one in followed(records, {}) if not one.log.startswith(OFFSETS)]
    found = find_restarts(segments, {}, lambda one, known: [])

    assert (len(segments), found.restarts, found.alarms) == (1, [], [])


def test_how_far_records_have_come_is_the_same_as_text() -> None:
    moved = [Sent(0, 900, 10, "a", 7), Sent(1, 5, 20, "b", 1), Sent(2, 4, 20, "b", 0)]
    for sent in (moved, [Sent(3, None, 5)]):
        (reached,) = found_in(sent).reached.values()
        assert from_text(to_text(reached)) == reached


CAPTURES = sorted(path.name.split(".")[0] for path in (SHOP / "events").glob("*.jsonl.gz"))


@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_real_connector_that_is_killed_and_takes_snapshots_raises_no_alarm(
    capture: str, size: int
) -> None:
    """Each part of the records is decoded by another task."""
    sent, of = whole(*captured(capture)), table()
    segments: list[Segment] = []
    for start in range(0, len(sent), size):
        decoder = DebeziumDecoder(of, known_columns(of, {}))
        decoder.read(slice_of(sent[start : start + size]))
        segments += segments_of([decoder.segments() or "[]"])

    found = find_restarts(segments, {}, lambda segment, known: [])

    assert (found.restarts, found.alarms) == ([], [])
    assert any(reached.position for reached in found.reached.values())


def file_record(
    at: int,
    offset: int,
    time: int | None,
    timestamp: int | None = None,
    db: str | None = None,
    op: str = "u",
) -> Seen:
    """A record that a dropped file brings as the one at this place in order of arrival."""
    record = Record(b"", None, None, "t", 0, offset, timestamp, 0, f"{at:08X}")
    source = SourceBlock(ts_us=time, db=db)
    envelope = Envelope(source=source, op=op)
    return Seen(record, envelope, ordered_change(envelope, "upsert"))


def anew(chance: random.Random) -> tuple[list[Seen], int]:
    """Records of a topic, then those of one that was made anew; the first commit time of these.

    The old topic's files come in any order; those of either may come again.
    """
    old, new = chance.randrange(1, 30), chance.randrange(1, 30)
    sent = [[(n, 1_000 + 10 * n) for n in range(old)], [(n, 5_000 + 10 * n) for n in range(new)]]
    files: list[list[tuple[int, int]]] = []
    for topic in sent:
        size = chance.randrange(1, 9)
        own = [topic[at : at + size] for at in range(0, len(topic), size)]
        if topic is sent[0]:
            chance.shuffle(own)
        files += [*own, chance.choice(own)] if chance.random() < 0.5 else own
    of_files = [one for file in files for one in file]
    return [file_record(at, *one) for at, one in enumerate(of_files)], 5_000


def test_offsets_that_begin_anew_with_later_times_are_an_alarm() -> None:
    first = [file_record(n, n, 1_000 + n) for n in range(5)]
    second = [file_record(5 + n, n, 2_000 + n) for n in range(3)]

    found = find_restarts(followed([*first, *second], {}), {}, lambda one, known: [])

    assert found.restarts == []
    assert [(one.before, one.after, one.of_offsets) for one in found.alarms] == [
        ((f"{5:016X}", 1_004), (f"{0:016X}", 2_000), True)
    ]
    again = find_restarts(followed(second, {}), found.reached, lambda one, known: [])
    assert (again.restarts, again.alarms) == ([], [])


def test_a_source_that_lags_behind_another_one_in_its_topic_is_no_topic_that_was_made_anew() -> (
    None
):
    times = [9_000, 100, 9_001, 101, 9_002, 102]
    names = ["ahead", "behind"] * 3
    sent = [(n, time, name) for n, (time, name) in enumerate(zip(times, names, strict=True))]
    files = [sent[3:], sent[:3]]
    of_files = enumerate(chain(*files))
    records = [file_record(at, offset, time, db=db) for at, (offset, time, db) in of_files]

    found = find_restarts(followed(records, {}), {}, lambda one, known: [])

    assert (found.restarts, found.alarms) == ([], [])


def test_rows_of_a_snapshot_that_were_read_later_are_no_topic_that_was_made_anew() -> None:
    late = [file_record(n, n, 1_000 + n) for n in range(5, 9)]
    read = [file_record(10 + n, n, 9_000, op="r") for n in range(5)]

    found = find_restarts(followed([*late, *read], {}), {}, lambda one, known: [])

    assert (found.restarts, found.alarms) == ([], [])


def test_files_that_come_late_or_again_are_no_topic_that_was_made_anew() -> None:
    sent = [(n, 1_000 + n) for n in range(40)]
    for seed in range(STREAMS // 10):
        chance = random.Random(f"late {seed}")
        files = [sent[at : at + 7] for at in range(0, len(sent), 7)]
        files.append(chance.choice(files))
        chance.shuffle(files)
        records = [file_record(at, *one) for at, one in enumerate(chain(*files))]

        found = in_batches(chance, records)

        assert (found.restarts, found.alarms) == ([], []), seed


def test_a_topic_that_was_made_anew_is_always_told() -> None:
    for seed in range(STREAMS):
        chance = random.Random(f"anew {seed}")
        records, begin = anew(chance)

        found = in_batches(chance, records)

        assert found.restarts == [], seed
        assert any(one.after[1] >= begin for one in found.alarms), seed


def test_without_a_time_at_the_source_offsets_that_begin_anew_are_an_alarm() -> None:
    sent = [file_record(n, n, None, 1_000 + n) for n in range(5)]
    sent += [file_record(5 + n, n, None, 2_000 + n) for n in range(3)]

    found = find_restarts(followed(sent, {}), {}, lambda one, known: [])

    assert found.restarts == []
    assert [(one.before[0], one.after[0]) for one in found.alarms] == [(f"{5:016X}", f"{0:016X}")]


@pytest.mark.parametrize(
    "positions",
    [list(range(20)), [f"{n:016X}" for n in range(1, 21)]],
    ids=["offsets", "sequences"],
)
def test_records_that_simply_go_on_are_followed_together(
    monkeypatch: pytest.MonkeyPatch, positions: list[Any]
) -> None:
    alone: list[int] = []
    follow_each = PartitionLog._follow_each

    def counted(log: PartitionLog, moves: Moves) -> None:
        alone.append(len(moves.times))
        follow_each(log, moves)

    monkeypatch.setattr(PartitionLog, "_follow_each", counted)
    log, places = PartitionLog("t/0", "s", None), [f"{n:020d}" for n in range(20)]
    given = pa.array(positions)
    log.follow(Moves(pa.array(places), given, given, np.full(20, 5), None))
    assert (sum(alone), len(log.segments())) == (1, 1)


def test_a_server_is_known_by_the_rows_of_an_incremental_snapshot_alone() -> None:
    def record(at: int, op: str, **given: object) -> Seen:
        source = SourceBlock(connector="mysql", name="s", ts_us=1_000_000 * at, **given)
        envelope = Envelope(source=source, op=op)
        own = Record(b"", None, None, "t", 0, at, None, 0, f"{at:08X}")
        return Seen(own, envelope, ordered_change(envelope, "upsert"))

    old = {"snapshot": "incremental", "gtid": "aaaa:9", "file": "b.000003", "pos": 40}
    rows = [record(1, "r", **old), record(2, "r", **old)]
    new = record(3, "d", gtid="bbbb:1", file="b.000001", pos=4)
    [restart] = find_restarts(followed([*rows, new], {}), {}, lambda one, known: []).restarts

    assert (restart.place, restart.started) == (f"{3:020d}", 2_000_001)
