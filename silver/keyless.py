"""Tables without a key: an append-only table of their changes, from which gold shows what is left.

Each change is kept once, by its identity: place in order, operation and content; for a row of a
full snapshot, whose rows share one place, its position. A delete (REPLICA IDENTITY FULL) is kept as
a row that removes one equal row. An update is a delete of the row before and an insert of the row
after. The times of the row before are read as its declared types write them; other encodings of it
are not decoded.
"""

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout
from silver.batch import Batch
from silver.row_columns import column
from silver.contract import DELETE, KEYLESS_COLUMNS
from silver.epochs import position
from silver.statements import execute, inserting


def apply_keyless(
    spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool
) -> None:
    """Adds a batch to `silver.T`; what is there already is not added again."""
    name, created = layout.ensure(spark, target, table.table, batch.fields, KEYLESS_COLUMNS)
    listed = gained(batch, [f.name for f in layout.business(spark.table(name).schema)])
    if refold or created:
        layout.load(spark, target, table.table, listed, refold)
        return
    text = insert_sql(name, listed.columns)
    if batch.floor is not None and batch.floor_is_new:
        older = f"t._stamp < {names.literal(batch.floor)}"
        text += f" WHEN NOT MATCHED BY SOURCE AND {older} THEN DELETE"
    execute(spark, text, listed)


def gained(batch: Batch, values: list[str]) -> DataFrame:
    """The rows that the table keeps of a batch, whether or not it has them already."""
    above = F.lit(True) if batch.floor is None else F.col("_stamp") > batch.floor
    rows = identified(batch.changes.where(above), values)
    return rows.select(*[F.col(c.name) for c in KEYLESS_COLUMNS], *[column(v) for v in values])


def insert_sql(target: str, columns: list[str]) -> str:
    """The MERGE INTO text that adds the rows the table has not; the source is `{rows}`."""
    same = "t._row = s._row WHEN NOT MATCHED THEN"
    return f"MERGE INTO {target} t USING {{rows}} s ON {same} {inserting(columns)}"


def identified(changes: DataFrame, values: list[str]) -> DataFrame:
    """Stamped changes as the rows that the table keeps of them, each once."""
    return _identified(_expanded(changes, values), values)


def _expanded(changes: DataFrame, values: list[str]) -> DataFrame:
    """Marks what removes a row, and splits an update in two."""
    removes = F.col("_operation") == DELETE
    kind = F.when(removes, "deleted").when(F.col("_old_key").isNotNull(), "updated")
    kinds = {"_removes": removes, "_class": F.coalesce(kind, F.lit("inserted"))}
    marked = changes.withColumns(kinds)
    fields = ", ".join(
        f"{names.quote(v)} {changes.schema[v].dataType.simpleString()}" for v in values
    )
    before = F.from_json("_old_key", fields)
    updates = marked.where("NOT _removes AND _old_key IS NOT NULL")
    replaced = {"_removes": F.lit(True), "_class": F.lit("replaced")}
    old = updates.withColumns(replaced | {v: before[v] for v in values})
    return marked.unionByName(old)


def _identified(rows: DataFrame, values: list[str]) -> DataFrame:
    content = F.sha2(F.to_json(F.struct(*[column(v) for v in values])), 256)
    placed = rows.withColumn("_content", content)
    named = placed.withColumn("_row", F.sha2(F.concat_ws("|", *_identity()), 256))
    first = F.row_number().over(Window.partitionBy("_row").orderBy("_stamp", "_removes"))
    return named.withColumn("_rank", first).where("_rank = 1").drop("_rank")


def _identity() -> list[Column]:
    at = F.when(F.col("_snapshot").isNotNull(), position())
    return [
        F.col("_sequence"),
        F.coalesce(at, F.lit("")),
        F.col("_removes").cast("string"),
        F.col("_content"),
    ]
