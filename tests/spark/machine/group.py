"""Orders and their items in one consistency group: a stream of transactions, cut anywhere."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tests.helpers import shop

SHOP, MEMBERS = "shop", {"orders": ["id"], "order_items": ["order_id", "line"]}
Rows = dict[str, list[dict[str, Any]]]


class Committed(NamedTuple):
    """A transaction: the number of its last line, its second, and each order's number of items."""

    end: int
    second: int
    items: dict[int, int]

    @property
    def time(self) -> str:
        """When it was committed, as SQL."""
        return f"{datetime.fromtimestamp(self.second, timezone.utc):%F %T}"

    @property
    def rows(self) -> Rows:
        """What gold shows from it on."""
        orders = [{"id": id, "items": number} for id, number in self.items.items()]
        lines = [(id, line) for id, number in self.items.items() for line in range(number)]
        return {"orders": orders, "order_items": [{"order_id": o, "line": n} for o, n in lines]}


@dataclass
class Group:
    """The two tables.

    Attributes:
        history: whether they have a history.
        source: what writes the lines.
        unsent: the lines that no file has.
        last: those of the last file.
        committed: the transactions.
        written: how many lines were written, `landed` in files, and `read` by a run.
        files: how many files were named.
    """

    history: bool
    source: shop.Source = field(default_factory=shop.Source)
    unsent: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    written: int = 0
    landed: int = 0
    read: int = 0
    files: int = 0

    def describe(self, name: str) -> dict[str, Any]:
        """A member's YAML."""
        source = {"format": "debezium", "path": SHOP, "topic": f"shop.shop.{name}"}
        table = {"table": name, "source": source, "keys": MEMBERS[name], "consistency_group": SHOP}
        return table | {"stored_as_scd_type": 2 if self.history else 1}

    def send(self, choice: random.Random) -> tuple[str, str]:
        """The next lines of the stream, at times after those of the last file: name and text."""
        for _ in range(choice.randint(1, 3)):
            self._commit(choice)
        number = choice.randint(1, len(self.unsent))
        again = self.last if choice.random() < 0.3 else []
        self.last, self.unsent = self.unsent[:number], self.unsent[number:]
        self.landed += number
        self.files += 1
        return f"{self.files:03}.jsonl", "".join(f"{line}\n" for line in [*again, *self.last])

    def _commit(self, choice: random.Random) -> None:
        """A new order with its items, or one more item of an order."""
        items = dict(self.committed[-1].items) if self.committed else {}
        id, first = len(items) + 1, 0
        if items and choice.random() < 0.4:
            id = choice.choice(sorted(items))
            first = items[id]
        items[id] = first + choice.randint(1, 3)
        rows: list[tuple[str, dict[str, int]]] = [("orders", {"id": id, "items": items[id]})]
        rows += [("order_items", {"order_id": id, "line": n}) for n in range(first, items[id])]
        lines = self.source.transaction(rows)
        self.written += len(lines)
        self.unsent += lines
        self.committed.append(Committed(self.written, self.source.number, items))

    def ingest(self) -> None:
        """A run reads every file."""
        self.read = self.landed

    @property
    def shown(self) -> list[Committed]:
        """The transactions that are whole in bronze, in their order."""
        return [each for each in self.committed if each.end <= self.read]
