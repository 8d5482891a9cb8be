"""What a run knows of what it alone writes, from one round to the next.

A run holds the locks of its feeds and tables (see `lakehouse.storage.locks`), so what it has read
of them, or written itself, stays true until it ends. What went wrong is forgotten and read anew. A
target with a catalog has no locks, and its runs remember nothing.
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

# At least so long a run that goes on lets changes wait which readers see already.
LULL_SECONDS = 600.0

# Of so few records compiling a query outlasts what the compiled one saves.
FEW = 5_000


class Arrived(NamedTuple):
    """The newest batch of one feed; of those above the batch `since`, the newest by topic.

    `looked_through` is the one up to which holes were looked for, None where the ledger tells;
    `checkpoint` is what was read of the feed (a `bronze.feed_state.FeedState`), None where nobody
    has asked yet.
    """

    newest: int
    topics: Topics
    since: int = 0
    looked_through: int | None = None
    checkpoint: object = None


class Memory:
    """What a run knows: of each feed what arrived, of each table its state.

    Attributes:
        among: how many tables a run works on that goes on; None for a run that ends.
        merge_all: whether the run merges everything that waits.
        worked_on: how many tables have something new, or something that waits.
        feeds: of each feed what arrived.
        tables: of each table its `silver.state.table_state.TableState`, which nothing here may
            import.
        defers: whether entries of bronze for the ledger wait for silver's next; a run that is
            killed before has not told of them.
        waiting: these entries.
        came: by table what bronze took in since silver took it on.
        alone: the tables that the run works on one by one.
        large: the tables whose last batch was too large to be decoded where the run is.
        shown: the tables of which this run has decoded a batch.
        failing: layers and tables whose last work failed; None where the ledger tells.
        configured: all tables, where the run knows them.
        brief: a session for little work (`lakehouse.spark.session.interpreted`).
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
        self.brief: SparkSession | None = None

    def note_size(self, table: str, is_large: bool) -> None:
        """Keeps whether the batch of a table that was decoded last was large."""
        self.shown.add(table)
        (self.large.add if is_large else self.large.discard)(table)

    def gather(self, tables: Sequence[str]) -> None:
        """Notes which tables silver works on together; each only once at a time."""
        (self.alone.update if len(tables) == 1 else self.alone.difference_update)(tables)

    def count(self, entries: "Iterable[Entry]") -> None:
        """Counts what bronze took in."""
        for entry in entries:
            self.came[entry.table] = self.came.get(entry.table, 0) + entry.counts.get("records", 0)

    def session_for(self, spark: "SparkSession", table: str) -> "SparkSession":
        """The session to work in on what is new of a table: `brief` if that is known to be little.

        Of what an earlier run left nobody knows; what the table's last batch showed is of this run.
        """
        came = self.came.pop(table, None)
        little = came is not None and came <= FEW and table in self.shown
        return self.brief if little and self.brief is not None else spark

    def taken(self) -> list[Any]:
        """Removes and returns all deferred entries; thread-safe."""
        found = list[Any]()
        with suppress(IndexError):
            while True:
                found.append(self.waiting.popleft())
        return found
