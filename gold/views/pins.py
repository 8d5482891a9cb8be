"""Views that are pinned to a version of silver's tables, and pinning them.

A pinned view shows one version whatever is written meanwhile, as long as the files of that version
are kept.
"""

import re
from collections.abc import Iterable

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import View, load_views, publish_views
from silver.contract import PENDING

_SOURCE = r"((?:`[^`]+`|[\w]+)(?:\.(?:`[^`]+`|[\w]+))+)"
_PINNED = re.compile(_SOURCE + r"\s+(?:FOR\s+)?VERSION\s+AS\s+OF\s+(\d+)", re.IGNORECASE)


def find_pinned_versions(lake: Lake) -> dict[str, set[int]]:
    """The versions that gold's views are pinned to, by the SQL name of the table under them."""
    versions: dict[str, set[int]] = {}
    for view in read_views(lake).values():
        for source, version in _PINNED.findall(view.query):
            versions.setdefault(source, set()).add(int(version))
    return versions


def pin_views(lake: Lake, sources: Iterable[str]) -> None:
    """Pins every view that reads one of these tables to the table's newest version."""
    versions = {source: newest_version(lake.spark, source) for source in sources}
    shown = read_views(lake)
    moved = [_pin_view(view, versions) for view in shown.values()]
    changed = [view for view in moved if view != shown[view.name]]
    if changed:
        publish_views(lake, "gold", changed)


def pin_table(lake: Lake, table: Table) -> None:
    """Pins what gold shows of a table, so that its silver tables can be replaced one by one."""
    kept = ("", "_history", "_changes", PENDING)
    candidates = [f"{table.table}{suffix}" for suffix in kept]
    there = [name for name in candidates if lake.exists("silver", name)]
    pin_views(lake, [lake.name("silver", name) for name in there])


def newest_version(spark: SparkSession, table: str) -> int:
    """The newest version of a Delta table by its SQL name."""
    return int(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"])


def read_views(lake: Lake) -> dict[str, View]:
    """Gold's views as they stand, with their queries; from the catalog where there is one."""
    if not lake.target.catalog:
        return load_views(lake.target, "gold")
    schema = names.schema_name(lake.target, "gold")
    listed = lake.spark.sql(f"SHOW VIEWS IN {schema}").collect()
    return {row["viewName"]: _describe_view(lake, row["viewName"]) for row in listed}


def _describe_view(lake: Lake, view: str) -> View:
    name = lake.name("gold", view)
    rows = lake.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    end = next((at for at, row in enumerate(rows) if row["col_name"].startswith("#")), len(rows))
    columns = {row["col_name"]: row["comment"] for row in rows[:end] if row["col_name"]}
    details = {row["col_name"]: row["data_type"] for row in rows[end:]}
    shown = lake.spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    keys = next((row["value"] for row in shown if row["key"] == "keys"), "")
    listed = tuple(key for key in keys.split(", ") if key)
    return View(view, columns, details.get("Comment", ""), listed, details["View Text"])


def _pin_view(view: View, versions: dict[str, int]) -> View:
    query = view.query
    for source, version in versions.items():
        loose = re.escape(source) + r"(?![\w`.])(?!\s+(?:FOR\s+)?(?:VERSION|TIMESTAMP)\s+AS\s+OF)"
        query = re.sub(loose, f"{source} VERSION AS OF {version}".replace("\\", "\\\\"), query)
    return view._replace(query=query)
