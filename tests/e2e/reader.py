"""A reader who joins two tables of a consistency group every second while everything goes on."""

import itertools
import threading
from types import TracebackType
from typing import NamedTuple

from pyspark.sql import SparkSession

from gold.views.catalog import open_catalog
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views

TABLES = ("orders", "order_items")
PAUSE_SECONDS = 1.0
JOINED = """
  SELECT (SELECT count(*) FROM gold.orders o LEFT ANTI JOIN gold.order_items i ON i.order_id = o.id)
    AS without_items,
  (SELECT count(*) FROM gold.order_items i LEFT ANTI JOIN gold.orders o ON i.order_id = o.id)
    AS without_order,
  (SELECT coalesce(max(greatest(sequence_from, coalesce(sequence_to, ''))), '')
    FROM gold.orders_history) AS newest,
  (SELECT count(*) FROM gold.orders) AS orders"""


class Seen(NamedTuple):
    """What one look found: orders without items, items without order, the newest change, orders."""

    without_items: int
    without_order: int
    newest: str
    orders: int


class Reader:
    """Looks from the moment gold shows the tables until the block ends; `seen` is what it found."""

    def __init__(self, spark: SparkSession, target: Target) -> None:
        self.seen: list[Seen] = []
        self.failed: list[Exception] = []
        self._spark, self._target = spark, target
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()

    def states(self) -> int:
        """How many states of the tables it has been shown."""
        return len({one.newest for one in self.seen})

    def shows(self, states: int) -> bool:
        """Whether it has been shown so many."""
        return self.states() >= states

    def _go_on(self) -> None:
        while not self._ends.wait(PAUSE_SECONDS):
            try:
                if set(TABLES) <= set(load_views(self._target, "gold")):
                    self._look()
            except Exception as failure:  # whatever it is, the test shows it
                self.failed.append(failure)

    def _look(self) -> None:
        open_catalog(Lake(self._spark, self._target), JOINED)
        for row in self._spark.sql(JOINED).collect():
            self.seen.append(Seen(*row))


def halves(seen: list[Seen]) -> list[Seen]:
    """The looks that met half of a transaction."""
    return [one for one in seen if one.without_items or one.without_order]


def steps_back(seen: list[Seen]) -> list[tuple[Seen, Seen]]:
    """The pairs of looks of which the later one was shown an older state."""
    return [
        (one, next_one)
        for one, next_one in itertools.pairwise(seen)
        if next_one.newest < one.newest
    ]
