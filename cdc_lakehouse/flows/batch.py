"""One batch of a flow: its rows are judged, folded into the state, and published by a MERGE."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.definition import PREFIX, AutoCdcError, Definition, to_column
from cdc_lakehouse.flows.publication import publish_batch
from cdc_lakehouse.flows.sequences import sections_sql, value_sql
from cdc_lakehouse.flows.state import FlowState
from cdc_lakehouse.flows.tables import FlowTable
from silver.contract import DELETE, TRUNCATE, UPSERT
from silver.decode.types import can_widen, parse_type
from silver.fold.arrow import FoldPlan
from silver.fold.rules import Cutoff, FoldRules
from silver.fold.spark import Counts, count, fold, observe
from silver.storage.row_columns import FEW, all_of, column, hash_change

_CONDITION = "AUTOCDC_MICROBATCH_VALIDATION."
_LETTER_COLUMNS = (
    "reason STRING COMMENT 'NULL_KEY, NULL_SEQUENCE or BAD_VALUE',"
    " row STRING COMMENT 'the row of the source, as JSON',"
    " flow STRING COMMENT 'the flow that brought the row',"
    " at TIMESTAMP COMMENT 'when the dead letter was written'"
)


class AutoCdcResult(NamedTuple):
    """What became of the rows of a batch: the numbers add up to its rows.

    Attributes:
        inserted: changes that made a row, or of a history a version.
        updated: changes that gave a row new values.
        deleted: deletes that removed a row.
        superseded: changes that are older than what is known of their key, and change nothing.
        duplicate: changes that were delivered before.
        late: changes of a history that took their place before a newer one, or that gave a row
            values which no newer change carries.
        delete_unknown: deletes of keys that are not there; they are remembered.
        truncates: rows that truncate the target.
        rejected: rows that are dead letters.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    superseded: int = 0
    duplicate: int = 0
    late: int = 0
    delete_unknown: int = 0
    truncates: int = 0
    rejected: int = 0


class FlowTarget:
    """A target of flows, with its state and its dead letters."""

    def __init__(
        self, spark: SparkSession, place: str, definition: Definition, retention: int | None = None
    ) -> None:
        """Takes the target's name or path, its flows' options, and for how long deletes count."""
        self.spark, self.definition = spark, definition
        self.target = target = FlowTable(spark, place)
        self.state = FlowState(target.table_beside("_auto_cdc"), definition, retention)
        self.letters = target.table_beside("_dead_letters")

    def apply(
        self, source: DataFrame, on_invalid: str = "dead_letters", name: str | None = None
    ) -> AutoCdcResult:
        """Applies the rows of a batch DataFrame.

        Raises:
            AutoCdcError: the flow contradicts the target, or a row is refused (`on_invalid`).
        """
        batch = self._begin_batch(source)
        with _keep_computed(batch.judged):
            if on_invalid == "fail":
                batch.refuse_invalid()
            seen, counts = batch.row_counts, batch.fold()
            newest = batch.number if counts.rows else batch.number - 1
            publish_batch(self, batch.sequence, newest)
            if seen["rejected"]:
                self._keep_letters(batch.judged, name)
        if counts.rows:
            self.state.remove_outdated(newest)
        outcomes = {n: count for n, count in counts.outcomes.items() if n in AutoCdcResult._fields}
        return AutoCdcResult(**outcomes, **{n: seen[n] for n in ("truncates", "rejected")})

    def live_rows(self) -> DataFrame | None:
        """Keys and values as they are now; None before the first batch."""
        state = self.state
        if not state.table.exists:
            return None
        live = "_shown AND _is_current" if self.definition.keeps_history else "NOT _deleted"
        shown = [column(f.name) for f in state.fields]
        return state.select_counting(state.table.read()).where(live).select(*shown)

    def newest_sequence(self) -> object:
        """The highest order of all changes so far; None before the first."""
        table = self.state.table
        if not table.exists:
            return None
        text = table.read_properties()[f"{PREFIX}sequence_by"]
        value = value_sql("max(_order)", parse_type(text))
        return self.spark.sql(f"SELECT {value} FROM {table.name}").collect()[0][0]

    def _begin_batch(self, source: DataFrame) -> "FlowBatch":
        definition = self.definition
        fields, sequence = definition.columns_of(source), definition.sequence_type(source)
        state = self.state = FlowState(self.state.table, definition, self.state.retention)
        if not state.table.exists:
            self._refuse_foreign()
            state.create(fields, sequence, f"what AUTO CDC knows of {self.target.place}")
        definition.check_drift(state.properties, sequence)
        state.add_columns(fields)
        return FlowBatch(self, source, sequence)

    def _refuse_foreign(self) -> None:
        """Raises if the target has rows: no flow wrote them, or what it knew of them is gone."""
        if self.target.exists and not self.target.read().isEmpty():
            text = f"{self.target.place} has rows that no flow wrote; name another target."
            raise AutoCdcError("AUTOCDC_TARGET_NOT_EMPTY", text)

    def _keep_letters(self, judged: DataFrame, name: str | None) -> None:
        if not self.letters.exists:
            self.letters.create(_LETTER_COLUMNS, f"rows that {self.target.place} does not take", {})
        rejected = judged.where(F.col("_reason").isNotNull())
        self.letters.append(
            rejected.select(
                F.col("_reason").alias("reason"),
                F.col("_row").alias("row"),
                F.lit(name).cast("string").alias("flow"),
                F.current_timestamp().alias("at"),
            )
        )


class FlowBatch:
    """A batch of a source's rows, and what the fold needs of them.

    Attributes:
        judged: one row per row of the source: the target's columns, `_operation`, `_order`,
            `_digest`, `_source_time`, maybe `_absent`; `_reason` and `_row` where it is rejected.
    """

    def __init__(self, into: FlowTarget, source: DataFrame, sequence: T.DataType) -> None:
        self.into, self.sequence, self.number = into, sequence, into.state.next_batch
        self._values = into.state.values
        self.judged = self._judge_rows(source)

    def refuse_invalid(self) -> None:
        """Raises an `AutoCdcError` for the first row that is rejected, if there is one."""
        rows = self.judged.where("_reason IS NOT NULL").select("_reason", "_row").head(1)
        if rows:
            raise AutoCdcError(_CONDITION + rows[0]["_reason"], f"the row {rows[0]['_row']}")

    def fold(self) -> Counts:
        """Folds the rows that are no truncates into the state; counts their outcomes.

        A new truncate may lie between the changes of one row. Such rows are folded once more.
        """
        into, definition = self.into, self.into.definition
        changes = self.judged.where(F.col("_reason").isNull() & ~_is_operation(TRUNCATE))
        number, few = self.row_counts["changes"], self.row_counts["changes"] <= FEW
        if not number and not into.state.has_parted(self.number):
            return Counts({}, 0, 0)
        stored = into.state.read_stored(changes, few, self.number) if self.number > 1 else None
        rules = FoldRules(
            columns=tuple(self._values),
            tracked=definition.list_tracked(self._values) if definition.keeps_history else (),
            cutoffs=(Cutoff(into.state.cutoff),) if into.state.cutoff else (),
        )
        plan = FoldPlan(rules, tuple(definition.keys), definition.keeps_history)
        folded = fold(changes.withColumn("_new", F.lit(True)), stored, plan)
        if not definition.keeps_history:
            live = {v: F.when(~F.col("_deleted"), column(v)) for v in self._values}
            folded = folded.withColumns(live)
        if isinstance(into.spark, SparkSession):
            return into.state.write_batch(observe(folded), self.number)
        with _keep_computed(folded):
            return into.state.write_batch(count(folded), self.number)

    @cached_property
    def row_counts(self) -> Mapping[str, int]:
        """How many changes, truncates and rejected rows there are.

        The first look also has the state record the newest truncate.
        """
        sound, cuts = F.col("_reason").isNull(), F.col("_reason").isNull() & _is_operation(TRUNCATE)
        counted = self.judged.agg(
            F.count_if(sound & ~_is_operation(TRUNCATE)).alias("changes"),
            F.count_if(cuts).alias("truncates"),
            F.count_if(~sound).alias("rejected"),
            F.max(F.when(cuts, F.col("_order"))).alias("newest"),
        ).collect()[0]
        self.into.state.record_truncate(bytes(counted["newest"] or b""), self.number)
        return {name: int(counted[name]) for name in ("changes", "truncates", "rejected")}

    def _judge_rows(self, source: DataFrame) -> DataFrame:
        definition, fields = self.into.definition, self.into.state.fields
        given = {f.name: f.dataType for f in source.schema.fields}
        values = {f.name: _cast_column(f, given.get(f.name)) for f in fields}
        misfits = [column(f.name).isNotNull() & values[f.name].isNull() for f in fields
                   if f.name in given and not _fits_type(given[f.name], f.dataType)]  # fmt: skip
        absent = definition.build_absent(source, self._values)
        prepared = source.select(
            *[value.alias(name) for name, value in values.items()],
            _build_operation(definition, source).alias("_operation"),
            (F.lit(None) if absent is None else absent).cast("array<string>").alias("_absent"),
            definition.sequence_of(source).alias("_value"),
            all_of([~misfit for misfit in misfits]).alias("_fits"),
            F.to_json(F.struct(*map(column, source.columns))).alias("_row"),
        )
        sections = F.expr(sections_sql("_value", self.sequence))
        arrival = F.format_string("%016X%016X", F.lit(self.number), F.monotonically_increasing_id())
        has_key = all_of([column(key).isNotNull() for key in definition.keys])
        reason = (
            F.when(~F.col("_fits"), "BAD_VALUE")
            .when(~has_key & ~_is_operation(TRUNCATE), "NULL_KEY")
            .when(sections.isNull(), "NULL_SEQUENCE")
        )
        lacks_some = _is_operation(UPSERT) & (F.size("_absent") > 0)
        judged = prepared.withColumns(
            {
                "_absent": F.when(lacks_some, F.col("_absent")),
                "_order": F.unhex(F.concat(sections, F.lit("00"), arrival)),
                "_source_time": F.current_timestamp(),
                "_reason": reason,
            }
        )
        rejected = F.when(F.col("_reason").isNotNull(), F.col("_row"))
        digest = hash_change(judged.schema, [*definition.keys, *self._values])
        return judged.withColumns({"_row": rejected, "_digest": digest}).drop("_value", "_fits")


def _build_operation(definition: Definition, source: DataFrame) -> Column:
    marks = {DELETE: definition.apply_as_deletes, TRUNCATE: definition.apply_as_truncates}
    operation = F.lit(UPSERT)
    for name, given in marks.items():
        if given is not None:
            applies = F.coalesce(to_column(given, source), F.lit(False))
            operation = F.when(applies, name).otherwise(operation)
    return operation


def _is_operation(operation: str) -> Column:
    return F.col("_operation") == operation


def _fits_type(given: T.DataType, kept: T.DataType) -> bool:
    return given == kept or can_widen(given, kept)


def _cast_column(field: T.StructField, given: T.DataType | None) -> Column:
    """A column of the source with the type that the state has for it."""
    if given is None:
        return F.lit(None).cast(field.dataType)
    if _fits_type(given, field.dataType):
        return column(field.name).cast(field.dataType)
    return column(field.name).try_cast(field.dataType)


@contextmanager
def _keep_computed(rows: DataFrame) -> Iterator[None]:
    """Within, Spark keeps computed rows, where it can (serverless Spark cannot)."""
    try:
        rows.persist()
    except PySparkException:
        yield
        return
    try:
        yield
    finally:
        rows.unpersist()
