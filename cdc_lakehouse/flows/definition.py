"""The options of an AUTO CDC flow, checked before Spark works, and its errors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, TypedDict

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.sequences import is_sortable
from lakehouse.errors import LakehouseError
from lakehouse.storage.names import quote

Names: TypeAlias = Sequence[str | Column] | None
Condition: TypeAlias = str | Column
ScdType: TypeAlias = Literal[1, 2, "1", "2"]
PREFIX = "auto_cdc."
"""What the table properties of a flow's state begin with."""


class HistoryOptions(TypedDict, total=False):
    """Options that flows of changes and of snapshots share, with AUTO CDC's names and defaults.

    Attributes:
        column_list: the columns that the target gets beside the keys; by default all.
        except_column_list: columns that the target does not get; not beside `column_list`.
        track_history_column_list: of a history, the columns whose change opens a version; by
            default all. A change of others is written into the open version.
        track_history_except_column_list: of a history, the columns whose change opens none.
    """

    column_list: Names
    except_column_list: Names
    track_history_column_list: Names
    track_history_except_column_list: Names


class RunOptions(TypedDict, total=False):
    """Options of a call of `auto_cdc` that say nothing of the table.

    Attributes:
        on_invalid: what rows with a null key, a null sequence or a value of another type do:
            "dead_letters" (the default) keeps them in `TARGET_dead_letters`, "fail" fails the call
            before anything is written.
        name: names the flow in dead letters and for `once`; of a stream also the query.
        once: a batch is applied by the first call with this `name` only; a stream ends when it has
            read what is there. False by default.
        tombstone_retention: how long deletes of a current table are remembered, such as "30 days";
            for ever by default. A change older than a forgotten delete brings its row back.
        checkpoint_location: of a stream; by default `TARGET_checkpoint` beside a target that is a
            path. A target of a catalog needs one.
    """

    on_invalid: Literal["dead_letters", "fail"]
    name: str | None
    once: bool
    tombstone_retention: str | None
    checkpoint_location: str | None


class FlowOptions(HistoryOptions, RunOptions, total=False):
    """Options of `auto_cdc`; those of `create_auto_cdc_flow` have its names and defaults.

    Attributes:
        apply_as_deletes: a condition on the source's columns: which changes are deletes.
        apply_as_truncates: which changes empty the target: every change of any key with an earlier
            sequence counts no more. Current tables only. Such a row needs a sequence and no key.
        ignore_null_updates: whether a null leaves the column's value as it is. False by default.
        ignore_null_updates_column_list: the columns of which a null leaves the value.
        ignore_null_updates_except_column_list: the columns of which a null is a value.
        columns_to_update: an array<string> column or expression: the columns that a change carries;
            null, all of them. The others keep their values.
        stored_as_scd_type: 1, one row per key (the default), or 2, a row per version with
            `__START_AT` and `__END_AT` of the type of `sequence_by`; `__END_AT` is null on the
            current version.
    """

    apply_as_deletes: Condition | None
    apply_as_truncates: Condition | None
    ignore_null_updates: bool
    ignore_null_updates_column_list: Names
    ignore_null_updates_except_column_list: Names
    columns_to_update: Condition | None
    stored_as_scd_type: ScdType


class AutoCdcError(LakehouseError):
    """A flow that cannot go on; `getCondition()` is one of `CONDITIONS`."""

    def __init__(self, condition: str, message: str) -> None:
        self.condition = condition
        super().__init__(f"[{condition}] {message}")

    def getCondition(self) -> str:
        """The condition, as PySpark's errors give it."""
        return self.condition


@dataclass(frozen=True)
class Definition:
    """A flow's options under the names that AUTO CDC gives them; see `auto_cdc`."""

    keys: Sequence[str]
    sequence_by: Condition | Sequence[Condition]
    apply_as_deletes: Condition | None = None
    apply_as_truncates: Condition | None = None
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: Sequence[str] | None = None
    ignore_null_updates_except_column_list: Sequence[str] | None = None
    columns_to_update: Condition | None = None
    column_list: Sequence[str] | None = None
    except_column_list: Sequence[str] | None = None
    stored_as_scd_type: ScdType = 1
    track_history_column_list: Sequence[str] | None = None
    track_history_except_column_list: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise AutoCdcError("AUTOCDC_EMPTY_KEYS", "keys names no column; name at least one.")
        if str(self.stored_as_scd_type) not in ("1", "2"):
            value = repr(self.stored_as_scd_type)
            raise AutoCdcError("AUTOCDC_SCD_TYPE", f"stored_as_scd_type is {value}; say 1 or 2.")
        for (one, other), condition in _APART.items():
            if getattr(self, one) and getattr(self, other):
                raise AutoCdcError(condition, f"{one} and {other} are both given; leave out one.")
        for name, kind in _ONLY.items():
            given = getattr(self, name)
            if (isinstance(given, Column) or given) and str(self.stored_as_scd_type) != kind:
                text = f"{name} goes with stored_as_scd_type={kind} only."
                raise AutoCdcError("CANNOT_SET_TOGETHER", text)

    @classmethod
    def from_options(
        cls,
        keys: Sequence[Condition],
        sequence_by: Condition | Sequence[Condition],
        options: Mapping[str, object],
    ) -> "Definition":
        """The definition, from all options of a call."""
        names = {field.name for field in fields(cls)}
        given: dict[str, Any] = {"keys": keys, **options}
        chosen: dict[str, Any] = {
            name: value and [*map(_column_name, value)] if name in _LISTS else value
            for name, value in given.items()
            if name in names
        }
        return cls(sequence_by=sequence_by, **chosen)

    @property
    def keeps_history(self) -> bool:
        """Whether the target keeps every version."""
        return str(self.stored_as_scd_type) == "2"

    def sequence_of(self, source: DataFrame) -> Column:
        """The order of the source's rows; several columns are a struct of them."""
        if isinstance(self.sequence_by, (str, Column)):
            return to_column(self.sequence_by, source)
        return F.struct(*[to_column(each, source) for each in self.sequence_by])

    def sequence_type(self, source: DataFrame) -> T.DataType:
        """The type of the order.

        Raises:
            AutoCdcError: values of the type have no order that survives storage.
        """
        order_type = source.select(self.sequence_of(source).alias("s")).schema["s"].dataType
        if not is_sortable(order_type):
            raise AutoCdcError(
                "AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE",
                f"sequence_by is {order_type.simpleString()}; cast it to a whole number, a decimal,"
                " a date, a timestamp, a text, or a struct of these.",
            )
        return order_type

    def columns_of(self, source: DataFrame) -> list[T.StructField]:
        """The columns that the target gets, keys first.

        Raises:
            AutoCdcError: an option names a column that the source has not.
        """
        fields = {field.name: field for field in source.schema.fields}
        for option, condition in _LISTS.items():
            unknown = [name for name in getattr(self, option) or () if name not in fields]
            if unknown:
                text = f"{option}: no column {unknown[0]}; there are {', '.join(fields)}."
                raise AutoCdcError(condition, text)
        left_out = {*(self.except_column_list or ())} - {*self.keys}
        chosen = self.column_list if self.column_list is not None else [*fields]
        names = dict.fromkeys([*self.keys, *(name for name in chosen if name not in left_out)])
        return [fields[name] for name in names]

    def list_tracked(self, values: Sequence[str]) -> tuple[str, ...]:
        """The columns whose change opens a version."""
        if self.track_history_column_list is not None:
            return tuple(v for v in values if v in self.track_history_column_list)
        return tuple(v for v in values if v not in (self.track_history_except_column_list or ()))

    def build_absent(self, source: DataFrame, values: Sequence[str]) -> Column | None:
        """Which of the columns a row does not carry; None where each row carries all."""
        spared = self.ignore_null_updates_except_column_list
        if self.ignore_null_updates or spared is not None:
            kept = [v for v in values if v not in (spared or ())]
        else:
            kept = [v for v in values if v in (self.ignore_null_updates_column_list or ())]
        nulls = F.array_compact(
            F.array(*[F.when(F.col(quote(v)).isNull(), F.lit(v)) for v in kept])
        ).cast("array<string>")
        if self.columns_to_update is None:
            return nulls if kept else None
        named = to_column(self.columns_to_update, source)
        others = F.array_except(F.array(*map(F.lit, values)).cast("array<string>"), named)
        return F.array_union(nulls, F.coalesce(others, F.array().cast("array<string>")))

    def to_properties(self, sequence: T.DataType) -> dict[str, str]:
        """What the state's table remembers, so that a later flow into it is the same kind."""
        tracked = (self.track_history_column_list, self.track_history_except_column_list)
        said = {
            "keys": json.dumps([*self.keys]),
            "scd_type": str(self.stored_as_scd_type),
            "sequence_by": sequence.simpleString(),
            "track_history": json.dumps([names and sorted(names) for names in tracked]),
        }
        return {PREFIX + name: text for name, text in said.items()}

    def check_drift(self, stored: Mapping[str, str], sequence: T.DataType) -> None:
        """Refuses a flow that contradicts what the target was built with.

        Raises:
            AutoCdcError: with the condition of Spark's AUTO CDC.
        """
        now = self.to_properties(sequence)
        for name, condition in _DRIFTS.items():
            before, after = stored.get(PREFIX + name), now[PREFIX + name]
            if before is not None and before != after:
                raise AutoCdcError(
                    condition,
                    f"the target was built with {name} {before}, and the flow says {after};"
                    " keep the first, or drop the target and its tables _auto_cdc and"
                    " _dead_letters.",
                )


def _column_name(given: Condition) -> str:
    """A column's name, which Spark shows of a Column."""
    return given if isinstance(given, str) else str(given).removeprefix("Column<'")[:-2]


def to_column(given: Condition, source: DataFrame) -> Column:
    """A column of the source by its name, or an expression over it."""
    if isinstance(given, Column):
        return given
    return F.col(quote(given)) if given in source.columns else F.expr(given)


CONDITIONS: Mapping[str, str] = {
    "AUTOCDC_EMPTY_KEYS": "`keys` names no column.",
    "AUTOCDC_SCD_TYPE": "`stored_as_scd_type` is neither 1 nor 2.",
    "CANNOT_SET_TOGETHER": "Two options exclude each other.",
    "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST": "`column_list` and `except_column_list` are"
    " both given.",
    "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA": "`keys` names a column that the source has not.",
    "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA": "Another option names such a column.",
    "AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE": "`sequence_by` is no whole number,"
    " decimal, date, timestamp, text or struct of these.",
    "AUTOCDC_TARGET_NOT_EMPTY": "The target has rows that no flow wrote, or its `TARGET_auto_cdc`"
    " is gone.",
    "AUTOCDC_INVALID_STATE.KEY_SCHEMA_DRIFT": "The target was built with other keys.",
    "AUTOCDC_INVALID_STATE.SCD_TYPE_DRIFT": "The target was built with the other SCD type.",
    "AUTOCDC_INVALID_STATE.SEQUENCING_TYPE_DRIFT": "The target was built with another type of"
    " `sequence_by`.",
    "AUTOCDC_INVALID_STATE.TRACK_HISTORY_DRIFT": "The target was built with other tracked columns.",
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY": 'A key is null, with `on_invalid="fail"`.',
    "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE": "The sequence is null, or a part of it is.",
    "AUTOCDC_MICROBATCH_VALIDATION.BAD_VALUE": "The column's type does not hold a value.",
    "AUTOCDC_NO_CHECKPOINT": "A stream into a catalog's table names no `checkpoint_location`.",
    "AUTOCDC_CONCURRENT_BATCH": "Another call wrote to the target at the same time. Call again.",
    "AUTOCDC_DEBEZIUM_INPUT": "`decode_debezium` got a stream, or neither `value` nor one column.",
}
"""Conditions of an `AutoCdcError`, Spark's where AUTO CDC there has the same one."""
_LISTS = {"keys": "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA"} | dict.fromkeys(
    (
        "column_list", "except_column_list", "track_history_column_list",
        "track_history_except_column_list", "ignore_null_updates_column_list",
        "ignore_null_updates_except_column_list",
    ),
    "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA",
)  # fmt: skip
_APART = {
    ("column_list", "except_column_list"): "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST",
    ("track_history_column_list", "track_history_except_column_list"): "CANNOT_SET_TOGETHER",
    ("ignore_null_updates", "ignore_null_updates_column_list"): "CANNOT_SET_TOGETHER",
    ("ignore_null_updates", "ignore_null_updates_except_column_list"): "CANNOT_SET_TOGETHER",
    ("ignore_null_updates_column_list", "ignore_null_updates_except_column_list"):
        "CANNOT_SET_TOGETHER",
}  # fmt: skip
_ONLY = {
    "apply_as_truncates": "1",
    "track_history_column_list": "2",
    "track_history_except_column_list": "2",
}
_DRIFTS = {
    "keys": "AUTOCDC_INVALID_STATE.KEY_SCHEMA_DRIFT",
    "scd_type": "AUTOCDC_INVALID_STATE.SCD_TYPE_DRIFT",
    "sequence_by": "AUTOCDC_INVALID_STATE.SEQUENCING_TYPE_DRIFT",
    "track_history": "AUTOCDC_INVALID_STATE.TRACK_HISTORY_DRIFT",
}
