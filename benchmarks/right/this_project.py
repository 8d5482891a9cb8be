"""This project: each case is a table of one lake, each batch a file of its landing folder.

The records are Debezium's, with Kafka's offsets; partial updates, which Debezium does not send of
PostgreSQL, are flattened rows of format `rows`.
"""

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import ours
from benchmarks.right.rival import BESIDE, Case, Row, hand_in
from gold.views.catalog import open_catalog
from lakehouse.storage.lake import Lake

ROWS = {
    "sequence_by": "lsn",
    "apply_as_deletes": "op = 'd'",
    "except_column_list": list(BESIDE),
}


def table_of(case: Case, source: Mapping[str, str]) -> dict[str, object]:
    """The table's YAML."""
    flat = source.get("format") == "rows"
    return {
        "table": case.table,
        "source": {"format": "debezium", "path": case.table, **source},
        "keys": ["id"],
        "columns": case.columns | (BESIDE if flat else {}),
        **(ROWS if flat else {}),
        **({"stored_as_scd_type": 2} if case.history else {}),
    }


def record(case: Case, row: Row, offset: int) -> dict[str, Any]:
    """A change as Debezium's connector for PostgreSQL writes it to Kafka."""
    values = {name: value for name, value in row.items() if name in case.columns | case.added}
    micros = int(datetime.fromisoformat(row["at"]).timestamp() * 1_000_000)
    source = {
        "version": "3.7.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "db": "shop",
        "schema": "public",
        "table": case.table,
        "ts_ms": micros // 1000,
        "ts_us": micros,
        "snapshot": row.get("snapshot", "false"),
        "sequence": json.dumps([str(row["lsn"] - 1), str(row["lsn"])]),
        "lsn": row["lsn"],
        "txId": row["lsn"],
    }
    gone = row["op"] in "dt"
    value = {
        "before": values if row["op"] == "d" else None,
        "after": None if gone else values,
        "source": source,
        "op": row["op"],
        "ts_ms": micros // 1000 + 50,
    }
    return {
        "topic": f"shop.public.{case.table}",
        "partition": 0,
        "offset": offset,
        "timestamp": micros // 1000 + 60,
        "key": None if row["op"] == "t" else {"id": row["id"]},
        "value": value,
    }


def main() -> None:
    """All cases in one lake, a run for each batch."""
    given, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    sources = {one["table"]: one.pop("source") for one in given}
    cases = [Case(**one) for one in given]
    ours.configure(folder, *[table_of(case, sources[case.table]) for case in cases])
    offsets = dict.fromkeys(sources, 0)
    lake = Lake(*ours.session(folder, open_ended=True))
    engine = ours.engine(lake)
    for batch in range(max(len(case.batches) for case in cases)):
        for case in [case for case in cases if batch < len(case.batches)]:
            flat = sources[case.table].get("format") == "rows"
            landing = folder / "landing" / case.table
            landing.mkdir(parents=True, exist_ok=True)
            rows = case.batches[batch]
            at = offsets[case.table]
            lines = [row if flat else record(case, row, at + n) for n, row in enumerate(rows)]
            offsets[case.table] += len(rows)
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (landing / f"{batch}.json").write_text(text)
        engine.load([])
    cells = {}
    for case in cases:
        query = f"SELECT * FROM gold.{case.table}{'_history' if case.history else ''}"
        open_catalog(lake, query)
        cells[case.name] = {"rows": lake.spark.sql(query).toArrow().to_pylist()}
    hand_in(folder, cells, "cdc-lakehouse")


if __name__ == "__main__":
    main()
