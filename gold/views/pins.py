"""Views that are pinned to a version of silver's tables, and pinning them.

A pinned view shows one version whatever is written meanwhile, as long as Delta reads that version
(`lakehouse.storage.past`): so what a group shows moves on with commits that change no row.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from pyspark.sql import SparkSession

from gold.views import groups
from lakehouse.config.table import Table
from lakehouse.spark.failures import TABLE_FAILURES
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake
from lakehouse.storage.past import Past, look_back, renew
from lakehouse.storage.views import View, load_views, publish_views
from silver.contract import PENDING

_SOURCE = r"((?:`[^`]+`|[\w]+)(?:\.(?:`[^`]+`|[\w]+))+)"


class Shown(NamedTuple):
    """What gold shows of a consistency group: the version of each silver table.

    `lost` are the tables whose version in the last complete set cannot be read any more. All tables
    of such a group are shown as they are now.
    """

    versions: Mapping[str, int]
    lost: frozenset[str] = frozenset()


NOTHING_SHOWN = Shown({})


def find_shown(lake: Lake, tables: Sequence[Table]) -> dict[str, Shown]:
    """What gold is to show of each consistency group, by its name."""
    sets = groups.find_versions(lake, tables)
    return {name: _read_today(lake, versions) for name, versions in sets.items()}


def _read_today(lake: Lake, versions: Mapping[str, int]) -> Shown:
    pasts: dict[str, Past] = {}
    for kept, version in versions.items():
        log = read_table_log(lake.target, "silver", kept)
        is_newest = log is not None and log.version == version
        if not is_newest and lake.exists("silver", kept):
            with suppress(*TABLE_FAILURES):  # a table that cannot be read fails alone, in its view
                pasts[kept] = look_back(lake.spark, lake.name("silver", kept), version)
    lost = frozenset(kept for kept, past in pasts.items() if not past.readable)
    today = {kept: past.newest if lost else past.version for kept, past in pasts.items()}
    return Shown({**versions, **today}, lost)


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
    sources = [lake.name("silver", name) for name in candidates if lake.exists("silver", name)]
    for source in sources if table.consistency_group is None else ():
        if look_back(lake.spark, source, newest_version(lake.spark, source)).is_renewable:
            renew(lake.spark, source)
    pin_views(lake, sources)


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
