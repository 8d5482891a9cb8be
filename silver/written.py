"""How many rows of each class a MERGE wrote, counted while its source was computed.

That saves a look at the table, the first after a commit, for which Delta reads the table's log.
A MERGE that computes its source twice counts it twice; so what was counted is taken only where the
MERGE says that it inserted or updated so many rows.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

CLASSES = ("inserted", "updated", "deleted", "delete_unknown", "late", "superseded")


class Source(NamedTuple):
    """The rows that a MERGE is to write, and what will have been seen of them by then."""

    rows: DataFrame
    seen: Observation

    def told(self) -> dict[str, int] | None:
        """The same after a write of these rows, which computes them once."""
        seen = self.seen.get
        return confirmed(seen, {"num_updated_rows": seen["rows"], "num_inserted_rows": 0})

    def by_class(self, result: DataFrame) -> dict[str, int] | None:
        """The rows written by class, after the MERGE with this result; None where they differ."""
        return confirmed(self.seen.get, next(row.asDict() for row in result.collect()))


def observed(rows: DataFrame, number: int) -> Source:
    """Rows on their way into the table; those that the batch of this number changes are counted."""
    seen, own = Observation(), F.col("_batch") == number
    sums = [F.count_if(own & (F.col("_class") == name)).alias(name) for name in CLASSES]
    return Source(rows.observe(seen, F.count_if(own).alias("rows"), *sums), seen)


def confirmed(seen: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, int] | None:
    """The classes that were seen, where they are those of all rows and as many were written."""
    counts = {name: int(seen[name]) for name in CLASSES if seen[name]}
    written = result["num_updated_rows"] + result["num_inserted_rows"]
    return counts if sum(counts.values()) == seen["rows"] == written else None
