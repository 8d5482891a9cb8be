"""pyiceberg's upsert: https://py.iceberg.apache.org/api/#upsert

The newest change of each key of a batch: upserts by `upsert`, deletes by `delete`
(https://py.iceberg.apache.org/api/#delete), new columns by `union_by_name`
(https://py.iceberg.apache.org/api/#union-by-name).
"""

from pathlib import Path

import pyarrow as pa
from pyarrow import json
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from benchmarks.right.rival import BESIDE, CannotError, Case, Row, answer, newest

TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}


def run(case: Case, folder: Path) -> list[Row]:
    """One case into an Iceberg table of a catalog of its own."""
    if case.history:
        raise CannotError("its pages show no history")
    catalog = SqlCatalog(
        "right", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.kept", schema=arrow_schema(case.columns))
    for batch, file in enumerate(case.files):
        known = case.known(batch)
        options = json.ParseOptions(explicit_schema=arrow_schema(known | BESIDE))
        rows = newest(json.read_json(file, parse_options=options).to_pylist())
        with table.update_schema() as update:
            update.union_by_name(arrow_schema(known))
        upserts = [{name: r[name] for name in known} for r in rows if r["op"] != "d"]
        if upserts:
            table.upsert(pa.Table.from_pylist(upserts, arrow_schema(known)), join_cols=["id"])
        if gone := [row["id"] for row in rows if row["op"] == "d"]:
            table.delete(In("id", gone))
    found: list[Row] = table.scan().to_arrow().to_pylist()
    return found


def arrow_schema(columns: dict[str, str]) -> pa.Schema:
    """Columns as Arrow has them."""
    return pa.schema([(name, TYPES[type]) for name, type in columns.items()])


if __name__ == "__main__":
    answer(run, "pyiceberg", "pyarrow")
