"""The formats that a source can have, as YAML calls them."""

from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

FORMATS = ("debezium", "ydb", "bigquery", "rows", "snapshot")

CHANGE_MEMBERS = ("op", "payload", "update", "erase", "__op", "__deleted")
"""Members by which an object is a change itself, and no whole record with a change in `value`."""

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
