"""One batch of a flow: judged, folded into the state by one MERGE, and published by another."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.definition import PREFIX, AutoCdcError, Definition, expression
from cdc_lakehouse.flows.publication import publish
from cdc_lakehouse.flows.sequences import sections_sql, value_sql
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.storage.names import same
from lakehouse.storage.statements import execute, inserting, updating
from silver.contract import CURRENT_COLUMNS, DELETE, HISTORY_COLUMNS, TRUNCATE, UPSERT
from silver.decode.types import parse_type, widens
from silver.fold.arrow import CURRENT_FACTS, HISTORY_CHANGE, HISTORY_FACTS, FoldPlan
from silver.fold.order_key import order_literal, sequence_sql
from silver.fold.rules import Cutoff, FoldRules
from silver.fold.spark import Counts, fold, observe
from silver.merge.counted import confirmed
from silver.storage import layout
from silver.storage.row_columns import absent_before, all_of, column, digest

_CONDITION = "AUTOCDC_MICROBATCH_VALIDATION."
_CUTOFF, _CUTOFF_BATCH = f"{PREFIX}cutoff", f"{PREFIX}cutoff_batch"
_LETTER_COLUMNS = (
    "reason STRING COMMENT 'NULL_KEY, NULL_SEQUENCE or BAD_VALUE',"
    " row STRING COMMENT 'the row of the source, as JSON',"
    " flow STRING COMMENT 'the flow that brought the row',"
    " at TIMESTAMP COMMENT 'when the dead letter was written'"
)


class AutoCdcResult(NamedTuple):
    """What became of the rows of a batch; their outcomes add up to the rows.

    Attributes:
        late: changes of a history that took their place before a newer one.
        delete_unknown: deletes of keys that are not there; they are remembered.
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

    def __init__(self, spark: SparkSession, place: str, definition: Definition) -> None:
        """Takes the target's name or path, and what its flows are told."""
        self.spark, self.definition = spark, definition
        self.target = FlowTable(spark, place)
        self.state = self.target.beside("_auto_cdc")
        self.letters = self.target.beside("_dead_letters")
        self.layer = HISTORY_COLUMNS if definition.history else CURRENT_COLUMNS

    @property
    def fields(self) -> list[T.StructField]:
        """The columns of the source that the state has."""
        own = {each.name for each in self.layer}
        there = self.state.schema or T.StructType()
        return [field for field in there.fields if field.name not in own]

    @property
    def values(self) -> list[str]:
        """The names of `fields` but the keys."""
        return [f.name for f in self.fields if f.name not in self.definition.keys]

    def apply(
        self, source: DataFrame, on_invalid: str = "dead_letters", name: str | None = None
    ) -> AutoCdcResult:
        """Applies the rows of a batch DataFrame.

        Raises:
            AutoCdcError: the flow contradicts the target, or a row is refused (`on_invalid`).
        """
        batch = self._begin(source)
        with _kept(batch.judged):
            if on_invalid == "fail":
                batch.refuse_invalid()
            seen, counts = batch.seen, batch.merge()
            publish(self, batch, batch.number if counts.rows else batch.number - 1)
            if seen["rejected"]:
                self._keep_letters(batch.judged, name)
        known = {n: count for n, count in counts.outcomes.items() if n in AutoCdcResult._fields}
        return AutoCdcResult(**known, **{n: seen[n] for n in ("truncates", "rejected")})

    def live_rows(self) -> DataFrame | None:
        """Keys and values as they are now; None before the first batch."""
        if not self.state.exists:
            return None
        live = "_shown AND _is_current" if self.definition.history else "NOT _deleted"
        return self.state.read().where(live).select(*[column(f.name) for f in self.fields])

    def newest_sequence(self) -> object:
        """The highest order of all changes so far; None before the first."""
        if not self.state.exists:
            return None
        text = self.state.properties()[f"{PREFIX}sequence_by"]
        value = value_sql("max(_order)", parse_type(text))
        return self.spark.sql(f"SELECT {value} FROM {self.state.name}").collect()[0][0]

    def forget_deletes(self, seconds: int) -> None:
        """Removes tombstones of a current table that are older than so many seconds."""
        if not self.definition.history and self.state.exists:
            since = f"current_timestamp() - INTERVAL '{seconds}' SECOND"
            text = f"DELETE FROM {self.state.name} WHERE _deleted AND _source_time < {since}"
            self.spark.sql(text)

    def _begin(self, source: DataFrame) -> "FlowBatch":
        definition, state = self.definition, self.state
        fields, sequence = definition.columns_of(source), definition.sequence_type(source)
        if not state.exists:
            if self.target.exists and not self.target.read().isEmpty():
                text = f"{self.target.place} has rows that no flow wrote; name another target."
                raise AutoCdcError("AUTOCDC_TARGET_NOT_EMPTY", text)
            properties = layout.properties_of(self.layer) | definition.properties(sequence)
            comment = f"what AUTO CDC knows of {self.target.place}"
            state.create(layout.columns_sql(fields, self.layer), comment, properties)
        known = state.properties()
        definition.check_drift(known, sequence)
        newest = self.spark.sql(f"SELECT max(_batch) FROM {state.name}").collect()[0][0] or 0
        growth = layout.growth_sql(state.name, state.read().schema, fields, newest + 1)
        for text in growth:
            self.spark.sql(text)
        if growth:
            state.forget()
        return FlowBatch(self, source, sequence, newest + 1, known)

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
    """The rows of a source with what the fold takes of them.

    Attributes:
        judged: one row per row of the source: the target's columns, `_operation`, `_order`,
            `_digest`, `_source_time`, maybe `_absent`; `_reason` and `_row` where it is rejected.
    """

    def __init__(
        self,
        into: FlowTarget,
        source: DataFrame,
        sequence: T.DataType,
        number: int,
        known: Mapping[str, str],
    ) -> None:
        self.into, self.sequence, self.number = into, sequence, number
        self._cutoff = bytes.fromhex(known.get(_CUTOFF, ""))
        self.cutoff_batch = int(known.get(_CUTOFF_BATCH, "-1"))
        self.judged = self._judge(source)

    @property
    def cutoff_is_new(self) -> bool:
        """Whether rows before the newest truncate may still be in the state."""
        return self.cutoff_batch >= self.number

    def refuse_invalid(self) -> None:
        """Raises an `AutoCdcError` for the first row that is rejected, if there is one."""
        found = self.judged.where("_reason IS NOT NULL").select("_reason", "_row").head(1)
        if found:
            raise AutoCdcError(_CONDITION + found[0]["_reason"], f"the row {found[0]['_row']}")

    def merge(self) -> Counts:
        """Folds the rows that are no truncates into the state; their outcomes."""
        into, changes = self.into, self.judged.where(F.col("_reason").isNull() & ~_is(TRUNCATE))
        if not (self.seen["changes"] or self.cutoff_is_new):
            return Counts({}, 0, 0)
        stored = self._stored(changes) if self.number > 1 else None
        written = observe(fold(changes.withColumn("_new", F.lit(True)), stored, self._plan()))
        rows = written.rows.withColumn("_batch", F.lit(self.number).cast("bigint"))
        if not into.definition.history:
            live = {v: F.when(~F.col("_deleted"), column(v)) for v in into.values}
            rows = rows.withColumns(live)
        result = execute(into.spark, self._merge_sql(), rows).collect()
        return confirmed(written.counts, result[0].asDict())

    @cached_property
    def seen(self) -> Mapping[str, int]:
        """How many rows are changes, truncates and rejected; a newer cut-off is remembered."""
        sound, cuts = F.col("_reason").isNull(), F.col("_reason").isNull() & _is(TRUNCATE)
        found = self.judged.agg(
            F.count_if(sound & ~_is(TRUNCATE)).alias("changes"),
            F.count_if(cuts).alias("truncates"),
            F.count_if(~sound).alias("rejected"),
            F.max(F.when(cuts, F.col("_order"))).alias("newest"),
        ).collect()[0]
        newest = bytes(found["newest"] or b"")
        if newest > self._cutoff:
            self._cutoff, self.cutoff_batch = newest, self.number
            told = {_CUTOFF: newest.hex(), _CUTOFF_BATCH: str(self.number)}
            self.into.state.set_properties(told)
        return {name: int(found[name]) for name in ("changes", "truncates", "rejected")}

    def _judge(self, source: DataFrame) -> DataFrame:
        into, definition = self.into, self.into.definition
        given = {f.name: f.dataType for f in source.schema.fields}
        values = {f.name: _typed(f, given.get(f.name)) for f in into.fields}
        misfits = [column(f.name).isNotNull() & values[f.name].isNull() for f in into.fields
                   if f.name in given and not _fits(given[f.name], f.dataType)]  # fmt: skip
        absent = definition.absent(source, into.values)
        told = source.select(
            *[value.alias(name) for name, value in values.items()],
            _operation(definition, source).alias("_operation"),
            (F.lit(None) if absent is None else absent).cast("array<string>").alias("_absent"),
            definition.sequence_of(source).alias("_value"),
            all_of([~misfit for misfit in misfits]).alias("_fits"),
            F.to_json(F.struct(*map(column, source.columns))).alias("_row"),
        )
        sections = F.expr(sections_sql("_value", self.sequence))
        arrival = F.format_string("%016X%016X", F.lit(self.number), F.monotonically_increasing_id())
        has_key = all_of([column(key).isNotNull() for key in definition.keys])
        reason = (
            F.when(~has_key & ~_is(TRUNCATE), "NULL_KEY")
            .when(sections.isNull(), "NULL_SEQUENCE")
            .when(~F.col("_fits"), "BAD_VALUE")
        )
        judged = told.withColumns(
            {
                "_absent": F.when(_is(UPSERT) & (F.size("_absent") > 0), F.col("_absent")),
                "_order": F.unhex(F.concat(sections, F.lit("00"), arrival)),
                "_source_time": F.current_timestamp(),
                "_reason": reason,
            }
        )
        rejected = F.when(F.col("_reason").isNotNull(), F.col("_row"))
        own = {"_row": rejected, "_digest": digest([*definition.keys, *into.values])}
        return judged.withColumns(own).drop("_value", "_fits")

    def _plan(self) -> FoldPlan:
        into = self.into
        rules = FoldRules(
            columns=tuple(into.values),
            tracked=into.definition.tracked(into.values) if into.definition.history else (),
            cutoffs=(Cutoff(self._cutoff),) if self._cutoff else (),
        )
        return FoldPlan(rules, tuple(into.definition.keys), into.definition.history)

    def _stored(self, changes: DataFrame) -> DataFrame:
        """The stored rows of the keys; of a history those from the first change on."""
        into, keys = self.into, [*self.into.definition.keys]
        history, state = into.definition.history, into.state
        facts = (*HISTORY_FACTS, *HISTORY_CHANGE) if history else CURRENT_FACTS
        own = dict.fromkeys(name for name, _ in facts)
        held = state.read()
        late = layout.late(held.schema)
        if history and late:
            given = absent_before(late, F.col("_operation"), F.col("_absent"))
            held = held.withColumn("_absent", given)
        elif late:
            own["_absent"] = None
            held = held.withColumn("_absent", absent_before(late, F.lit(UPSERT), F.lit(None)))
        wanted = held.select(*[column(f.name) for f in into.fields], *own)
        first = changes.groupBy(*map(column, keys)).agg(F.min("_order").alias("__first"))
        found = wanted.join(first, keys)
        if history:
            begins = F.expr(sequence_sql("__first"))
            found = found.where(F.col("_next_order").isNull() | (F.col("_next_order") >= begins))
        return found.drop("__first")

    def _merge_sql(self) -> str:
        into, keys = self.into, [*self.into.definition.keys]
        others = [*into.values, *(each.name for each in into.layer)]
        on = same("t", "s", keys, ())
        if into.definition.history:
            on += " AND t._order = s._order"
        text = (
            f"MERGE INTO {into.state.name} t USING {{rows}} s ON {on}"
            f" WHEN MATCHED THEN {updating(others)}"
            f" WHEN NOT MATCHED THEN {inserting([*keys, *others])}"
        )
        if not self.cutoff_is_new:
            return text
        older = f"t._order < {order_literal(self._cutoff)}"
        return f"{text} WHEN NOT MATCHED BY SOURCE AND {older} THEN DELETE"


def _operation(definition: Definition, source: DataFrame) -> Column:
    marks = {DELETE: definition.apply_as_deletes, TRUNCATE: definition.apply_as_truncates}
    operation = F.lit(UPSERT)
    for name, given in marks.items():
        if given is not None:
            applies = F.coalesce(expression(given, source), F.lit(False))
            operation = F.when(applies, name).otherwise(operation)
    return operation


def _is(operation: str) -> Column:
    return F.col("_operation") == operation


def _fits(given: T.DataType, kept: T.DataType) -> bool:
    return given == kept or widens(given, kept)


def _typed(field: T.StructField, given: T.DataType | None) -> Column:
    """A column of the source with the type that the state has for it."""
    if given is None:
        return F.lit(None).cast(field.dataType)
    if _fits(given, field.dataType):
        return column(field.name).cast(field.dataType)
    return column(field.name).try_cast(field.dataType)


@contextmanager
def _kept(rows: DataFrame) -> Iterator[None]:
    """Has Spark compute rows once, where it can keep them (serverless Spark cannot)."""
    try:
        rows.persist()
    except PySparkException:
        yield
        return
    try:
        yield
    finally:
        rows.unpersist()
