"""Dead letters that somebody has acknowledged: `silver._acknowledged`. They raise no more alerts.

A letter is identified by its feed and its order of arrival, so that it stays acknowledged when its
table is rebuilt. Lines of a shared feed that no table reads are letters of the feed.
"""

from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.storage.lake import Lake
from lakehouse.storage.writing import DeclaredTable, append_rows
from lakehouse.words import parse_columns

TABLE, IDENTITY = "_acknowledged", ["_feed", "_arrival"]
_COLUMNS = parse_columns("""
_feed | string | bronze table that brought the record
_arrival | string | the record's order of arrival there
because | string | why it needs no more attention
at | timestamp | when that was said
""")
ACKNOWLEDGED = DeclaredTable("silver", TABLE, "dead letters that somebody knows of", _COLUMNS)


def acknowledge(lake: Lake, letters: DataFrame, because: str) -> None:
    """Records the letters, by `_feed` and `_arrival`, as acknowledged for a reason."""
    ACKNOWLEDGED.ensure(lake)
    at = F.lit(datetime.now(timezone.utc))
    rows = letters.select(*IDENTITY, F.lit(because).alias("because"), at.alias("at"))
    append_rows(lake, "silver", TABLE, rows)


def remove_acknowledgements(lake: Lake, letters: DataFrame) -> None:
    """Deletes the acknowledgements of the letters."""
    from lakehouse.storage.statements import execute_with_rows

    text = (
        f"MERGE INTO {lake.name('silver', TABLE)} t USING {{rows}} s"
        " ON t._feed = s._feed AND t._arrival = s._arrival WHEN MATCHED THEN DELETE"
    )
    execute_with_rows(lake.spark, text, letters.select(*IDENTITY))


def with_acknowledged(lake: Lake, letters: DataFrame) -> DataFrame:
    """Adds `acknowledged`: why a letter needs no attention; null where nobody has said so."""
    if not ACKNOWLEDGED.exists(lake):
        return letters.withColumn("acknowledged", F.lit(None).cast("string"))
    entries = ACKNOWLEDGED.read(lake)
    newest = entries.groupBy(*IDENTITY).agg(F.max_by("because", "at").alias("acknowledged"))
    return letters.join(newest, IDENTITY, "left")
