"""The rows of a compacted batch beside those that the table holds of their keys, by the rules."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import names
from silver.row_columns import all_of, column
from silver.merge import Rule, first_class

_STAYS = -1


def met(rows: DataFrame, changes: DataFrame, keys: list[str]) -> DataFrame:
    """The table's rows whose keys some of the changes have."""
    return rows.join(changes.select(*[column(k) for k in keys]), keys, "left_semi")


def joined(rows: DataFrame, held: DataFrame, keys: list[str], rules: list[Rule]) -> DataFrame:
    """What becomes of the batch's rows, each joined with the held row of its key by the first rule.

    Args:
        rows: the batch, one row per key, in the shape of the table but for `_batch`, `_class`.
        held: rows of the table; a key without one is new.
        keys: key columns.
        rules: one of `rules` or `of_whole_keys`.

    Returns:
        Rows to write, in the shape of the table but for `_batch`; those that no rule takes are
        not among them.
    """
    both = _beside(rows, held, keys, "left")
    chosen = both.withColumn("_rule", F.expr(_rule(rules))).where("_rule IS NOT NULL")
    return chosen.select(
        *[F.col(f"s.{names.quote(k)}").alias(k) for k in keys],
        *[F.expr(_by_rule(values)).alias(c) for c, values in _values(rules).items()],
    )


def whole(
    rows: DataFrame, held: DataFrame, keys: list[str], rules: list[Rule], floor: str | None
) -> DataFrame:
    """All that the table holds after the batch: what `joined` gives, and every other row as it is.

    `held` are all rows of the table; those that stay keep their `_batch`, which is null in the
    others. `floor` is the stamp of a truncate that comes in force: every older row goes.
    """
    both = _beside(rows, held, keys, "full")
    chosen = both.withColumn("_rule", F.expr(f"coalesce({_rule(rules)}, {_STAYS})"))
    if floor is not None:
        chosen = chosen.where(f"_rule <> {_STAYS} OR t._stamp >= {names.literal(floor)}")
    stays = {c: {_STAYS: f"t.{names.quote(c)}"} for c in rules[0].values}
    same = [F.coalesce(F.col(f"s.{names.quote(k)}"), F.col(f"t.{names.quote(k)}")) for k in keys]
    return chosen.select(
        *[key.alias(k) for key, k in zip(same, keys, strict=True)],
        *[F.expr(_by_rule(values | stays[c])).alias(c) for c, values in _values(rules).items()],
        F.expr(f"CASE WHEN _rule = {_STAYS} THEN t._batch END").alias("_batch"),
    )


def _beside(rows: DataFrame, held: DataFrame, keys: list[str], how: str) -> DataFrame:
    same = [F.col(f"s.{names.quote(k)}") == F.col(f"t.{names.quote(k)}") for k in keys]
    return rows.alias("s").join(held.alias("t"), all_of(same), how)


def _rule(rules: list[Rule]) -> str:
    """SQL for the number of the rule that takes a row: 0 for a new key, null where none does."""
    tried = " ".join(f"WHEN {rule.when} THEN {at}" for at, rule in enumerate(rules, 1))
    return f"CASE WHEN t._stamp IS NULL THEN 0 WHEN s._stamp IS NULL THEN NULL {tried} END"


def _values(rules: list[Rule]) -> dict[str, dict[int, str]]:
    """SQL for each column's value by the number of the row's rule."""
    new = {c: f"s.{names.quote(c)}" for c in rules[0].values} | {"_class": first_class("s.")}
    return {c: {0: new[c]} | {at: r.values[c] for at, r in enumerate(rules, 1)} for c in new}


def _by_rule(values: Mapping[int, str]) -> str:
    """SQL for a column's value: that of the row's rule."""
    usual = values[0]
    other = {at: value for at, value in values.items() if value != usual}
    cases = " ".join(f"WHEN {at} THEN {value}" for at, value in other.items())
    return f"CASE _rule {cases} ELSE {usual} END" if cases else usual
