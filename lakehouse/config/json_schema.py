"""The JSON Schema of a table's YAML, for editors and for naming the keys of a place."""

import json
from typing import Any, TypeAlias

from lakehouse.config.table import Table

Place: TypeAlias = tuple[str | int, ...]
Schema: TypeAlias = dict[str, Any]


def table_schema() -> str:
    """The text of `conf/table.schema.json`."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Table.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def keys_at(schema: Schema, place: Place) -> list[str]:
    """Keys that the schema knows in the mapping at a place; empty where there is none."""
    here = [schema]
    for part in place:
        below = [_step(branch, part) for branch in here]
        here = [branch for found in below if found for branch in _branches(schema, found)]
    return [key for branch in here for key in branch.get("properties", {})]


def _branches(root: Schema, schema: Schema) -> list[Schema]:
    """The schema itself, or the alternatives of a union, with references followed."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    schema = root["$defs"][name] if name else schema
    alternatives = schema.get("anyOf")
    return [b for each in alternatives for b in _branches(root, each)] if alternatives else [schema]


def _step(schema: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return schema.get("items")
    below = schema.get("properties", {}).get(part) or schema.get("additionalProperties")
    return below if isinstance(below, dict) else None
