"""The law over Arrow record batches: what `mapInArrow` calls in a Spark task.

Input: rows of whole keys. Needed are the key columns, the columns of `FoldRules.columns`, and

| column | type | on |
|---|---|---|
| `_order` | binary | every row |
| `_operation` | string | changes: upsert or delete (histories: stored rows too) |
| `_digest` | bigint | every row |
| `_source_time` | timestamp | every row |
| `_absent` | array<string> | columns the row does not carry. Of a stored row of a current table: those that came to the table after the row was written |
| `_group_sequences` | map<string,string> | changes; only where columns have an order of their own |
| `_new` | boolean | true: a change of this batch. False: a stored row, or an earlier change |
| `_stored` | boolean | true: a row of the stored table. The column may be missing where there is none |
| `_deleted`, `_facts` | as stored | stored rows of a current table |
| `HISTORY_FACTS` | as stored | stored rows of a history |

Sort order. Current tables: keys, `_stored` first, `_order`. Histories: keys, `_order`, `_stored` first, then `_new` last.

Output: the keys, the columns, the stored columns, and
- `_write`: whether the row is new or differs from the stored one. A row that is not to be written carries counts only.
- `_keeps_values` (current tables): all values are those of the stored row, so a MERGE may leave them alone.
- one int column `_n_NAME` for each of `OUTCOMES`, and `_n_ties`: what became of the new changes of the row's
  key. The outcomes of all output rows add up to the new changes; ties are a note beside that sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from silver.fold.law import FoldRules

OUTCOMES = (
    "inserted", "updated", "deleted", "delete_unknown", "superseded", "duplicate", "late",
)  # fmt: skip
FACTS = "struct<upsert:binary,removed:binary,columns:map<string,binary>,changes:array<binary>>"
CURRENT_FACTS = (
    ("_order", "binary"),
    ("_deleted", "boolean"),
    ("_digest", "bigint"),
    ("_source_time", "timestamp"),
    ("_facts", FACTS),
)
HISTORY_FACTS = (
    ("_next_order", "binary"),
    ("_shown", "boolean"),
    ("_is_current", "boolean"),
    ("_time", "timestamp"),
    ("_valid_from", "timestamp"),
    ("_valid_to", "timestamp"),
    ("_from_order", "binary"),
    ("_to_order", "binary"),
    ("_life", "binary"),
    ("_kept", "boolean"),
)
HISTORY_CHANGE = (
    ("_order", "binary"),
    ("_operation", "string"),
    ("_absent", "array<string>"),
    ("_group_sequences", "map<string,string>"),
    ("_digest", "bigint"),
    ("_source_time", "timestamp"),
)
COUNTS = tuple((f"_n_{name}", "int") for name in (*OUTCOMES, "ties"))


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
            return (*HISTORY_CHANGE, *HISTORY_FACTS, ("_write", "boolean"), *COUNTS)
        marks = (("_write", "boolean"), ("_keeps_values", "boolean"))
        return (*CURRENT_FACTS, *marks, *COUNTS)


def fold_batches(plan: FoldPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Folds rows of whole keys; keys may cross record batches (see the module for the columns)."""
    raise NotImplementedError
