"""What a flow of AUTO CDC is told: its options, checked before Spark works, and its errors."""

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

Names: TypeAlias = Sequence[str] | None
Condition: TypeAlias = str | Column
ScdType: TypeAlias = Literal[1, 2, "1", "2"]
PREFIX = "auto_cdc."
"""What the table properties of a flow's state begin with."""


class HistoryOptions(TypedDict, total=False):
    """Options that flows of changes and of snapshots share."""

    column_list: Names
    except_column_list: Names
    track_history_column_list: Names
    track_history_except_column_list: Names


class RunOptions(TypedDict, total=False):
    """Options of a call of `auto_cdc` that say nothing of the table."""

    on_invalid: Literal["dead_letters", "fail"]
    name: str | None
    once: bool
    tombstone_retention: str | None
    checkpoint_location: str | None


class FlowOptions(HistoryOptions, RunOptions, total=False):
    """Options of `auto_cdc`; those of `create_auto_cdc_flow` have its names and defaults."""

    apply_as_deletes: Condition | None
    apply_as_truncates: Condition | None
    ignore_null_updates: bool
    ignore_null_updates_column_list: Names
    ignore_null_updates_except_column_list: Names
    columns_to_update: Condition | None
    stored_as_scd_type: ScdType


class AutoCdcError(LakehouseError):
    """A flow that cannot go on, with the condition that Spark's AUTO CDC names for it."""

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
    sequence_by: Condition | Sequence[str]
    apply_as_deletes: Condition | None = None
    apply_as_truncates: Condition | None = None
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: Names = None
    ignore_null_updates_except_column_list: Names = None
    columns_to_update: Condition | None = None
    column_list: Names = None
    except_column_list: Names = None
    stored_as_scd_type: ScdType = 1
    track_history_column_list: Names = None
    track_history_except_column_list: Names = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise AutoCdcError("AUTOCDC_EMPTY_KEYS", "keys names no column; name at least one.")
        if str(self.stored_as_scd_type) not in ("1", "2"):
            found = repr(self.stored_as_scd_type)
            raise AutoCdcError("AUTOCDC_SCD_TYPE", f"stored_as_scd_type is {found}; say 1 or 2.")
        for one, other in _APART:
            if getattr(self, one) and getattr(self, other):
                raise AutoCdcError("CANNOT_SET_TOGETHER", f"{one} and {other}; leave out one.")
        if self.history and self.apply_as_truncates is not None:
            text = "apply_as_truncates goes with stored_as_scd_type=1 only."
            raise AutoCdcError("CANNOT_SET_TOGETHER", text)
        tracks = self.track_history_column_list or self.track_history_except_column_list
        if tracks and not self.history:
            text = "track_history_* goes with stored_as_scd_type=2 only."
            raise AutoCdcError("CANNOT_SET_TOGETHER", text)

    @classmethod
    def of(
        cls, keys: Sequence[str], sequence_by: Condition | Sequence[str], options: FlowOptions
    ) -> "Definition":
        """The definition of a table among all options of a call."""
        names = {field.name for field in fields(cls)}
        own: dict[str, Any] = {name: value for name, value in options.items() if name in names}
        return cls(keys, sequence_by, **own)

    @property
    def history(self) -> bool:
        """Whether the target keeps every version."""
        return str(self.stored_as_scd_type) == "2"

    def sequence_of(self, source: DataFrame) -> Column:
        """The order of the source's rows; several columns are a struct of them."""
        if isinstance(self.sequence_by, (str, Column)):
            return expression(self.sequence_by, source)
        return F.struct(*[expression(each, source) for each in self.sequence_by])

    def sequence_type(self, source: DataFrame) -> T.DataType:
        """The type of the order.

        Raises:
            AutoCdcError: values of the type have no order that survives storage.
        """
        found = source.select(self.sequence_of(source).alias("s")).schema["s"].dataType
        if not is_sortable(found):
            raise AutoCdcError(
                "AUTOCDC_SEQUENCING_TYPE",
                f"sequence_by is {found.simpleString()}; cast it to a whole number, a decimal,"
                " a date, a timestamp, a text, or a struct of these.",
            )
        return found

    def columns_of(self, source: DataFrame) -> list[T.StructField]:
        """The columns that the target gets, keys first.

        Raises:
            AutoCdcError: an option names a column that the source has not.
        """
        fields = {field.name: field for field in source.schema.fields}
        for option in _LISTS:
            unknown = [name for name in getattr(self, option) or () if name not in fields]
            if unknown:
                there = ", ".join(fields)
                raise AutoCdcError(
                    "UNRESOLVED_COLUMN", f"{option}: no column {unknown[0]}; there are {there}."
                )
        left_out = {*(self.except_column_list or ())} - {*self.keys}
        chosen = self.column_list if self.column_list is not None else [*fields]
        names = dict.fromkeys([*self.keys, *(name for name in chosen if name not in left_out)])
        return [fields[name] for name in names]

    def tracked(self, values: Sequence[str]) -> tuple[str, ...]:
        """The columns whose change opens a version."""
        if self.track_history_column_list is not None:
            return tuple(v for v in values if v in self.track_history_column_list)
        return tuple(v for v in values if v not in (self.track_history_except_column_list or ()))

    def absent(self, source: DataFrame, values: Sequence[str]) -> Column | None:
        """Which of the columns a row does not carry; None where each row carries all."""
        kept: Sequence[str] = ()
        if self.ignore_null_updates or self.ignore_null_updates_except_column_list is not None:
            spared = {*(self.ignore_null_updates_except_column_list or ())}
            kept = [v for v in values if v not in spared]
        elif self.ignore_null_updates_column_list is not None:
            kept = [v for v in values if v in self.ignore_null_updates_column_list]
        nulls = F.array_compact(
            F.array(*[F.when(F.col(quote(v)).isNull(), F.lit(v)) for v in kept])
        ).cast("array<string>")
        if self.columns_to_update is None:
            return nulls if kept else None
        named = expression(self.columns_to_update, source)
        others = F.array_except(F.array(*map(F.lit, values)).cast("array<string>"), named)
        return F.array_union(nulls, F.coalesce(others, F.array().cast("array<string>")))

    def properties(self, sequence: T.DataType) -> dict[str, str]:
        """What the state's table remembers, so that a later flow into it is the same kind."""
        tracked = (self.track_history_column_list, self.track_history_except_column_list)
        said = {
            "keys": json.dumps([*self.keys]),
            "scd_type": str(self.stored_as_scd_type),
            "sequence_by": sequence.simpleString(),
            "track_history": json.dumps([names and sorted(names) for names in tracked]),
        }
        return {PREFIX + name: text for name, text in said.items()}

    def check_drift(self, known: Mapping[str, str], sequence: T.DataType) -> None:
        """Refuses a flow that contradicts what the target was built with.

        Raises:
            AutoCdcError: with the condition of Spark's AUTO CDC.
        """
        now = self.properties(sequence)
        for name, condition in _DRIFTS.items():
            before, after = known.get(PREFIX + name), now[PREFIX + name]
            if before is not None and before != after:
                raise AutoCdcError(
                    condition,
                    f"the target was built with {name} {before}, and the flow says {after};"
                    " keep the first, or drop the target and its tables _auto_cdc and"
                    " _dead_letters.",
                )


def expression(given: Condition, source: DataFrame) -> Column:
    """A column of the source by its name, or an expression over it."""
    if isinstance(given, Column):
        return given
    return F.col(quote(given)) if given in source.columns else F.expr(given)


_LISTS = (
    "keys", "column_list", "except_column_list", "track_history_column_list",
    "track_history_except_column_list", "ignore_null_updates_column_list",
    "ignore_null_updates_except_column_list",
)  # fmt: skip
_APART = (
    ("column_list", "except_column_list"),
    ("track_history_column_list", "track_history_except_column_list"),
    ("ignore_null_updates", "ignore_null_updates_column_list"),
    ("ignore_null_updates", "ignore_null_updates_except_column_list"),
    ("ignore_null_updates_column_list", "ignore_null_updates_except_column_list"),
)
_DRIFTS = {
    "keys": "KEY_SCHEMA_DRIFT",
    "scd_type": "SCD_TYPE_DRIFT",
    "sequence_by": "SEQUENCING_TYPE_DRIFT",
    "track_history": "TRACK_HISTORY_DRIFT",
}
