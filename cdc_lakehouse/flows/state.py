"""The state of a flow's target: the rows that the fold wrote, batch after batch.

`TARGET_auto_cdc` has what `silver.fold` needs of every key: values, order keys, tombstones, and of
a history the changes that make no version. A batch adds the rows that it writes. Of the rows of a
key (of a history: of a change) that of the highest batch counts; now and then the others are
removed.
"""

from functools import cached_property

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.definition import PREFIX, AutoCdcError, Definition
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.storage.statements import execute, inserting
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, UPSERT
from silver.fold.arrow import CURRENT_FACTS, HISTORY_CHANGE, HISTORY_FACTS
from silver.fold.order_key import order_literal, sequence_sql
from silver.fold.spark import Counts, Observed
from silver.merge.counted import confirmed
from silver.storage import layout
from silver.storage.row_columns import absent_before, column, to_all

PACKED_EVERY = 50
"""After so many batches the rows that count no more are removed."""
_CUTOFF, _CUTOFF_BATCH = f"{PREFIX}cutoff", f"{PREFIX}cutoff_batch"


class FlowState:
    """The rows of `TARGET_auto_cdc`, looked up when they are first asked for."""

    def __init__(
        self, table: FlowTable, definition: Definition, retention: int | None = None
    ) -> None:
        """Takes the table, which may be missing, and after how many seconds deletes are forgotten.

        Only current tables forget deletes.
        """
        self.table, self.definition = table, definition
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
        """Creates the table; its rows are never updated, so it needs no deletion vectors."""
        kept = layout.properties_of(self.layer).items() - layout.OF_UPDATED_TABLES.items()
        properties = dict(kept) | self.definition.properties(sequence)
        self.table.create(layout.columns_sql(fields, self.layer), comment, properties)

    def grow(self, fields: list[T.StructField]) -> None:
        """Adds the columns that the table lacks, and widens types, for the batch that begins."""
        name, spark = self.table.name, self.table.spark
        there = self.table.schema or T.StructType()
        growth = layout.growth_sql(name, there, fields, self.newest + 1)
        for text in growth:
            spark.sql(text)
        if growth:
            self.table.forget()

    def cut(self, order: bytes, batch: int) -> None:
        """Remembers a truncate, if it is the newest."""
        if order > self.cutoff:
            told = {_CUTOFF: order.hex(), _CUTOFF_BATCH: str(batch)}
            self.table.set_properties(told)
            self.properties.update(told)

    def counting(self, found: DataFrame, spared: int = 0) -> DataFrame:
        """Of rows of the table those that count; and all of the batch `spared`.

        Whoever asks for some keys gives all of their rows.
        """
        history = self.definition.history
        identity = [*map(column, self.definition.keys), *([F.col("_order")] if history else [])]
        last = Window.partitionBy(*identity).orderBy(F.desc("_batch"))
        newest = found.withColumn("__place", F.row_number().over(last)).where("__place = 1")
        counts = "true"
        if self.cutoff:
            counts += f" AND _order >= {order_literal(self.cutoff)}"
        if self.retention is not None:
            since = f"current_timestamp() - INTERVAL '{self.retention}' SECOND"
            counts += f" AND NOT (_deleted AND _source_time < {since})"
        return newest.where(f"({counts}) OR _batch = {spared}").drop("__place")

    def stored(self, changes: DataFrame, few: bool) -> DataFrame:
        """The rows that the fold needs: of the changes' keys; of a history from the first on.

        `few` says that every task can hold the changes' keys.
        """
        history, held = self.definition.history, self.table.read()
        facts = (*HISTORY_FACTS, *HISTORY_CHANGE) if history else CURRENT_FACTS
        own = dict.fromkeys(["_batch", *(name for name, _ in facts)])
        late = layout.late(held.schema)
        if late:
            operation = F.col("_operation") if history else F.lit(UPSERT)
            absent = F.col("_absent") if history else F.lit(None)
            own["_absent"] = None
            held = held.withColumn("_absent", absent_before(late, operation, absent))
        keys = [*map(column, self.definition.keys)]
        wanted = held.select(*[column(f.name) for f in self.fields], *own)
        if not history:
            own_keys = to_all(changes.select(*keys), few)
            return self.counting(wanted.join(own_keys, [*self.definition.keys], "left_semi"))
        first = changes.groupBy(*keys).agg(F.min("_order").alias("__first"))
        found = self.counting(wanted.join(to_all(first, few), [*self.definition.keys]))
        begins = F.expr(sequence_sql("__first"))
        needed = F.col("_next_order").isNull() | (F.col("_next_order") >= begins)
        return found.where(needed).drop("__first")

    def pack(self, newest: int) -> None:
        """Removes the rows that count no more; those of the newest batch keep its number known."""
        if not newest % PACKED_EVERY:
            self.table.replace(self.counting(self.table.read(), spared=newest))

    def append(self, written: Observed, number: int) -> Counts:
        """Adds the folded rows of a batch; what the fold counted.

        The MERGE matches where another call has written a batch of this number meanwhile, and fails
        where one does so while it runs.

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
        result = execute(self.table.spark, text, rows).collect()[0].asDict()
        if written.counts.rows and not result["num_inserted_rows"]:
            text = f"another call has written batch {number}; call again."
            raise AutoCdcError("AUTOCDC_CONCURRENT_BATCH", text)
        return confirmed(written.counts, result)
