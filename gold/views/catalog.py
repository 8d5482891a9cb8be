"""Lets people ask bronze, silver and gold by name, also in a lake without a catalog."""

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from gold.views.groups import version_at
from lakehouse.config.target import Layer, Target
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.views import View, as_of_name, at_time, create_sql, function_sql, stored

LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")


def read(spark: SparkSession, target: Target, name: str) -> DataFrame | None:
    """What a view of gold shows; None before it is published."""
    if target.catalog:
        there = names.exists(spark, target, "gold", name)
        return spark.table(names.name(target, "gold", name)) if there else None
    view = stored(target, "gold").get(name)
    return spark.sql(view.query) if view else None


def columns_of(
    spark: SparkSession, target: Target, table: str, version: int | None = None
) -> list[str]:
    """The columns of a silver table, at a Delta version or now; from its log where that tells."""
    log = read_table_log(target, "silver", table)
    if log is not None and version in (None, log.version):
        return list(log.columns)
    pinned = "" if version is None else f" VERSION AS OF {version}"
    return spark.sql(f"SELECT * FROM {names.name(target, 'silver', table)}{pinned}").columns


def open_catalog(spark: SparkSession, target: Target, query: str, as_of: str | None = None) -> None:
    """Lets a query say bronze.T, silver.T and gold.T in a lake without a catalog.

    Only what the query's text names is registered; a query that lists tables gets everything. With
    `as_of` (SQL's text of a time in UTC) a view with a history shows the rows valid at that time at
    the source; everything else is shown as it was in the lake at that time, without what waited to
    be applied. A layer that the query does not name may not have been there then: it is left out.
    """
    if target.catalog:
        return
    for layer in LAYERS:
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        if as_of is None or named(query, layer):
            _open_layer(spark, target, layer, query, as_of)


def _open_layer(
    spark: SparkSession, target: Target, layer: Layer, query: str, as_of: str | None
) -> None:
    """Registers what the query names of a layer."""
    everything = re.search(r"\b(show|describe|desc)\b", query, re.IGNORECASE) is not None

    def is_asked(name: str) -> bool:
        return everything or named(query, name)

    views = stored(target, layer)
    for name, view in views.items():
        if is_asked(name):
            seen = _at(spark, target, view, as_of)
            spark.sql(create_sql(f"{layer}.{names.quote(name)}", seen))
        if view.as_of and is_asked(as_of_name(view)):
            spark.sql(function_sql(f"{layer}.{names.quote(as_of_name(view))}", view))
    tables = names.in_folder(Path(target.lake, layer))
    for table in filter(is_asked, sorted({*tables} - {*views})):
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
    query = view.applied or view.query
    query = re.sub(r"(delta\.`[^`]+`)( VERSION AS OF \d+)?", rf"\1 {moment}", query)
    return view._replace(query=query)


def _register(
    spark: SparkSession, target: Target, layer: Layer, table: str, as_of: str | None
) -> None:
    moment = f" TIMESTAMP AS OF {names.literal(as_of)}" if as_of else ""
    select = f"SELECT * FROM {names.name(target, layer, table)}{moment}"
    spark.sql(f"CREATE OR REPLACE VIEW {layer}.{names.quote(table)} AS {select}")


def named(query: str, table: str) -> bool:
    """Whether the query's text has the name of a table or view in it."""
    return re.search(rf"(?<![\w]){re.escape(table)}(?![\w])", query, re.IGNORECASE) is not None
