"""Whatever waits: a reader who merges it sees what the oracle says of all that has arrived."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import resolved, stored
from silver.changelog import log
from silver.run import Run, SilverTable
from silver.state import snapshots
from silver.state.batch import TableState
from silver.state.snapshots import TableChanges
from silver.state.summary import Summary
from silver.table_run import LogPart, apply_part
from tests import core, oracle
from tests.conftest import target_at
from tests.oracle import Outcome
from tests.properties.budget import budget
from tests.properties.test_convergence import delivery, stream

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scd", [1, 2])
@budget(2)
@given(seed=st.integers(0, 2**32))
def test_a_merging_reader_sees_the_oracles_tables_after_every_batch(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, scd: int, seed: int
) -> None:
    random = Random(seed)
    delivered = delivery(random, stream(random, random.randint(8, 20)))
    target, config = target_at(tmp_path_factory.mktemp("lake")), core.table(scd, max_staleness=0)
    seen, at, batch = TableState(partial=True, heirs=True), 0, 0
    while at < len(delivered):
        size, batch = random.randint(3, 8), batch + 1
        rows = [core.change(e, at + n, batch) for n, e in enumerate(delivered[at : at + size])]
        told = log.append(spark, target, config, local_rows(spark, rows, core.SCHEMA), batch)
        at += size
        known = None if seen.pending else told
        seen = advance(spark, target, config, seen, batch, known, due=random.random() < 0.3)
        want = oracle.outcome(set(delivered[:at]), core.COLUMNS, core.COLUMNS)
        got = shown(spark, target, config)
        assert got.current == want.current
        assert got.history == (want.history if scd == 2 else [])


def advance(
    spark: SparkSession,
    target: Target,
    config: Table,
    seen: TableState,
    batch: int,
    summary: Summary | None,
    due: bool,
) -> TableState:
    """A pass over what has come; only if it is due it must be applied."""
    whole = snapshots.read(spark, target).get("t", TableChanges([], []))
    after = seen._replace(batch=batch, whole=whole)
    everything = log.read(spark, target, config)
    before = seen._replace(whole=whole)
    table = SilverTable(Lake(spark, target), config)
    part = LogPart(everything, before, after, summary, due)
    done = apply_part(Run("run", print), table, part)
    if done.recomputed:
        snapshots.forget(spark, target, "t")
    snapshots.record(spark, target, {"t": [(done.state.batch, done.whole)]})
    waits = done.counts.get("pending", 0)
    return done.state._replace(pending=seen.pending + waits)


def shown(spark: SparkSession, target: Target, config: Table) -> Outcome:
    """What gold shows, in the oracle's terms."""
    below = stored(target, "silver")
    found = [resolved(view, below) for view in gold.table_views(spark, target, config)]
    views = {view.name: spark.sql(view.query) for view in found}
    current = {r["id"]: {c: r[c] for c in core.COLUMNS} for r in views["t"].collect()}
    lines = [
        (
            r["id"], core.seconds(r["valid_from"]), core.seconds(r["valid_to"]),
            *[r[c] for c in core.COLUMNS],
        )
        for r in (views["t_history"].collect() if "t_history" in views else [])
    ]  # fmt: skip
    return Outcome(current, set(), sorted(lines, key=repr))
