"""What a run of silver and one table of it are: the objects that the table run works with."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One run of silver.

    Attributes:
        id: names the run in the ledger.
        progress: is told what the run works on.
        memory: what the run knows from earlier rounds.
    """

    id: str
    progress: Progress
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True)
class SilverTable:
    """A table of a lake, as its YAML configures it."""

    lake: Lake
    config: Table

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
        """The same table, worked on by another session."""
        return SilverTable(Lake(spark, self.target), self.config)
