"""Drives records of any format through decode, gate, change log and apply, without bronze."""

from collections.abc import Sequence
from typing import Any, Literal

from pyspark.sql import DataFrame

from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views, resolve_view
from silver.changelog import log
from silver.changelog.batch import Batch
from silver.decode.spark import decode_alone
from silver.expectations.gate import gate_changes
from silver.run import SilverTable
from silver.state.epochs import TableChanges
from silver.state.table_state import TableState
from silver.table_run import write_batch
from tests.helpers.builders import Line, bronze_rows

WHOLE: dict[tuple[str, int], TableChanges] = {}
"""The table-wide changes that the table of each lake has shown up to each batch."""
Stop = Literal["after the log", "after the table", "after all"]


def deliver(
    lake: Lake, table: Table, lines: Sequence[Line], done: int = 0, stop: Stop | None = None
) -> int:
    """One batch of lines; `stop` ends the first attempt there, and the job is started again."""
    return deliver_rows(lake, table, bronze_rows(lake.spark, lines, done + 1), done, stop)


def deliver_rows(
    lake: Lake, table: Table, raw: DataFrame, done: int = 0, stop: Stop | None = None
) -> int:
    """One batch of bronze rows, whose batch is the one after `done`."""
    of = SilverTable(lake, table)
    decoded = decode_alone(raw, table, of.log.business)
    log.append_batch(of, gate_changes(decoded, table), done + 1)
    if stop in ("after the table", "after all"):
        _apply(of, done, remember=stop == "after all")
    _apply(of, done)
    return done + 1


def _apply(table: SilverTable, done: int, remember: bool = True) -> None:
    known = WHOLE.get((table.target.lake, done), TableChanges([], []))
    state = TableState(done, partial=True, key_changes=True, whole=known)
    batch = Batch.of_log(table, state, state.replace(logged=done + 1))
    write_batch(batch)
    if remember:
        WHOLE[table.target.lake, done + 1] = batch.table_changes


def shown(lake: Lake, table: Table, name: str = "") -> DataFrame:
    """What gold's view of that name shows; the current one when no name is given."""
    views = gold.table_views(lake, table)
    view = next(v for v in views if v.name == (name or table.table))
    return lake.spark.sql(resolve_view(view, load_views(lake.target, "silver")).query)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All rows, sorted."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)
