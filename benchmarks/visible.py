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
from silver import states
from silver.changelog import bronze_rows, log, order
from silver.merge import pending_view
from silver.run import Run, SilverTable
from silver.state import fingerprint
from silver.state.batch import TableState
from silver.state.summary import Summary, summarize
from silver.table_run import Upstream, extend_log

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
    ours.engine(spark, target).load([])
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
        self.seen = self.after = TableState()
        self.summary: Summary | None = None
        self.highest: str | None = None
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
        return Round(self.spark, self.target, memory=Memory())

    def _logged(self, root: Path, files: list[Path]) -> Parts:
        ours.drop(root, files)
        one_round(self._round(), [self.table], ["bronze"])
        name, newest = self.table.table, log.newest(self.spark, self.target, self.table)
        remembered = fingerprint.Built(fingerprint.read(self.spark, self.target).get(name))
        self.seen = states.applied(self.spark, self.target)[name]._replace(built=remembered)
        done = {name: dict(self.seen.positions)}
        found = bronze_rows.arrived(self.spark, self.target, [self.table], done)
        table = SilverTable(Lake(self.spark, self.target), self.table)
        upstream = Upstream(found, newest)
        self.after, self.summary = extend_log(Run("benchmark", print), table, self.seen, upstream)
        return {}

    def _laid_out(self) -> Parts:
        given, newest = (self.spark, self.target, self.table), self.after.batch
        rows = log.read(*given).where(f"_batch <= {newest}")
        new = rows.where(f"_batch > {self.seen.batch}")
        summary = self.summary or summarize(new)
        placed = order.place(self.table, rows, self.seen, self.after, summary)
        assert pending_view.shows(*given, placed, summary, self.seen), "more than may wait"
        shown = pending_view.show(*given, placed, summary, self.seen._replace(highest=self.highest))
        self.highest = shown.highest
        return {}

    def _read(self) -> Parts:
        query = f"SELECT count(*), sum(total) FROM gold.{self.table.table}"
        open_catalog(self.spark, self.target, query)
        self.spark.sql(query).collect()
        return {}

    def _checked(self, arrived: list[pl.DataFrame]) -> Parts:
        shown = pl.DataFrame(self.spark.sql(f"SELECT * FROM gold.{self.table.table}").toArrow())
        self.wrong += wrong(self.work, truth(self.work, arrived), shown)
        return {}

    def _merged(self) -> Parts:
        one_round(self._round(), [self.table], ["silver"])
        return {}
