"""dlt's merge: https://dlthub.com/docs/general-usage/merge-loading

`delete-insert` with `primary_key`, `dedup_sort` and `hard_delete`; a history by `scd2` with a
`merge_key` and the commit's time as `boundary_timestamp`. The destination is DuckDB: into Delta
tables dlt has the strategy `upsert` only, which knows no `hard_delete`.
"""

import os
from pathlib import Path

import dlt

from benchmarks.right.rival import Case, Row, answer

TYPES = {"int": "bigint", "string": "text"}


def run(case: Case, folder: Path) -> list[Row]:
    """One case into a table of DuckDB, one load a batch."""
    target = dlt.destinations.duckdb(str(folder / "target.duckdb"))
    pipeline = dlt.pipeline(
        case.table, destination=target, dataset_name="rows", pipelines_dir=str(folder)
    )
    types = {name: {"data_type": TYPES[type]} for name, type in case.columns.items()}
    hints = types | {"lsn": {"dedup_sort": "desc"}, "deleted": {"hard_delete": True}}
    for batch in case.batches:
        if case.history:
            pipeline.run(versions(case, batch, types))
            continue
        rows = [row | {"deleted": row["op"] == "d"} for row in batch]
        pipeline.run(
            dlt.resource(
                rows,
                name="changes",
                primary_key="id",
                columns=hints,
                write_disposition={"disposition": "merge", "strategy": "delete-insert"},
            )
        )
    with pipeline.sql_client() as client, client.execute_query("SELECT * FROM changes") as found:
        names = [column[0] for column in found.description]
        return [dict(zip(names, values, strict=True)) for values in found.fetchall()]


def versions(case: Case, batch: list[Row], types: Row) -> object:
    """The batch as a load of `scd2`."""
    return dlt.resource(
        [{name: row[name] for name in case.columns} for row in batch],
        name="changes",
        merge_key="id",
        columns=types,
        write_disposition={
            "disposition": "merge",
            "strategy": "scd2",
            "boundary_timestamp": batch[0]["at"],
            "validity_column_names": ["valid_from", "valid_to"],
        },
    )


if __name__ == "__main__":
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    answer(run, "dlt", "duckdb")
