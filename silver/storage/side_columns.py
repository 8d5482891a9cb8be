"""Columns of what silver keeps beside its tables and for itself alone."""

from silver.contract import LayerColumn

SNAPSHOT_COLUMNS = (
    LayerColumn("table", "string", "table the snapshot rows belong to"),
    LayerColumn(
        "snapshot", "string", "connector name and LSN of the full snapshot; null for a truncate"
    ),
    LayerColumn(
        "domain", "string", "topic/partition the positions count in; empty for one feed-wide count"
    ),
    LayerColumn("first_position", "string", "position of its first row that is no dead letter"),
    LayerColumn("complete", "boolean", "whether its last row has been seen"),
    LayerColumn("started", "bigint", "when it began at the source, µs since 1970"),
    LayerColumn("batch", "bigint", "batch that showed it"),
    LayerColumn("order", "binary", "a truncate's order key; null for a snapshot"),
    LayerColumn("at", "timestamp", "a truncate's commit time"),
)

DRIFT_COLUMNS = (
    LayerColumn("table", "string", "table whose source changed its columns"),
    LayerColumn("at", "timestamp", "when the lakehouse noticed"),
    LayerColumn("run_id", "string", "the run that noticed"),
    LayerColumn("kind", "string", "add_column, widen, drop_column or incompatible"),
    LayerColumn("column", "string", "the column"),
    LayerColumn("from_type", "string", "the table's type before; null for a new column"),
    LayerColumn(
        "to_type", "string", "the source's type now; null where it is gone or nothing tells it"
    ),
    LayerColumn(
        "action",
        "string",
        "applied, ignored, dead_letter, failed, or declared: the declared type stays",
    ),
    LayerColumn("position", "string", "where the first record that showed it lies"),
)

BUILT_COLUMNS = (
    LayerColumn("table", "string", "the table"),
    LayerColumn("aspect", "string", "what of its configuration or its source is remembered"),
    LayerColumn("value", "string", "what it was; null when it is forgotten"),
    LayerColumn("at", "timestamp", "since when; the newest counts"),
    LayerColumn("run_id", "string", "the run that noted it"),
    LayerColumn("version", "string", "version of the lakehouse that noted it"),
)

LETTER_COLUMN = LayerColumn(
    "_letter", "string", "snapshot tables: I U D N; null on dead letters and on repeats of a row"
)

DIGEST_COLUMNS = (
    LayerColumn("_key_digest", "binary", "SHA-256 of the key columns"),
    LayerColumn("_value_digest", "binary", "SHA-256 of the columns that are compared"),
    LayerColumn("_rest_digest", "binary", "SHA-256 of the operational columns; null without any"),
)

EXTRACT_COLUMNS = (
    LayerColumn("effective_date", "date", "the extract's folder; null for files in no such folder"),
    LayerColumn("mode", "string", "full or delta"),
    LayerColumn("batch", "bigint", "pass that compared it last; null when it is to be done again"),
    LayerColumn("feed_batch", "bigint", "newest ingest batch of its files that was read"),
    LayerColumn("not_supplied", "bigint", "delta: live keys that it did not carry"),
    LayerColumn(
        "unread_lines", "bigint", "full: lines that tell no key, for which its deletes wait"
    ),
)

TRANSACTION_COLUMNS = (
    LayerColumn("group", "string", "the consistency group"),
    LayerColumn("transaction", "string", "the transaction, as in the change logs"),
    LayerColumn("place", "string", "where its END stands in source order; null where unknown"),
    LayerColumn("expected", "map<string,bigint>", "how many records it has of each table"),
    LayerColumn("ended_at", "timestamp", "commit time, as the END has it"),
    LayerColumn("feed", "string", "bronze table that brought the END"),
    LayerColumn("feed_batch", "bigint", "ingest batch there"),
)

GROUP_COLUMNS = (
    LayerColumn("group", "string", "the consistency group"),
    LayerColumn("pass", "bigint", "number of the group's pass: 1, 2, 3 and so on"),
    LayerColumn(
        "applied",
        "map<string,bigint>",
        "newest batch of each member that is in there, and of each feed of _transactions",
    ),
    LayerColumn(
        "versions",
        "map<string,bigint>",
        "Delta version of each silver table that shows the same transactions as the others",
    ),
    LayerColumn(
        "waiting",
        "array<struct<transaction: string, since: bigint, records: map<string,bigint>,"
        " missing: string, overdue: boolean>>",
        "transactions that are not complete or stand behind one that is not; since in µs",
    ),
)
