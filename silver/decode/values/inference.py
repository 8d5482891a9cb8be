"""What values show of columns and fields that nobody declared."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import types as T

from silver.decode.values.json_values import NotJson, NumberText, parse_json

MOST_LEFT_OUT = 20
"""So many fields that are in no column are reported by name; no more are looked for."""
_BIGINT = 1 << 63
_BIGINT_DIGITS = 18
_MOST_DIGITS = 38
_DOUBLE_DIGITS = 17
_LARGEST = 10**_MOST_DIGITS


@dataclass(slots=True)
class SeenValues:
    """The kinds of values that a field had, and the kinds of the elements of its arrays.

    Kinds are `boolean`, `text`, `object`, `array`, `whole` (fits a bigint), `large` (a whole
    number of up to 38 digits), `zeros` (a number written with a fraction of zeros, such as 1.0),
    `long` (any other number of more than 17 digits) and `fraction` (the rest). Nulls have no kind.
    """

    kinds: set[str] = field(default_factory=set)
    items: "SeenValues | None" = None

    def add(self, value: object) -> None:
        """Takes in a parsed value."""
        if value is None:
            return
        self.kinds.add(_kind_of(value))
        if isinstance(value, list):
            self.items = self.items or SeenValues()
            for item in value:
                self.items.add(item)

    def merge(self, other: "SeenValues") -> None:
        """Takes in what another one has seen."""
        self.kinds |= other.kinds
        if other.items is not None:
            self.items = self.items or SeenValues()
            self.items.merge(other.items)


class UndeclaredFields:
    """Finds fields of objects in the rows of one table that no declared struct has.

    Names do not differ by their case. What a struct has no field for is in no column.

    Args:
        types: the types of the table's declared columns by name.
        left_out: the fields in no column that earlier rows had.
    """

    def __init__(self, types: Mapping[str, T.DataType], left_out: Collection[str] = ()) -> None:
        self._known = frozenset(left_out)
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
        fields: set[str] = set()
        for member, value in row.items():
            named = self._types.get(member.lower())
            if named is not None and value is not None:
                fields.update(_find_undeclared(value, named[1], named[0]))
        return fields

    def are_new(self, row: Mapping[str, object]) -> bool:
        """Whether a row has any that are not known."""
        if not self._types or len(self._known) >= MOST_LEFT_OUT:
            return False
        return not self.of(row) <= self._known


def inferred_type(seen: SeenValues, zeros_are_whole: bool = True) -> T.DataType | None:
    """A column type for the values; None when all were null.

    Whole numbers are bigint (decimal(38,0) beyond it), fractions double, arrays of scalars arrays;
    objects, nested arrays, mixtures and numbers with more digits than a double has are text.
    `zeros_are_whole` says what 1.0 is.
    """
    kinds = seen.kinds
    if not kinds:
        return None
    if kinds == {"array"} and seen.items is not None:
        return _array_type(seen.items, zeros_are_whole)
    return _scalar_type(kinds, zeros_are_whole)


def fits_double(text: str) -> bool:
    """Whether a number has no more digits than a double holds."""
    if len(text) <= _DOUBLE_DIGITS:
        return True
    digits = text.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    return len(digits) <= _DOUBLE_DIGITS


def _array_type(items: SeenValues, zeros_are_whole: bool) -> T.DataType:
    element = inferred_type(items, zeros_are_whole)
    mixed = isinstance(element, T.StringType) and items.kinds != {"text"}
    nested = isinstance(element, T.ArrayType)
    return T.StringType() if mixed or nested else T.ArrayType(element or T.StringType())


def _scalar_type(kinds: set[str], zeros_are_whole: bool) -> T.DataType:
    if kinds == {"boolean"}:
        return T.BooleanType()
    if not kinds <= {"whole", "large", "zeros", "fraction"}:
        return T.StringType()
    if "fraction" in kinds or ("zeros" in kinds and not zeros_are_whole):
        return T.DoubleType()
    return T.DecimalType(_MOST_DIGITS, 0) if "large" in kinds else T.LongType()


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, NumberText):
        return _kind_of_number(value)
    if isinstance(value, str):
        return "text"
    if isinstance(value, int):
        return "whole" if -_BIGINT <= value < _BIGINT else _kind_of_large(value)
    return "array" if isinstance(value, list) else "object"


def _kind_of_large(value: int) -> str:
    return "large" if -_LARGEST < value < _LARGEST else _kind_of_rest(str(value))


def _kind_of_number(text: NumberText) -> str:
    whole, _, rest = text.partition(".")
    if rest.strip("0") or not rest:
        return _kind_of_rest(text)
    digits = len(whole.lstrip("-"))
    if digits <= _BIGINT_DIGITS:
        return "zeros"
    return "large" if digits <= _MOST_DIGITS else _kind_of_rest(text)


def _kind_of_rest(text: str) -> str:
    return "fraction" if fits_double(text) else "long"


def _find_undeclared(value: object, type: T.DataType, path: str) -> Iterator[str]:
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except NotJson:
            return
    if isinstance(type, T.ArrayType) and isinstance(value, list):
        for one in value:
            yield from _find_undeclared(one, type.elementType, path)
    elif isinstance(type, T.MapType) and isinstance(value, dict):
        for one in value.values():
            yield from _find_undeclared(one, type.valueType, path)
    elif isinstance(type, T.StructType) and isinstance(value, dict):
        fields = {field.name.lower(): field.dataType for field in type.fields}
        for name, one in value.items():
            kind = fields.get(name.lower())
            if kind is None and one is not None:
                yield f"{path}.{name}"
            elif kind is not None and _holds_structs(kind):
                yield from _find_undeclared(one, kind, f"{path}.{name}")


def _holds_structs(type: T.DataType) -> bool:
    return "struct<" in type.simpleString()
