"""Columns that a batch of JSON objects carries and nobody declared: their names and types.

Two small jobs over the batch at most: one that looks for names not known yet, and, only when it
finds some, one that looks at their values.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.json_text import LENIENT

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_SCALARS = {"BIGINT": "bigint", "DOUBLE": "double", "FLOAT": "double", "BOOLEAN": "boolean"}
_BIGINT_DIGITS = 18
_READ = "__read"
_NAMELESS = ""  # is no column's name

MOST_COLUMNS = 2000
"""Of a table, beyond which nothing undeclared becomes a column; BigQuery's limit too."""

UNFIT = (
    "a column without a name, one whose name differs from another's in case only, or one more than "
    f"a table has room for: {MOST_COLUMNS:,}, unless it declares more"
)


class Names(NamedTuple):
    """Names that can become columns, and names that cannot."""

    usable: list[str]
    unfit: list[str]


def unknown_names(objects: DataFrame, document: Column, known: Collection[str]) -> list[str]:
    """Member names of the JSON objects that are not among `known`, sorted; one job.

    Objects of one feed have few shapes, so each shape is looked at once. One of more names than a
    table has room for shows a name that fits no column in their stead.
    """
    new = F.array_except("names", F.array(*map(F.lit, known)).cast("array<string>"))
    fits = F.size("names") <= room(known)
    shapes = objects.select(F.json_object_keys(document).alias("names")).distinct()
    shown = shapes.select(F.explode(F.when(fits, new).otherwise(F.array(F.lit(_NAMELESS)))))
    return sorted(row[0] for row in shown.distinct().collect())


def by_arrival(
    objects: DataFrame, document: Column, arrival: Column, names: Iterable[str], most: int
) -> list[str]:
    """Member names in the order in which the objects that have them arrived first; one job.

    Objects of more than `most` names do not count.
    """
    shapes = objects.select(F.json_object_keys(document).alias("names"), arrival.alias("at"))
    each = shapes.where(F.size("names") <= most).select(F.explode("names").alias("name"), "at")
    firsts = {row[0]: row[1] for row in each.groupBy("name").agg(F.min("at")).collect()}
    return sorted(names, key=lambda name: (firsts.get(name, ""), name))


def settle(names: Iterable[str], known: Collection[str]) -> Names:
    """Set apart the names for which there is no room beside the known ones and those before them.

    Nor for a name that differs from another column's in case only: Spark cannot tell them apart.
    """
    taken = {name.lower() for name in known} | {_NAMELESS}
    most = room(known)
    usable: list[str] = []
    unfit: list[str] = []
    for name in names:
        fits = name.lower() not in taken and len(known) + len(usable) < most
        (usable if fits else unfit).append(name)
        taken.add(name.lower())
    return Names(usable, unfit)


def room(known: Collection[str]) -> int:
    """How many columns a table with these known ones can have."""
    return max(MOST_COLUMNS, len(known))


def types(
    objects: DataFrame, document: Column, names: Iterable[str], others: Mapping[str, Column]
) -> dict[str, str]:
    """The SQL types of the objects' named members, and of other variants, over all rows; one job.

    Those without any value are left out. An aggregate computes its argument by itself, so the
    objects are parsed ahead of it, each once for all its members.
    """
    fields = [T.StructField(name, T.VariantType()) for name in names]
    read = objects.withColumn(_READ, F.from_json(document, T.StructType(fields), LENIENT))
    variants = {field.name: F.col(_READ).getField(field.name) for field in fields} | {**others}
    if not variants:
        return {}
    found = read.agg(*(F.schema_of_variant_agg(one) for one in variants.values())).collect()[0]
    inferred = {name: sql_type(seen) for name, seen in zip(variants, found, strict=True)}
    return {name: type for name, type in inferred.items() if type}


def sql_type(seen: str) -> str | None:
    """A column type for what `schema_of_variant_agg` saw; None when it saw nulls only.

    Whole numbers are bigint (decimal(38,0) beyond it), fractions double, arrays of scalars arrays;
    objects, nested arrays and mixtures are their JSON text.
    """
    if seen == "VOID":
        return None
    if seen.startswith("ARRAY<"):
        element = seen[len("ARRAY<") : -1]
        return "string" if element.startswith(("OBJECT", "ARRAY")) else _array(element)
    return _decimal(seen) or _SCALARS.get(seen, "string")


def _array(element: str) -> str:
    return "string" if element == "VARIANT" else f"array<{sql_type(element) or 'string'}>"


def _decimal(seen: str) -> str | None:
    digits = _DECIMAL.fullmatch(seen)
    if digits is None:
        return None
    if digits[2] != "0":
        return "double"
    return "bigint" if int(digits[1]) <= _BIGINT_DIGITS else "decimal(38,0)"
