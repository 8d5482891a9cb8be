"""The part of a change log that a table run applies, put in order.

A batch is applied on its own as long as it only adds to the order. A full snapshot that turns out
to have begun before changes that are applied already, or a change of an old key that arrives after
the key change that took a value from it, changes the past: then the table is recomputed from its
whole log. Tables whose columns have orders of their own, and those that show deleted rows and get
partial changes, have the keys of each batch recomputed: what a row held before its last delete is
not stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.spark.local_rows import as_text
from lakehouse.storage.delta_log import read_table_log
from silver.changelog import key_changes, log
from silver.decode.expressions.names import grouped_columns
from silver.fold.rules import Cutoff
from silver.run import SilverTable
from silver.state.epochs import (
    Epoch,
    SnapshotProgress,
    TableChanges,
    add_order_keys,
    epoch_number_column,
    filter_changes,
    find_truncates,
)
from silver.state.key_ranges import (
    KeyBounds,
    build_key_condition,
    list_bounded_keys,
    skips_enough_files,
)
from silver.state.summary import Summary, summarize, summarize_in_order
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import FEW, column, of_keys, to_all
from silver.storage.stages import end_stage


class Reach(Enum):
    """How much of the log a batch folds.

    Its new changes, to be folded with the table's rows; all changes of their keys; or the whole
    log, which replaces the table.
    """

    NEW = "new"
    KEYS = "keys"
    LOG = "log"


@dataclass(frozen=True)
class Batch:
    """What one table run applies. What follows from the attributes is computed on first use.

    Attributes:
        table: the table.
        rows: the log up to the newest batch of `after`; what is above the batch of `before` is new.
        before: the table's state without the new rows.
        after: its state with them, and the places where the source's positions start anew.
        may_wait: whether the new rows may stay pending.
        anew: whether the table is recomputed from all rows, whatever the new ones are.
    """

    table: SilverTable
    rows: DataFrame
    before: TableState
    after: TableState
    may_wait: bool = False
    anew: bool = False

    @classmethod
    def of_log(
        cls, table: SilverTable, before: TableState, after: TableState, may_wait: bool = False
    ) -> "Batch":
        """All that the change log holds up to the newest batch of `after`."""
        rows = log.read_log(table).where(F.col("_batch") <= after.logged)
        return cls(table, rows, before, after, may_wait)

    @property
    def number(self) -> int:
        """The newest batch of the log."""
        return self.after.logged

    def number_beside(self, name: str) -> Column:
        """The number for every row of the table, beside a column that each of them has."""
        return as_text(self.number, column(name).cast("string"))

    @cached_property
    def new_rows(self) -> DataFrame:
        """The log rows that are not applied yet."""
        return end_stage(self.rows.where(F.col("_batch") > self.before.batch))

    @cached_property
    def summary(self) -> Summary:
        """What the new rows hold."""
        if self.after.waits is not None:
            return self.after.waits
        config = self.table.config
        keys = list_bounded_keys(config, self.rows.schema)
        return summarize_in_order(self.new_rows, config, self.after.whole, keys)

    @property
    def logged(self) -> TableState:
        """The table's state with the new rows, their summary included."""
        return self.after.replace(waits=self.summary)

    @cached_property
    def reach(self) -> Reach:
        """How much of the log `changes` are."""
        if self.anew or self._reaches_back():
            return Reach.LOG
        if not self._needs_whole_keys():
            return Reach.NEW
        is_cut = self.before.batch > 0 and self._has_new_cutoff()
        return Reach.LOG if is_cut else Reach.KEYS

    @property
    def judged(self) -> DataFrame:
        """The log rows that have the batch's dead letters."""
        return self.rows if self.reach is Reach.LOG else self.new_rows

    @cached_property
    def table_changes(self) -> TableChanges:
        """The full snapshots and truncates of the table with those of the batch."""
        if self.reach is not Reach.LOG:
            return TableChanges(self._snapshot_progress, self._truncates)
        truncates = find_truncates(self._whole_log) if self.content.truncates else []
        return TableChanges(self._snapshot_progress, _unite_cutoffs(truncates))

    @cached_property
    def content(self) -> Summary:
        """The summary of the rows that `changes` come from."""
        return summarize(self.rows) if self.reach is Reach.LOG else self.summary

    @cached_property
    def epochs(self) -> list[Epoch]:
        """The table's full snapshots in order, with those of the batch."""
        return TableChanges(self._snapshot_progress, []).epochs

    @cached_property
    def cutoffs(self) -> list[Cutoff]:
        """The cut-offs in force, oldest first."""
        return self.table_changes.cutoffs(self._applies_truncates)

    @property
    def cutoff(self) -> bytes | None:
        """The order key below which no change counts any more; None without one."""
        return self.cutoffs[-1].order if self.cutoffs else None

    @cached_property
    def cutoff_is_new(self) -> bool:
        """Whether a cut-off comes in force with the batch."""
        return self.reach is Reach.LOG or self._has_new_cutoff()

    @cached_property
    def fields(self) -> list[StructField]:
        """The columns of the source that the log has."""
        return layout.list_source_fields(self.rows.schema)

    @cached_property
    def late(self) -> Mapping[str, int]:
        """Columns that rows of earlier batches did not carry, with the batch that brought them."""
        return log.list_late_columns(self.table.config, self.rows)

    @cached_property
    def is_partial(self) -> bool:
        """Whether some of the changes may not carry all columns of the table."""
        if self.content.partial or self.late:
            return True
        names = {field.name for field in self.fields}
        return not names.isdisjoint(grouped_columns(self.table.config))

    @property
    def has_seen_partial(self) -> bool:
        """Whether a row of the table may have columns with an order of their own."""
        return self.before.partial or bool(self.late)

    @property
    def needs_no_fold(self) -> bool:
        """Whether each change is known to be the row that a table without rows has of its key."""
        if not self.summary.distinct or self.reach is not Reach.NEW or self.is_partial:
            return False
        first = self.summary.first_order
        return self.cutoff is None or (first is not None and first >= self.cutoff)

    @property
    def size(self) -> int:
        """How many changes there are; of a batch of whole keys at least so many."""
        return self.content.changes

    @property
    def first_order(self) -> bytes | None:
        """The lowest order key of the changes, where that is known."""
        return self.summary.first_order if self.reach is Reach.NEW else None

    def key_range(self, alias: str = "") -> str | None:
        """SQL that is true on rows that may have a key of the batch; None where every row may.

        None too where the condition would skip few files of the table.
        """
        return build_key_condition(self._key_bounds, self.table.kept.schema, alias)

    @cached_property
    def _key_bounds(self) -> KeyBounds | None:
        """None where any row may be concerned: by values of another key, or a new cut-off."""
        bounds, is_any = self.summary.keys, self.cutoff_is_new or self.summary.key_changes
        if not bounds or is_any or self.reach is not Reach.NEW:
            return None
        kept = read_table_log(self.table.target, "silver", self.table.kept.table)
        return bounds if skips_enough_files(bounds, kept) else None

    @property
    def few(self) -> bool:
        """Whether a task's memory can hold all keys of the changes."""
        return self.size <= FEW

    @cached_property
    def changes(self) -> DataFrame:
        """Upserts and deletes with order keys, `_new` where they are the batch's own."""
        table, summary = self.table.config, self.summary
        if self.reach is Reach.LOG:
            whole = self._mark_new(self._whole_log)
            has_key_changes = self.content.key_changes and table.keys
            return key_changes.with_old_keys(whole, whole, table) if has_key_changes else whole
        if self.reach is Reach.KEYS:
            touched = filter_changes(self.new_rows).select(*map(column, table.keys)).distinct()
            changes = of_keys(self._mark_new(self._whole_log), touched, table)
            if not (self.before.key_changes or summary.key_changes):
                return changes
            return key_changes.with_old_keys(changes, self._mark_new(self._whole_log), table)
        new = filter_changes(add_order_keys(self.new_rows, table, self.epochs))
        new = new.withColumn("_new", F.lit(True))
        if summary.key_changes and table.keys:
            return key_changes.with_old_keys(new, filter_changes(self._whole_log), table)
        if not table.keys and self.before.batch and summary.oldest is not None:
            return self._with_equal_places(new, summary.oldest)
        return new

    @property
    def to_fold(self) -> DataFrame:
        """The changes; without `_absent` where each of them carries every column."""
        is_whole = self.reach is Reach.NEW and not self.is_partial
        return self.changes.drop("_absent") if is_whole else self.changes

    @property
    def keys(self) -> DataFrame:
        """The keys of the changes."""
        keys = self.changes.select(*map(column, self.table.config.keys))
        return to_all(keys, self.few)

    @property
    def _applies_truncates(self) -> bool:
        return self.table.config.on_truncate == "apply"

    @cached_property
    def _snapshot_progress(self) -> list[SnapshotProgress]:
        previous = self.before.whole.snapshot_progress
        began = [seen for seen in self.after.whole.snapshot_progress if seen not in previous]
        return [*previous, *began, *self.summary.snapshot_progress]

    @cached_property
    def _whole_log(self) -> DataFrame:
        """The whole log, in order."""
        return add_order_keys(self.rows, self.table.config, self.epochs)

    @cached_property
    def _truncates(self) -> list[Cutoff]:
        previous = self.before.whole.truncates
        if not self.summary.truncates:
            return previous
        new = add_order_keys(self.new_rows, self.table.config, self.epochs)
        return _unite_cutoffs([*previous, *find_truncates(new)])

    def _has_new_cutoff(self) -> bool:
        now = TableChanges(self._snapshot_progress, self._truncates).cutoffs(
            self._applies_truncates
        )
        return now != self.before.whole.cutoffs(self._applies_truncates)

    def _needs_whole_keys(self) -> bool:
        """Whether what a row held before its last delete, which is not stored, may be needed."""
        table = self.table.config
        if not table.keys or table.sequence_groups:
            return bool(table.keys)
        flagged = table.on_delete == "flag" and table.stored_as_scd_type == 1
        return flagged and (self.has_seen_partial or self.summary.incomplete > 0)

    def _mark_new(self, rows: DataFrame) -> DataFrame:
        return filter_changes(rows).withColumn("_new", F.col("_batch") > self.before.batch)

    def _with_equal_places(self, changes: DataFrame, oldest: str) -> DataFrame:
        """Changes without a key and the earlier ones at their places in order.

        Equal rows at one place are counted together.
        """
        earlier = (F.col("_batch") <= self.before.batch) & (F.col("_sequence") >= oldest)
        places = changes.where("_snapshot IS NULL").select("_sequence")
        marked = self._mark_new(self._whole_log.where(earlier))
        return changes.unionByName(marked.join(places, "_sequence", "left_semi"))

    def _reaches_back(self) -> bool:
        table, before = self.table.config, self.before
        if table.format != "debezium" or not before.batch:
            return False
        previous, now = before.whole.epochs, self.epochs
        is_same = _list_starts(previous) == _list_starts(now)
        if not is_same and _moves_any_change(self._applied_rows, previous, now):
            return True
        if not table.keys or not before.key_changes:
            return False
        parts = self._applied_rows, self.rows.where(F.col("_batch") > before.batch)
        old, new = (filter_changes(add_order_keys(part, table, now)) for part in parts)
        return key_changes.are_overtaken(old, new, table)

    @property
    def _applied_rows(self) -> DataFrame:
        """The log rows that are applied already."""
        return self.rows.where(F.col("_batch") <= self.before.batch)


def _unite_cutoffs(cutoffs: list[Cutoff]) -> list[Cutoff]:
    return sorted({*cutoffs}, key=lambda each: each.order)


def _list_starts(epochs: list[Epoch]) -> list[tuple[str, int, int | None, dict[str, str]]]:
    return [(e.snapshot, e.number, e.started, e.first) for e in epochs]


def _moves_any_change(earlier: DataFrame, before: list[Epoch], after: list[Epoch]) -> bool:
    """Whether some applied change belongs to another epoch now."""
    changes = earlier.where(F.col("_operation") != "none")
    return not changes.where(epoch_number_column(before) != epoch_number_column(after)).isEmpty()
