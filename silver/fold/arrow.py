"""The law over Arrow record batches: what `mapInArrow` calls in a Spark task.

Input are rows of whole keys: the key columns, the columns of `FoldRules.columns`, and

- `_order` (binary), `_digest` (bigint), `_source_time` (timestamp).
- `_operation` (string): upsert or delete. Stored rows of a current table need none.
- `_absent` (array<string>): columns that the row does not carry; of a stored row of a current table
  those that came to the table after the row was written. May be missing.
- `_group_sequences` (map<string,string>): only where columns have an order of their own.
- `_moved_from` and `_belongs_to` (bigint), both only where rows moved to other keys. `_moved_from`:
  the key that this change's row left. `_belongs_to`: set on a change of that old key, which is
  listed here only to give values.
- `_new` (boolean): true on a change of this batch; false on stored rows and earlier changes.
- `_stored` (boolean): true on rows of the stored table, which also have `_deleted` and `_facts`
  as JSON text (current tables) or the columns `HISTORY_FACTS`. May be missing where there are none.

They are sorted. Current tables: by the keys, stored rows first, then `_order`. Histories: by the
keys, `_order`, stored rows first, then `_new` last. A key may cross record batches.

Output: the key columns, the columns of `FoldRules.columns`, the stored columns, and

- `_keeps_values` (current tables): all values are those of the stored row: a MERGE may leave them.
- `_counts`: null. One more row comes last, in which all other columns are null: it has how many new
  changes had each of `OUTCOMES`, which add up to the new changes, and the `NOTES`, as JSON text.

Only rows that are new or differ from the stored ones come out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from silver.fold.arrow_current import CurrentFolder
from silver.fold.arrow_history import CHANGE_COLUMNS, HISTORY_FACTS, HistoryFolder
from silver.fold.arrow_values import Window
from silver.fold.rules import NOTES, OUTCOMES, WRITTEN, FoldRules

FACTS = "struct<upsert:binary,removed:binary,columns:map<string,binary>,changes:array<binary>>"
CURRENT_FACTS = (
    ("_order", "binary"),
    ("_deleted", "boolean"),
    ("_digest", "bigint"),
    ("_source_time", "timestamp"),
    ("_facts", FACTS),
)
STORED_FACTS = (*CURRENT_FACTS[:-1], ("_facts", "string"))
"""What the fold takes of stored rows of a current table: `_facts` as JSON text.

Spark's Arrow writer is slow with nested columns (see `silver.fold.nested`), and few rows have any.
"""
OLD_KEYS = (("_moved_from", "bigint"), ("_belongs_to", "bigint"))
COUNTED = (*OUTCOMES, *NOTES)
COUNTS = "_counts"


@dataclass(frozen=True)
class FoldPlan:
    """One fold: the rules, the key columns, and whether the output is a history. Picklable."""

    rules: FoldRules
    keys: tuple[str, ...]
    history: bool = False

    @property
    def output(self) -> tuple[tuple[str, str], ...]:
        """Names and Spark SQL types of the output columns after the keys and `rules.columns`."""
        if self.history:
            return (*CHANGE_COLUMNS, *HISTORY_FACTS, (COUNTS, "string"))
        return (*CURRENT_FACTS, ("_keeps_values", "boolean"), (COUNTS, "string"))


def fold_batches(plan: FoldPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Folds rows of whole keys; see the module for the columns of both sides.

    Of the key that is open at the end of a record batch only the rows are kept that its outcome may
    still need, so memory does not grow with the number of a key's changes. It does with the number
    of different changes at one sequence of a key: their digests are held.
    """
    rules, keys = plan.rules, plan.keys
    folder = HistoryFolder(rules, keys) if plan.history else CurrentFolder(rules, keys)
    carried: pa.Table | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        window = Window(carried, batch)
        folder.fold(window)
        yield from _take_rows(plan, folder)
        # The last row too: it shows whether the next batch goes on with its key.
        carried, numbers = window.keep_rows(folder.sources() | {window.size - 1})
        folder.renumber_sources(numbers)
    if carried is not None:
        folder.set_window(Window(carried, None))
        folder.end_key()
        yield from _take_rows(plan, folder)
        yield _build_counts(plan, folder)


def _take_rows(plan: FoldPlan, folder: CurrentFolder | HistoryFolder) -> Iterator[pa.RecordBatch]:
    columns = folder.take_output()
    if size := len(columns[plan.keys[0]]):
        folder.counts[WRITTEN] += size
        yield _build_batch(plan, columns | {COUNTS: pa.nulls(size, pa.string())})


def _build_counts(plan: FoldPlan, folder: CurrentFolder | HistoryFolder) -> pa.RecordBatch:
    """The row of the counts, once all other rows are taken."""
    nulls = {name: pa.nulls(1, column.type) for name, column in folder.take_output().items()}
    counts = msgspec.json.encode({name: folder.counts[name] for name in COUNTED}).decode()
    return _build_batch(plan, nulls | {COUNTS: pa.array([counts], pa.string())})


def _build_batch(plan: FoldPlan, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    names = [*plan.keys, *plan.rules.columns, *(name for name, _ in plan.output)]
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)
