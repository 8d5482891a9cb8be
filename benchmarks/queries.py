"""Counts Spark's queries: those of our own, and those that Delta runs to answer them.

Spark numbers every SQL execution and keeps it in its status store, also without a UI. An execution
that runs inside another one carries the number of the outermost: reads and writes of our own are
the outermost ones, and what Delta runs for them lies inside. Statements that define or describe a
table (CREATE TABLE, SHOW TBLPROPERTIES) read and write no rows, so they are counted apart.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

OWN, DEFINITIONS, DELTA = "of our own", "definitions of tables", "of Delta's own"
PATIENCE_MS = 60_000
_KEPT = "spark.sql.ui.retainedExecutions=100000"
_DEFINES = re.compile(
    r"[* ]*(Execute )?(CommandResult|(Create|Alter|Drop|Replace|Show|Describe|Set|Refresh)[A-Z]\w*)"
)


class Execution(NamedTuple):
    """One SQL execution: its number, that of the outermost one around it, and the plan's text."""

    number: int
    outermost: int
    plan: str


class Counter:
    """Counts the executions of a session's Spark, from one call to the next.

    The session's Spark must keep all of them: call `keep_many` before it starts.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seen = 0
        self.since_last()

    def since_last(self) -> Mapping[str, int]:
        """The executions since the last call, or since the counter was made, by kind."""
        self._spark._jsc.sc().listenerBus().waitUntilEmpty(PATIENCE_MS)
        found = _executions(self._spark, self._seen)
        self._seen += len(found)
        return by_kind(found)


def keep_many() -> None:
    """Has a Spark that this process starts from now on keep 100,000 executions, not 1,000."""
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    if _KEPT not in given:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf {_KEPT} {given}"


def by_kind(executions: Iterable[Execution]) -> dict[str, int]:
    """How many executions are of each kind."""
    counts = dict.fromkeys((OWN, DEFINITIONS, DELTA), 0)
    for execution in executions:
        counts[_kind(execution)] += 1
    return counts


def _kind(execution: Execution) -> str:
    if execution.outermost != execution.number:
        return DELTA
    lines = [line for line in execution.plan.splitlines() if line and not line.startswith("==")]
    return DEFINITIONS if lines and _DEFINES.match(lines[0]) else OWN


def _executions(spark: SparkSession, seen: int) -> list[Execution]:
    """The executions but for the first `seen` ones, in order of their numbers."""
    store: JavaObject = spark._jsparkSession.sharedState().statusStore()
    new = store.executionsCount() - seen
    if new == 0:  # Spark refuses to list none
        return []
    kept = store.executionsList(seen, new)
    found = [kept.apply(at) for at in range(kept.size())]
    return [
        Execution(e.executionId(), e.rootExecutionId(), e.physicalPlanDescription()) for e in found
    ]
