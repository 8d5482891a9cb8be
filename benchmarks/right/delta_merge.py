"""Delta's MERGE for change data, as its page has it; with the word `tombstones`, with them.

https://docs.delta.io/delta-update/#write-change-data-into-a-delta-table: the newest change of each
key of a batch, then MERGE; the stored row's position is not compared. With tombstones: the position
is stored and compared, and deleted rows stay, marked (`benchmarks/recipe.py`). Both let the
table take new columns (https://docs.delta.io/delta-update/#automatic-schema-evolution), and make a
history by the page's recipe, with the position compared (`benchmarks/history_recipe.py`).
"""

import functools
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks import history_recipe, ours, recipe
from benchmarks.right.rival import BESIDE, Case, Row, answer

KEYS = ["id"]


def run(case: Case, folder: Path, spark: SparkSession, tombstones: bool) -> list[Row]:
    """One case into a Delta table."""
    place = f"delta.`{folder / 'rows'}`"
    kept = ", lsn bigint" + (", gone boolean" if tombstones else "")
    if case.history:
        kept = ", lsn bigint, valid_from timestamp, valid_to timestamp, is_current boolean"
    listed = ", ".join(f"{name} {type}" for name, type in case.columns.items())
    beside = kept if tombstones or case.history else ""
    spark.sql(f"CREATE TABLE {place} ({listed}{beside}) USING delta")
    for batch, file in enumerate(case.files):
        names = list(case.known(batch))
        schema = ", ".join(f"{k} {v}" for k, v in (case.known(batch) | BESIDE).items())
        changes = recipe.newest(spark.read.schema(schema).json(file), KEYS)
        changes.withColumn("at", F.col("at").cast("timestamp")).createOrReplaceTempView("changes")
        if case.history:
            spark.sql(history_recipe.staged_sql(place, KEYS)).createOrReplaceTempView("staged")
            spark.sql(history_recipe.merge_sql(place, KEYS, names))
        else:
            text = recipe.keeping_sql(place, KEYS, names) if tombstones else merge(place, names)
            spark.sql(text.replace("MERGE INTO", "MERGE WITH SCHEMA EVOLUTION INTO"))
    live = " WHERE NOT gone" if tombstones and not case.history else ""
    found: list[Row] = spark.sql(f"SELECT * FROM {place}{live}").toArrow().to_pylist()
    return found


def merge(place: str, names: list[str]) -> str:
    """The page's MERGE INTO text over the view `changes`."""
    return (
        f"MERGE INTO {place} t USING changes s ON t.id = s.id"
        " WHEN MATCHED AND s.op = 'd' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in names)}"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(names)})"
        f" VALUES ({', '.join(f's.{name}' for name in names)})"
    )


if __name__ == "__main__":
    root = Path(sys.argv[2]) / "session"
    ours.configure(root)
    spark = ours.session(root, open_ended=True)[0]
    marked = "tombstones" in sys.argv
    answer(functools.partial(run, spark=spark, tombstones=marked), "pyspark", "delta-spark")
