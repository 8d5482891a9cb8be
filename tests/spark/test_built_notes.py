"""What tables are built with is noted in few commits, and a kill before one repeats nothing."""

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from silver import job
from silver.state import fingerprint
from silver.state.fingerprint import Built
from tests import lake
from tests.landed import apply, failures, land


def table(name: str) -> Table:
    source = {"format": "rows", "path": name}
    return Table.model_validate(
        {"table": name, "source": source, "keys": ["id"], "sequence_by": "v"}
    )


def commits(spark: SparkSession, target: Target) -> list[str]:
    shown = spark.sql(f"DESCRIBE HISTORY {names.name(target, 'silver', '_tables')}")
    return [row["operation"] for row in shown.collect() if row["operation"] == "WRITE"]


def test_a_first_run_notes_all_tables_in_two_commits(spark: SparkSession, target: Target) -> None:
    tables = [table(name) for name in ("a", "b", "c")]
    for each in tables:
        land(spark, target, each, 1, [{"id": 1, "v": 1}])
    assert failures(job.apply(spark, target, tables, "run", lake.quiet)) == []
    assert len(commits(spark, target)) == 2
    noted = fingerprint.read(spark, target)
    assert {name: of["keys"] for name, of in noted.items()} == dict.fromkeys("abc", "id")
    assert all(fingerprint.source_columns(of) is not None for of in noted.values())
    assert failures(job.apply(spark, target, tables, "run", lake.quiet)) == []
    assert len(commits(spark, target)) == 2


@pytest.mark.slow
def test_a_change_of_columns_is_recorded_once_though_a_run_was_killed_before_it_was_noted(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(spark, target, table("t"), 1, [{"id": 1, "v": 1}])
    assert failures(apply(spark, target, table("t"))) == []
    land(spark, target, table("t"), 2, [{"id": 1, "v": 2, "more": "x"}])

    def killed(s: SparkSession, t: Target, run: str, learned: Mapping[str, Built]) -> None:
        if any(of.news for of in learned.values()):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "note", killed)
        with pytest.raises(KeyboardInterrupt):
            apply(spark, target, table("t"))
    land(spark, target, table("t"), 3, [{"id": 2, "v": 3, "more": "y"}])
    assert failures(apply(spark, target, table("t"))) == []
    recorded = spark.table(names.name(target, "silver", "_schema_drift")).collect()
    assert [(row["kind"], row["column"]) for row in recorded] == [("add_column", "more")]
    found = fingerprint.source_columns(fingerprint.read(spark, target)["t"])
    assert sorted(found or {}) == ["id", "more", "v"]
