"""A lake that an older version wrote is refused with what to do, before any of it is touched."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.errors import LakeOutdated
from lakehouse.storage import names
from silver import job
from silver.state.table_state import read_states
from tests.spark.silver.test_memory import quiet, table


def test_a_lake_whose_ledger_has_no_states_is_refused(spark: SparkSession, target: Target) -> None:
    place = names.table_name(target, "silver", "_runs")
    columns = "run_id string, layer string, table string, batch bigint, logs map<string,string>"
    spark.sql(f"CREATE TABLE {place} ({columns}) USING delta")
    with pytest.raises(LakeOutdated, match=r"older version .* lakehouse run makes both anew"):
        job.apply(spark, target, [table()], "run", quiet)


def test_a_lake_of_this_version_is_read(spark: SparkSession, target: Target) -> None:
    job.apply(spark, target, [table()], "run", quiet)
    assert read_states(spark, target) == {}
