"""What gold may know of silver's tables, and what a decoder owes to silver: columns and their meaning.

A decoder returns, for every bronze row it was given, exactly one row: the table's key and business
columns in their final types, then `CHANGE_COLUMNS`. Nothing is filtered away: a record without a
change in it (heartbeat, log-compaction tombstone, schema record) has the operation `none`.
"""

from typing import NamedTuple


class LayerColumn(NamedTuple):
    """A column's name, Spark SQL type and comment."""

    name: str
    type: str
    comment: str


UPSERT, DELETE, TRUNCATE, NONE = "upsert", "delete", "truncate", "none"

CHANGE_COLUMNS = (
    LayerColumn("_operation", "string", "upsert, delete, truncate or none; null on a dead letter"),
    LayerColumn("_sequence", "string", "sections of 16 upper-case hex digits joined by /; sorts in source commit order"),
    LayerColumn("_absent", "array<string>", "columns this change does not carry; null when it carries all"),
    LayerColumn("_old_key", "string", "JSON object of the key this row had before a key change, else null"),
    LayerColumn("_snapshot", "string", "id of the full snapshot this row belongs to, else null"),
    LayerColumn("_snapshot_last", "boolean", "true on the last row of a full snapshot of this table"),
    LayerColumn("_source_time", "timestamp", "commit time at the source"),
    LayerColumn("_transaction", "string", "transaction at the source, where it names one"),
    LayerColumn("_transaction_order", "bigint", "place within the transaction, where the source gives one"),
    LayerColumn("_reason", "string", "dead letter reason, null when the change can be applied"),
    LayerColumn("_message", "string", "what was found and what was expected, for a person"),
    LayerColumn("_rule", "string", "the expectation that rejected the change, else null"),
    LayerColumn("_warnings", "array<string>", "warning rules the row breaks, added by the gate"),
    LayerColumn("_topic", "string", "from bronze"),
    LayerColumn("_partition", "int", "from bronze"),
    LayerColumn("_offset", "bigint", "from bronze"),
    LayerColumn("_position", "string", "where the raw record lies: topic/partition/offset, or file and line"),
    LayerColumn("_arrival", "string", "from bronze: order of arrival"),
    LayerColumn("_batch", "bigint", "from bronze: ingest batch"),
    LayerColumn("_raw", "string", "from bronze, on dead letters only"),
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
    LayerColumn("_arrival", "string", "the record's order of arrival, which identifies it"),
    LayerColumn("_batch", "bigint", "ingest batch of the record"),
)
