"""Tables without a key: an append-only table of their changes, from which gold derives the rows.

Each change is kept once, by its identity: sequence, operation and content; for a row of a full
snapshot, whose rows share one sequence, its position as well. Equal rows of one delivery with one
sequence are numbered (`silver.merge.equal_rows`), and each number is kept once. A delete (REPLICA
IDENTITY FULL) is kept as a row that removes one equal row. An update is a delete of the old row and
an insert of the new one. The times of the old row are read as its declared types write them; other
encodings of it are not decoded.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from bronze.contract import feed_name
from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.statements import execute_with_rows, render_insert
from silver.changelog.batch import Batch, Reach
from silver.contract import DELETE, KEYLESS_COLUMNS
from silver.fold.order_key import order_literal, sequence_sql
from silver.fold.spark import Counts
from silver.merge.equal_rows import count_batches
from silver.state.epochs import position_column
from silver.storage import layout
from silver.storage.row_columns import column

_OUTCOMES = ("inserted", "updated", "deleted")
_KIND = "_kind"

_FILE_DIGITS, _SPLIT_DIGITS = 14, 24
"""How many digits of a dropped record's `_arrival` name its file, and the file with its split.

The eight after these are the row in the split (`bronze.files.batches`).
"""


def write_keyless(batch: Batch) -> Counts:
    """Adds a batch to `silver.T`; changes that the table has are not added again."""
    kept = batch.table.kept
    empty = layout.ensure_table(kept, batch.fields, KEYLESS_COLUMNS)
    anew = batch.reach is Reach.LOG
    stored = None if empty or anew else kept.read()
    rows = new_rows(batch, stored, layout.list_value_columns(kept.schema, []))
    if stored is not None and batch.cutoff is not None and batch.cutoff_is_new:
        kinds = rows.where("_new").groupBy(_KIND).count().collect()
        _merge_rows(batch.table.spark, kept.name, rows.drop(_KIND, "_new"), batch.cutoff)
        return _build_counts({row[_KIND]: row["count"] for row in kinds}, batch)
    seen = Observation()
    sums = [F.count_if((F.col(_KIND) == kind) & F.col("_new")).alias(kind) for kind in _OUTCOMES]
    layout.load_rows(kept, rows.observe(seen, *sums).drop(_KIND, "_new"), anew)
    return _build_counts({kind: int(n) for kind, n in seen.get.items()}, batch)


def new_rows(batch: Batch, stored: DataFrame | None, values: list[str]) -> DataFrame:
    """The rows of a batch that are not stored yet, with `_kind`: the outcome to count."""
    changes = batch.changes
    if batch.cutoff is not None:
        changes = changes.where(F.col("_order") > F.expr(order_literal(batch.cutoff)))
    rows = _identify_rows(batch.table.config, changes, values)
    return rows if stored is None else rows.join(stored.select("_row"), "_row", "left_anti")


def _build_counts(kinds: Mapping[str, int], batch: Batch) -> Counts:
    """The outcomes of a batch by the kinds of the rows that are new.

    Changes below the cut-off are superseded, all others without a new row are duplicates.
    """
    outcomes = {kind: kinds.get(kind, 0) for kind in _OUTCOMES}
    superseded = 0
    if batch.cutoff is not None:
        below = F.col("_order") <= F.expr(order_literal(batch.cutoff))
        superseded = batch.changes.where(F.col("_new") & below).count()
    duplicate = batch.summary.changes - superseded - sum(outcomes.values())
    outcomes |= {"superseded": superseded, "duplicate": duplicate}
    return Counts({outcome: n for outcome, n in outcomes.items() if n})


def _merge_rows(spark: SparkSession, name: str, rows: DataFrame, cutoff: bytes) -> None:
    """Adds rows, and removes all that are older than the cut-off, in one commit."""
    text = (
        f"MERGE INTO {name} t USING {{rows}} s ON t._row = s._row"
        f" WHEN NOT MATCHED THEN {render_insert(rows.columns)}"
        f" WHEN NOT MATCHED BY SOURCE AND t._order < {order_literal(cutoff)} THEN DELETE"
    )
    execute_with_rows(spark, text, rows)


def _identify_rows(table: Table, changes: DataFrame, values: list[str]) -> DataFrame:
    """The rows that the table keeps of changes with order keys, each once.

    Beside the table's columns they have `_kind` and `_new`.
    """
    content = F.sha2(F.to_json(F.struct(*map(column, values))), 256)
    rows = _split_updates(changes, values).withColumn("_content", content)
    rows = rows.withColumn("_row", F.sha2(F.concat_ws("|", *_list_identity_parts()), 256))
    # The fold goes by key, and such a table has none.
    by_row = Window.partitionBy("_row").orderBy("_new", "_order")
    ranked = rows.withColumn("_rank", F.row_number().over(by_row))
    counted = ranked.join(_count_equal_rows(table, rows), "_row", "left")
    kept = counted.where(F.col("_rank") <= F.coalesce("_rows", F.lit(1)))
    numbered = F.sha2(F.concat_ws("|", "_row", "_rank"), 256)
    row = F.when(F.col("_rank") == 1, F.col("_row")).otherwise(numbered)
    layer_columns = [c.name for c in KEYLESS_COLUMNS]
    return kept.withColumn("_row", row).select(*layer_columns, *map(column, values), _KIND, "_new")


def _split_updates(changes: DataFrame, values: list[str]) -> DataFrame:
    """Marks changes that remove a row, and splits an update into a removal and an insert."""
    removes = F.col("_operation") == DELETE
    kind = F.when(removes, "deleted").when(F.col("_old_key").isNotNull(), "updated")
    marked = changes.withColumns({"_removes": removes, _KIND: F.coalesce(kind, F.lit("inserted"))})
    fields = ", ".join(
        f"{names.quote(v)} {changes.schema[v].dataType.simpleString()}" for v in values
    )
    before = F.from_json("_old_key", fields)
    updates = marked.where("NOT _removes AND _old_key IS NOT NULL")
    replaced = {"_removes": F.lit(True), _KIND: F.lit("replaced")}
    old = updates.withColumns(replaced | {v: before[v] for v in values})
    return marked.unionByName(old)


def _count_equal_rows(table: Table, rows: DataFrame) -> DataFrame:
    """The identities `_row` of which there are several rows, with their number `_rows`."""
    of_kafka = [feed_name(table, feed) for feed in table.feeds if feed.kafka]
    digits = _FILE_DIGITS, _SPLIT_DIGITS
    file, split = (F.concat("_feed", F.substring("_arrival", 1, n)) for n in digits)
    line = F.conv(F.substring("_arrival", _SPLIT_DIGITS + 1, 8), 16, 10).cast("bigint")
    partition = F.concat_ws("/", "_topic", F.coalesce("_partition", F.lit(-1)))
    place = F.struct(
        F.when(F.col("_offset").isNull(), split).otherwise(partition).alias("log"),
        F.coalesce("_offset", line).alias("offset"),
        F.when(F.col("_feed").isin(of_kafka), F.lit("")).otherwise(file).alias("file"),
        F.unix_micros("_handled_at").alias("handled_at"),
        F.col("_row").alias("content"),
    )
    streamed = rows.where("_snapshot IS NULL").groupBy(F.expr(sequence_sql("_order")))
    places = streamed.agg(
        F.collect_list(place).alias("places"), F.size(F.collect_set("_row")).alias("contents")
    )
    several = places.where(F.size("places") > F.col("contents")).select("places")
    return several.mapInArrow(count_batches, "_row string, _rows int")


def _list_identity_parts() -> list[Column]:
    position = F.when(F.col("_snapshot").isNotNull(), position_column())
    return [
        F.hex(F.expr(sequence_sql("_order"))),
        F.coalesce(position, F.lit("")),
        F.col("_removes").cast("string"),
        F.col("_content"),
    ]
