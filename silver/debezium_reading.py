"""How each column of a batch is read from its token: by the record's own schema block, else by type."""

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.table import Table
from silver.debezium_columns import ColumnPlan
from silver.debezium_encoding import Encoding, assumed, in_mode
from silver.debezium_schema import digest_of
from silver.debezium_toast import can_be_placeholder, forms
from silver.debezium_values import converted


class Reading(NamedTuple):
    """A column with everything that is needed to read it.

    `token` and `value` name the columns that hold its JSON token and its value while a batch is decoded;
    `told` are encodings with the digests of the schema blocks that tell them; `untold` is the encoding
    of records without a block, None when the batch has none; `unavailable` are the placeholder's forms.
    """

    name: str
    field: str
    token: str
    value: str
    type: T.DataType
    told: tuple[tuple[Encoding, tuple[int, ...]], ...]
    untold: Encoding | None
    misfits: tuple[int, ...]
    learned: bool
    unavailable: tuple[str, ...]

    @property
    def large(self) -> bool:
        """Whether the source can leave the column's value out of a change."""
        return bool(self.unavailable)

    def missing(self, token: Column) -> Column:
        """Whether the record does not carry the value."""
        return F.col("_holds") & token.isin(*self.unavailable)

    def read(self, token: Column) -> Column:
        """The token's value in the column's type; null when it does not fit."""
        cases = [(digests, self._converted(token, encoding)) for encoding, digests in self.told]
        if self.untold is None and len(cases) == 1 and not self.misfits:
            return cases[0][1]
        otherwise = F.lit(None).cast(self.type)
        value = otherwise if self.untold is None else self._converted(token, self.untold)
        for digests, by_block in cases:
            value = F.when(_of(digests), by_block).otherwise(value)
        return F.when(~_of(self.misfits), value) if self.misfits else value

    def _converted(self, token: Column, encoding: Encoding) -> Column:
        return converted(token, encoding, self.type, F.col("_sourced"))


def readings(
    plans: list[ColumnPlan], types: list[T.DataType], table: Table, plain: bool
) -> list[Reading]:
    """The planned columns with their parsed types, ready to read.

    Args:
        plans: the columns.
        types: their types, in the same order.
        table: the table; its first source tells the modes and the placeholder.
        plain: whether records without a schema block are among the batch.
    """
    source = table.feeds[0]
    unavailable = tuple(forms(source.unavailable_value))
    return [
        Reading(
            name=plan.name,
            field=plan.field,
            token=f"_token_{at}",
            value=f"_value_{at}",
            type=type,
            told=_told(plan, type, table),
            untold=assumed(type, source) if plain or not plan.told else None,
            misfits=tuple(sorted(plan.misfits)),
            learned=plan.learned,
            unavailable=unavailable
            if can_be_placeholder(type) and plan.name not in table.keys
            else (),
        )
        for at, (plan, type) in enumerate(zip(plans, types, strict=True))
    ]


def absent_columns(columns: list[Reading], table: Table) -> Column:
    """Names of the columns a record does not carry; null when it carries all."""
    after = F.col("_after")
    left_out = [F.when(c.missing(after[c.field]), F.lit(c.name)) for c in columns if c.large]
    if not left_out or not table.keys:
        return F.lit(None).cast("array<string>")
    names = F.array_compact(F.array(*left_out))
    return F.when(F.col("_holds") & (F.size(names) > 0), names)


def values_of(columns: list[Reading], tokens: Column) -> Column:
    """The values of other tokens of the same columns (of `before`, of an old key) as one struct."""
    return F.struct(*[c.read(tokens[c.field]).alias(c.name) for c in columns])


def _told(
    plan: ColumnPlan, type: T.DataType, table: Table
) -> tuple[tuple[Encoding, tuple[int, ...]], ...]:
    by_encoding: dict[Encoding, list[int]] = {}
    for digest, encoding in plan.told.items():
        if digest not in plan.misfits:
            by_encoding.setdefault(in_mode(encoding, type, table.feeds[0]), []).append(digest)
    return tuple((encoding, tuple(digests)) for encoding, digests in by_encoding.items())


def _of(digests: tuple[int, ...]) -> Column:
    return F.coalesce(digest_of(F.col("_schema")).isin(*digests), F.lit(False))
