"""What gold may know of silver's tables, and what a decoder owes to silver: columns, meanings.

A decoder returns, for every bronze row it was given, exactly one row: the table's key and business
columns in their final types, then `CHANGE_COLUMNS`. Nothing is filtered away: a record without a
change in it (heartbeat, log-compaction tombstone, schema record) has the operation `none`.
"""

from typing import NamedTuple

from lakehouse.table import Table
from lakehouse.target import Target
from silver.fold import order_key


class LayerColumn(NamedTuple):
    """A column's name, Spark SQL type and comment."""

    name: str
    type: str
    comment: str


UPSERT, DELETE, TRUNCATE, NONE = "upsert", "delete", "truncate", "none"

# Letters of keys that an extract did not bring: changes of the table, but no records.
EXTRACT_NOTES = ("D", "X")

# Counts of a run that stand beside the classes which add up to its records.
ACCOUNT_NOTES = (
    "incomplete", "heirs", "ties", "replayed", "rebuilt", "erased", "tombstones_purged",
    "tables_compacted", "tables_clustered", "tables_vacuumed", "bytes", *EXTRACT_NOTES,
)  # fmt: skip

CHANGE_COLUMNS = (
    LayerColumn("_operation", "string", "upsert, delete, truncate or none; null on a dead letter"),
    LayerColumn(
        "_sequence",
        "string",
        "sections of 16 upper-case hex digits joined by /; sorts in source commit order",
    ),
    LayerColumn(
        "_absent", "array<string>", "columns this change does not carry; null when it carries all"
    ),
    LayerColumn(
        "_group_sequences",
        "map<string,string>",
        "sequence of each carried column that has an order of its own; null when none has",
    ),
    LayerColumn(
        "_old_key", "string", "JSON object of the key this row had before a key change, else null"
    ),
    LayerColumn("_snapshot", "string", "id of the full snapshot this row belongs to, else null"),
    LayerColumn(
        "_snapshot_last", "boolean", "true on the last row of a full snapshot of this table"
    ),
    LayerColumn("_source_time", "timestamp", "commit time at the source"),
    LayerColumn("_transaction", "string", "transaction at the source, where it names one"),
    LayerColumn(
        "_transaction_order", "bigint", "place within the transaction, where the source gives one"
    ),
    LayerColumn(
        "_handled_at",
        "timestamp",
        "when the connector handled the change; null but in tables without a key",
    ),
    LayerColumn("_reason", "string", "dead letter reason, null when the change can be applied"),
    LayerColumn("_message", "string", "what was found and what was expected, for a person"),
    LayerColumn("_rule", "string", "the expectation that rejected the change, else null"),
    LayerColumn("_topic", "string", "from bronze"),
    LayerColumn("_partition", "int", "from bronze"),
    LayerColumn("_offset", "bigint", "from bronze"),
    LayerColumn(
        "_position", "string", "where the raw record lies: topic/partition/offset, or file and line"
    ),
    LayerColumn("_arrival", "string", "from bronze: order of arrival"),
    LayerColumn("_feed", "string", "bronze table that brought the record"),
    LayerColumn("_feed_batch", "bigint", "its ingest batch there"),
    LayerColumn("_raw", "string", "from bronze; past the gate on dead letters only"),
    LayerColumn(
        "_unlike",
        "boolean",
        "true on a record that shows columns or types which its batch was decoded without; the"
        " batch is then written anew before it is applied. Null otherwise",
    ),
)

DEAD_LETTER_COLUMNS = (
    LayerColumn("reason", "string", "why: not_json, no_key, bad_value, rule:<name> and so on"),
    LayerColumn("message", "string", "what was found and what was expected"),
    LayerColumn("rule", "string", "the expectation that rejected the change"),
    LayerColumn("raw", "string", "the record as it arrived"),
    LayerColumn("position", "string", "where the record lies in bronze"),
    LayerColumn("run_id", "string", "the run that wrote it"),
    LayerColumn("at", "timestamp", "when it was written"),
    LayerColumn("resolved_at", "timestamp", "when a replay applied it"),
    LayerColumn("resolved_by", "string", "the run that applied it"),
    LayerColumn("_key", "string", "JSON object of the key, where it could be read"),
    LayerColumn("_sequence", "string", "the change's own sequence, where it could be read"),
    LayerColumn("_order", "binary", "order key of the change, where its sequence could be read"),
    LayerColumn("_source_time", "timestamp", "commit time at the source, else time of arrival"),
    LayerColumn("_feed", "string", "bronze table that brought the record"),
    LayerColumn("_arrival", "string", "the record's order of arrival there, which identifies it"),
    LayerColumn("_batch", "bigint", "batch of the change log that holds it"),
)

GATED_COLUMNS = (
    *CHANGE_COLUMNS,
    LayerColumn("_warnings", "array<string>", "warning rules the row breaks, added by the gate"),
)

LOG_COLUMNS = (
    *GATED_COLUMNS,
    LayerColumn("_batch", "bigint", "the table's own batch, which its passes count from 1"),
    LayerColumn("_digest", "bigint", "64-bit hash of the values; equal for a redelivered change"),
)

FACTS = (
    "struct<upsert: binary, removed: binary, columns: map<string,binary>, changes: array<binary>>"
)

CURRENT_COLUMNS = (
    LayerColumn("_order", "binary", "order key of the key's newest change"),
    LayerColumn("_deleted", "boolean", "whether the newest change is a delete (a tombstone)"),
    LayerColumn("_digest", "bigint", "digest of the newest change; tells a redelivery"),
    LayerColumn("_source_time", "timestamp", "on tombstones: commit time of the delete; else null"),
    LayerColumn(
        "_facts",
        FACTS,
        "null on most rows. upsert: order key of the newest upsert, where it is not _order;"
        " removed: order key of the newest delete before that upsert; columns: order key of each"
        " column that is not the newest upsert's, empty where no change carried it; changes: per"
        " sequence that the row names, the sequence and the digests (8 bytes each) of the changes"
        " that came there, but for _digest",
    ),
    LayerColumn(
        "_batch",
        "bigint",
        "batch that wrote the row, where a source may leave columns out (ydb, bigquery, rows)",
    ),
)

KEYLESS_COLUMNS = (
    LayerColumn(
        "_row",
        "string",
        "identity of the change: place in order, operation, content, and from the second of equal"
        " ones on its number",
    ),
    LayerColumn("_content", "string", "digest of the values; equal rows have equal ones"),
    LayerColumn("_removes", "boolean", "whether the change removes one equal row"),
    LayerColumn("_order", "binary", "order key of the change"),
    LayerColumn("_source_time", "timestamp", "commit time at the source"),
)

HISTORY_COLUMNS = (
    LayerColumn("_order", "binary", "order key of the change"),
    LayerColumn("_next_order", "binary", "that of the key's next change; null on its newest"),
    LayerColumn("_shown", "boolean", "whether the row stands for a version (its newest change)"),
    LayerColumn("_is_current", "boolean", "whether that version is open"),
    LayerColumn("_operation", "string", "upsert or delete"),
    LayerColumn("_absent", "array<string>", "columns the change did not carry"),
    LayerColumn(
        "_group_sequences", "map<string,string>", "as in the change log: orders of single columns"
    ),
    LayerColumn("_digest", "bigint", "digest of the change"),
    LayerColumn("_source_time", "timestamp", "commit time of the change at the source"),
    LayerColumn("_time", "timestamp", "commit time that never runs back along the sequence"),
    LayerColumn("_valid_from", "timestamp", "when the version began at the source"),
    LayerColumn("_valid_to", "timestamp", "when it ended; null while open"),
    LayerColumn("_from_order", "binary", "order key of the change that began the version"),
    LayerColumn("_to_order", "binary", "order key of what ended it; null while open"),
    LayerColumn(
        "_life", "binary", "order key of the delete or truncate point before; empty without one"
    ),
    LayerColumn(
        "_kept",
        "boolean",
        "on a delete: whether its values are the row's last ones, kept by on_delete: flag",
    ),
    LayerColumn(
        "_batch",
        "bigint",
        "batch that wrote the row, where a source may leave columns out (ydb, bigquery, rows)",
    ),
)


def sequence_text(order: str) -> str:
    """SQL of the sequence that an order key stands for, in the text form that people read."""
    return order_key.sequence_text_sql(order)


PENDING = "_pending"
"""What the name ends in of the table, or view, that shows what waits to be applied."""


def waits_in_log(target: Target, table: Table) -> bool:
    """Whether what waits of a table is shown from its change log: `silver.T_pending` is a view.

    Of a current table whose row is its newest change, in a lake without a catalog. All others'
    waiting rows are folded by a run, and `silver.T_pending` is a table.
    """
    plain = table.stored_as_scd_type == 1 and table.on_delete == "remove" and bool(table.keys)
    ordered = table.format in ("debezium", "ydb") and not table.sequence_groups
    alone = table.consistency_group is None and target.aside is None and not target.catalog
    return plain and ordered and alone


PENDING_COLUMNS = (
    LayerColumn("_since", "timestamp", "when the oldest change that waits came to the change log"),
    LayerColumn("_until", "bigint", "newest batch of the change log that is taken in"),
)

TRANSACTIONS, GROUPS = "_transactions", "_groups"
