"""Old keys and old rows as JSON text, from typed values."""

from collections.abc import Iterable

from silver.decode.columns import Column
from silver.decode.values.converters import plain_value
from silver.decode.values.json_values import json_text


def row_json(columns: Iterable[Column], values: Iterable[object]) -> str:
    """The values as one JSON object as Spark's `to_json` writes it, without those that are null.

    A timestamp has three digits of fraction, or six where it needs them.
    """
    pairs = zip(columns, values, strict=True)
    return json_text({c.name: plain_value(v, c.type) for c, v in pairs if v is not None})
