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
from lakehouse.storage.names import same
from lakehouse.storage.statements import execute, inserting
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, UPSERT
from silver.fold.arrow import CURRENT_FACTS, HISTORY_CHANGE, HISTORY_FACTS
from silver.fold.order_key import order_literal, sequence_sql
from silver.fold.spark import Counts, Observed
from silver.merge.counted import confirmed
from silver.merge.current import merge_sql
from silver.storage import layout
from silver.storage.row_columns import absent_before, column, to_all

PACKED_EVERY = 50
"""After so many batches the rows that count no more are removed."""
_CUTOFF, _CUTOFF_BATCH = f"{PREFIX}cutoff", f"{PREFIX}cutoff_batch"
_WIDENING = {"delta.enableTypeWidening": "true"}
_TAKEN = "another call has written the batch"


class FlowState:
    """The rows of `TARGET_auto_cdc` or of the target, looked up when they are first asked for."""

    def __init__(
        self, table: FlowTable, definition: Definition, retention: int | None = None
    ) -> None:
        """Takes the table, which may be missing, and after how many seconds deletes are forgotten.

        Only current tables forget deletes.
        """
        self.table, self.definition = table, definition
        self.in_target = definition.tombstones_in_target
        self.layer = HISTORY_COLUMNS if definition.history else CURRENT_COLUMNS
        self.retention = None if definition.history else retention

    @property
    def fields(self) -> list[T.StructField]:
        """The columns of the source that the state has."""
        own = {each.name for each in self.layer}
        there = self.table.schema or T.StructType()
        return [field for field in there.fields if field.name not in own]

    @property
    def values(self) -> list[str]:
        """The names of `fields` but the keys."""
        return [f.name for f in self.fields if f.name not in self.definition.keys]

    @cached_property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return self.table.properties()

    @property
    def is_known(self) -> bool:
        """Whether the table is there as a flow made it."""
        return self.table.exists and f"{PREFIX}keys" in self.properties

    @property
    def number(self) -> int:
        """The number of the next batch, which no rows have."""
        return max(self.newest + 1, self.cutoff_batch)

    @cached_property
    def newest(self) -> int:
        """The highest batch that rows have; 0 without rows."""
        found = self.table.spark.sql(f"SELECT max(_batch) FROM {self.table.name}").collect()
        return int(found[0][0] or 0)

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
            self._settle(fields, sequence)
            return
        kept = layout.properties_of(self.layer).items() - layout.OF_UPDATED_TABLES.items()
        properties = dict(kept) | self.definition.properties(sequence)
        self.table.create(layout.columns_sql(fields, self.layer), comment, properties)

    def _settle(self, fields: list[T.StructField], sequence: T.DataType) -> None:
        """Gives the target, created if missing, the columns and properties of the state."""
        if not self.table.exists:
            self.table.create(layout.columns_sql(fields, ()), "", {})
        there = (self.table.schema or T.StructType()).names
        if new := tuple(each for each in self.layer if each.name not in there):
            self.table.add(layout.columns_sql([], new))
        self.table.set_properties(self.definition.properties(sequence))
        self.__dict__.pop("properties", None)

    def grow(self, fields: list[T.StructField]) -> None:
        """Adds the columns that the table lacks, and widens types, for the batch that begins."""
        name, spark = self.table.name, self.table.spark
        there = self.table.schema or T.StructType()
        growth = layout.growth_sql(name, there, fields, self.number)
        common = [field for field in fields if field.name in there.names]
        if self.in_target and layout.growth_sql(name, there, common):
            self.table.set_properties(_WIDENING)
        for text in growth:
            spark.sql(text)
        if growth:
            self.table.forget()

    def cut(self, order: bytes, batch: int) -> None:
        """Remembers the newest truncate; deletes older rows of a target that keeps tombstones."""
        if order > self.cutoff:
            told = {_CUTOFF: order.hex(), _CUTOFF_BATCH: str(batch)}
            self.table.set_properties(told)
            self.properties.update(told)
        if self.in_target and self.cuts(batch):
            self.table.remove(f"_order < {order_literal(self.cutoff)}")

    def cuts(self, batch: int) -> bool:
        """Whether a batch brought the newest truncate."""
        return self.cutoff_batch == batch

    def counting(self, found: DataFrame, spared: int = 0) -> DataFrame:
        """Of rows of the table those that count; and all of the batch `spared`.

        Whoever asks for some keys gives all of their rows.
        """
        history = self.definition.history
        identity = [*map(column, self.definition.keys), *([F.col("_order")] if history else [])]
        last = Window.partitionBy(*identity).orderBy(F.desc("_batch"))
        counts = f"NOT ({self._forgotten})"
        if self.cutoff:
            counts += f" AND _order >= {order_literal(self.cutoff)}"
        if self.in_target:
            return found.where(counts)
        newest = found.withColumn("__place", F.row_number().over(last)).where("__place = 1")
        return newest.where(f"({counts}) OR _batch = {spared}").drop("__place")

    @property
    def _forgotten(self) -> str:
        """SQL of whether a row is a tombstone that counts no more."""
        if self.retention is None:
            return "false"
        return (
            f"_deleted AND _source_time < current_timestamp() - INTERVAL '{self.retention}' SECOND"
        )

    def parted(self, number: int) -> DataFrame | None:
        """The rows whose values a truncate of this batch may cut in two; None without any.

        Some of their values are of earlier changes than others.
        """
        if number == 1 or not self.cuts(number):
            return None
        found = self.counting(self._held()).where("_facts.columns IS NOT NULL")
        return None if found.isEmpty() else found

    def _held(self) -> DataFrame:
        """All rows, with the columns that the fold takes."""
        history, held = self.definition.history, self.table.read()
        facts = (*HISTORY_FACTS, *HISTORY_CHANGE) if history else CURRENT_FACTS
        own = dict.fromkeys(["_batch", *(name for name, _ in facts)])
        late = layout.late(held.schema)
        if late:
            operation = F.col("_operation") if history else F.lit(UPSERT)
            absent = F.col("_absent") if history else F.lit(None)
            own["_absent"] = None
            held = held.withColumn("_absent", absent_before(late, operation, absent))
        return held.select(*[column(f.name) for f in self.fields], *own)

    def stored(self, changes: DataFrame, few: bool, parted: DataFrame | None = None) -> DataFrame:
        """The rows that the fold needs: of the changes' keys; of a history from the first on.

        `few` says that every task can hold the changes' keys; `parted` are rows to be folded also.
        """
        keys, wanted = [*map(column, self.definition.keys)], self._held()
        if not self.definition.history:
            own_keys = to_all(changes.select(*keys), few)
            own = self.counting(wanted.join(own_keys, [*self.definition.keys], "left_semi"))
            if parted is None:
                return own
            return own.where("_facts.columns IS NULL").unionByName(parted)
        first = changes.groupBy(*keys).agg(F.min("_order").alias("__first"))
        found = self.counting(wanted.join(to_all(first, few), [*self.definition.keys]))
        begins = F.expr(sequence_sql("__first"))
        needed = F.col("_next_order").isNull() | (F.col("_next_order") >= begins)
        return found.where(needed).drop("__first")

    def pack(self, newest: int) -> None:
        """Removes the rows that count no more; those of the newest batch keep its number known."""
        if newest % PACKED_EVERY:
            return
        if self.in_target:
            self.table.remove(f"{self._forgotten} AND _batch <> {newest}")
        else:
            self.table.replace(self.counting(self.table.read(), spared=newest))

    def write(self, written: Observed, number: int) -> Counts:
        """Adds the folded rows of a batch, or puts them in place of the target's.

        The MERGE fails where another call writes while it runs. A call that has written a batch of
        this number meanwhile shows by its rows: the MERGE into `TARGET_auto_cdc` matches them and
        adds none; that into the target fails where it meets one.

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
            f" WHEN NOT MATCHED THEN {inserting(names)}"
        )
        if self.in_target:
            own = same("t", "s", self.definition.keys, ())
            free = f"if(t._batch < {number}, true, CAST(raise_error('{_TAKEN}') AS BOOLEAN))"
            columns = ([*self.definition.keys], self.values)
            text = merge_sql(self.table.name, f"{own} AND {free}", columns, None)
        try:
            result = execute(self.table.spark, text, rows).collect()[0].asDict()
        except SPARK_FAILURES as error:
            if _TAKEN not in str(error):
                raise
            raise _taken(number) from None
        if written.counts.rows and not result["num_affected_rows"]:
            raise _taken(number)
        return confirmed(written.counts, result)


def _taken(number: int) -> AutoCdcError:
    return AutoCdcError("AUTOCDC_CONCURRENT_BATCH", f"{_TAKEN} {number}; call again.")
