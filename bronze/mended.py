"""Corrected records: `bronze._mended_FEED`, created when first needed.

Bronze keeps every record as it arrived. A corrected record is an additional row with the `_arrival`
of the original, which it replaces when the feed is decoded; of several the newest counts.
"""

from datetime import datetime, timezone

from pyspark.sql import functions as F

from bronze.contract import COLUMNS, MENDED_AT, WHOLE_RECORD_FORMATS, mended_name
from bronze.files.batches import with_origin
from bronze.storage import PROPERTIES
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from lakehouse.storage.writing import DeclaredTable, append_rows

_OF_LINE = ("_whole", "_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")


def mend_record(lake: Lake, table: Table, place: tuple[str, str], text: str) -> None:
    """Replaces a record of the table by a text; `place` is its feed and `_arrival`.

    For a line of a dropped file, topic, key and offset are read from the new text.
    """
    feed, arrival = place
    comment = f"records of {feed} as somebody mended them"
    mended = DeclaredTable("bronze", mended_name(feed), comment, [*COLUMNS, MENDED_AT], PROPERTIES)
    mended.ensure(lake)
    came = lake.spark.table(lake.name("bronze", feed)).where(F.col("_arrival") == arrival)
    row = came.withColumn("_raw", F.lit(text))
    from_file = row.where("_file IS NOT NULL")
    if table.format in WHOLE_RECORD_FORMATS:
        from_file = with_origin(from_file.drop(*_OF_LINE))
    both = from_file.unionByName(row.where("_file IS NULL"))
    at = F.lit(datetime.now(timezone.utc)).alias(MENDED_AT[0])
    rows = both.select(*[c.name for c in COLUMNS], at)
    append_rows(lake, "bronze", mended_name(feed), rows)
