"""Lets people ask bronze, silver and gold by name, also in a lake without a catalog."""

import hashlib
import re
from collections.abc import Callable

from pyspark.sql import DataFrame

from gold.status.pipeline import STATUS_VIEW
from gold.views.groups import version_at
from lakehouse.config.target import LAYERS, Layer, Target
from lakehouse.places.place import to_place as lake_place
from lakehouse.spark.failures import describe_failure
from lakehouse.spark.server import is_served, wait_for
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake
from lakehouse.storage.past import at_time_sql
from lakehouse.storage.views import (
    View,
    as_of_name,
    at_time,
    create_sql,
    function_sql,
    load_views,
    state_of_views,
)

_FRESH = "_fresh"
"""The server's database in which a view is made before it replaces one of another database."""
_MOST_WARMED = 20
"""So many views of tables are asked before the server says that it is there."""
_FIRST_QUESTION = """
    SELECT row, count(*) AS rows FROM (SELECT to_json(struct(*)) AS row FROM {} LIMIT 10)
    GROUP BY row ORDER BY rows, row
"""


def read_view(lake: Lake, name: str) -> DataFrame | None:
    """What a view of gold shows; None before it is published."""
    if lake.target.catalog:
        there = lake.exists("gold", name)
        return lake.spark.table(lake.name("gold", name)) if there else None
    view = load_views(lake.target, "gold").get(name)
    return lake.spark.sql(view.query) if view else None


def columns_of(lake: Lake, table: str, version: int | None = None) -> list[str]:
    """The columns of a silver table, at a Delta version or now; from Delta's log where possible."""
    log = read_table_log(lake.target, "silver", table)
    if log is not None and version in (None, log.version):
        return list(log.columns)
    pinned = "" if version is None else f" VERSION AS OF {version}"
    return lake.spark.sql(f"SELECT * FROM {lake.name('silver', table)}{pinned}").columns


def open_catalog(lake: Lake, query: str, as_of: str | None = None) -> None:
    """Lets a query say bronze.T, silver.T and gold.T in a lake without a catalog.

    Only what the query's text names is registered; a query that lists tables gets everything. With
    `as_of` (SQL's text of a time in UTC) a view with a history shows the rows valid at that time at
    the source; everything else is shown as it was in the lake at that time, without what waited to
    be applied. A layer that the query does not name may not have been there then: it is left out.
    So is the status, whose figures are of now.

    The lake's own server registers everything itself: it is waited for.
    """
    if lake.target.catalog:
        return
    if is_served(lake.spark, lake.target):
        wait_for(lake.target, digest_of_views(lake.target))
        return
    everything = re.search(r"\b(show|describe|desc)\b", query, re.IGNORECASE) is not None

    def is_asked(name: str) -> bool:
        return everything or is_named(query, name)

    for layer in LAYERS:
        lake.spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        if as_of is None or is_named(query, layer):
            for statement in _build_definitions(lake, layer, is_asked, as_of).values():
                lake.spark.sql(statement)


def _build_definitions(
    lake: Lake, layer: Layer, is_asked: Callable[[str], bool], as_of: str | None = None
) -> dict[str, str]:
    """The SQL that registers what is asked of a layer, by name; functions end with `()`."""
    views, definitions = load_views(lake.target, layer), dict[str, str]()
    for name, view in views.items():
        if is_asked(name) and (as_of is None or name != STATUS_VIEW):
            place = f"{layer}.{names.quote(name)}"
            definitions[place] = create_sql(place, _view_as_of(lake, view, as_of))
        if view.as_of and is_asked(as_of_name(view)):
            place = f"{layer}.{names.quote(as_of_name(view))}"
            definitions[f"{place}()"] = function_sql(place, view)
    held = {*names.list_tables_in(lake_place(lake.target, lake.target.lake, layer))}
    for table in held - {*views}:
        if is_asked(table):
            place, source = f"{layer}.{names.quote(table)}", lake.name(layer, table)
            moment = f" {at_time_sql(lake.spark, source, as_of)}" if as_of else ""
            select = f"SELECT * FROM {source}{moment}"
            grows = "" if as_of else " WITH SCHEMA EVOLUTION"
            definitions[place] = f"CREATE OR REPLACE VIEW {place}{grows} AS {select}"
    return definitions


def digest_of_views(target: Target) -> str:
    """A digest that changes with the views and tables of a lake without a catalog."""
    parts: list[object] = []
    for layer in LAYERS:
        folder = lake_place(target, target.lake, layer)
        parts += [names.list_tables_in(folder), state_of_views(target, layer)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class ServedCatalog:
    """All tables and views of a lake in the catalog of its server, kept as they are in the lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self._spark = lake, lake.spark
        self._shown: dict[str, str] = {}
        for database in (*LAYERS, _FRESH):
            lake.spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")

    def refresh(self) -> list[str]:
        """Registers what is new or has changed, and drops what is gone.

        Returns a line for each table or view that cannot be shown and is left out.
        """
        wanted, failed = dict[str, str](), list[str]()
        for layer in reversed(LAYERS):
            wanted |= _build_definitions(self._lake, layer, lambda _: True)
        for place in {*self._shown} - {*wanted}:
            self._drop(place)
        for place, statement in wanted.items():
            if self._shown.get(place) == statement:
                continue
            try:
                self._register(place, statement)
            except SPARK_FAILURES as failure:
                failed.append(f"{place}: {describe_failure(failure)}")
                self._drop(place)
            else:
                self._shown[place] = statement
        return failed

    def warm_up(self, url: str) -> list[str]:
        """Asks the server at `url` as a client does: first answers load Java's classes and tables.

        Of many views of tables only some are asked. Returns a line if an answer fails.
        """
        from pyspark.sql.connect.session import SparkSession as Client

        tables = [n for n in self._shown if re.match(r"gold\.(?!`pipeline_)[^(]*$", n)]
        try:
            client = Client.builder.remote(url).create()
            for name in tables[:_MOST_WARMED]:
                client.sql(_FIRST_QUESTION.format(name)).collect()
            client.stop()
        except SPARK_FAILURES as failure:
            return [f"gold's first answers failed: {describe_failure(failure)}"]
        return []

    def _register(self, place: str, statement: str) -> None:
        """Registers at once: a view that is there already is replaced in one step.

        Spark's own CREATE OR REPLACE VIEW drops the view first, and a query that comes just then
        would find none.
        """
        if place not in self._shown or place.endswith("()"):
            self._spark.sql(statement)
            return
        fresh = f"{_FRESH}.{place.partition('.')[2]}"
        self._spark.sql(statement.replace(place, fresh, 1))
        session = self._spark._jsparkSession.sessionState()
        old, new = (session.sqlParser().parseTableIdentifier(name) for name in (place, fresh))
        view = session.catalog().getTableMetadata(new)
        fields = range(2, view.productArity() + 1)
        rest = [getattr(view, f"copy$default${number}")() for number in fields]
        session.catalog().alterTable(view.copy(old, *rest))
        self._spark.sql(f"DROP VIEW {fresh}")

    def _drop(self, place: str) -> None:
        kind = "FUNCTION" if place.endswith("()") else "VIEW"
        self._spark.sql(f"DROP {kind} IF EXISTS {place.removesuffix('()')}")
        self._shown.pop(place, None)


def _view_as_of(lake: Lake, view: View, as_of: str | None) -> View:
    """The view as of a time; of a group's table, the version that was complete by then."""
    if as_of is None:
        return view
    if view.as_of is not None:
        moment = f"TIMESTAMP {names.literal(as_of + ' UTC')}"
        return view._replace(query=at_time(view, moment))
    version = version_at(lake, view.pinned[0], as_of) if view.pinned else None

    def name_version(match: re.Match[str]) -> str:
        return f"{match[1]} {at_time_sql(lake.spark, match[1], as_of, version)}"

    query = view.applied or view.query
    query = re.sub(r"(delta\.`[^`]+`)( VERSION AS OF \d+)?", name_version, query)
    return view._replace(query=query)


def is_named(query: str, table: str) -> bool:
    """Whether the query's text has the name of a table or view in it."""
    return re.search(rf"(?<![\w]){re.escape(table)}(?![\w])", query, re.IGNORECASE) is not None
