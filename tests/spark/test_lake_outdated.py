"""A lake that version 0.1 wrote is refused with what to do, before anything of it is touched."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.errors import LakeOutdated
from lakehouse.storage import names
from silver import job, states
from tests.spark.test_memory import quiet, table


def test_a_lake_without_a_version_is_refused(spark: SparkSession, target: Target) -> None:
    place = names.name(target, "silver", "_tables")
    columns = "table string, aspect string, value string, at timestamp, run_id string"
    spark.sql(f"CREATE TABLE {place} ({columns}) USING delta")
    with pytest.raises(LakeOutdated, match=r"version 0\.1 .* lakehouse run makes both anew"):
        job.apply(spark, target, [table()], "run", quiet)


def test_a_lake_of_this_version_is_read(spark: SparkSession, target: Target) -> None:
    job.apply(spark, target, [table()], "run", quiet)
    assert states.applied(spark, target) == {}
