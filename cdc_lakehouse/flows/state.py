"""What a flow's target is made from: `TARGET_auto_cdc`, a table that batches only add to.

A batch adds the rows that `silver.fold` makes of its changes: values, order keys, tombstones, and
of a history the changes that make no version. The row of a key (of a history: of a change) that the
highest `_batch` wrote *counts*, the earlier ones are outdated. Rows from before a truncate count
no more, nor do tombstones that are forgotten. Now and then the rows that do not count are removed.

The table's properties keep what the flow was defined with, and the newest truncate.
"""

from functools import cached_property

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.definition import PREFIX, AutoCdcError, Definition
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.storage.statements import execute_with_rows, render_insert
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, UPSERT
from silver.fold.arrow import CURRENT_FACTS
from silver.fold.arrow_history import CHANGE_COLUMNS, HISTORY_FACTS
from silver.fold.order_key import order_literal, sequence_sql
from silver.fold.spark import Counts, Observed
from silver.merge.counted import correct_counts
from silver.storage import layout
from silver.storage.row_columns import absent_before, column, to_all

PACKED_EVERY = 50
"""After so many batches the rows that count no more are removed."""
_CUTOFF, _CUTOFF_BATCH = f"{PREFIX}cutoff", f"{PREFIX}cutoff_batch"


class FlowState:
    """The table `TARGET_auto_cdc`. What is known of it is read when it is first needed."""

    def __init__(
        self, table: FlowTable, definition: Definition, retention: int | None = None
    ) -> None:
        """Takes the table, which may be missing, and after how many seconds deletes are forgotten.

        Only current tables forget deletes.
        """
        self.table, self.definition = table, definition
        self.layer = HISTORY_COLUMNS if definition.keeps_history else CURRENT_COLUMNS
        self.retention = None if definition.keeps_history else retention

    @property
    def fields(self) -> list[T.StructField]:
        """The columns of the source that the table has."""
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
        """Creates the table. Its rows are never updated, so it needs no deletion vectors."""
        kept = layout.properties_of(self.layer).items() - layout.OF_UPDATED_TABLES.items()
        properties = dict(kept) | self.definition.to_properties(sequence)
        self.table.create(layout.columns_sql(fields, self.layer), comment, properties)

    def add_columns(self, fields: list[T.StructField]) -> None:
        """Adds the columns that the table lacks, and widens types, for the batch that begins."""
        there = self.table.schema or T.StructType()
        growth = layout.growth_sql(self.table.name, there, fields, self.next_batch)
        for text in growth:
            self.table.spark.sql(text)
        if growth:
            self.table.forget_schema()

    def record_truncate(self, order: bytes, batch: int) -> None:
        """Remembers a truncate, if it is the newest."""
        if order > self.cutoff:
            properties = {_CUTOFF: order.hex(), _CUTOFF_BATCH: str(batch)}
            self.table.set_properties(properties)
            self.properties.update(properties)

    def select_counting(self, rows: DataFrame, spared: int = 0) -> DataFrame:
        """Of rows of the table those that count; and the newest of a key that batch `spared` wrote.

        `rows` must hold all rows of each key that it has.
        """
        order = [F.col("_order")] if self.definition.keeps_history else []
        identity = [*map(column, self.definition.keys), *order]
        last = Window.partitionBy(*identity).orderBy(F.desc("_batch"))
        newest = rows.withColumn("__rank", F.row_number().over(last)).where("__rank = 1")
        counts = f"({self._render_counts()}) OR _batch = {spared}"
        return newest.where(counts).drop("__rank")

    def _render_counts(self) -> str:
        """SQL of whether a key's newest row lies after the truncate and is not forgotten."""
        after = f"_order >= {order_literal(self.cutoff)}" if self.cutoff else "true"
        if self.retention is None:
            return after
        forgotten = f"current_timestamp() - INTERVAL '{self.retention}' SECOND"
        return f"{after} AND NOT (_deleted AND _source_time < {forgotten})"

    def read_stored(self, changes: DataFrame, few: bool, number: int) -> DataFrame:
        """The rows with which the changes of batch `number` are folded.

        Those of the changes' keys; of a history, the ones that end after the key's first change. If
        the batch brings a truncate, also those of other keys that it may cut in two.

        `few` says that every task can hold the changes' keys.
        """
        if self.definition.keeps_history:
            return self._read_stored_versions(changes, few)
        names, held = [*self.definition.keys], self._read_rows()
        own_keys = to_all(changes.select(*map(column, names)), few)
        rows = self.select_counting(held.join(own_keys, names, "left_semi"))
        if self.cutoff_batch != number:
            return rows
        return rows.where("_facts.columns IS NULL").unionByName(self._read_parted())

    def has_parted(self, number: int) -> bool:
        """Whether batch `number` brings a truncate that may lie between the values of a row."""
        return 1 < number == self.cutoff_batch and not self._read_parted().isEmpty()

    def _read_parted(self) -> DataFrame:
        """The rows of which some values are of earlier changes than others."""
        return self.select_counting(self._read_rows()).where("_facts.columns IS NOT NULL")

    def _read_stored_versions(self, changes: DataFrame, few: bool) -> DataFrame:
        names = [*self.definition.keys]
        first = changes.groupBy(*map(column, names)).agg(F.min("_order").alias("__first"))
        rows = self.select_counting(self._read_rows().join(to_all(first, few), names))
        begins = F.expr(sequence_sql("__first"))
        needed = F.col("_next_order").isNull() | (F.col("_next_order") >= begins)
        return rows.where(needed).drop("__first")

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

    def remove_outdated(self, newest: int) -> None:
        """Removes rows that count no more, except the newest batch's, which keep its number."""
        if newest % PACKED_EVERY == 0:
            self.table.replace_rows(self.select_counting(self.table.read(), spared=newest))

    def write_batch(self, written: Observed, number: int) -> Counts:
        """Adds the folded rows of a batch.

        The MERGE fails if another call writes while it runs. If another call has already written a
        batch of this number, it matches that batch's rows and adds none.

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
        result = execute_with_rows(self.table.spark, text, rows).collect()[0].asDict()
        if written.counts.rows and not result["num_affected_rows"]:
            problem = f"another call has written the batch {number}; call again."
            raise AutoCdcError("AUTOCDC_CONCURRENT_BATCH", problem)
        return correct_counts(written.counts, result)
