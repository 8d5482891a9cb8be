"""Laws about the rows of one silver table, as frames of units.

A frame has the columns `unit`, a text that names a key or version, and `bad`, whether it breaks the
law; one row for every unit that was looked at. A frame of several laws, which saves reading the
rows once for each, has their names in `law`.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bronze.contract import ROW_MARK
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from lakehouse.words import JSON_OPTIONS
from silver.changelog import bronze_rows, log
from silver.contract import ACCOUNT_NOTES, EXTRACT_NOTES, UPSERT
from silver.fold.order_key import order_literal, sequence_sql
from silver.run import SilverTable
from silver.state.table_state import TableState
from silver.storage.row_columns import column

ONE_ROW = "one row per key"
ONE_OPEN = "one open version per key"
NO_OVERLAP = "no versions of a key overlap"
GAPS = "versions have gaps only after a delete or truncate"
BOUNDS = "no version ends before it begins"
CURRENT = "the open versions are the newest changes"
ONCE = "a change without a key is kept once"


def build_row_laws(lake: Lake, table: Table, seen: TableState) -> dict[str, DataFrame]:
    """The laws that hold for a table of this kind; none before silver holds it."""
    history = table.stored_as_scd_type == 2
    kept = f"{table.table}_history" if history else table.table
    if not lake.exists("silver", kept):
        return {}
    rows = lake.spark.table(lake.name("silver", kept))
    if not table.keys:
        return {ONCE: _check_single(rows, [F.col("_row")], F.col("_row"))}
    if not history:
        keys = [column(k) for k in table.keys]
        return {ONE_ROW: _check_single(rows, keys, key_text(table.keys))}
    cutoffs = seen.whole.cutoffs(table.on_truncate == "apply")
    return build_history_laws(rows, table.keys, cutoffs[-1].order if cutoffs else b"")


def build_history_laws(rows: DataFrame, keys: list[str], cutoff: bytes) -> dict[str, DataFrame]:
    """The laws of a history; `cutoff` is the newest cut-off in force, empty without one."""
    key = key_text(keys)
    # A window, not the fold: `verify` must not check the fold by itself.
    by_key = Window.partitionBy(*[column(k) for k in keys]).orderBy("_order")
    bounds = {name: F.expr(sequence_sql(f"_{name}_order")) for name in ("from", "to")}
    rows = rows.withColumns({f"_sequence_{name}": bound for name, bound in bounds.items()})
    following = F.lead(F.struct("_valid_from", "_sequence_from", "_life")).over(by_key)
    versions = rows.where("_shown").withColumn("_following", following)
    followed = F.col("_following").isNotNull()
    unit = F.concat(key, F.lit(" from "), F.col("_valid_from").cast("string"))
    early = F.col("_valid_to").isNull() | (F.col("_valid_to") > F.col("_following._valid_from"))
    apart = ~F.col("_sequence_to").eqNullSafe(F.col("_following._sequence_from"))
    same_life = F.col("_life").eqNullSafe(F.col("_following._life"))
    backward = F.coalesce(F.col("_valid_to") < F.col("_valid_from"), F.lit(False))
    of_versions = _judge_units(
        versions,
        unit,
        {
            NO_OVERLAP: F.when(followed, F.coalesce(early, F.lit(True))),
            GAPS: F.when(followed, F.coalesce(apart & same_life, F.lit(False))),
            BOUNDS: F.col("_valid_from").isNull() | backward,
        },
    )
    of_keys = _judge_keys(rows, keys, cutoff)
    by_version = dict.fromkeys((NO_OVERLAP, GAPS, BOUNDS), of_versions)
    return {ONE_OPEN: of_keys, **by_version, CURRENT: of_keys}


def _judge_units(rows: DataFrame, unit: Column, laws: Mapping[str, Column]) -> DataFrame:
    """A frame of several laws; a unit for which the verdict is null is none of that law's."""
    judged = [
        F.struct(F.lit(law).alias("law"), unit.alias("unit"), bad.alias("bad"))
        for law, bad in laws.items()
    ]
    return rows.select(F.inline(F.array(*judged))).where("bad IS NOT NULL")


def key_text(keys: list[str]) -> Column:
    """The key as a JSON object."""
    return F.to_json(F.struct(*[column(k) for k in keys]), JSON_OPTIONS)


def _check_single(rows: DataFrame, identity: list[Column], unit: Column) -> DataFrame:
    counted = rows.groupBy(*identity).agg(F.count(F.lit(1)).alias("_n"))
    return counted.select(unit.alias("unit"), (F.col("_n") > 1).alias("bad"))


def _judge_keys(rows: DataFrame, keys: list[str], cutoff: bytes) -> DataFrame:
    """A key has one open version at most: its newest change, if an upsert above the cut-off."""
    # A window, not the fold: see `build_history_laws`.
    by_key = Window.partitionBy(*[column(k) for k in keys]).orderBy(F.desc("_order"))
    newest = F.row_number().over(by_key) == 1
    above = F.col("_order") > F.expr(order_literal(cutoff))
    due = newest & (F.col("_operation") == UPSERT) & above
    marked = rows.withColumn("_due", due)
    counted = marked.groupBy(*[column(k) for k in keys]).agg(
        F.count_if("_is_current").alias("_n"),
        F.bool_or(F.coalesce(F.col("_due") != F.col("_is_current"), F.lit(True))).alias("_other"),
    )
    laws = {ONE_OPEN: F.col("_n") > 1, CURRENT: F.col("_other")}
    return _judge_units(counted, key_text(keys), laws)


IN_THE_LOG = "the change log holds every bronze record once"
ADDS_UP = "the outcomes of every run add up to its records"


def build_arrival_laws(lake: Lake, table: Table, seen: TableState) -> dict[str, DataFrame]:
    """Both laws about arrival; that of the log only once something is applied.

    The log's deletes by a full snapshot file have no record in bronze.
    """
    laws = {
        ADDS_UP: check_counts(
            ledger.read_entries(lake).where(_is_of_table(table) & (F.col("status") != "begun"))
        )
    }
    if not any(seen.positions.values()):
        return laws
    silver_table = SilverTable(lake, table)
    raw = bronze_rows.read_new_rows(silver_table, {}, seen.positions)
    reached = [F.lit(part) for feed in seen.positions.items() for part in feed]
    rows = log.read_log(silver_table)
    rows = rows.where(F.col("_feed_batch") <= F.create_map(*reached)[F.col("_feed")])
    if table.format == "snapshot":
        rows = rows.where(~F.col("_letter").eqNullSafe(F.lit(EXTRACT_NOTES[0])))
    return {IN_THE_LOG: check_log(raw, rows), **laws}


def check_log(raw: DataFrame, rows: DataFrame) -> DataFrame:
    """Ingest batches of the feeds; one is bad when the log lacks or repeats a record of it."""
    given = raw.groupBy("_feed", F.col("_batch").alias("_feed_batch"))
    firsts = rows.where(~F.col("_arrival").contains(ROW_MARK))
    kept = firsts.groupBy("_feed", "_feed_batch").agg(
        F.count(F.lit(1)).alias("_kept"), F.countDistinct("_arrival").alias("_distinct")
    )
    both = given.agg(F.count(F.lit(1)).alias("_raw")).join(kept, ["_feed", "_feed_batch"], "full")
    counts = F.coalesce("_raw", F.lit(0)), F.coalesce("_kept", F.lit(0))
    text = "bronze.%s batch %d: %d in bronze, %d in the log"
    bad = (counts[0] != counts[1]) | (counts[1] != F.coalesce("_distinct", F.lit(0)))
    return both.select(
        F.format_string(text, "_feed", "_feed_batch", *counts).alias("unit"), bad.alias("bad")
    )


def check_counts(entries: DataFrame) -> DataFrame:
    """Ledger entries of silver; one is bad when its classes do not sum up to its records."""
    classes = F.map_filter(F.col("counts"), lambda name, _: ~name.isin("records", *ACCOUNT_NOTES))
    total = F.aggregate(F.map_values(classes), F.lit(0).cast("bigint"), lambda a, b: a + b)
    records = F.coalesce(F.col("counts")["records"], F.lit(0))
    text = F.format_string("run %s: %d records, %d in classes", "run_id", records, total)
    return entries.select(text.alias("unit"), (records != total).alias("bad"))


def _is_of_table(table: Table) -> Column:
    return (F.col("layer") == "silver") & (F.col("table") == table.table)
