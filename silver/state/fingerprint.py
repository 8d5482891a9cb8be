"""What each table was built with, in `silver._tables`: a YAML that contradicts it is refused.

Keys, type of history, tracked columns, order and format of the source decide what the rows of a
table mean: rows written before and after a change of them would contradict each other. A column's
type may only widen. The newest entry of an aspect counts; `forget` is for a table that is built
anew.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.config.table import Table
from lakehouse.config.target import Layer, Target
from lakehouse.errors import ConfigurationDrift, LakeOutdated
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from lakehouse.storage.writing import append
from silver.contract import TABLE_NOTES
from silver.decode.columns import SHOWN
from silver.decode.types import parse_type, wider
from silver.state.drift import declares
from silver.storage import layout
from silver.storage.side_columns import BUILT_COLUMNS

BUILT = TABLE_NOTES
LAYOUT = "0.2"
"""The version since which silver's tables are laid out as they are."""
_MADE_ANEW: tuple[Layer, ...] = ("silver", "gold")
SOURCE_COLUMNS, READ_MEMBERS = "source columns", "members read"

Remembered = Mapping[str, str]


class Built:
    """What a table was built with, by aspect: what is known of it, and what is not noted yet.

    A run learns more of its tables as it goes, and notes it for all of them in one commit, before
    the ledger's. A run that is killed before learns it again from the next batch.
    """

    def __init__(self, noted: Remembered | None = None) -> None:
        self.known = dict(noted or {})
        self.news: dict[str, str] = {}

    def learn(self, aspects: Remembered) -> None:
        """Takes in what is new of some aspects.

        Raises:
            ValueError: it is `NOTHING`.
        """
        if self is NOTHING:
            raise ValueError("nothing is learned of a table that no run works on")
        news = {aspect: v for aspect, v in aspects.items() if self.known.get(aspect) != v}
        self.known |= news
        self.news |= news


NOTHING = Built()


def read(spark: SparkSession, target: Target) -> Mapping[str, Remembered]:
    """What is remembered of every table, by aspect."""
    name, created = layout.ensure(spark, target, BUILT, [], BUILT_COLUMNS)
    found: dict[str, dict[str, str]] = {}
    if created:
        return found
    newest = spark.table(name).groupBy("table", "aspect")
    for row in newest.agg(F.max_by("value", "at").alias("value")).collect():
        if row["value"] is not None:
            found.setdefault(row["table"], {})[row["aspect"]] = row["value"]
    return found


def refuse_outdated(spark: SparkSession, target: Target) -> None:
    """Refuses a lake whose tables another layout has.

    Raises:
        LakeOutdated: version 0.1 wrote it, which did not note its version.
    """
    if not names.exists(spark, target, "silver", BUILT):
        return
    if "version" in spark.table(names.name(target, "silver", BUILT)).columns:
        return
    if target.catalog:
        raise LakeOutdated(*(f"schema {names.schema(target, layer)}" for layer in _MADE_ANEW))
    raise LakeOutdated(*(f"{target.lake}/{layer}" for layer in _MADE_ANEW))


def check(table: Table, remembered: Remembered) -> None:
    """Refuses a configuration that does not fit what the table was built with.

    Raises:
        ConfigurationDrift: with every difference and the way out.
    """
    found = list(differences(table, remembered))
    if found:
        raise ConfigurationDrift(table.table, found)


def check_types(table: Table, held: list[StructField]) -> None:
    """Refuses declared types that do not fit the business columns of the table's change log.

    Raises:
        ConfigurationDrift: the type of a declared column is no wider one than that of the log.
    """
    found = list(_retyped(table, held))
    if found:
        raise ConfigurationDrift(table.table, found)


def aspects(table: Table) -> dict[str, str]:
    """The parts of a table's configuration that its rows depend on, as text for a person."""
    formats = sorted({feed.format for feed in table.feeds})
    keys = table.keys if "ydb" in formats else sorted(table.keys)
    order = [table.sequence_by] if isinstance(table.sequence_by, str) else table.sequence_by
    groups = [f"{', '.join(g.columns)} by {g.sequence_by}" for g in table.sequence_groups]
    return {
        "keys": ", ".join(keys) or "none",
        "source.format": ", ".join(formats),
        "stored_as_scd_type": str(table.stored_as_scd_type),
        "sequence_by": ", ".join(order or []) or "the format's own",
        "sequence_groups": "; ".join(sorted(groups)) or "none",
        "tracked columns": _tracked(table),
    }


def remember(
    spark: SparkSession, target: Target, run_id: str, now: Mapping[str, Mapping[str, str | None]]
) -> None:
    """Notes aspects of tables, by table, in one commit; a value of None forgets one."""
    at = datetime.now(timezone.utc)
    rows = [
        {"table": table, "aspect": aspect, "value": value, "at": at, "run_id": run_id}
        | {"version": LAYOUT}
        for table, learned in now.items()
        for aspect, value in learned.items()
    ]
    if not rows:
        return
    schema = ", ".join(f"`{c.name}` {c.type}" for c in BUILT_COLUMNS)
    append(spark, target, "silver", BUILT, local_rows(spark, rows, schema))


def note(spark: SparkSession, target: Target, run_id: str, learned: Mapping[str, Built]) -> None:
    """Notes what was learned of tables, by table, in one commit; none where nothing was."""
    remember(spark, target, run_id, {table: of.news for table, of in learned.items()})
    for of in learned.values():
        of.news = {}


def forget(spark: SparkSession, target: Target, table: Table, run_id: str) -> None:
    """Lets the next run take the table's configuration as it is: what it held is gone."""
    layout.ensure(spark, target, BUILT, [], BUILT_COLUMNS)
    everything = dict.fromkeys([*aspects(table), SOURCE_COLUMNS, READ_MEMBERS, *SHOWN])
    remember(spark, target, run_id, {table.table: everything})


def source_columns(remembered: Remembered) -> Mapping[str, str | None] | None:
    """The columns that the source announced last, with their types; None when never."""
    text = remembered.get(SOURCE_COLUMNS)
    columns: Mapping[str, str | None] | None = json.loads(text) if text else None
    return columns


def read_members(remembered: Remembered) -> Mapping[str, str]:
    """Members of records that expressions use and no column holds, with their types."""
    found: Mapping[str, str] = json.loads(remembered.get(READ_MEMBERS) or "{}")
    return found


def _tracked(table: Table) -> str:
    if table.stored_as_scd_type == 1:
        return "no history"
    if table.track_history_column_list is not None:
        return ", ".join(sorted(table.track_history_column_list))
    operational = [name for name, column in table.columns.items() if column.operational]
    left_out = sorted({*(table.track_history_except_column_list or []), *operational})
    return f"all but {', '.join(left_out)}" if left_out else "all"


def differences(table: Table, remembered: Remembered) -> Iterator[str]:
    """How a configuration differs from what the table was built with, as phrases for a person."""
    for aspect, now in aspects(table).items():
        before = remembered.get(aspect, now)
        if aspect == "source.format":
            same = bool(set(before.split(", ")) & set(now.split(", ")))
        else:
            same = before == now
        if not same:
            yield f"{aspect} was {before}, is {now}"


def _retyped(table: Table, held: list[StructField]) -> Iterator[str]:
    """Declared columns whose type is neither the one that the log holds nor a wider one."""
    for field in held:
        if declares(table, field.name):
            now = parse_type(table.columns[field.name].type)
            before, after = field.dataType.simpleString(), now.simpleString()
            if before != after and wider(field.dataType, now) != now:
                yield f"columns.{field.name} was {before}, is {after}"
