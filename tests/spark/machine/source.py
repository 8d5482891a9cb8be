"""A made-up source: changes in order, as lines of files in three formats."""

import csv
import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.helpers.oracle import Event

FORMATS = ("json", "csv", "debezium")
KEYS = 5
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
LETTERS = {"upsert": "u", "delete": "d", "truncate": "t"}


@dataclass(frozen=True)
class Sent:
    """One line of a file: its text, and the change in it; None for rubbish.

    `marked` records are those that `source.where` leaves out; `key` is that of a dead letter too.
    """

    text: str
    event: Event | None = None
    marked: bool = False
    key: int | None = None


def moment(at: int) -> datetime:
    """When the source committed what has this number."""
    return BEGAN + timedelta(minutes=at)


def stamp(at: int) -> str:
    """That time as Spark's to_json writes it."""
    return f"{moment(at):%Y-%m-%dT%H:%M:%S}.000Z"


@dataclass
class Source:
    """Changes with rising numbers, some of which are held back and sent later.

    `live` are its rows; `snapshots` says how many were sent.
    """

    format: str
    table: str
    at: int = 0
    snapshots: int = 0
    live: dict[int, dict[str, Any]] = field(default_factory=dict)
    held: list[Sent] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    extra: bool = False
    renamed: bool = False

    def send(self, choice: random.Random) -> list[Sent]:
        """A file's records: new ones, late ones, some twice, some rubbish; in any order."""
        lines = [self.change(choice) for _ in range(choice.randint(1, 6))]
        late = [line for line in self.held if choice.random() < 0.5]
        self.held = [line for line in self.held if line not in late]
        back = [line for line in lines if choice.random() < 0.2]
        self.held += back
        lines = [line for line in lines if line not in back] + late
        if self.sent and choice.random() < 0.4:
            lines += choice.sample(self.sent, min(3, len(self.sent)))
        if choice.random() < 0.2:
            lines.append(self._rubbish(choice))
        choice.shuffle(lines)
        self.sent += [line for line in lines if line not in self.sent]
        return lines

    def render(self, lines: Sequence[Sent]) -> str:
        """A file of these lines."""
        head = f"{','.join(self._header())}\n" if self.format == "csv" and lines else ""
        return head + "".join(f"{line.text}\n" for line in lines)

    def _header(self) -> list[str]:
        return ["op", "v", "at", "id", "label" if self.renamed else "name", "qty", "extra"]

    def change(self, choice: random.Random) -> Sent:
        """The source's next change."""
        self.at += 1
        operations = ["upsert"] * 12 + ["delete"] * 4 + ["truncate"]
        operation = choice.choice(operations)
        key = None if operation == "truncate" else choice.randrange(KEYS)
        values: dict[str, Any] = {}
        if operation == "upsert":
            values = {"name": f"{self.table} name {self.at}", "qty": choice.randint(-1, 9)}
            if self.extra:
                values["extra"] = choice.choice([None, f"{self.table} more"])
            if self.format == "json" and choice.random() < 0.3:
                del values[choice.choice(list(values))]
        marked = self.format != "debezium" and operation == "upsert" and choice.random() < 0.1
        carried, at = tuple(values.items()), self.at
        event = Event(operation, at, key, carried, position=at, time=at)
        if key is None:
            self.live.clear()
        elif operation == "upsert":
            self.live[key] = values
        else:
            self.live.pop(key, None)
        return Sent(self._text(event, marked), event, marked, key)

    def lose(self, choice: random.Random) -> None:
        """Changes that no connector reads; a row that stays gone is among them."""
        for _ in range(choice.randint(0, 3)):
            self.change(choice)
        if self.live:
            del self.live[choice.choice(sorted(self.live))]

    def snapshot(self) -> list[Sent]:
        """A row for each key that lives, as a connector sends them; the last one is sound.

        It is taken minutes after the newest change: what is committed just before is no redelivery.
        """
        self.at += 5
        self.snapshots += 1
        keys = sorted(self.live, key=lambda key: self.live[key]["qty"])
        lines = []
        for key in keys:
            values = self.live[key] | ({"extra": self.live[key].get("extra")} if self.extra else {})
            event = Event(
                "upsert", self.at, key, tuple(values.items()), position=self.at, time=self.at,
                snapshot=f"snapshot {self.at}", last=key == keys[-1],
            )  # fmt: skip
            lines.append(Sent(self._text(event, False), event, False, key))
        self.sent += lines
        return lines

    def _text(self, event: Event, marked: bool) -> str:
        row = {} if event.key is None else {"id": event.key}
        row |= {("label" if k == "name" and self.renamed else k): v for k, v in event.values}
        if self.format == "debezium":
            return json.dumps(self._envelope(event, row))
        letter = "x" if marked else LETTERS[event.operation]
        row = {"op": letter, "v": event.sequence, "at": f"{moment(event.time):%F %T}", **row}
        if self.format == "json":
            return json.dumps(row)
        return _csv_line([row.get(name) for name in self._header()])

    def _envelope(self, event: Event, row: dict[str, Any]) -> dict[str, Any]:
        at, time = event.sequence * 100, int(moment(event.time).timestamp() * 1000)
        read, before = event.snapshot is not None, f'"{at - 50}"'
        source = {
            "version": "3.1.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": time,
            "snapshot": "last" if event.last else str(read).lower(), "db": "shop",
            "sequence": f'[{"null" if read else before},"{at}"]', "schema": "public",
            "table": self.table, "txId": event.sequence, "lsn": at,
        }  # fmt: skip
        is_upsert, is_delete = event.operation == "upsert", event.operation == "delete"
        return {
            "before": row if is_delete else None, "after": row if is_upsert else None,
            "source": source, "op": "r" if read else LETTERS[event.operation], "ts_ms": time,
        }  # fmt: skip

    def _rubbish(self, choice: random.Random) -> Sent:
        """A line that no table can apply."""
        self.at += 1
        if self.format == "csv":
            when = f"{moment(self.at):%F %T}"
            values = ["u", choice.choice(["x", ""]), when, 1, f"{self.table} lost {self.at}", 1, ""]
            return Sent(_csv_line(values), key=1)
        if self.format == "debezium" or choice.random() < 0.5:
            return Sent(f'{{"op": "u", "v": {self.at}, "id": 1, "name": "los')
        row = {"op": "u", "v": self.at, "at": f"{moment(self.at):%F %T}", "id": 1, "qty": 1}
        del row[choice.choice(["id", "v"])]
        return Sent(json.dumps(row | {"name": f"{self.table} lost {self.at}"}), key=row.get("id"))


def _csv_line(values: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["" if v is None else v for v in values])
    return line.getvalue()
