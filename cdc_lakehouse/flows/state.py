"""The state of a flow's target: the rows that the fold wrote, batch after batch.

`TARGET_auto_cdc` has what `silver.fold` needs of every key: values, order keys, tombstones, and of
a history the changes that make no version. A batch adds the rows that it writes. Of the rows of a
key (of a history: of a change) that of the highest batch counts; now and then the others are
removed.

With `tombstones_in_target` the target has the columns of the state. It has one row per key, which a
batch replaces; rows before a truncate, and now and then forgotten tombstones, are deleted.
"""

from functools import cached_property

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.definition import PREFIX, AutoCdcError, Definition
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import agree_on
from lakehouse.storage.statements import execute_with_rows, render_insert
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, UPSERT
from silver.fold.arrow import CURRENT_FACTS
from silver.fold.arrow_history import CHANGE_COLUMNS, HISTORY_FACTS
from silver.fold.order_key import order_literal, sequence_sql
from silver.fold.spark import Counts, Observed
from silver.merge.counted import correct_counts
from silver.merge.current import merge_sql
from silver.storage import layout
from silver.storage.row_columns import absent_before, column, to_all

PACKED_EVERY = 50
"""After so many batches the rows that count no more are removed."""
_CUTOFF, _CUTOFF_BATCH = f"{PREFIX}cutoff", f"{PREFIX}cutoff_batch"
_WIDENING = {"delta.enableTypeWidening": "true"}
_TAKEN = "another call has written the batch"


class FlowState:
    """The state in `TARGET_auto_cdc` or in the target; it is read when it is first needed."""

    def __init__(
        self, table: FlowTable, definition: Definition, retention: int | None = None
    ) -> None:
        """Takes the table, which may be missing, and after how many seconds deletes are forgotten.

        Only current tables forget deletes.
        """
        self.table, self.definition = table, definition
        self.in_target = definition.tombstones_in_target
        self.layer = HISTORY_COLUMNS if definition.keeps_history else CURRENT_COLUMNS
        self.retention = None if definition.keeps_history else retention

    @property
    def fields(self) -> list[T.StructField]:
        """The columns of the source that the state has."""
        state_columns = {each.name for each in self.layer}
        there = self.table.schema or T.StructType()
        return [field for field in there.fields if field.name not in state_columns]

    @property
    def values(self) -> list[str]:
        """The names of `fields` but the keys."""
        return [f.name for f in self.fields if f.name not in self.definition.keys]

    @cached_property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return self.table.read_properties()

    @property
    def is_known(self) -> bool:
        """Whether the table is there as a flow made it."""
        return self.table.exists and f"{PREFIX}keys" in self.properties

    @property
    def next_batch(self) -> int:
        """The number of the next batch, which no rows have."""
        return max(self.newest_batch + 1, self.cutoff_batch)

    @cached_property
    def newest_batch(self) -> int:
        """The highest batch that rows have; 0 without rows."""
        rows = self.table.spark.sql(f"SELECT max(_batch) FROM {self.table.name}").collect()
        return int(rows[0][0] or 0)

    @property
    def cutoff(self) -> bytes:
        """Order key of the newest truncate, before which nothing counts; empty without one."""
        return bytes.fromhex(self.properties.get(_CUTOFF, ""))

    @property
    def cutoff_batch(self) -> int:
        """The batch that brought the newest truncate; -1 without one."""
        return int(self.properties.get(_CUTOFF_BATCH, "-1"))

    def create(self, fields: list[T.StructField], sequence: T.DataType, comment: str) -> None:
        """Creates the table; or has the target, which may be there without rows, keep tombstones.

        The rows of `TARGET_auto_cdc` are never updated, so it needs no deletion vectors.
        """
        if self.in_target:
            self._prepare_target(fields, sequence)
            return
        kept = layout.properties_of(self.layer).items() - layout.OF_UPDATED_TABLES.items()
        properties = dict(kept) | self.definition.to_properties(sequence)
        self.table.create(layout.columns_sql(fields, self.layer), comment, properties)

    def _prepare_target(self, fields: list[T.StructField], sequence: T.DataType) -> None:
        """Gives the target, created if missing, the columns and properties of the state."""
        if not self.table.exists:
            self.table.create(layout.columns_sql(fields, ()), "", {})
        there = (self.table.schema or T.StructType()).names
        if new := tuple(each for each in self.layer if each.name not in there):
            self.table.add_columns(layout.columns_sql([], new))
        self.table.set_properties(self.definition.to_properties(sequence))
        self.__dict__.pop("properties", None)

    def add_columns(self, fields: list[T.StructField]) -> None:
        """Adds the columns that the table lacks, and widens types, for the batch that begins."""
        name, spark = self.table.name, self.table.spark
        there = self.table.schema or T.StructType()
        growth = layout.growth_sql(name, there, fields, self.next_batch)
        common = [field for field in fields if field.name in there.names]
        if self.in_target and layout.growth_sql(name, there, common):
            self.table.set_properties(_WIDENING)
        for text in growth:
            spark.sql(text)
        if growth:
            self.table.forget_schema()

    def record_truncate(self, order: bytes, batch: int) -> None:
        """Remembers the newest truncate; deletes older rows of a target that keeps tombstones."""
        if order > self.cutoff:
            properties = {_CUTOFF: order.hex(), _CUTOFF_BATCH: str(batch)}
            self.table.set_properties(properties)
            self.properties.update(properties)
        if self.in_target and self.has_truncate_of(batch):
            self.table.delete_where(f"_order < {order_literal(self.cutoff)}")

    def has_truncate_of(self, batch: int) -> bool:
        """Whether a batch brought the newest truncate."""
        return self.cutoff_batch == batch

    def select_counting(self, rows: DataFrame, spared: int = 0) -> DataFrame:
        """Of rows of the table those that count; and all of the batch `spared`.

        `rows` must hold all rows of each key that it has.
        """
        history = self.definition.keeps_history
        identity = [*map(column, self.definition.keys), *([F.col("_order")] if history else [])]
        last = Window.partitionBy(*identity).orderBy(F.desc("_batch"))
        counts = f"NOT ({self._forgotten_sql})"
        if self.cutoff:
            counts += f" AND _order >= {order_literal(self.cutoff)}"
        if self.in_target:
            return rows.where(counts)
        newest = rows.withColumn("__place", F.row_number().over(last)).where("__place = 1")
        return newest.where(f"({counts}) OR _batch = {spared}").drop("__place")

    @property
    def _forgotten_sql(self) -> str:
        """SQL of whether a row is a tombstone that counts no more."""
        if self.retention is None:
            return "false"
        return (
            f"_deleted AND _source_time < current_timestamp() - INTERVAL '{self.retention}' SECOND"
        )

    def find_parted(self, number: int) -> DataFrame | None:
        """The rows whose values may lie on both sides of this batch's truncate; None without any.

        Some of their values are of earlier changes than others.
        """
        if number == 1 or not self.has_truncate_of(number):
            return None
        rows = self.select_counting(self._read_rows()).where("_facts.columns IS NOT NULL")
        return None if rows.isEmpty() else rows

    def _read_rows(self) -> DataFrame:
        """All rows, with the columns that the fold takes."""
        history, held = self.definition.keeps_history, self.table.read()
        facts = (*HISTORY_FACTS, *CHANGE_COLUMNS) if history else CURRENT_FACTS
        state_columns = dict.fromkeys(["_batch", *(name for name, _ in facts)])
        late = layout.find_late_columns(held.schema)
        if late:
            operation = F.col("_operation") if history else F.lit(UPSERT)
            absent = F.col("_absent") if history else F.lit(None)
            state_columns["_absent"] = None
            held = held.withColumn("_absent", absent_before(late, operation, absent))
        return held.select(*[column(f.name) for f in self.fields], *state_columns)

    def read_stored(
        self, changes: DataFrame, few: bool, parted: DataFrame | None = None
    ) -> DataFrame:
        """The rows of the changes' keys; of a history, those that end after the first change.

        `few` says that every task can hold the changes' keys; `parted` are rows to be folded also.
        """
        keys, wanted = [*map(column, self.definition.keys)], self._read_rows()
        if not self.definition.keeps_history:
            own_keys = to_all(changes.select(*keys), few)
            rows_of_keys = self.select_counting(
                wanted.join(own_keys, [*self.definition.keys], "left_semi")
            )
            if parted is None:
                return rows_of_keys
            return rows_of_keys.where("_facts.columns IS NULL").unionByName(parted)
        first = changes.groupBy(*keys).agg(F.min("_order").alias("__first"))
        rows = self.select_counting(wanted.join(to_all(first, few), [*self.definition.keys]))
        begins = F.expr(sequence_sql("__first"))
        needed = F.col("_next_order").isNull() | (F.col("_next_order") >= begins)
        return rows.where(needed).drop("__first")

    def remove_outdated(self, newest: int) -> None:
        """Removes rows that count no more, except the newest batch's, which keep its number."""
        if newest % PACKED_EVERY:
            return
        if self.in_target:
            self.table.delete_where(f"{self._forgotten_sql} AND _batch <> {newest}")
        else:
            self.table.replace_rows(self.select_counting(self.table.read(), spared=newest))

    def write_batch(self, written: Observed, number: int) -> Counts:
        """Adds the folded rows of a batch, or puts them in place of the target's.

        The MERGE fails if another call writes while it runs. If another call has already written a
        batch of this number, the MERGE into `TARGET_auto_cdc` matches its rows and adds none, and
        the MERGE into the target fails at the first of them.

        Returns:
            What the fold counted.

        Raises:
            AutoCdcError: another call wrote a batch at the same time.
        """
        names = [*self.definition.keys, *self.values, *(each.name for each in self.layer)]
        rows = written.rows.withColumn("_batch", F.lit(number).cast("bigint"))
        text = (
            f"MERGE INTO {self.table.name} t USING {{rows}} s"
            f" ON t._batch = s._batch AND t._batch = {number}"
            f" WHEN NOT MATCHED THEN {render_insert(names)}"
        )
        if self.in_target:
            same_key = agree_on("t", "s", self.definition.keys, ())
            free = f"if(t._batch < {number}, true, CAST(raise_error('{_TAKEN}') AS BOOLEAN))"
            columns = ([*self.definition.keys], self.values)
            text = merge_sql(self.table.name, f"{same_key} AND {free}", columns, None)
        try:
            result = execute_with_rows(self.table.spark, text, rows).collect()[0].asDict()
        except SPARK_FAILURES as error:
            if _TAKEN not in str(error):
                raise
            raise _build_taken_error(number) from None
        if written.counts.rows and not result["num_affected_rows"]:
            raise _build_taken_error(number)
        return correct_counts(written.counts, result)


def _build_taken_error(number: int) -> AutoCdcError:
    return AutoCdcError("AUTOCDC_CONCURRENT_BATCH", f"{_TAKEN} {number}; call again.")
