"""The law that a rebuild changes nothing: bronze, decoded and folded again, gives silver's rows.

Nothing is written. The records are decoded anew, put in order and folded by the functions that a
run uses. Left out are records that wait for their transaction, and those that the change log has
rejected: rules are not applied anew.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake
from lakehouse.words import JSON_OPTIONS
from silver.audit.row_checks import key_text
from silver.changelog import bronze_rows, key_changes, log
from silver.changelog.batch import Batch
from silver.contract import sequence_text
from silver.decode.spark import decode_known
from silver.fold.order_key import sequence_sql
from silver.fold.rules import Cutoff
from silver.groups.transactions import select_waiting
from silver.merge import current, history, keyless
from silver.run import SilverTable
from silver.state.epochs import add_order_keys, filter_changes
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import column, hash_change
from silver.storage.stages import add_plan_barrier

SAME = "a rebuild from bronze gives the same rows"
_RECORD = ["_feed", "_arrival"]
_VERSION = ("_valid_from", "_valid_to", "_sequence_from", "_sequence_to", "_is_current")
_BOUNDS = {"_sequence_from": "_from_order", "_sequence_to": "_to_order"}


def build_rebuild_law(
    lake: Lake, table: Table, seen: TableState, sample: int | None
) -> tuple[dict[str, DataFrame], bool]:
    """The law, and whether it is judged on some keys only: about `sample`, where more are stored.

    There is no law while silver holds nothing of the table.

    A unit is a key; a table without a key is compared as a whole, by changes. Tables of snapshot
    files have no such law: their changes depend on the state that the files were compared with.
    """
    is_history, silver_table = table.stored_as_scd_type == 2, SilverTable(lake, table)
    begun = any(seen.positions.values()) and silver_table.kept.exists
    if not begun or table.format == "snapshot":
        return {}, False
    stored = silver_table.kept.read()
    values = [f.name for f in layout.list_source_fields(stored.schema) if f.name not in table.keys]
    batch = _decode_again(silver_table, seen, stored, values)
    if not table.keys:
        return {SAME: _without_key(batch, stored, values)}, False
    logged = read_table_log(lake.target, "silver", f"{table.table}_changes")
    if logged is not None and logged.rows is not None and logged.rows <= (sample or 0):
        sample = None
    chosen = None if sample is None else _choose_keys(batch.rows, table, sample, seen.batch)
    if chosen is not None:
        batch, stored = replace(batch, decoded=batch.decoded.where(chosen)), stored.where(chosen)
    compared = _check_versions if is_history else _check_rows
    return {SAME: compared(batch, stored, table, values)}, chosen is not None


@dataclass(frozen=True)
class _DecodedAgain(Batch):
    """All that bronze holds, as one batch for an empty table.

    Its summary (`content`) is that of the change log.

    Attributes:
        decoded: the records, decoded again and in order.
    """

    decoded: DataFrame = field(kw_only=True)

    @cached_property
    def changes(self) -> DataFrame:
        """The records, with those of keys from which rows moved."""
        config = self.table.config
        if self.content.key_changes and config.keys:
            return key_changes.with_old_keys(self.decoded, self.decoded, config)
        return self.decoded

    @cached_property
    def cutoffs(self) -> list[Cutoff]:
        """The cut-offs that were applied to the stored rows."""
        return self.after.whole.cutoffs(self.table.config.on_truncate == "apply")


def _decode_again(
    silver_table: SilverTable, seen: TableState, stored: DataFrame, values: list[str]
) -> _DecodedAgain:
    """Decodes again everything that bronze holds."""
    table, logged = silver_table.config, log.read_log(silver_table)
    raw = bronze_rows.read_new_rows(silver_table, {}, seen.positions)
    learned, schemas = silver_table.log.business, bronze_rows.avro_schemas(silver_table)
    decoded = add_plan_barrier(decode_known(raw, table, learned, seen.built, schemas))
    left_out = logged.where(F.col("_reason").isNotNull() | (F.col("_batch") > seen.batch))
    if seen.group is not None and (waits := seen.group.waiting):
        left_out = left_out.unionByName(select_waiting(waits, logged))
    accepted = decoded.join(left_out.select(*_RECORD), _RECORD, "left_anti")
    ordered = add_order_keys(accepted, table, seen.whole.epochs)
    changes = _add_columns(filter_changes(ordered), stored, values)
    empty = TableState()
    return _DecodedAgain(silver_table, logged, empty, seen, anew=True, decoded=changes)


def _check_versions(batch: Batch, stored: DataFrame, table: Table, values: list[str]) -> DataFrame:
    rebuilt = history.first_versions(batch, values)
    shown = [*values, *_VERSION]
    return _diff_rows(_versions_of(rebuilt), _versions_of(stored), table, shown)


def _versions_of(rows: DataFrame) -> DataFrame:
    bounds = {name: F.expr(sequence_text(order)) for name, order in _BOUNDS.items()}
    return rows.where("_shown").withColumns(bounds)


def _check_rows(batch: Batch, stored: DataFrame, table: Table, values: list[str]) -> DataFrame:
    rebuilt = current.first_rows(batch, values)
    return _diff_rows(_select_live(rebuilt), _select_live(stored), table, [*values, "_place"])


def _add_columns(changes: DataFrame, stored: DataFrame, values: list[str]) -> DataFrame:
    """The changes with every column that is stored, and their digest."""
    lacking = {
        v: F.lit(None).cast(stored.schema[v].dataType) for v in values if v not in changes.columns
    }
    batch_columns = {"_batch": F.lit(0), "_new": F.lit(True)}
    whole = changes.withColumns(lacking | batch_columns)
    return whole.withColumn("_digest", hash_change(whole.schema, values))


def _choose_keys(rows: DataFrame, table: Table, sample: int, salt: int) -> Column | None:
    """Whether a key is in the sample, which `salt` makes another one after each run; None: all."""
    row = rows.agg(F.approx_count_distinct(key_text(table.keys)).alias("n")).first()
    share = (row["n"] if row else 0) // max(1, sample)
    if share < 2:
        return None
    return F.pmod(F.xxhash64(key_text(table.keys), F.lit(salt)), F.lit(share)) == 0


def _select_live(rows: DataFrame) -> DataFrame:
    place = F.hex(F.expr(sequence_sql("_order")))
    return rows.where("NOT _deleted").withColumn("_place", place)


def _diff_rows(rebuilt: DataFrame, stored: DataFrame, table: Table, shown: list[str]) -> DataFrame:
    content = F.to_json(F.struct(*[column(c) for c in shown]), JSON_OPTIONS)
    counted = _count_extra(rebuilt, stored, key_text(table.keys), content)
    return counted.groupBy("unit").agg(F.bool_or(F.col("_n") != 0).alias("bad"))


def _without_key(batch: Batch, stored: DataFrame, values: list[str]) -> DataFrame:
    rebuilt = keyless.new_rows(batch, None, values)
    counted = _count_extra(rebuilt, stored, F.col("_row"), F.lit(""))
    return counted.select("unit", (F.col("_n") != 0).alias("bad"))


def _count_extra(rebuilt: DataFrame, stored: DataFrame, unit: Column, content: Column) -> DataFrame:
    """How many more rows of a unit and content the rebuild has than what is stored, as `_n`."""
    sides = [
        rows.select(unit.alias("unit"), content.alias("_content"), F.lit(sign).alias("_n"))
        for rows, sign in ((rebuilt, 1), (stored, -1))
    ]
    return sides[0].unionByName(sides[1]).groupBy("unit", "_content").agg(F.sum("_n").alias("_n"))
