from datetime import datetime, timedelta, timezone
from typing import Any

from lakehouse.storage import upkeep
from lakehouse.storage.upkeep import FileFacts, Step

NOW = datetime(2026, 5, 20, tzinfo=timezone.utc)
MIB = 1024 * 1024


def facts(files: int, size: int, vectors: int = 0) -> FileFacts:
    return FileFacts(files, size, vectors, {})


def commit(operation: str = "MERGE", mode: str = "", **metrics: int) -> dict[str, Any]:
    told = {name: str(count) for name, count in metrics.items()}
    return {"operation": operation, "operationParameters": {"mode": mode}, "operationMetrics": told}


def test_more_than_fifty_deletion_vectors_are_purged_whatever_the_size() -> None:
    assert upkeep.compaction("t", facts(600, 60_000 * MIB, 50)) is None
    due = upkeep.compaction("t", facts(600, 60_000 * MIB, 51))
    assert due == Step(
        "compact", "REORG TABLE t APPLY (PURGE)", "51 deletion vectors, more than 50"
    )


def test_deletion_vectors_in_a_fifth_of_a_tables_files_are_purged() -> None:
    assert upkeep.compaction("t", facts(0, 0)) is None
    assert upkeep.compaction("t", facts(6, 6_000 * MIB, 1)) is None
    due = upkeep.compaction("t", facts(5, 5_000 * MIB, 1))
    assert due == Step(
        "compact",
        "REORG TABLE t APPLY (PURGE)",
        "1 of 5 files have a deletion vector, a fifth or more",
    )


def test_many_small_files_are_compacted_and_few_or_large_ones_are_not() -> None:
    assert upkeep.compaction("t", facts(20, 20 * MIB)) is None
    assert upkeep.compaction("t", facts(40, 40 * 200 * MIB)) is None
    due = upkeep.compaction("t", facts(21, 21 * MIB))
    assert due == Step("compact", "OPTIMIZE t", "21 files of 1.0 MiB on average, more than 20")


def test_only_a_large_table_is_clustered() -> None:
    small = upkeep.compaction("t", facts(30, 30 * MIB), "_valid_to")
    large = upkeep.compaction("t", facts(300, 3000 * MIB), "_valid_to")
    assert (small and small.sql, large and large.sql) == (
        "OPTIMIZE t",
        "OPTIMIZE t ZORDER BY (_valid_to)",
    )


def test_deletion_vectors_are_summed_over_the_commits_since_the_table_was_replaced() -> None:
    history = [
        commit("REORG", numDeletionVectorsRemoved=2),
        commit(numTargetDeletionVectorsAdded=3, numTargetDeletionVectorsRemoved=1),
        commit("DELETE", numDeletionVectorsAdded=4, numDeletionVectorsRemoved=0),
        commit("WRITE", mode="Overwrite", numFiles=1),
        commit("DELETE", numDeletionVectorsAdded=100),
    ]
    assert upkeep.deletion_vectors(history) == 4


def test_replaced_files_are_kept_for_a_week_or_as_long_as_a_pinned_version_needs_them() -> None:
    known = FileFacts(1, 1, 0, {v: NOW - timedelta(days=20 - v) for v in range(5, 11)})
    assert upkeep.hours_kept(known, [], NOW) == 168
    assert upkeep.hours_kept(known, [10], NOW) == 168
    assert upkeep.hours_kept(known, [9, 7], NOW) == 12 * 24 + 24
    assert upkeep.hours_kept(known, [3], NOW) is None


def test_vacuum_is_due_when_a_file_is_unused() -> None:
    assert upkeep.vacuum("t", 0, 168) is None
    due = upkeep.vacuum("t", 3, 168)
    assert due and due.sql == "VACUUM t RETAIN 168 HOURS"
