"""How far every rebuild has come: marks in the ledger that the rebuild writes beside the live one.

A rebuild has silver tables of its own (`lakehouse.config.target.Aside`), a ledger among them. The
marks stand there, so a rebuild that was killed is found by its tables.
"""

import hashlib
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Aside, Target
from lakehouse.run import ledger
from lakehouse.storage import names

BUILDING, SWAPPING, DONE = 1, 2, 3
STEP = "rebuild_step"
"""The count of an entry that is a mark. The entry's message is the digest of the configuration."""


class Rebuild(NamedTuple):
    """A rebuild and the newest step that it has reached."""

    id: str
    table: str
    configuration: str
    step: int


def aside(target: Target, rebuild: str) -> Aside:
    """The target whose silver tables are those of the rebuild."""
    return Aside(**target.model_dump(), rebuild=rebuild)


def digest(table: Table) -> str:
    """What tells one configuration of a table from another."""
    return hashlib.sha256(table.model_dump_json().encode()).hexdigest()[:16]


def unfinished(spark: SparkSession, target: Target) -> list[Rebuild]:
    """The rebuilds of which tables are left, but those that are done."""
    found = [_read(spark, target, rebuild) for rebuild in names.rebuilds(spark, target)]
    return [rebuild for rebuild in found if rebuild is not None and rebuild.step < DONE]


def mark(spark: SparkSession, target: Target, rebuild: Rebuild, step: int) -> Rebuild:
    """Writes down that a rebuild has reached a step; returns it so."""
    now = datetime.now(timezone.utc)
    entry = ledger.told(rebuild.id, "silver", rebuild.table, now).done({STEP: step})
    noted = entry.model_copy(update={"status": "begun", "message": rebuild.configuration})
    ledger.append(spark, aside(target, rebuild.id), [noted])
    return rebuild._replace(step=step)


def _read(spark: SparkSession, target: Target, rebuild: str) -> Rebuild | None:
    """The rebuild by its marks; None where its tables were being made or dropped."""
    marks = ledger.read(spark, aside(target, rebuild)).where(f"counts['{STEP}'] IS NOT NULL")
    rows = marks.select("table", "message", f"counts.{STEP}").collect()
    newest = max(rows, key=lambda row: int(row[STEP]), default=None)
    if newest is None:
        return None
    return Rebuild(rebuild, newest["table"], newest["message"], int(newest[STEP]))
