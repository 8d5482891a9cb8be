"""The formats a source can have: what YAML calls each, and the module of silver that decodes it."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

FORMATS: Mapping[str, str] = {
    "debezium": "debezium",
    "ydb": "ydb",
    "bigquery": "bigquery",
    "rows": "rows",
    "snapshot": "extract_rows",
}


def _known(name: str) -> str:
    if name not in FORMATS:
        *others, last = (f"'{known}'" for known in FORMATS)
        expected = f"{', '.join(others)} or {last}"
        raise PydanticKnownError("literal_error", {"expected": expected})
    return name


Format = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*FORMATS]})
]
