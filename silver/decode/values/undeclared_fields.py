"""Fields of objects that the struct has not which the YAML declares for them."""

from collections.abc import Iterator, Mapping

from pyspark.sql import types as T

from silver.decode.values.json_values import NotJson, parse_json


class UndeclaredFields:
    """Finds them in the rows of one table; `types` are the types of its declared columns by name.

    Names do not differ by their case. What a struct has no field for is in no column.
    """

    def __init__(self, types: Mapping[str, T.DataType]) -> None:
        self._types = {
            name.lower(): (name, type) for name, type in types.items() if _holds_structs(type)
        }

    def of(self, row: Mapping[str, object]) -> set[str]:
        """The fields with a value, each as `column.field`."""
        if not self._types:
            return set()
        found: set[str] = set()
        for member, value in row.items():
            named = self._types.get(member.lower())
            if named is not None and value is not None:
                found.update(_undeclared(value, named[1], named[0]))
        return found


def _undeclared(value: object, type: T.DataType, path: str) -> Iterator[str]:
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except NotJson:
            return
    if isinstance(type, T.ArrayType) and isinstance(value, list):
        for one in value:
            yield from _undeclared(one, type.elementType, path)
    elif isinstance(type, T.MapType) and isinstance(value, dict):
        for one in value.values():
            yield from _undeclared(one, type.valueType, path)
    elif isinstance(type, T.StructType) and isinstance(value, dict):
        fields = {field.name.lower(): field.dataType for field in type.fields}
        for name, one in value.items():
            kind = fields.get(name.lower())
            if kind is None and one is not None:
                yield f"{path}.{name}"
            elif kind is not None and _holds_structs(kind):
                yield from _undeclared(one, kind, f"{path}.{name}")


def _holds_structs(type: T.DataType) -> bool:
    return "struct<" in type.simpleString()
