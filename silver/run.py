"""What the code of silver works with: the run, and one table with its Delta tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake, LakeTable
from silver.contract import kept_name
from silver.state.table_state import TableState

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One run of silver.

    Attributes:
        id: names the run in the ledger.
        progress: called with a line about what the run works on.
        memory: what a continuous run keeps from its earlier ticks.
        noted: by table, the state to record if it fails, with what was learned before.
    """

    id: str
    progress: Progress
    memory: Memory = field(default_factory=Memory)
    noted: dict[str, TableState] = field(default_factory=dict)


class AtWork:
    """Tells which of several tables are worked on at the moment, and how many are done."""

    def __init__(self, progress: Progress, count: int) -> None:
        """Nothing is begun of so many tables."""
        self._progress, self._count = progress, count
        self._names: list[str] = []
        self._done, self._lock = 0, Lock()

    @contextmanager
    def working_on(self, table: str) -> Iterator[None]:
        """Within, the table is at work."""
        with self._lock:
            self._names.append(table)
            self._tell()
        try:
            yield
        finally:
            with self._lock:
                self._names.remove(table)
                self._done += 1
                self._tell()

    def _tell(self) -> None:
        if self._names:
            done = f", {self._done:,} of {self._count:,} done" if self._count > 1 else ""
            self._progress(f"silver {', '.join(self._names)}{done}")


@dataclass(frozen=True)
class SilverTable:
    """A table of a lake, as its YAML configures it, and the Delta tables that it has in silver."""

    lake: Lake
    config: Table

    def part(self, suffix: str) -> LakeTable:
        """Its Delta table in silver with this suffix, such as `_changes`."""
        return LakeTable(self.lake, "silver", f"{self.name}{suffix}")

    @cached_property
    def log(self) -> LakeTable:
        """The change log."""
        return self.part("_changes")

    @cached_property
    def kept(self) -> LakeTable:
        """The table that changes are merged into: the history, or else the current table."""
        return LakeTable(self.lake, "silver", kept_name(self.config))

    @cached_property
    def dead_letters(self) -> LakeTable:
        """The dead letters."""
        return self.part("_dead_letters")

    @property
    def spark(self) -> SparkSession:
        """The session that works on the table."""
        return self.lake.spark

    @property
    def target(self) -> Target:
        """Where the table lies."""
        return self.lake.target

    @property
    def name(self) -> str:
        """The table's name."""
        return self.config.table

    def with_session(self, spark: SparkSession) -> "SilverTable":
        """The same table, for another session."""
        return SilverTable(Lake(spark, self.target), self.config)


def be_silent(_: str) -> None:
    """Shows no progress."""
