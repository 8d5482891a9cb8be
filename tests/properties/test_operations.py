"""Whatever is done to a lake between its runs, it shows what the oracle says of its changes."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from lakehouse.config.target import Target
from tests.conftest import REMOTE
from tests.helpers import oracle
from tests.helpers.lakes import land
from tests.helpers.oracle import Event
from tests.properties.budget import budget

pytestmark = pytest.mark.slow

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
OPS = {"upsert": "u", "delete": "d", "truncate": "t"}
STALE = "1h"


class Operator:
    """Drops what a source does into a lake, out of order and some of it twice, and works on it."""

    def __init__(self, root: Path, scd: int, random: Random) -> None:
        self.root, self.scd, self.random = root, scd, random
        self.arrived: set[Event] = set()
        self.waiting: list[Event] = []
        self.live: set[int] = set()
        self.at = self.files = 0
        for folder in ("tables", "targets"):
            (root / "conf" / folder).mkdir(parents=True)
        kind = {"kind": "connect", "remote": REMOTE} if REMOTE else {"kind": "local"}
        self.write("targets/local", kind | {"root": str(root)})
        self.promise(None)

    def write(self, name: str, document: dict[str, Any]) -> None:
        (self.root / "conf" / f"{name}.yml").write_text(yaml.safe_dump(document))

    def promise(self, staleness: str | None) -> None:
        """What readers of a current table are promised from the next run on."""
        self.staleness = staleness if self.scd == 1 else None
        source = {"format": "debezium", "path": "t"}
        given = {"table": "t", "source": source, "keys": ["id"], "stored_as_scd_type": self.scd}
        late = {} if self.staleness is None else {"max_staleness": self.staleness}
        self.write("tables/t", given | {"columns": {"id": "int", "s": "string"}} | late)

    def do(self, *command: str) -> None:
        run_command_line(app, [*command, "--conf", str(self.root / "conf")])

    def drop(self) -> None:
        """Some of what waits, some of what has arrived, and now and then what no one can read."""
        for _ in range(self.random.randint(4, 14)):
            self.waiting += self.next_changes()
        if self.random.random() < 0.7:
            self.random.shuffle(self.waiting)
        cut, self.files = self.random.randint(1, len(self.waiting)), self.files + 1
        now, self.waiting = self.waiting[:cut], self.waiting[cut:]
        again = [event for event in sorted(self.arrived, key=repr) if self.random.random() < 0.1]
        self.arrived |= set(now)
        lines = [*map(line, [*now, *again]), *(["{"] if self.random.random() < 0.4 else [])]
        self.random.shuffle(lines)
        land(Target(root=str(self.root)), "t", f"{self.files:04d}.jsonl", lines)

    def next_changes(self) -> list[Event]:
        kind, key = self.random.random(), self.random.randint(1, 6)
        if kind < 0.05:
            self.live.clear()
            return [self.event("truncate")]
        if kind < 0.33 and self.live:
            old, new = self.random.choice(sorted(self.live)), self.random.randint(1, 8)
            self.live.discard(old)
            gone = self.event("delete", old)
            if kind < 0.25 or new in self.live or new == old:
                return [gone]
            self.live.add(new)
            return [gone, self.event("upsert", new, old)]
        self.live.add(key)
        return [self.event("upsert", key)]

    def event(self, operation: str, key: int | None = None, old: int | None = None) -> Event:
        self.at += 1
        values = (("s", f"row {key} at {self.at} by itself"),) if operation == "upsert" else ()
        return Event(operation, 100 + self.at, key, values, old, self.at, self.at)

    def erase(self) -> None:
        """Everything of one key, what is on its way as well: that would bring the key back."""
        key = self.random.randint(1, 8)
        self.do("erase", "t", "--key", json.dumps({"id": key}))
        self.arrived = {event for event in self.arrived if event.key != key}
        self.waiting = [event for event in self.waiting if event.key != key]
        self.live.discard(key)

    def anything(self) -> None:
        """One of the things that people and schedules do."""
        self.do("run")
        choice = self.random.choice(["drop", "drop", "maintain", "rebuild", "erase", "replay", ""])
        if choice == "drop":
            self.drop()
        elif choice == "maintain":
            self.do("maintain")
        elif choice == "rebuild":
            self.do("rebuild", "t")
        elif choice == "erase":
            self.erase()
        elif choice == "replay":
            self.do("dead-letters", "replay", "--table", "t")
        else:
            self.promise(self.random.choice([None, "0s", STALE]))


def line(event: Event) -> str:
    """The change as Debezium writes it."""
    row = {"id": event.key, **dict(event.values)} if event.operation == "upsert" else None
    time = START + timedelta(seconds=event.time)
    source = {
        "connector": "postgresql", "name": "s", "lsn": event.sequence, "txId": event.sequence,
        "ts_us": int(time.timestamp() * 1_000_000),
    }  # fmt: skip
    before = {"id": event.key, "s": None} if event.operation == "delete" else None
    value = {"before": before, "after": row, "source": source, "op": OPS[event.operation]}
    moved = {"__debezium.oldkey": {"id": event.old_key}}
    return json.dumps(
        {"topic": "t", "partition": 0, "offset": event.position, "value": value}
        | ({} if event.key is None else {"key": {"id": event.key}})
        | ({} if event.old_key is None else {"headers": moved})
    )


def rows(operator: Operator, said: pytest.CaptureFixture[str], query: str) -> list[dict[str, Any]]:
    said.readouterr()
    operator.do("sql", query, "--format", "json")
    return [json.loads(one) for one in said.readouterr().out.splitlines()]


def check(operator: Operator, said: pytest.CaptureFixture[str]) -> None:
    want = oracle.outcome(operator.arrived, ["s"], ["s"])
    got = rows(operator, said, "SELECT id, s FROM gold.t")
    assert {row["id"]: {"s": row["s"]} for row in got} == want.current
    if operator.scd == 2:
        seconds = "unix_timestamp(valid_{0}) - " + f"{int(START.timestamp())} AS {{0}}_second"
        times = ", ".join(seconds.format(end) for end in ("from", "to"))
        found = rows(operator, said, f"SELECT id, {times}, s FROM gold.t_history")
        versions = [(v["id"], v["from_second"], v.get("to_second"), v["s"]) for v in found]
        assert sorted(versions, key=repr) == want.history


@pytest.mark.parametrize("scd", [1, 2])
@budget(1)
@given(seed=st.integers(0, 2**32))
def test_a_lake_shows_what_its_changes_say_whatever_is_done_to_it(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    scd: int,
    seed: int,
) -> None:
    operator = Operator(tmp_path_factory.mktemp("lake"), scd, Random(seed))
    operator.drop()
    for _ in range(8):
        operator.anything()
        if operator.staleness != STALE:
            operator.do("run")
            check(operator, capsys)
    operator.promise(None)
    operator.do("run")
    check(operator, capsys)
    operator.do("verify", "t")
