"""What silver may know of a bronze table: its columns, and nothing else.

A bronze table is append-only. One row is one record as it arrived: a line of a dropped file, a row of
a dropped CSV or Parquet file (as one JSON object), or a Kafka record. `bronze.T` of a folder or topic
that several tables share is a view that shows the table's own topic.
"""

from typing import NamedTuple


class BronzeColumn(NamedTuple):
    """A column's name, Spark SQL type and comment."""

    name: str
    type: str
    comment: str


COLUMNS = (
    BronzeColumn("_raw", "string", "the record as it arrived: a line, a row as JSON, or a Kafka value"),
    BronzeColumn("_topic", "string", "topic, where the record or Kafka names one"),
    BronzeColumn("_partition", "int", "partition, where the record or Kafka names one"),
    BronzeColumn("_offset", "bigint", "offset, where the record or Kafka names one"),
    BronzeColumn("_timestamp", "timestamp", "the record's own timestamp, where it has one"),
    BronzeColumn("_key", "string", "the record's key as text, where it has one"),
    BronzeColumn("_headers", "string", "the record's headers as one JSON object, where it has some"),
    BronzeColumn("_file", "string", "path of the dropped file; null for Kafka"),
    BronzeColumn("_line", "bigint", "byte offset of the file split × 2^33 + line within it; sorts as the file"),
    BronzeColumn("_whole", "boolean", "whether _raw is a whole record with the value inside"),
    BronzeColumn("_batch", "bigint", "number of the ingest batch, growing by time"),
    BronzeColumn("_arrived_at", "timestamp", "when the batch was read"),
    BronzeColumn("_arrival", "string", "sorts in order of arrival; the same on every replay"),
)
