"""The status of a local lake without Spark: the same queries, which DuckDB answers."""

from collections.abc import Mapping

from gold.status.pipeline import DRIFT_WINDOW, DRIFTS, REASONS, STATE, WAITS
from lakehouse.config.target import Target
from lakehouse.quick.lake import QuickLake

_CHANGES = "from_json(of->'$.schema_changes', '[{\"at\": \"VARCHAR\"}]')"
_WAITING = "from_json(of->'$.group.waiting', '[{\"records\": \"MAP(VARCHAR, BIGINT)\"}]')"
SAID_BY_DUCKDB: Mapping[str, str] = {
    STATE: "json(state)",
    DRIFTS: (
        "SELECT `table`, count_if(CAST(change.at AS TIMESTAMPTZ) > current_timestamp - "
        f"{DRIFT_WINDOW}) AS n FROM (SELECT `table`, unnest({_CHANGES})"
        " AS change FROM states) GROUP BY `table`"
    ),
    WAITS: (
        "SELECT `table`, count(*) AS n FROM (SELECT unnest(map_keys(transaction.records)) AS"
        f" `table` FROM (SELECT unnest({_WAITING}) AS transaction FROM (SELECT"
        " arg_max_null(of, CAST(of->>'$.group.number' AS BIGINT)) AS of FROM states"
        " WHERE of->>'$.group.name' IS NOT NULL GROUP BY of->>'$.group.name')))"
        " GROUP BY `table`"
    ),
    REASONS: "map_from_entries(list({'k': reason, 'v': n}) FILTER (WHERE NOT known))",
    "current_timestamp()": "current_timestamp",
}
"""Phrases of the status's query, and what DuckDB says instead."""


def quick_lake(target: Target) -> QuickLake:
    """The lake as DuckDB reads it, for the queries of the status.

    Raises:
        NotQuick: it cannot.
    """
    return QuickLake(target, SAID_BY_DUCKDB)
