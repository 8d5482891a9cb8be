"""What each consistency group has reached, in `silver._groups`: its versions, and what waits.

The table holds the last passes of each group and is replaced in one commit, so that a reader finds
the versions of all members that belong together, or those of the pass before.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from lakehouse.storage.writing import replace
from silver.contract import GROUPS, TRANSACTIONS
from silver.groups.transactions import Waiting, unit
from silver.storage import layout
from silver.storage.side_columns import GROUP_COLUMNS

KEPT = 20
ENDS = f"{TRANSACTIONS} "
"""What comes before the name of a feed of ENDs among the members."""
_SCHEMA = ", ".join(f"`{c.name}` {c.type}" for c in GROUP_COLUMNS)


class State(NamedTuple):
    """A group after one of its passes.

    `applied` is the newest batch of each member, and of each feed of ENDs; `versions` the Delta
    version of each silver table that belongs together.
    """

    number: int
    applied: Mapping[str, int]
    versions: Mapping[str, int]
    waiting: tuple[Waiting, ...]

    @property
    def ends(self) -> dict[str, int]:
        """The newest batch of each feed of ENDs that the pass had read."""
        of = self.applied.items()
        return {key.removeprefix(ENDS): batch for key, batch in of if key.startswith(ENDS)}


States = dict[str, list[State]]


def read(spark: SparkSession, target: Target) -> States:
    """The last passes of each group, the newest first."""
    if not names.exists(spark, target, "silver", GROUPS):
        return {}
    rows = spark.table(names.name(target, "silver", GROUPS)).orderBy(F.desc("pass")).collect()
    found: States = {}
    for row in rows:
        found.setdefault(row["group"], []).append(_state(row))
    return found


def write(spark: SparkSession, target: Target, states: States) -> None:
    """Replaces what the table holds, in one commit."""
    layout.ensure(spark, target, GROUPS, [], GROUP_COLUMNS)
    rows = [_row(group, state) for group, of in states.items() for state in of[:KEPT]]
    replace(spark, target, "silver", GROUPS, local_rows(spark, rows, _SCHEMA))


def acknowledged(states: list[State], table: str, batch: int) -> State | None:
    """The newest state whose pass over a member is in the ledger too; None when none is kept."""
    known = (s for s in states if s.applied.get(table, 0) <= batch)
    return next(known, None)


def waiting(spark: SparkSession, target: Target, table: Table, batch: int) -> tuple[Waiting, ...]:
    """What waits in a table's group as of the pass that ended with `batch`.

    Nothing in one that is in no group.
    """
    if table.consistency_group is None:
        return ()
    states = read(spark, target).get(table.consistency_group, [])
    of_batch = acknowledged(states, table.table, batch)
    return of_batch.waiting if of_batch else ()


def version_of(spark: SparkSession, target: Target, kept: str) -> int:
    """The Delta version that a silver table has now."""
    history = spark.sql(f"DESCRIBE HISTORY {names.name(target, 'silver', kept)} LIMIT 1")
    return int(history.collect()[0]["version"])


def held_back(spark: SparkSession, waiting: tuple[Waiting, ...], rows: DataFrame) -> DataFrame:
    """Log rows of the transactions that wait."""
    named = _named(spark, waiting)
    return rows.withColumn("_unit", unit()).join(named, "_unit", "left_semi").drop("_unit")


def let_through(spark: SparkSession, waiting: tuple[Waiting, ...], rows: DataFrame) -> DataFrame:
    """Log rows of all but the transactions that wait."""
    if not waiting:
        return rows
    named = _named(spark, waiting)
    return rows.withColumn("_unit", unit()).join(named, "_unit", "left_anti").drop("_unit")


def _named(spark: SparkSession, waiting: tuple[Waiting, ...]) -> DataFrame:
    found = [{"_unit": each.transaction} for each in waiting]
    return F.broadcast(local_rows(spark, found, "_unit string"))


def _state(row: Row) -> State:
    waiting = tuple(Waiting(*each) for each in row["waiting"] or [])
    return State(row["pass"], row["applied"] or {}, row["versions"] or {}, waiting)


def _row(group: str, state: State) -> dict[str, Any]:
    return {
        "group": group,
        "pass": state.number,
        "applied": dict(state.applied),
        "versions": dict(state.versions),
        "waiting": [each._asdict() for each in state.waiting],
    }
