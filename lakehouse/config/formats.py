"""The formats that a source can have, as YAML calls them."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

FORMATS = ("debezium", "ydb", "bigquery", "rows", "snapshot")

CHANGE_MEMBERS = ("op", "update", "erase", "__op", "__deleted")
"""Members by which an object is a change itself, and no whole record with a change in it."""

ORIGIN = ("topic", "partition", "offset")
WHOLE_MEMBERS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ORIGIN},
    "timestamp": ("timestamp", "ts"),
    "key": ("key",),
    "headers": ("headers",),
    "value": ("value", "payload"),
}
"""The members of whole records, each with the names that programs write it under.

kcat writes `ts` and `payload`; `rpk`, sinks and most other programs the first names.
"""


def is_whole(record: Mapping[str, object]) -> bool:
    """Whether an object is a whole record: it has a value, or an offset beside a topic or key.

    A `payload` is a value where topic, partition and offset stand beside it: other objects with
    one are wrapped values. `bronze.files.batches` puts the same question in SQL.
    """
    if any(record.get(name) is not None for name in CHANGE_MEMBERS):
        return False
    topic, partition, offset = (record.get(name) for name in ORIGIN)
    if topic is not None and partition is not None and offset is not None:
        return True
    if record.get("payload") is not None:
        return False
    beside = topic is not None or record.get("key") is not None
    return "value" in record or (offset is not None and beside)


def value_of(record: Mapping[str, object]) -> object:
    """The value in a whole record as it is written there."""
    return next((record[name] for name in WHOLE_MEMBERS["value"] if name in record), None)


CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIME = "_change_type", "_commit_version", "_commit_timestamp"
"""What Delta's change feed adds to a row: kind, version and time of the change."""


def _known(name: str) -> str:
    if name not in FORMATS:
        *others, last = (f"'{known}'" for known in FORMATS)
        expected = f"{', '.join(others)} or {last}"
        raise PydanticKnownError("literal_error", {"expected": expected})
    return name


Format = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*FORMATS]})
]
