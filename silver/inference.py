"""Columns that a batch of JSON objects carries and nobody declared: their names and types.

Two small jobs over the batch at most: one that looks for names not known yet, and, only when it
finds some, one that looks at their values.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.json_text import LENIENT

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_SCALARS = {"BIGINT": "bigint", "DOUBLE": "double", "FLOAT": "double", "BOOLEAN": "boolean"}
_BIGINT_DIGITS = 18
_READ = "__read"


class Names(NamedTuple):
    """Names that can become columns, and names that cannot."""

    usable: list[str]
    clashing: list[str]


def unknown_names(objects: DataFrame, document: Column, known: Iterable[str]) -> list[str]:
    """Member names of the JSON objects that are not among `known`, sorted; one job.

    Objects of one feed have few shapes, so each shape is looked at once.
    """
    known_names = F.array(*map(F.lit, known)).cast("array<string>")
    shapes = objects.select(F.json_object_keys(document).alias("names")).distinct()
    new = shapes.select(F.explode(F.array_except("names", known_names)))
    return sorted(row[0] for row in new.distinct().collect())


def settle(names: Iterable[str], known: Iterable[str]) -> Names:
    """Set apart the names that Spark cannot tell from another column's, which ignores case."""
    taken = {name.lower() for name in known} | {""}
    usable: list[str] = []
    clashing: list[str] = []
    for name in sorted(names):
        (clashing if name.lower() in taken else usable).append(name)
        taken.add(name.lower())
    return Names(usable, clashing)


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
