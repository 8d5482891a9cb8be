"""Laws about what gold shows of a table.

A law is a DataFrame with a row per `unit` that is checked; `bad` says whether it breaks the law.
"""

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold import job
from gold.source_check.verified import cut_proof
from gold.views import catalog
from lakehouse.config.table import Table
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import View, load_views

ONE_ROW = "gold shows one row per key"
AS_CONFIGURED = "gold is published as the table is configured"


def build_gold_laws(lake: Lake, table: Table) -> dict[str, DataFrame]:
    """The laws of a published table; none before gold holds it."""
    wanted = job.table_views(lake, table)
    if not wanted:
        return {}
    published = load_views(lake.target, "gold")
    laws: dict[str, DataFrame] = {}
    if not lake.target.catalog:
        units = [
            {"unit": f"gold.{view.name}", "bad": not _is_same_view(published.get(view.name), view)}
            for view in wanted
        ]
        laws[AS_CONFIGURED] = local_rows(lake.spark, units, "unit string, bad boolean")
    shown = catalog.read_view(lake, table.table)
    if table.keys and shown is not None and {*table.keys} <= {*shown.columns}:
        laws[ONE_ROW] = _check_single_rows(shown, table.keys)
    return laws


def _is_same_view(published: View | None, wanted: View) -> bool:
    """Whether they are the same view, as a file keeps it.

    A pinned view may be pinned to an earlier version than now, and a view with pending changes has
    their time in its query: these parts are not compared. Nor is what its
    comment says of when the table was verified.
    """
    if published is None:
        return False
    published = published._replace(comment=cut_proof(published.comment))
    if wanted.pinned or wanted.applied:
        moves = ("query", "as_of", "pinned", "waiting")
        published = published._replace(**{name: getattr(wanted, name) for name in moves})
    return json.dumps(published._asdict()) == json.dumps(wanted._asdict())


def _check_single_rows(rows: DataFrame, keys: list[str]) -> DataFrame:
    quoted = [F.col(names.quote(k)) for k in keys]
    counted = rows.groupBy(*quoted).agg(F.count(F.lit(1)).alias("_n"))
    return counted.select(
        F.to_json(F.struct(*quoted)).alias("unit"), (F.col("_n") > 1).alias("bad")
    )
