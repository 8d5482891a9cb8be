"""The state that a continuous run keeps in memory from one round to the next.

A run holds the locks of its feeds and tables (see `lakehouse.storage.locks`), so what it has read
or written stays valid until it ends. After a failure it is read again. A target with a catalog has
no locks, and its runs keep nothing.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.config.table import Table
    from lakehouse.run.ledger import Entry

Topics = Mapping[str | None, int]

# A continuous run defers a merge at least this long if readers see the pending changes anyway.
LULL_SECONDS = 600.0

# A continuous run joins the small files of a table after so many rounds that wrote to it.
ROUNDS = 50

# Up to this many records, compiling a query takes longer than it saves.
FEW = 5_000


class Arrived(NamedTuple):
    """The newest batch of a feed, and by topic the newest of its batches after `since`.

    `looked_through` is the last batch searched for missing changes, None if the ledger has it;
    `checkpoint` is what was read of the feed (a `bronze.feed_state.FeedState`), None if not loaded.
    """

    newest: int
    topics: Topics
    since: int = 0
    looked_through: int | None = None
    checkpoint: object = None


class Memory:
    """What a run keeps of each feed and table.

    Attributes:
        among: how many tables a continuous run works on; None for any other run.
        merge_all: whether the run merges all pending changes.
        worked_on: how many tables have new records or pending changes.
        feeds: what arrived, by feed.
        tables: by table its `silver.state.table_state.TableState`, which nothing here may import.
        defers: whether bronze's ledger entries are written with silver's next; a run that is
            killed before loses them.
        waiting: these entries.
        came: by table how many records bronze read since silver last worked on it.
        alone: the tables that the run works on one by one.
        large: the tables whose last batch was too large to be decoded in this process.
        shown: the tables of which this run has decoded a batch.
        failing: layers and tables whose last work failed; None if the ledger has them.
        configured: all configured tables, if the run knows them.
        rounds: by layer and table how many rounds wrote to it since its small files were joined.
        just_asked: what Kafka's brokers answered before bronze's first look
            (`bronze.kafka.topics.JustAsked`).
        brief: a session for little work (`lakehouse.spark.session.interpreting_session`).
    """

    def __init__(self, among: int | None = None) -> None:
        self.among = among
        self.merge_all = False
        self.worked_on = 0
        self.feeds: dict[str, Arrived] = {}
        self.tables: dict[str, Any] = {}
        self.defers = False
        self.waiting: deque[Any] = deque()
        self.came: dict[str, int] = {}
        self.alone: set[str] = set()
        self.large: set[str] = set()
        self.shown: set[str] = set()
        self.failing: set[tuple[str, str]] | None = None
        self.configured: Sequence[Table] | None = None
        self.rounds: dict[tuple[str, str], int] = {}
        self.just_asked: dict[Any, Any] = {}
        self.brief: SparkSession | None = None

    def note_size(self, table: str, is_large: bool) -> None:
        """Records whether the last decoded batch of a table was large."""
        self.shown.add(table)
        (self.large.add if is_large else self.large.discard)(table)

    def note_together(self, tables: Sequence[str]) -> None:
        """Records which tables silver works on together, or that it works on one alone."""
        (self.alone.update if len(tables) == 1 else self.alone.difference_update)(tables)

    def count(self, entries: "Iterable[Entry]") -> None:
        """Adds the numbers of records that bronze read."""
        for entry in entries:
            self.came[entry.table] = self.came.get(entry.table, 0) + entry.counts.get("records", 0)

    def note_rounds(self, layer: str, tables: Iterable[str]) -> list[str]:
        """Counts a round that wrote to tables; returns those whose small files are to be joined."""
        due = []
        for table in tables:
            number = self.rounds.get((layer, table), 0) + 1
            self.rounds[layer, table] = number % ROUNDS
            if number == ROUNDS:
                due.append(table)
        return due

    def session_for(self, spark: "SparkSession", table: str) -> "SparkSession":
        """The session for the new records of a table: `brief` if they are known to be few.

        Unknown until this run has decoded a batch of the table: earlier runs may have left records.
        """
        came = self.came.pop(table, None)
        little = came is not None and came <= FEW and table in self.shown
        return self.brief if little and self.brief is not None else spark

    def pop_deferred(self) -> list[Any]:
        """Removes and returns all deferred entries; thread-safe."""
        entries = list[Any]()
        with suppress(IndexError):
            while True:
                entries.append(self.waiting.popleft())
        return entries
