from typing import Any

from lakehouse.storage import upkeep
from lakehouse.storage.upkeep import FileFacts, Layout, Step

MIB = 1024 * 1024


def facts(files: int, size: int, vectors: int = 0) -> FileFacts:
    return FileFacts(files, size, vectors)


def commit(operation: str = "MERGE", mode: str = "", **metrics: int) -> dict[str, Any]:
    told = {name: str(count) for name, count in metrics.items()}
    return {"operation": operation, "operationParameters": {"mode": mode}, "operationMetrics": told}


def test_more_than_fifty_deletion_vectors_are_purged_whatever_the_size() -> None:
    assert upkeep.plan_compaction("t", facts(600, 60_000 * MIB, 50)) is None
    due = upkeep.plan_compaction("t", facts(600, 60_000 * MIB, 51))
    assert due == Step(
        "compact", "REORG TABLE t APPLY (PURGE)", "51 deletion vectors, more than 50"
    )


def test_deletion_vectors_in_a_fifth_of_a_tables_files_are_purged() -> None:
    assert upkeep.plan_compaction("t", facts(0, 0)) is None
    assert upkeep.plan_compaction("t", facts(6, 6_000 * MIB, 1)) is None
    due = upkeep.plan_compaction("t", facts(5, 5_000 * MIB, 1))
    assert due == Step(
        "compact",
        "REORG TABLE t APPLY (PURGE)",
        "1 of 5 files have a deletion vector, a fifth or more",
    )


def test_many_small_files_are_compacted_and_few_or_large_ones_are_not() -> None:
    assert upkeep.plan_compaction("t", facts(20, 20 * MIB)) is None
    assert upkeep.plan_compaction("t", facts(40, 40 * 200 * MIB)) is None
    due = upkeep.plan_compaction("t", facts(21, 21 * MIB))
    assert due == Step("compact", "OPTIMIZE t", "21 files of 1.0 MiB on average, more than 20")


def test_only_a_large_history_is_sorted() -> None:
    by_end = Layout(sorted_by="_valid_to")
    small = upkeep.plan_compaction("t", facts(30, 30 * MIB), by_end)
    large = upkeep.plan_compaction("t", facts(300, 3000 * MIB), by_end)
    assert (small and small.sql, large and large.sql) == (
        "OPTIMIZE t",
        "OPTIMIZE t ZORDER BY (_valid_to)",
    )


BY_DAY = Layout(["day"], None, "`id`,`day`")


def clustered(unordered: int | None, size: int = 1280, files: int = 64) -> FileFacts:
    return FileFacts(files, size * MIB, 0, BY_DAY, unordered)


def test_a_table_is_clustered_the_first_time_whole_and_then_when_a_fifth_is_new() -> None:
    first = upkeep.plan_compaction("t", clustered(None), BY_DAY)
    assert first and (first.action, first.sql) == ("cluster", "OPTIMIZE t FULL")
    assert first.reason == "its files are not ordered by day"
    assert upkeep.plan_compaction("t", clustered(255 * MIB), BY_DAY) is None
    later = upkeep.plan_compaction("t", clustered(256 * MIB), BY_DAY)
    assert later and later.sql == "OPTIMIZE t"
    assert later.reason == "20% of it was written since it was clustered, a fifth or more"
    other = upkeep.plan_compaction("t", clustered(0), Layout(["id"]))
    assert other and other.sql == "OPTIMIZE t FULL"


def test_a_clustered_table_has_some_sixty_files_and_a_small_one_is_left_alone() -> None:
    due = upkeep.plan_compaction("t", clustered(None, size=6400), BY_DAY)
    size = "spark.databricks.delta.optimize.maxFileSize"
    assert due and due.settings[size] == str(100 * MIB)
    least = upkeep.plan_compaction("t", clustered(None, size=32), BY_DAY)
    assert least and least.settings[size] == str(16 * MIB)
    assert upkeep.plan_compaction("t", clustered(None, size=31, files=4), BY_DAY) is None


def test_files_that_a_clustering_made_small_are_not_joined_again() -> None:
    """Those of a table of 1 GiB have 16 MiB: not so those that small batches brought."""
    assert upkeep.plan_compaction("t", clustered(0, size=1024), BY_DAY) is None
    due = upkeep.plan_compaction("t", clustered(0, size=1024, files=300), BY_DAY)
    assert due and (due.action, due.sql) == ("cluster", "OPTIMIZE t")


def test_a_clustered_table_is_purged_while_it_is_clustered_by_nothing() -> None:
    known = clustered(0, size=20, files=4)._replace(vectors=2)
    assert [step.sql for step in upkeep.plan_rewrite("t", known, BY_DAY)] == [
        "ALTER TABLE t CLUSTER BY NONE",
        "REORG TABLE t APPLY (PURGE)",
        "ALTER TABLE t CLUSTER BY (`day`)",
    ]
    plain = facts(5, 5_000 * MIB, 1)
    assert [*upkeep.plan_rewrite("t", plain)] == [upkeep.plan_compaction("t", plain)]
    assert [*upkeep.plan_rewrite("t", facts(1, MIB))] == []


def test_what_was_written_since_a_clustering_is_summed_up_to_it() -> None:
    by_day = commit("OPTIMIZE", numAddedBytes=99) | {"operationParameters": {"clusterBy": '["d"]'}}
    history = [
        commit(numTargetBytesAdded=3),
        commit("OPTIMIZE", numAddedBytes=50),
        commit("WRITE", numOutputBytes=4),
        by_day,
        commit(numTargetBytesAdded=100),
    ]
    assert upkeep.count_unordered(history, ["d"]) == 7
    assert upkeep.count_unordered(history, ["e"]) is None
    odd = by_day | {"operationParameters": {"clusterBy": '["`a,b`"]'}}
    assert upkeep.count_unordered([odd], ["a,b"]) == 0


def test_settings_change_in_an_order_that_delta_takes() -> None:
    """It clusters by no column without statistics."""
    now = facts(1, 1)._replace(layout=Layout(["old"], None, "`old`"))
    steps = [step.sql for step in upkeep.plan_layout("t", now, BY_DAY)]
    assert steps == [
        "ALTER TABLE t CLUSTER BY NONE",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '`id`,`day`')",
        "ALTER TABLE t CLUSTER BY (`day`)",
    ]
    assert [*upkeep.plan_layout("t", clustered(0), BY_DAY)] == []
    none = [step.sql for step in upkeep.plan_layout("t", clustered(0), Layout())]
    assert none == ["ALTER TABLE t CLUSTER BY NONE"]


def test_deletion_vectors_are_summed_over_the_commits_since_the_table_was_replaced() -> None:
    history = [
        commit("REORG", numDeletionVectorsRemoved=2),
        commit(numTargetDeletionVectorsAdded=3, numTargetDeletionVectorsRemoved=1),
        commit("DELETE", numDeletionVectorsAdded=4, numDeletionVectorsRemoved=0),
        commit("WRITE", mode="Overwrite", numFiles=1),
        commit("DELETE", numDeletionVectorsAdded=100),
    ]
    assert upkeep.deletion_vectors(history) == 4


def test_vacuum_is_due_when_a_file_is_unused() -> None:
    assert upkeep.plan_vacuum("t", 0) is None
    due = upkeep.plan_vacuum("t", 3)
    assert due and due.sql == "VACUUM t"
