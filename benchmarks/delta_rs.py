"""polars and delta-rs: the recipe without Spark, and, as with Spark, with tombstones too."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl
from deltalake import DeltaTable, write_deltalake

from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, key_columns
from benchmarks.truth import typed, types


def engine(folder: Path, work: Workload, tombstones: bool = False) -> Engine:
    """polars reads and reduces the changes, delta-rs merges them."""
    keys = [column.name for column in key_columns(work)]

    def load(files: Files) -> Mapping[str, float]:
        write_deltalake(str(folder), marked(read(work, files)).drop("op").to_arrow())
        return {}

    def apply(files: Files) -> Mapping[str, float]:
        newest = marked(read(work, files).sort("lsn").unique(keys, keep="last"))
        values = {name: f"s.{name}" for name in newest.columns if name != "op"}
        merge = DeltaTable(str(folder)).merge(
            newest.to_arrow(),
            " AND ".join(f"t.{key} = s.{key}" for key in keys),
            source_alias="s",
            target_alias="t",
        )
        if not tombstones:
            merge = merge.when_matched_delete("s.op = 'd' AND s.lsn > t.lsn")
        merge.when_matched_update(values, "s.lsn > t.lsn").when_not_matched_insert(
            values, None if tombstones else "s.op <> 'd'"
        ).execute()
        return {}

    def rows() -> pl.DataFrame:
        kept = pl.read_delta(str(folder)).drop("lsn")
        return kept.filter(~pl.col("gone")).drop("gone") if tombstones else kept

    def marked(changes: pl.DataFrame) -> pl.DataFrame:
        return changes.with_columns(gone=pl.col("op") == "d") if tombstones else changes

    name = "polars + delta-rs"
    return Engine(f"{name}, tombstones" if tombstones else name, load, apply, rows)


def read(work: Workload, files: Files) -> pl.DataFrame:
    """The files' changes as flat rows: columns, `lsn`, `op`; of a delete the key alone."""
    own = {name: _as_json(type) for name, type in types(work).items()}
    keys = {column.name: own[column.name] for column in key_columns(work)}
    schema: dict[str, pl.DataType] = {
        "before": pl.Struct(keys),
        "after": pl.Struct(own),
        "source": pl.Struct({"lsn": pl.Int64()}),
        "op": pl.String(),
    }
    found = pl.read_ndjson([str(file) for file in files], schema=schema, ignore_errors=False)
    after, before = pl.col("after").struct, pl.col("before").struct
    flat = found.select(
        *[
            pl.coalesce(after.field(name), before.field(name))
            if name in keys
            else after.field(name)
            for name in own
        ],
        pl.col("source").struct.field("lsn"),
        "op",
    )
    return typed(work, flat).with_columns(flat["lsn"], flat["op"])


def _as_json(type: pl.DataType) -> pl.DataType:
    """What JSON holds of it: decimals and times are text."""
    return pl.String() if isinstance(type, pl.Decimal | pl.Datetime) else type
