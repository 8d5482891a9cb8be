"""What a table must hold after a stream, and how far a result is from it.

Computed from the changes themselves, never from their JSON, and with none of the code that is
measured: per row the change of the highest LSN, and no row where that is a delete. Of a history:
per row a version for each change but a delete, which lasts until the row's next change by LSN.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from benchmarks.events import Workload, columns, commit_micros, key_columns

_TYPES = {
    "bigint": pl.Int64(),
    "int": pl.Int32(),
    "string": pl.String(),
    "decimal(12,2)": pl.Decimal(12, 2),
    "timestamp": pl.Datetime("us", "UTC"),
}
_BOUNDS: dict[str, pl.DataType] = dict.fromkeys(("valid_from", "valid_to"), _TYPES["timestamp"])


def types(work: Workload) -> dict[str, pl.DataType]:
    """The table's columns with their polars types."""
    return {column.name: _TYPES[column.type] for column in columns(work)}


def truth(work: Workload, arrived: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows that are right after all that arrived, in order of their keys."""
    live = living(arrived)
    return typed(work, live.select(c.value.alias(c.name) for c in columns(work)))


def living(arrived: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The newest change of every row that is there, in order: `row`, `lsn`, `op`."""
    changes = pl.concat([part.select("row", "lsn", "op") for part in arrived])
    newest = changes.sort("row", "lsn").group_by("row", maintain_order=True).last()
    return newest.filter(pl.col("op") != "d")


def true_versions(work: Workload, arrived: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The versions of every row that are right after all that arrived.

    The table's columns, `valid_from` and `valid_to`: the commit times of the change that made the
    version and of the row's next one, which is null for the current version.
    """
    changes = pl.concat([part.select("row", "lsn", "op") for part in arrived])
    ordered = changes.unique(["row", "lsn"]).sort("row", "lsn")
    followed = ordered.with_columns(next=pl.col("lsn").shift(-1).over("row"))
    made = followed.filter(pl.col("op") != "d")
    bounds = zip(_BOUNDS, (pl.col("lsn"), pl.col("next")), strict=True)
    return typed_versions(
        work,
        made.select(
            *[c.value.alias(c.name) for c in columns(work)],
            *[_instant(commit_micros(lsn)).alias(name) for name, lsn in bounds],
        ),
    )


def _instant(micros: pl.Expr) -> pl.Expr:
    return pl.from_epoch(micros, time_unit="us").dt.replace_time_zone("UTC")


def typed(work: Workload, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the table's columns and types; times may be text, or without a zone."""
    return _cast(rows, types(work))


def typed_versions(work: Workload, rows: pl.DataFrame) -> pl.DataFrame:
    """The same of a history: its versions also have `valid_from` and `valid_to`."""
    return _cast(rows, types(work) | _BOUNDS)


def _cast(rows: pl.DataFrame, wanted: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return rows.select(_typed(rows.schema[name], name, type) for name, type in wanted.items())


def _typed(found: pl.DataType, name: str, wanted: pl.DataType) -> pl.Expr:
    value = pl.col(name)
    if isinstance(wanted, pl.Datetime) and found == pl.String:
        return value.str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us", time_zone="UTC")
    if isinstance(found, pl.Datetime) and found.time_zone is None:
        return value.dt.replace_time_zone("UTC").dt.cast_time_unit("us")
    return value.cast(wanted)


def wrong(work: Workload, right: pl.DataFrame, found: pl.DataFrame) -> int:
    """How many rows of a workload's table are not right."""
    return wrong_rows([column.name for column in key_columns(work)], right, typed(work, found))


def wrong_versions(work: Workload, right: pl.DataFrame, found: pl.DataFrame) -> int:
    """How many versions of a workload's history are not right: by key and `valid_from`."""
    keys = [*(column.name for column in key_columns(work)), "valid_from"]
    return wrong_rows(keys, right, typed_versions(work, found))


def wrong_rows(keys: list[str], right: pl.DataFrame, found: pl.DataFrame) -> int:
    """How many rows are missing, too many, or differ in any column."""
    same = right.join(found, on=right.columns, how="semi", nulls_equal=True)
    touched = pl.concat(
        [right.join(same, on=keys, how="anti").select(keys), _extra(found, same, keys)]
    )
    return touched.unique().height


def _extra(found: pl.DataFrame, same: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Keys of rows that are not right, and of right ones that come twice."""
    twice = found.filter(pl.struct(keys).is_duplicated()).select(keys)
    return pl.concat([found.join(same, on=keys, how="anti").select(keys), twice])
