from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from cdc_lakehouse.cli.work.rounds import MOST_TRIES, Round, try_conflicts_again
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import describe_failure, join_failures

CONFLICT = AnalysisException("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict")
OTHER = AnalysisException("[DELTA_MISSING_COLUMN] x")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (CONFLICT, True),
        (AnalysisException("io.delta.exceptions.ConcurrentDeleteReadException: gone"), True),
        (OTHER, False),
        (OSError("No space left on device"), False),
    ],
)
def test_only_conflicts_that_delta_names_are_conflicts(failure: Exception, expected: bool) -> None:
    assert describe_failure(failure).is_conflict is expected


def test_a_message_of_several_failures_is_a_conflict_where_one_is() -> None:
    both = join_failures(["no such file", describe_failure(CONFLICT)])
    assert both == f"no such file; {CONFLICT}"
    assert both.is_conflict
    assert not join_failures(["no such file", describe_failure(OTHER)]).is_conflict


def table(name: str) -> Table:
    source = {"format": "debezium", "path": name}
    return Table.model_validate({"table": name, "source": source, "keys": ["id"]})


@pytest.mark.parametrize(("conflicts", "tries"), [(0, 1), (2, 3), (9, MOST_TRIES)])
def test_only_tables_with_a_conflict_are_tried_again(conflicts: int, tries: int) -> None:
    asked: list[list[str]] = []

    def job(_: Any, tables: Sequence[Table], run: str, __: Any) -> list[Entry]:
        asked.append([one.table for one in tables])
        failures = {"fails": describe_failure(OTHER)}
        if len(asked) <= conflicts:
            failures["collides"] = describe_failure(CONFLICT)
        now = datetime.now(timezone.utc)
        return [
            ledger.make_entry(run, "silver", t.table, now, failures.get(t.table)) for t in tables
        ]

    tables = [table(name) for name in ("works", "fails", "collides")]
    nothing: Any = None
    given = Round(nothing)
    entries = try_conflicts_again(job, given, tables, "run", print)
    assert asked == [["works", "fails", "collides"], *([["collides"]] * (tries - 1))]
    expected = "failed" if conflicts == 9 else "ok"
    assert [entry.status for entry in entries] == ["ok", "failed", expected]


def test_the_ledger_does_not_keep_whether_it_was_a_conflict() -> None:
    now = datetime.now(timezone.utc)
    entry = ledger.make_entry("run", "silver", "t", now, describe_failure(CONFLICT))
    assert entry.conflict
    assert "conflict" not in entry.model_dump()
