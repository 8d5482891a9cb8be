"""Sources that write flat rows, and those that write extracts, as plain models with their truth."""

import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Any

from tests.helpers.sources import CONNECTORS, FIRST_SECOND, Row, Sent, Source, Truth

FLAT = ("rows", "bigquery")
STREAMS = (*CONNECTORS, *FLAT)
"""All kinds of streams that are decoded and folded without Spark."""

FIRST_DAY = date(2024, 1, 1)
_SECONDS_OF_A_DAY = 86_400


class FlatSource:
    """A table whose changes come as rows with an order and an operation; some carry columns alone.

    BigQuery's rows have its order and its operations, and no truncate.
    """

    can = frozenset[str]()

    def __init__(self, random: Random, format: str) -> None:
        self.random, self.format = random, format
        self.rows: dict[int, Row] = {}
        self.truth = Truth()
        self.topic: list[Sent] = []
        self.second, self.order = FIRST_SECOND, random.choice([1, 2**31, 2**53 + 1])

    def run(self, steps: int) -> None:
        """What happens to the source."""
        for _ in range(steps):
            for _ in range(self.random.randint(1, 3)):
                self.change()
            self.random.choice([self.again, self.move])()

    def change(self) -> None:
        """A row that is written whole or in part, or a delete, or all rows that go."""
        self.move()
        key, kind = self.random.randint(1, 5), self.random.random()
        if kind < 0.05 and self.format == "rows":
            for known in [*self.rows]:
                self.truth.end(known, self.second)
            self.rows.clear()
            self._send({}, "truncate")
        elif kind < 0.3:
            self.truth.end(key, self.second)
            self.rows.pop(key, None)
            self._send({"id": key}, "delete")
        else:
            part = {"a": self.random.choice(["x", "y", None]), "b": self.random.choice(["s", "t"])}
            for column in self.random.sample(["a", "b"], self.random.randint(0, 1)):
                del part[column]
            self.rows[key] = {"a": None, "b": None} | self.rows.get(key, {}) | part
            self.truth.see(key, self.rows[key], self.second)
            self._send({"id": key, **part}, "upsert")

    def again(self) -> None:
        """The newest rows are written once more."""
        for sent in self.topic[-self.random.randint(1, 4) :]:
            self.topic.append(sent._replace(offset=len(self.topic)))

    def move(self) -> None:
        """Time goes on, and with it the order."""
        self.second += self.random.randint(1, 3)
        self.order += self.random.choice([1, 255, 2**20])

    def _send(self, row: Row, operation: str) -> None:
        if self.format == "bigquery":
            number = f"{self.order >> 16:x}/{self.order & 0xFFFF:0{self.random.randint(1, 4)}X}"
            told = {"_CHANGE_TYPE": operation.upper(), "_CHANGE_SEQUENCE_NUMBER": number}
        else:
            told = {"op": operation, "seq": self.order}
        value = {**row, **told, "at": self.second}
        self.topic.append(Sent(len(self.topic), None, value))


@dataclass
class Extracts:
    """A table of which each day's rows are written whole, in one file or two, some once more."""

    random: Random
    rows: dict[int, Row] = field(default_factory=dict)
    truth: Truth = field(default_factory=Truth)
    files: list[tuple[str, list[str]]] = field(default_factory=list)

    def run(self, days: int) -> None:
        """Goes through the days; each has one row at least."""
        day, random = FIRST_DAY, self.random
        for number in range(days):
            for key in range(1, 6):
                if random.random() < 0.4:
                    self.rows[key] = {"a": random.choice(["x", "y", None]), "b": "s" * number}
                elif random.random() < 0.2:
                    self.rows.pop(key, None)
            self.rows[6] = {"a": random.choice(["x", None]), "b": None}
            day += timedelta(random.randint(1, 3))
            self._write(day)

    def _write(self, day: date) -> None:
        second = (day - date(1970, 1, 1)).days * _SECONDS_OF_A_DAY
        for key in [key for key in self.truth.open if key not in self.rows]:
            self.truth.end(key, second)
        for key, row in self.rows.items():
            self.truth.see(key, row, second)
        lines = [json.dumps({"id": key, **row}) for key, row in self.rows.items()]
        cut = self.random.randint(0, len(lines))
        parts = [part for part in (lines[:cut], lines[cut:]) if part]
        parts += [part for part in parts if self.random.random() < 0.2]
        self.files += [(day.isoformat(), part) for part in parts]


def source_of(random: Random, kind: str) -> Any:
    """A source of one of `STREAMS`."""
    return FlatSource(random, kind) if kind in FLAT else Source(random, kind)
