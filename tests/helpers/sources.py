"""Sources as plain models: what a table goes through, what its connector writes, and the truth.

A source keeps its rows in a dict. Its connector takes full snapshots, also broken ones and ones
after changes that it missed, streams transactions, is restarted and writes its last records again,
reads incremental snapshots, and follows a failover. `Truth` knows the versions that a reader can
know of who sees all of that in order.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

Row = dict[str, Any]

FIRST_SECOND = 1_700_000_000
UNAVAILABLE = "__debezium_unavailable_value"
TOPIC = "shop.public.t"


class Sent(NamedTuple):
    """A record of the topic."""

    offset: int
    key: Row | None
    value: Row | None


@dataclass
class Truth:
    """The rows, and their versions: key, beginning, end, `a` and `b`."""

    open: dict[int, tuple[int, Row]] = field(default_factory=dict)
    closed: list[tuple[Any, ...]] = field(default_factory=list)

    def see(self, key: int, row: Row, time: int) -> None:
        """A row is as it was, or it has a new version."""
        if key in self.open and self.open[key][1] == row:
            return
        self.end(key, time)
        self.open[key] = time, dict(row)

    def end(self, key: int, time: int) -> None:
        """The row is gone, if it was there."""
        if key in self.open:
            begin, row = self.open.pop(key)
            self.closed.append((key, begin, time, row["a"], row["b"]))

    @property
    def rows(self) -> dict[int, Row]:
        return {key: row for key, (_, row) in self.open.items()}

    @property
    def versions(self) -> list[tuple[Any, ...]]:
        going_on = [(k, at, None, r["a"], r["b"]) for k, (at, r) in self.open.items()]
        return sorted([*self.closed, *going_on], key=repr)


class Place(NamedTuple):
    """Where a change stands: in the log, in its transaction, and in time."""

    at: int
    commit: int
    nth: int
    transaction: int
    time: int
    flag: str = "false"


Block = Callable[["Source", Place], Row]
"""Makes the members of a connector's source block that tell the place."""


def postgresql(source: "Source", place: Place) -> Row:
    if place.flag == "incremental":
        pair = [str(source.last_commit), str(place.at)]
        return {"sequence": json.dumps(pair), "txId": None, "lsn": None}
    before = None if place.flag == "first" else str(source.last_commit)
    pair_of = json.dumps([before, str(place.at)])
    return {"sequence": pair_of, "txId": place.transaction, "lsn": place.at}


def mysql(source: "Source", place: Place) -> Row:
    gtid = f"{source.server}:{place.transaction}" if source.tells_servers else None
    file = {"file": f"binlog.{source.file:06}", "pos": place.at, "row": place.nth}
    return {"server_id": source.server_id, "gtid": gtid, **file}


def sqlserver(source: "Source", place: Place) -> Row:
    read = place.flag != "false"
    own = None if read else _lsn(place.at)
    serial = None if read else 1 + place.nth
    return {"commit_lsn": _lsn(place.commit), "change_lsn": own, "event_serial_no": serial}


def oracle(source: "Source", place: Place) -> Row:
    committed = None if place.flag != "false" else str(place.commit)
    return {"scn": str(place.at), "commit_scn": committed, "txId": f"{place.transaction:x}"}


def ydb(source: "Source", place: Place) -> Row:
    return {"ts": [1000 * place.time, place.at]}


def _lsn(number: int) -> str:
    return f"00000025:{number >> 8:08x}:{number & 255:04x}"


CONNECTORS: dict[str, tuple[Block, set[str]]] = {
    "postgresql": (
        postgresql,
        {"truncate", "incremental", "again", "open", "large", "transactions"},
    ),
    "mysql": (mysql, {"truncate", "incremental", "again", "rotate", "failover"}),
    "sqlserver": (sqlserver, {"again"}),
    "oracle": (oracle, {"truncate", "again"}),
    "flattened_rewrite": (postgresql, {"large"}),
    "flattened_tombstone": (postgresql, set()),
    "ydb": (ydb, set()),
}
"""Each connector's source block, and what its sources go through beyond the plain changes."""


class Source:
    """A table of one source, and the topic that its connector has written."""

    def __init__(self, random: Random, connector: str) -> None:
        self.random, self.connector = random, connector
        self.block, self.can = CONNECTORS[connector]
        self.flattened = connector.startswith("flattened")
        self.format = "ydb" if connector == "ydb" else "debezium"
        self.rows: dict[int, Row] = {}
        self.truth = Truth()
        self.topic: list[Sent] = []
        self.streamed: list[Sent] = []
        self.at, self.second, self.transaction = 1_000, FIRST_SECOND, 7
        self.last_commit = 990
        self.file, self.server, self.server_id = 3, "aaaa", 1
        self.tells_servers = random.random() < 0.5
        self.has_b = random.random() < 0.8 or connector == "ydb"
        self.flag, self.tells_op = "false", random.random() < 0.5
        self.tells_transactions = "transactions" in self.can and random.random() < 0.5

    def run(self, steps: int) -> None:
        """What happens to the source from its first snapshot on."""
        for key in self.random.sample(range(1, 5), self.random.randint(0, 3)):
            self.rows[key] = self._row()
        self.snapshot()
        happenings = [self.change] * 12 + [self.restart]
        named: dict[str, list[Callable[[], None]]] = {
            "truncate": [self.truncate],
            "incremental": [self.incremental],
            "again": [self.missed, self.snapshot],
            "open": [self.open_transaction],
            "rotate": [self.rotate],
            "failover": [self.fail_over],
        }
        happenings += [one for name in sorted(self.can) for one in named.get(name, [])]
        for _ in range(steps):
            self.random.choice(happenings)()

    def change(self) -> None:
        """A transaction of one to three changes."""
        changes = [self.random.random() for _ in range(self.random.randint(1, 3))]
        places = self._places(len(changes) * 2)
        for kind in changes:
            key = self.random.randint(1, 5)
            if self.format == "ydb" and kind > 0.5:
                self._put_part(key, next(places))
            elif key not in self.rows:
                self._put(key, self._row(), next(places), "c")
            elif kind < 0.3:
                self._delete(key, next(places))
            elif kind < 0.4 and (new := self.random.randint(6, 8)) not in self.rows:
                row = self.rows[key]
                place = next(places)
                self._delete(key, place)
                after = next(places) if self.connector != "mysql" else place
                self._put(new, row, after, "c")
            else:
                keeps_b = kind < 0.7
                row = self._row()
                if keeps_b:
                    row["b"] = self.rows[key]["b"]
                self._put(key, row, next(places), "u", keeps_b and row["b"] is not None)
        self.last_commit = self.at

    def truncate(self) -> None:
        place = next(self._places(1))
        self._send(None, self._event("t", None, None, place))
        for key in [*self.rows]:
            self.truth.end(key, place.time)
        self.rows.clear()
        self.last_commit = self.at

    def restart(self) -> None:
        """The connector writes its newest records again, and may see a column that is new."""
        count = self.random.randint(0, 5)
        for sent in self.streamed[-count:] if count else []:
            value = sent.value
            if value is not None and not self.flattened:
                value = {**value, "ts_ms": 1000 * self.second + 999}
            self.topic.append(Sent(len(self.topic), sent.key, value))
        self.has_b = True

    def missed(self) -> None:
        """The connector loses its place: changes are lost, and a full snapshot is taken."""
        self._move()
        for _ in range(self.random.randint(1, 3)):
            key = self.random.randint(1, 5)
            if key in self.rows and len(self.rows) > 1 and self.random.random() < 0.5:
                del self.rows[key]
            else:
                self.rows[key] = self._row()
        if self.random.random() < 0.3:
            self.snapshot(broken=True)
            self.rows[self.random.randint(1, 5)] = self._row()
        self.snapshot()

    def snapshot(self, broken: bool = False) -> None:
        """A full snapshot; a broken one ends before its last row."""
        self._move()
        self.streamed.clear()
        listed = sorted(self.rows)
        if broken:
            listed = listed[: self.random.randint(0, max(0, len(listed) - 1))]
        elif listed and not self.flattened:
            for key in [*self.truth.open]:
                if key not in self.rows:
                    self.truth.end(key, self.second)
        place = Place(self.at, self.at, 0, self.transaction, self.second)
        for nth, key in enumerate(listed):
            is_last = nth == len(listed) - 1 and not broken
            flag = "last" if is_last else "first" if nth == 0 else "true"
            self._read(key, place._replace(flag=flag))
        self._move()

    def incremental(self) -> None:
        """An incremental snapshot: all rows are read in the midst of the stream.

        After a restart within it even streamed changes are flagged as if they were read.
        """
        self.flag = self.random.choice(["false", "true", "last"])
        for key in sorted(self.rows):
            if key in self.rows:
                place = next(self._places(1))
                self.last_commit = self.at
                self._read(key, place._replace(flag="incremental"))
            if self.random.random() < 0.3:
                self.change()
        self.flag = "false"

    def open_transaction(self) -> None:
        """A change before a full snapshot that is committed after it, with a lower position."""
        held, free = next(self._places(1)), [key for key in self.rows if len(self.rows) > 1]
        self.snapshot()
        if free:
            self._move()
            key, row = self.random.choice(free), self._row()
            self._put(key, row, held._replace(time=self.second, transaction=self.transaction), "u")
            self.last_commit = self.at

    def rotate(self) -> None:
        self.file, self.at = self.file + 1, 4

    def fail_over(self) -> None:
        """Another server goes on, whose log counts from its own beginning."""
        self._move()
        self.server, self.server_id = self.server + "b", self.server_id + 1
        self.file, self.at, self.transaction = 1, self.random.randint(4, 400), 0
        self.streamed.clear()
        self.change()

    def _row(self) -> Row:
        return {
            "a": self.random.choice(["x", "y", "z", None]),
            "b": self.random.choice(["large", "larger", None]) if self.has_b else None,
        }

    def _move(self) -> None:
        self.at += 8 * self.random.randint(1, 3)
        self.second += self.random.randint(1, 3)
        self.transaction += 1

    def _places(self, count: int) -> Any:
        """The places of the changes of a transaction."""
        self._move()
        first, self.at = self.at, self.at + count
        return iter(
            [
                Place(first if self.connector == "mysql" else first + nth, self.at, nth,
                      self.transaction, self.second, self.flag)
                for nth in range(count)
            ]
        )  # fmt: skip

    def _put(self, key: int, row: Row, place: Place, op: str, keeps_b: bool = False) -> None:
        self.rows[key] = row
        self.truth.see(key, row, place.time)
        hides = keeps_b and "large" in self.can and self.random.random() < 0.7
        self._send(key, self._event(op, None, self._written(key, row, hides), place))

    def _put_part(self, key: int, place: Place) -> None:
        """An upsert of one column, of a row that may not be there."""
        column = self.random.choice(["a", "b"])
        part = {column: self._row()[column]}
        self.rows[key] = {"a": None, "b": None} | self.rows.get(key, {}) | part
        self.truth.see(key, self.rows[key], place.time)
        self._send(key, self._event("u", None, part, place))

    def _read(self, key: int, place: Place) -> None:
        row = self.rows[key]
        self.truth.see(key, row, place.time)
        self._send(key, self._event("r", None, self._written(key, row), place))

    def _delete(self, key: int, place: Place) -> None:
        old = self.rows.pop(key)
        self.truth.end(key, place.time)
        if self.connector != "flattened_tombstone":
            self._send(key, self._event("d", self._written(key, old), None, place))
        if self.format == "debezium":
            self._send(key, None)

    def _written(self, key: int, row: Row, hides: bool = False) -> Row:
        if self.format == "ydb":
            return row
        own = {"id": key, **row, **({"b": UNAVAILABLE} if hides else {})}
        return own if self.has_b or row["b"] is not None else {"id": key, "a": row["a"]}

    def _event(self, op: str, before: Row | None, after: Row | None, place: Place) -> Row:
        time = 1000 * place.time
        if self.format == "ydb":
            return self.block(self, place) | ({"erase": {}} if op == "d" else {"update": after})
        if self.flattened:
            told = {"__lsn": place.at, "__source_ts_ms": time}
            told |= {"__op": op} if self.tells_op else {}
            deleted = {"__deleted": str(op == "d").lower()}
            flag = deleted if self.connector == "flattened_rewrite" else {}
            return {**(after or before or {}), **told, **flag}
        named = {"connector": self.connector, "name": "shop", "db": "shop", "table": "t"}
        block = {**named, "ts_ms": time, "snapshot": place.flag, **self.block(self, place)}
        transaction = None
        if self.tells_transactions and op != "r":
            id = f"{place.transaction}:{place.at}"
            transaction = {"id": id, "total_order": place.nth + 1, "data_collection_order": 1}
        parts = {"before": before, "after": after, "source": block, "transaction": transaction}
        return {**parts, "op": op, "ts_ms": time + 50}

    def _send(self, key: int | None, value: Row | None) -> None:
        if self.format == "ydb" and value is not None:
            value = {"key": [key], **value}
        sent = Sent(len(self.topic), None if key is None else {"id": key}, value)
        self.topic.append(sent)
        self.streamed.append(sent)
