"""How soon changes are seen: from the change log to gold, with the MERGE still to come.

What the log of a run that goes on has gained is shown by a view that reads it; gold's view merges
that whenever it is read, and the MERGE follows when it pays.
"""

import functools
import itertools
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from benchmarks import ours
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.cli.work.run import one_round
from gold.views.catalog import open_catalog
from lakehouse.config.loading import load_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.changelog import bronze_rows, log
from silver.changelog.batch import Batch
from silver.changelog.extend import extend_log
from silver.merge import pending_view
from silver.run import Run, SilverTable
from silver.state.table_state import TableState, read_state

QUESTION = "From the change log to gold, with the MERGE still to come"
LOGGED, LAID_OUT, READ = "into the change log", "shown to gold", "its first read"
MERGED, CHECKED = "the MERGE", "compared with the truth"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Batch after batch; what gold shows before each MERGE is compared with the truth."""
    ours.configure(root / "ours", ours.table_of(work))
    first, stream = snapshot(work), list(itertools.islice(batches(work), plan.most))
    ours.drop(root / "ours", write(work, first, root / "files", "first"))
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    spark, target = ours.session(root / "ours", open_ended=True)
    ours.engine(Lake(spark, target)).load([])
    [table] = load_tables(root / "ours" / "conf")
    lake = _Lake(spark, target, table, work)
    rounds = []
    for at, files in enumerate(later):
        arrived = [first, *stream[: at + 1]]
        rounds.append(lake.steps(root / "ours", files, arrived))
    taken = in_turn(rounds, plan)
    del taken[CHECKED]
    missed = {READ: lake.wrong}
    return [counted(name, runs, missed.get(name)) for name, runs in taken.items()]


class _Lake:
    """The lake of one table, taken through a batch step by step."""

    def __init__(self, spark: SparkSession, target: Target, table: Table, work: Workload) -> None:
        self.spark, self.target, self.table, self.work = spark, target, table, work
        self.before = self.after = TableState()
        self.silver_table = SilverTable(Lake(spark, target), table)
        self.wrong = 0

    def steps(self, root: Path, files: list[Path], arrived: list[pl.DataFrame]) -> dict[str, Step]:
        """A batch's steps; the round before has merged what came before."""
        return {
            LOGGED: functools.partial(self._logged, root, files),
            LAID_OUT: self._laid_out,
            READ: self._read,
            CHECKED: functools.partial(self._checked, arrived),
            MERGED: self._merged,
        }

    def _round(self) -> Round:
        return Round(Lake(self.spark, self.target), memory=Memory())

    def _logged(self, root: Path, files: list[Path]) -> Parts:
        ours.drop(root, files)
        one_round(self._round(), [self.table], ["bronze"])
        name, newest = self.table.table, log.find_newest_batch(self.silver_table)
        self.before = read_state(Lake(self.spark, self.target), name)
        done = {name: self.before.positions}
        found = bronze_rows.find_arrived(Lake(self.spark, self.target), [self.table], done)
        run = Run("benchmark", print)
        self.after = extend_log(run, self.silver_table, self.before, newest, found)
        return {}

    def _laid_out(self) -> Parts:
        batch = Batch.of_log(self.silver_table, self.before, self.after)
        assert pending_view.can_show(batch), "the view cannot show the batch"
        pending_view.show_pending(batch, self.after)
        return {}

    def _read(self) -> Parts:
        query = f"SELECT count(*), sum(total) FROM gold.{self.table.table}"
        open_catalog(Lake(self.spark, self.target), query)
        self.spark.sql(query).collect()
        return {}

    def _checked(self, arrived: list[pl.DataFrame]) -> Parts:
        shown = pl.DataFrame(self.spark.sql(f"SELECT * FROM gold.{self.table.table}").toArrow())
        self.wrong += wrong(self.work, truth(self.work, arrived), shown)
        return {}

    def _merged(self) -> Parts:
        one_round(self._round(), [self.table], ["silver"])
        return {}
