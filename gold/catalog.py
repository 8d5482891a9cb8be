"""Gold's views where people find them: in the catalog or, without one, in a file of the lake.

The file is replaced in one rename, so a reader sees all views of one publication or all of another.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from gold.groups import version_at
from gold.views import View, at_time, create_sql, function_sql
from lakehouse import names
from lakehouse.target import Layer, Target

LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")


def publish(spark: SparkSession, target: Target, layer: Layer, views: Iterable[View]) -> None:
    """Makes the views findable; views of other tables stay as they are."""
    if target.catalog:
        for view in views:
            spark.sql(create_sql(names.name(target, layer, view.name), view))
            if view.as_of:
                spark.sql(function_sql(names.name(target, layer, as_of_name(view)), view))
        return
    kept = stored(target, layer) | {view.name: view for view in views}
    text = json.dumps([view._asdict() for view in kept.values()], indent=1)
    file = _file(target, layer)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(file)


def as_of_name(view: View) -> str:
    """What the function is called that shows a view with a history at a time."""
    return f"{view.name}_as_of"


def stored(target: Target, layer: Layer) -> dict[str, View]:
    """The views that a lake without a catalog holds, by name."""
    file = _file(target, layer)
    if not file.exists():
        return {}
    views = [View(**entry) for entry in json.loads(file.read_text())]
    return {view.name: _pinned(view) for view in views}


def read(spark: SparkSession, target: Target, name: str) -> DataFrame | None:
    """What a view of gold shows; None before it is published."""
    if target.catalog:
        there = names.exists(spark, target, "gold", name)
        return spark.table(names.name(target, "gold", name)) if there else None
    view = stored(target, "gold").get(name)
    return spark.sql(view.query) if view else None


def _pinned(view: View) -> View:
    """The view with the pair that JSON made a list."""
    if view.pinned is None:
        return view
    kept, version = view.pinned
    return view._replace(pinned=(kept, version))


def open_catalog(spark: SparkSession, target: Target, query: str, as_of: str | None = None) -> None:
    """Lets a query say bronze.T, silver.T and gold.T in a lake without a catalog.

    Only what the query's text names is registered; a query that lists tables gets everything. With
    `as_of` (SQL's text of a time in UTC) a view with a history shows the rows valid at that time at
    the source; everything else is shown as it was in the lake at that time.
    """
    if target.catalog:
        return
    everything = re.search(r"\b(show|describe|desc)\b", query, re.IGNORECASE) is not None
    for layer in LAYERS:
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        views = stored(target, layer)
        for name, view in views.items():
            if everything or _names(query, name):
                seen = _at(spark, target, view, as_of)
                spark.sql(create_sql(f"{layer}.{names.quote(name)}", seen))
            if view.as_of and (everything or _names(query, as_of_name(view))):
                spark.sql(function_sql(f"{layer}.{names.quote(as_of_name(view))}", view))
        for table in _tables(target, layer):
            if table not in views and (everything or _names(query, table)):
                _register(spark, target, layer, table, as_of)


def _at(spark: SparkSession, target: Target, view: View, as_of: str | None) -> View:
    """The view as of a time; one of a group as of what had been complete by then."""
    if as_of is None:
        return view
    if view.as_of is not None:
        moment = f"TIMESTAMP {names.literal(as_of + ' UTC')}"
        return view._replace(query=at_time(view, moment))
    moment = f"TIMESTAMP AS OF {names.literal(as_of)}"
    if view.pinned is not None:
        version = version_at(spark, target, view.pinned[0], as_of)
        moment = moment if version is None else f"VERSION AS OF {version}"
    query = re.sub(r"(delta\.`[^`]+`)( VERSION AS OF \d+)?", rf"\1 {moment}", view.query)
    return view._replace(query=query)


def _register(
    spark: SparkSession, target: Target, layer: Layer, table: str, as_of: str | None
) -> None:
    moment = f" TIMESTAMP AS OF {names.literal(as_of)}" if as_of else ""
    select = f"SELECT * FROM {names.name(target, layer, table)}{moment}"
    spark.sql(f"CREATE OR REPLACE VIEW {layer}.{names.quote(table)} AS {select}")


def _tables(target: Target, layer: Layer) -> list[str]:
    folder = Path(target.lake, layer)
    if not folder.is_dir():
        return []
    return sorted(f.name for f in folder.iterdir() if (f / "_delta_log").is_dir())


def _names(query: str, table: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(table)}(?![\w])", query, re.IGNORECASE) is not None


def _file(target: Target, layer: Layer) -> Path:
    return Path(target.lake, layer, "_views.json")
