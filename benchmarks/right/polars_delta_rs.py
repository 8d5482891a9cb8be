"""polars and delta-rs's MERGE; with the word `tombstones`, with them.

https://delta-io.github.io/delta-rs/usage/merging-tables/: the newest change of each key of a batch,
merged where its position is newer than the stored one, as in `benchmarks/delta_rs.py`;
`merge_schema` lets the table take new columns.
"""

import functools
import sys
from pathlib import Path

import polars as pl
from deltalake import DeltaTable, write_deltalake

from benchmarks.right.rival import BESIDE, CannotError, Case, Row, answer

TYPES = {"int": pl.Int32(), "bigint": pl.Int64(), "string": pl.String()}


def run(case: Case, folder: Path, tombstones: bool) -> list[Row]:
    """One case into a Delta table."""
    if case.history:
        raise CannotError("its pages show no history")
    place = str(folder / "rows")
    for batch, file in enumerate(case.files):
        schema = {name: TYPES[type] for name, type in (case.known(batch) | BESIDE).items()}
        newest = pl.read_ndjson(file, schema=schema).sort("lsn", maintain_order=True)
        newest = newest.unique("id", keep="last", maintain_order=True).drop("at")
        if tombstones:
            newest = newest.with_columns(gone=pl.col("op") == "d")
        if not batch:
            write_deltalake(place, newest.drop("op").head(0).to_arrow())
        merge(place, newest, tombstones)
    kept = pl.read_delta(place)
    return (kept.filter(~pl.col("gone")) if tombstones else kept).to_dicts()


def merge(place: str, newest: pl.DataFrame, tombstones: bool) -> None:
    """Applies the newest change of each key."""
    values = {name: f"s.{name}" for name in newest.columns if name != "op"}
    merger = DeltaTable(place).merge(
        newest.to_arrow(), "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True
    )
    if not tombstones:
        merger = merger.when_matched_delete("s.op = 'd' AND s.lsn > t.lsn")
    merger.when_matched_update(values, "s.lsn > t.lsn").when_not_matched_insert(
        values, None if tombstones else "s.op <> 'd'"
    ).execute()


if __name__ == "__main__":
    answer(functools.partial(run, tombstones="tombstones" in sys.argv), "polars", "deltalake")
