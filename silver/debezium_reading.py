"""How each column of a batch is read from its token: by the record's schema block, else by type."""

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.names import literal
from lakehouse.table import Table
from silver.debezium_columns import ColumnPlan
from silver.debezium_encoding import Encoding, assumed, in_mode
from silver.debezium_toast import can_be_placeholder, forms
from silver.debezium_values import converted


class Reading(NamedTuple):
    """A column with everything that is needed to read it.

    `token` and `value` name the columns that hold its JSON token and its value while a batch is
    decoded; `told` are encodings with the digests of the schema blocks that tell them; `untold` is
    the encoding of records without a block, None when the batch has none; `unavailable` are the
    placeholder's forms.
    """

    name: str
    fields: tuple[str, ...]
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
            fields=plan.fields,
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


def value_of(column: Reading, token: str) -> str:
    """SQL of a token's value in the column's type; null when it does not fit."""
    cases = [(digests, converted(token, e, column.type)) for e, digests in column.told]
    untold = f"cast(NULL AS {column.type.simpleString()})"
    if column.untold is not None:
        untold = converted(token, column.untold, column.type)
    elif len(cases) == 1 and not column.misfits:
        return cases[0][1]
    if column.misfits:
        cases.insert(0, (column.misfits, "NULL"))
    whens = [f"WHEN _version IN ({', '.join(map(str, of))}) THEN {sql}" for of, sql in cases]
    return f"CASE {' '.join(whens)} ELSE {untold} END" if whens else untold


def missing(column: Reading, token: str) -> str:
    """SQL of whether the record does not carry the column's value, from that of its token."""
    return f"(_holds AND {token} IN ({', '.join(map(literal, column.unavailable))}))"


def token_of(column: Reading, holder: str) -> str:
    """SQL of the column's token in the struct or map of that name, which holds them by field."""
    tokens = [f"{holder}[{literal(field)}]" for field in column.fields]
    return tokens[0] if len(tokens) == 1 else f"coalesce({', '.join(tokens)})"


def absent_columns(columns: list[Reading], table: Table) -> Column:
    """Names of the columns a record does not carry; null when it carries all."""
    left_out = [
        f"CASE WHEN {missing(c, token_of(c, '_after'))} THEN {literal(c.name)} END"
        for c in columns
        if c.large
    ]
    if not left_out or not table.keys:
        return F.lit(None).cast("array<string>")
    names = F.expr(f"array_except(array({', '.join(left_out)}), array(cast(NULL AS string)))")
    return F.when(F.col("_holds") & (F.size(names) > 0), names)


def values_of(columns: list[Reading], tokens: str) -> Column:
    """The values of other tokens of the same columns as one JSON object, without its nulls.

    `tokens` names the struct or map that holds them by field: the old row, or an old key.
    """
    values = [F.expr(value_of(c, token_of(c, tokens))).alias(c.name) for c in columns]
    return F.to_json(F.struct(*values))


def _told(
    plan: ColumnPlan, type: T.DataType, table: Table
) -> tuple[tuple[Encoding, tuple[int, ...]], ...]:
    by_encoding: dict[Encoding, list[int]] = {}
    for digest, encoding in plan.told.items():
        if digest not in plan.misfits:
            by_encoding.setdefault(in_mode(encoding, type, table.feeds[0]), []).append(digest)
    return tuple((encoding, tuple(digests)) for encoding, digests in by_encoding.items())
