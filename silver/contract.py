"""The columns of silver's tables that gold may read, and those that a decoder returns.

A decoder returns, for every bronze row it was given, exactly one row: the table's key and business
columns in their final types, then `CHANGE_COLUMNS`. Nothing is filtered away: a record without a
change in it (heartbeat, log-compaction tombstone, schema record) has the operation `none`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from silver.fold import order_key
from silver.fold.rules import OUTCOMES


class LayerColumn(NamedTuple):
    """A column's name, Spark SQL type and comment."""

    name: str
    type: str
    comment: str


UPSERT, DELETE, TRUNCATE, NONE = "upsert", "delete", "truncate", "none"
FILTERED = "filtered"

# Letters of keys that a snapshot file does not have: they count keys, not records.
EXTRACT_NOTES = ("D", "X")

RECORD_OUTCOMES: Mapping[str, str] = {
    **OUTCOMES,
    "truncate": "The record truncates the table.",
    "without_change": "The record carries no change: a heartbeat, a log-compaction tombstone, a"
    " schema record.",
    FILTERED: "The record is one for which `source.where` is not true.",
    "waiting": "The record waits until its transaction is complete in all tables of the group."
    " Log-compaction tombstones wait for the first event of their feed, which shows whether they"
    " are deletes.",
    "pending": "The record is in the change log and is applied later. Runs that apply such records"
    " count them as a negative number.",
    "dead_letter:REASON": "The record cannot be applied; it is kept with the reason.",
    "I": "The key is new in the snapshot file.",
    "U": "The key has other values than in the snapshot file before.",
    "N": "The row of the snapshot file is unchanged.",
}
"""Counts of silver's runs that add up to their `records`, and what each means."""

ACCOUNT_NOTES: Mapping[str, str] = {
    "incomplete": "Changes that do not carry every column.",
    "key_changes": "Key changes with an unavailable value; the row of the old key has it.",
    "ties": "Changes at the place of another change of their key; the later arrival won.",
    "snapshots": "Full snapshots that took the place of older rows: rows that they lack are gone.",
    "replayed": "Dead letters that a replay resolved.",
    "rebuilt": "Records that a rebuild applied.",
    "erased": "Records that `erase` removed.",
    "tombstones_purged": "Tombstones that `maintain` removed.",
    "tables_compacted": "Tables that `maintain` compacted.",
    "table_settings": "Settings of tables that `maintain` changed, such as `cluster_by`.",
    "tables_clustered": "Tables that `maintain` clustered.",
    "tables_vacuumed": "Tables that `maintain` vacuumed.",
    "landing_files_cleaned": "Landing files of bronze that `maintain` deleted or moved.",
    "bytes": "The size of the table that the run merged into, where `max_staleness` is declared.",
    "D": "Keys that a full snapshot file lacks; they are deleted.",
    "X": "Keys that a delta snapshot file does not carry; they stay.",
}
"""Counts of silver's runs beside the outcomes, and what each means."""


class Reason(NamedTuple):
    """Why a record became a dead letter, and what to do about it."""

    meaning: str
    remedy: str


_CORRECT_SOURCE = "Correct the producer and deliver the record again."
DEAD_LETTER_REASONS: Mapping[str, Reason] = {
    "not_json": Reason(
        "The record is no JSON object in UTF-8, or something stands behind the object.",
        "Check `source.format` and `value_format`. " + _CORRECT_SOURCE,
    ),
    "not_csv": Reason(
        "The row does not fit the header of its CSV file, is the header again, has a quote that is "
        "not escaped or not closed, or is not in the file's encoding.",
        "Declare in `source.csv` how the file is written, and drop it again under another name.",
    ),
    "not_avro": Reason(
        "The bytes are not of the Avro schema that they name.",
        "Check `source.schema_registry`. " + _CORRECT_SOURCE,
    ),
    "unknown_operation": Reason(
        "The record names an operation that its format, or its YAML, does not know.",
        "Check `source.format`, `source.topic` and `apply_as_upserts`. " + _CORRECT_SOURCE,
    ),
    "illegal_change": Reason(
        "The record breaks a rule of its format, such as YDB's `update` together with `erase`.",
        "Set the mode of the changefeed as the message says, or correct the producer.",
    ),
    "no_key": Reason(
        "A key column is missing or null.",
        "Check `keys`. Where null is a value of the key, declare `nullable: true` and replay.",
    ),
    "bad_value": Reason(
        "A value does not fit its declared column.",
        "Declare a type that fits, or `nullable: true`, and replay.",
    ),
    "bad_sequence": Reason(
        "The record has no place in order: its position or `sequence_by` is missing or malformed.",
        "Check `sequence_by`, or the source block of the connector's records.",
    ),
    "incompatible_schema": Reason(
        "A value does not fit the type learned from the source, or no column can hold the field.",
        "Declare the column with a type that fits all values; `lakehouse rebuild TABLE`.",
    ),
    "duplicate_key": Reason(
        "A snapshot file has several different rows of one key; the last one counts.",
        "Check `keys`, or correct the file.",
    ),
    "too_late": Reason(
        "The change is older than deletes that are already forgotten.",
        "`lakehouse rebuild TABLE` applies it; a longer `tombstone_retention` prevents it.",
    ),
    "rule": Reason(
        "A critical expectation rejects the row; the reason is `rule:NAME`.",
        "Correct the value at the source, or change the rule and replay.",
    ),
    "no_topic": Reason(
        "A line of a folder that several tables share names no topic. It belongs to no table: it is"
        " listed under the name of the feed.",
        "Read the folder without `source.topic`, deliver the line as a whole record that names its"
        " topic, or acknowledge the dead letter.",
    ),
}
"""Every reason of a dead letter."""

CHANGE_COLUMNS = (
    LayerColumn(
        "_operation", "string", "upsert, delete, truncate, filtered or none; null on a dead letter"
    ),
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
    LayerColumn("_topic", "string", "topic of the record, where it names one"),
    LayerColumn("_partition", "int", "partition of the record, where it names one"),
    LayerColumn("_offset", "bigint", "offset of the record, where it names one"),
    LayerColumn(
        "_position",
        "string",
        "where the raw record of a dead letter lies: topic/partition/offset, or file and line",
    ),
    LayerColumn("_arrival", "string", "order of arrival in bronze"),
    LayerColumn("_feed", "string", "bronze table that brought the record"),
    LayerColumn("_feed_batch", "bigint", "ingest batch of that bronze table"),
    LayerColumn(
        "_raw", "string", "the record as it arrived; in the change log on dead letters only"
    ),
    LayerColumn(
        "_source_log",
        "string",
        "on the last record that a task decoded: what the task's records show of the source's log,"
        " as JSON; else null",
    ),
    LayerColumn(
        "_mismatched",
        "boolean",
        "true on a record that shows columns or types which its batch was decoded without; the"
        " batch is then written anew before it is applied. Null otherwise",
    ),
)

DEAD_LETTER_COLUMNS = (
    LayerColumn("reason", "string", "why: not_json, no_key, bad_value, rule:NAME and so on"),
    LayerColumn("message", "string", "what was found and what was expected"),
    LayerColumn("rule", "string", "the expectation that rejected the change"),
    LayerColumn("raw", "string", "the record as it arrived"),
    LayerColumn("position", "string", "where the record lies in bronze"),
    LayerColumn("run_id", "string", "the run that wrote it"),
    LayerColumn("at", "timestamp", "when the dead letter was written"),
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
    LayerColumn("_batch", "bigint", "batch of the change log; the table counts its own from 1"),
    LayerColumn("_digest", "bigint", "64-bit hash of the values; equal for a redelivered change"),
)

FACTS = (
    "struct<upsert: binary, removed: binary, columns: map<string,binary>, changes: array<binary>>"
)

CURRENT_COLUMNS = (
    LayerColumn("_order", "binary", "order key of the key's newest change"),
    LayerColumn("_deleted", "boolean", "whether the newest change is a delete (a tombstone)"),
    LayerColumn("_digest", "bigint", "digest of the newest change; shows a redelivery"),
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
    LayerColumn("_batch", "bigint", "batch of the change log that wrote the row"),
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
    LayerColumn(
        "_next_order", "binary", "order key of the key's next change; null on its newest change"
    ),
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
    LayerColumn("_valid_to", "timestamp", "when the version ended; null while it is open"),
    LayerColumn("_from_order", "binary", "order key of the change that began the version"),
    LayerColumn(
        "_to_order", "binary", "order key of what ended the version; null while it is open"
    ),
    LayerColumn(
        "_life", "binary", "order key of the delete or truncate point before; empty without one"
    ),
    LayerColumn(
        "_kept",
        "boolean",
        "on a delete: whether its values are the row's last ones, kept by on_delete: flag",
    ),
    LayerColumn("_batch", "bigint", "batch of the change log that wrote the row"),
)

sequence_text = order_key.sequence_text_sql
"""SQL of the sequence that an order key stands for, in the text form that people read."""


PENDING = "_pending"
"""The suffix of the view that shows pending changes."""


def kept_name(table: Table) -> str:
    """The name of silver's table that changes are applied to: the history where there is one."""
    return f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table


def waits_in_log(target: Target, table: Table) -> bool:
    """Whether readers see a table's pending changes, by the view `silver.T_pending`.

    True of a current table whose rows are its newest changes, except within a rebuild.
    """
    plain = table.stored_as_scd_type == 1 and table.on_delete == "remove" and bool(table.keys)
    ordered = table.format != "snapshot" and not table.sequence_groups
    return plain and ordered and table.consistency_group is None and target.aside is None


ORDER, KEY_PARTS, LEFT_OUT = "order", "key parts", "fields left out"
LACKED_KEYS, MEMBER_TYPES = "keys lacked", "members read"
"""Entries of a table's fingerprint that the source has shown: what orders Debezium's records, parts
of their keys that are no keys of the table, fields of the source that are in no column, keys of
the table that the records' keys lack and whose old values are not known, and the types of members
of records that only expressions use (all but the first as JSON).
"""

GROUP_TYPE = (
    "group struct<name: string, number: bigint, versions: map<string,bigint>, waiting:"
    " array<struct<transaction: string, since: bigint, records: map<string,bigint>,"
    " missing: string, overdue: boolean>>>"
)
"""What a table's state says of its consistency group, as Spark's `from_json` reads it."""

DAYS_TYPE = (
    "days array<struct<effective_date: date, mode: string, batch: bigint, feed_batch: bigint,"
    " not_supplied: bigint, unread_lines: bigint>>"
)
"""What a snapshot table's state says of the dates that were compared."""

TRANSACTIONS = "_transactions"
