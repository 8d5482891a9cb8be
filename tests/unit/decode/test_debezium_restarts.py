"""Positions that start anew: found where a source moved, and never where records come again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from silver.decode.debezium.events.envelope import Source
from silver.decode.debezium.events.restarts import Fact, Reached, Restart, fact_of, find_restarts
from tests.properties.budget import GIVEN

STREAMS = int(GIVEN or 1_000)


def fact(place: int, position: int | None, time: int | None, **more: Any) -> Fact:
    text = None if position is None else f"{position:016X}"
    return Fact("t/0", f"{place:020d}", text, time, **more)


def places(found: list[Restart]) -> list[tuple[int, bool]]:
    return [(int(one.place), one.proven) for one in found]


def test_a_lower_position_with_a_later_commit_is_of_another_log() -> None:
    facts = [fact(0, 900, 10), fact(1, 950, 20), fact(2, 5, 30), fact(3, 6, 31)]

    found, reached = find_restarts(facts, {})

    assert places(found) == [(2, False)]
    assert found[0].before.position == f"{950:016X}"
    assert reached["t/0"].position == f"{6:016X}"


def test_records_that_come_again_are_none() -> None:
    first = [fact(n, 10 * n, n) for n in range(5)]
    again = [one._replace(place=f"{n:020d}") for n, one in enumerate(first[2:], start=5)]

    found, reached = find_restarts([*first, *again, fact(9, 50, 5)], {})

    assert found == []
    assert (reached["t/0"].position, reached["t/0"].again_from) == (f"{50:016X}", None)


def test_what_earlier_batches_reached_counts() -> None:
    before = {"t/0": Reached(f"{900:016X}", 10, None, {})}

    assert places(find_restarts([fact(7, 5, 11)], before)[0]) == [(7, False)]
    assert find_restarts([fact(7, 5, 10)], before)[0] == []
    assert find_restarts([fact(7, 5, 11)._replace(domain="t/1")], before)[0] == []


def test_a_full_snapshot_begins_anew_by_itself() -> None:
    facts = [fact(0, 900, 10), fact(1, None, None), fact(2, 5, 30)]

    assert find_restarts(facts, {})[0] == []


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
    facts = [fact(0, 900, 10, server="a", number=7), fact(1, 5, 30, **last)]

    assert places(find_restarts(facts, {})[0]) == [(1, proven)]


def test_a_server_that_is_new_or_a_gtid_that_is_new_needs_no_later_commit() -> None:
    old = fact(0, 900, 10, server="a", number=7)

    assert places(find_restarts([old, fact(1, 5, 9, server="b", number=1)], {})[0]) == [(1, True)]
    assert places(find_restarts([old, fact(1, 5, 9, server="a", number=8)], {})[0]) == [(1, True)]
    assert find_restarts([old, fact(1, 5, 9, server="a", number=7)], {})[0] == []


def test_records_that_may_be_of_either_log_are_named() -> None:
    facts = [fact(0, 900, 10), fact(1, 5, 9), fact(2, 6, 10), fact(3, 7, 11)]

    [found] = find_restarts(facts, {})[0]

    assert (found.unsure_from, int(found.place)) == (f"{1:020d}", 3)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"lsn": 7, "sequence": '["5","7"]'}, (f"{5:016X}", None, 0, True)),
        ({"lsn": 7, "sequence": '[null,"7"]'}, None),
        ({"lsn": 7}, None),
        (
            {"file": "b.000002", "pos": 5, "server_id": 101},
            (f"{2:016X}/{5:016X}/{0:016X}", "101", 0, False),
        ),
        (
            {"file": "b.000002", "pos": 5, "server_id": 101, "gtid": "aa-bb:17"},
            (f"{2:016X}/{5:016X}/{0:016X}", "aa-bb", 17, False),
        ),
        (
            {"file": "b.000002", "pos": 5, "gtid": "0-1-17"},
            (f"{2:016X}/{5:016X}/{0:016X}", "0-1", 17, False),
        ),
        ({"commit_lsn": "0000002a:00000d50:0003"}, ("0000002A00000D500003", None, 0, False)),
        (
            {"connector": "db2", "commit_lsn": "00000000:00001e36:000000000004a1b4"},
            ("0000000000001E36000000000004A1B4", None, 0, False),
        ),
        ({"commit_scn": "9", "scn": "8"}, (f"{9:016X}", None, 0, False)),
        ({"file": "", "commit_ts": 9}, None),
        ({"step": 9, "txId": 5}, None),
        ({"db": "shop"}, None),
    ],
)
def test_what_a_source_block_tells(source: dict[str, Any], expected: Any) -> None:
    found = fact_of("t/0", "0", Source(**source), 5)

    assert (found and (found.position, found.server, found.number, found.proves)) == expected


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
                running.append((self.position, self.chance.randrange(6)))
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


def facts_of(connector: str, sent: list[dict[str, Any]]) -> list[Fact]:
    """What each change tells, in order of the offsets of two partitions."""
    facts = [_fact_of(connector, at, change) for at, change in enumerate(sent)]
    known = [one for one in facts if one is not None]
    return sorted(known, key=lambda one: (one.domain, one.place))


def _fact_of(connector: str, at: int, change: dict[str, Any]) -> Fact | None:
    sources = {
        "postgresql": Source(lsn=change["lsn"], sequence=f'["{change["before"]}","1"]'),
        "mysql": Source(file="b.000001", pos=change["commit"], server_id=change["server"]),
        "mysql with gtid": Source(
            file="b.000001", pos=change["commit"], gtid=f"{change['server']}:{change['number']}"
        ),
        "sqlserver": Source(commit_lsn=f"{change['commit']:08x}:00000000:0001"),
        "oracle": Source(commit_scn=str(change["commit"]), scn=str(change["lsn"])),
    }
    source = sources[connector]
    return fact_of(f"t/{change['key'] % 2}", f"{at:020d}", source, change["time"])


def in_batches(
    chance: random.Random, facts: list[Fact]
) -> tuple[list[Restart], dict[str, Reached]]:
    """What is found where the facts come in batches."""
    found: list[Restart] = []
    reached: dict[str, Reached] = {}
    by_domain = {one.domain for one in facts}
    parts = {d: [one for one in facts if one.domain == d] for d in by_domain}
    while any(parts.values()):
        batch = []
        for domain, rest in parts.items():
            size = chance.randrange(1, 30)
            batch += rest[:size]
            parts[domain] = rest[size:]
        more, reached = find_restarts(batch, reached)
        found += more
    return found, reached


CONNECTORS = ("postgresql", "mysql", "mysql with gtid", "sqlserver", "oracle")


@pytest.mark.parametrize("connector", CONNECTORS)
def test_interleaved_transactions_and_redelivery_raise_no_false_alarm(connector: str) -> None:
    for seed in range(STREAMS // len(CONNECTORS)):
        chance = random.Random(f"{connector} {seed}")
        log = Log(chance, clock=1_000, position=100, server="aa")
        sent = with_redelivery(chance, list(log.commits(30)))

        found, _ = in_batches(chance, facts_of(connector, sent))

        assert found == [], seed


def epoch(found: list[Restart], one: Fact) -> int:
    """The number of the epoch of a change, as `silver.epochs` counts them."""
    starts: dict[str, list[Restart]] = {}
    for restart in found:
        starts.setdefault(f"{restart.time} {restart.position}", []).append(restart)
    ordered = sorted(starts.values(), key=lambda group: min(r.time for r in group))
    number = 0
    for at, group in enumerate(ordered, start=1):
        first = {r.domain: r.place for r in group}
        started = min(r.time for r in group)
        begins = one.place >= first[one.domain] if one.domain in first else True
        if begins and one.time is not None and one.time >= started:
            number = at
    return number


@pytest.mark.parametrize("connector", CONNECTORS)
def test_no_change_of_a_new_server_is_lost_in_silence(connector: str) -> None:
    """Either the newest change of every key wins, or an alarm is raised."""
    proven = 0
    for seed in range(STREAMS // len(CONNECTORS)):
        chance = random.Random(f"{connector} moved {seed}")
        old = Log(chance, clock=1_000, position=5_000, server="aa")
        sent = with_redelivery(chance, list(old.commits(chance.randrange(5, 25))))
        start = chance.choice([0, 10, 4_900, 6_000])
        new = Log(chance, clock=old.clock + chance.randrange(1, 99), position=start, server="bb")
        new.last_commit = start
        sent += with_redelivery(chance, list(new.commits(chance.randrange(5, 25))))
        facts = facts_of(connector, sent)

        found, _ = in_batches(chance, facts)

        alarms = [one for one in found if not one.proven or one.unsure_from]
        proven += bool(found) and not alarms
        if alarms:
            continue
        order = {int(one.place): (epoch(found, one), one.position) for one in facts}
        for key in range(6):
            of_key = [at for at, change in enumerate(sent) if change["key"] == key and at in order]
            if not of_key:
                continue
            newest = max(of_key, key=lambda at: (order[at], sent[at]["lsn"]))
            expected = max(of_key, key=lambda at: _by_commit(sent[at]))
            assert sent[newest] == sent[expected], seed
    by_proof = connector in ("postgresql", "mysql", "mysql with gtid")
    assert (proven > STREAMS // len(CONNECTORS) // 3) == by_proof


def _by_commit(change: dict[str, Any]) -> tuple[bool, int, int]:
    return change["server"] == "bb", change["commit"], change["lsn"]
