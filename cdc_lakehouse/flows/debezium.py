"""Raw Debezium records as typed changes, in any Spark session."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bronze.contract import COLUMNS
from cdc_lakehouse.flows.definition import AutoCdcError
from lakehouse.config.table import Table
from silver.decode.spark import decode_alone
from silver.storage.row_columns import column

CHANGE_COLUMNS = {
    "_operation": "upsert, delete or truncate",
    "_sequence": "text that sorts in the source's order of changes",
    "_columns": "the columns that the change carries; null where it carries all",
    "_source_time": "commit time at the source",
    "_reason": "why the record is no change, such as not_json; null where it is one",
    "_raw": "the record, where there is a reason",
}
"""What `decode_debezium` gives beside the columns of the source."""
_KAFKA = {
    "_raw": "value", "_key": "key", "_topic": "topic", "_partition": "partition",
    "_offset": "offset", "_timestamp": "timestamp",
}  # fmt: skip


def decode_debezium(
    df: DataFrame, keys: Sequence[str], columns: Mapping[str, str] | None = None
) -> DataFrame:
    """Decodes raw Debezium records, one row per record that says something about a row.

    The result is what `auto_cdc` takes with `sequence_by="_sequence"`,
    `apply_as_deletes="_operation = 'delete'"`, `columns_to_update="_columns"` and, as
    `except_column_list`, the names in `CHANGE_COLUMNS`. Rows with a `_reason` have no sequence, so
    that `auto_cdc` keeps them as dead letters.

    Args:
        df: Kafka's `value`, and `key`, `topic`, `partition`, `offset`, `timestamp` where it has
            them; or one column of text, such as `spark.read.text` gives. Not streaming: in a stream
            decode in `foreachBatch`, where each batch is looked through for its columns.
        keys: the columns that identify a row.
        columns: SQL types of columns that are to have them; others show theirs.

    Returns:
        The source's columns and those of `CHANGE_COLUMNS`. The order is the source's within one
        log: of re-snapshots, restarts and several tables only the pipeline knows.

    Raises:
        AutoCdcError: the DataFrame streams, or has neither `value` nor one column.
    """
    named = _as_bronze(df)
    declared = {name: {"type": kind} for name, kind in (columns or {}).items()}
    source = {"path": "records", "format": "debezium"}
    table = Table.model_validate(
        {"table": "records", "source": source, "keys": [*keys], "columns": declared}
    )
    decoded = decode_alone(named, table, ())
    changes = decoded.where("_reason IS NOT NULL OR _operation <> 'none'")
    business = [name for name in decoded.columns if not name.startswith("_")]
    every = F.array(*[F.lit(name) for name in business])
    carried = F.when(F.col("_absent").isNotNull(), F.array_except(every, F.col("_absent")))
    sequence = F.when(F.col("_reason").isNull(), F.col("_sequence"))
    return changes.withColumns({"_columns": carried, "_sequence": sequence}).select(
        *map(column, business), *CHANGE_COLUMNS
    )


def _as_bronze(df: DataFrame) -> DataFrame:
    """Records with the columns that bronze gives them."""
    value = "value" if "value" in df.columns else df.columns[0]
    if df.isStreaming or (value != "value" and len(df.columns) > 1):
        text = "decode_debezium takes Kafka's columns or one column of text, of a batch."
        raise AutoCdcError("AUTOCDC_DEBEZIUM_INPUT", text)
    given = {**_KAFKA, "_raw": value}
    there = {name: column(of) for name, of in given.items() if of in df.columns}
    raw = df.select(*[there.get(c.name, F.lit(None)).cast(c.type).alias(c.name) for c in COLUMNS])
    return raw.withColumns(
        {
            "_arrival": F.format_string("%032X", F.monotonically_increasing_id()),
            "_arrived_at": F.current_timestamp(),
            "_batch": F.lit(1).cast("bigint"),
            "_feed": F.lit("records"),
            "_line": F.lit(0).cast("bigint"),
        }
    )
