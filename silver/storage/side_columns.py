"""Columns of what silver keeps beside its tables and for itself alone."""

from silver.contract import LayerColumn

LETTER_COLUMN = LayerColumn(
    "_letter", "string", "snapshot tables: I U D N; null on dead letters and on repeats of a row"
)

DIGEST_COLUMNS = (
    LayerColumn("_key_digest", "binary", "SHA-256 of the key columns"),
    LayerColumn("_value_digest", "binary", "SHA-256 of the columns that are compared"),
    LayerColumn("_rest_digest", "binary", "SHA-256 of the operational columns; null without any"),
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
