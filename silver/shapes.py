"""The columns that records of a source announce, which is how a change of its schema shows.

A decoder notes the shapes it met, in order of arrival, beside the changes: as metadata of the
column `_operation`. A format that has no shapes of its own announces the columns it decoded.
"""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame

_METADATA = "shapes"


class Shape(NamedTuple):
    """Columns and their Spark SQL types (None where nothing tells the type).

    `mark` is how the decoder finds the shape's records again. `complete` says that a column that is
    not there is gone at the source; else a record may leave columns out.
    """

    fields: Mapping[str, str | None]
    mark: str = ""
    complete: bool = True


def noted(changes: DataFrame, shapes: Iterable[Shape]) -> DataFrame:
    """The changes with the shapes noted beside them."""
    text = json.dumps([shape._asdict() for shape in shapes])
    return changes.withMetadata("_operation", {_METADATA: text})


def announced(changes: DataFrame) -> list[Shape]:
    """The shapes that a decoder noted; where it noted no whole ones, first the columns it found."""
    text = changes.schema["_operation"].metadata.get(_METADATA)
    shapes = [] if text is None else [Shape(**one) for one in json.loads(text)]
    if text is not None and all(shape.complete for shape in shapes):
        return shapes
    found = {
        field.name: field.dataType.simpleString()
        for field in changes.schema
        if not field.name.startswith("_")
    }
    return [Shape(found, complete=False), *shapes]
