"""Fields of objects that the struct has not which the YAML declares for them."""

from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import types as T

from silver.decode.values.json_values import NotJson, parse_json

MOST_LEFT_OUT = 20
"""So many fields that are in no column are told by name; beyond them none is looked for."""


class UndeclaredFields:
    """Finds them in the rows of one table.

    Names do not differ by their case. What a struct has no field for is in no column.

    Args:
        types: the types of the table's declared columns by name.
        known: the fields in no column that earlier rows had.
    """

    def __init__(self, types: Mapping[str, T.DataType], known: Collection[str] = ()) -> None:
        self._known = frozenset(known)
        self._types = {
            name.lower(): (name, type) for name, type in types.items() if _holds_structs(type)
        }

    @property
    def looks(self) -> bool:
        """Whether any column has structs."""
        return bool(self._types)

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

    def are_new(self, row: Mapping[str, object]) -> bool:
        """Whether a row has any that are not known."""
        if not self._types or len(self._known) >= MOST_LEFT_OUT:
            return False
        return not self.of(row) <= self._known


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
