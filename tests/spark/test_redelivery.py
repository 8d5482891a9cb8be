"""What was applied already is delivered again, in one batch with what is new."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.target import Target
from tests import core, oracle
from tests.oracle import Event

WHOLE = (("a", "a"), ("b", "b"))


@pytest.mark.parametrize("scd", [1, 2])
def test_a_delete_counts_that_comes_with_its_row_s_upsert_once_more(
    spark: SparkSession, target: Target, scd: int
) -> None:
    config = core.table(scd)
    upsert, delete = Event("upsert", 1, 1, WHOLE, position=1), Event("delete", 2, 1, position=2)
    done = core.deliver(spark, target, config, [upsert], 0, 0)
    core.deliver(spark, target, config, [upsert, delete], 1, done)
    want = oracle.outcome({upsert, delete}, core.COLUMNS, core.COLUMNS)
    assert core.outcome(spark, target, config).current == want.current == {}
