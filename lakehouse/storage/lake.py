"""A lake as the layers work on it: the Spark session, and where the tables lie."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.config.target import Layer, Target
from lakehouse.storage import names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Lake:
    """A Spark session and the target that it works on."""

    spark: "SparkSession"
    target: Target

    def name(self, layer: Layer, table: str) -> str:
        """The quoted SQL name of a table."""
        return names.name(self.target, layer, table)

    def exists(self, layer: Layer, table: str) -> bool:
        """Whether a table has been created."""
        return names.exists(self.spark, self.target, layer, table)
