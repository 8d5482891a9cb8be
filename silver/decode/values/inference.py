"""Infers the types of columns from their values, and finds fields that no declared struct has."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import types as T

from silver.decode.values.json_values import NotJson, NumberText, parse_json

MOST_LEFT_OUT = 20
"""How many fields without a column are reported by name; then the search for more ends."""
_BIGINT = 1 << 63
_BIGINT_DIGITS = 18
_DECIMAL_DIGITS = 38
_DOUBLE_DIGITS, _SURE_DIGITS = 17, 15
_DOUBLE_WHOLE = 1 << 53
_DECIMAL = 10**_DECIMAL_DIGITS

Kind = Literal[
    "boolean", "text", "object", "array", "bigint", "decimal", "point_zero", "double", "many_digits"
]
_WHOLE: set[Kind] = {"bigint", "decimal", "point_zero"}
_NUMBERS: set[Kind] = {*_WHOLE, "double"}


@dataclass(slots=True)
class SeenValues:
    """The kinds of values that a field had, and the kinds of the elements of its arrays.

    A whole number is `bigint` where 64 bits hold it, else `decimal` up to 38 digits; one with a
    fraction of zeros, such as 1.0, is `point_zero` up to 18 digits, then `decimal`. Others are
    `double`. A number of which a double loses digits is `many_digits` as well. Nulls have no kind.
    """

    kinds: set[Kind] = field(default_factory=set)
    items: "SeenValues | None" = None

    def add(self, value: object) -> None:
        """Adds the kind of a parsed value."""
        if value is None:
            return
        self.kinds.add(_kind_of(value))
        if isinstance(value, int | NumberText) and not fits_double(value):
            self.kinds.add("many_digits")
        if isinstance(value, list):
            self.items = self.items or SeenValues()
            for item in value:
                self.items.add(item)

    def merge(self, other: "SeenValues") -> None:
        """Adds the kinds that another one has."""
        self.kinds |= other.kinds
        if other.items is not None:
            self.items = self.items or SeenValues()
            self.items.merge(other.items)


class UndeclaredFields:
    """Finds members of objects in a table's rows for which the declared struct has no field.

    Names that differ in case only are one name.

    Args:
        types: the types of the table's declared columns by name.
        left_out: undeclared members that earlier rows had, as `find` names them.

    Attributes:
        has_structs: whether any column has structs.
    """

    def __init__(self, types: Mapping[str, T.DataType], left_out: Collection[str] = ()) -> None:
        self._left_out = frozenset(left_out)
        self._columns = {
            name.lower(): (type, name) for name, type in types.items() if _holds_structs(type)
        }
        self.has_structs = bool(self._columns)

    def find(self, row: Mapping[str, object]) -> set[str]:
        """The undeclared members with a value, each as `column.member`."""
        fields: set[str] = set()
        if not self._columns:
            return fields
        for name, value in row.items():
            column = self._columns.get(name.lower())
            if column is not None and value is not None:
                _add_undeclared(fields, value, *column)
        return fields

    def has_new(self, row: Mapping[str, object]) -> bool:
        """Whether a row has undeclared members that earlier rows did not have."""
        if not self._columns or len(self._left_out) >= MOST_LEFT_OUT:
            return False
        return not self.find(row) <= self._left_out


def infer_order(seen: SeenValues) -> T.DataType | None:
    """The type of a member that orders rows: whole numbers where there are any.

    A value of another kind then misfits its own row, and does not make text of all others, whose
    order as text is another one.
    """
    return infer_type(SeenValues(seen.kinds & _WHOLE) if seen.kinds & _WHOLE else seen)


def infer_type(seen: SeenValues, zeros_are_whole: bool = True) -> T.DataType | None:
    """A column type for the values; None when all were null.

    Numbers become bigint if all are whole (decimal(38,0) if one is larger), else double, or text if
    one has more digits than a double holds; arrays of scalars become arrays. Objects, nested arrays
    and mixed kinds become text. With `zeros_are_whole`, 1.0 is a whole number.
    """
    kinds = seen.kinds
    if not kinds:
        return None
    if kinds != {"array"} or seen.items is None:
        return _scalar_type(kinds, zeros_are_whole)
    element = infer_type(seen.items, zeros_are_whole)
    became_text = isinstance(element, T.StringType) and seen.items.kinds != {"text"}
    is_nested = isinstance(element, T.ArrayType)
    return T.StringType() if became_text or is_nested else T.ArrayType(element or T.StringType())


def fits_double(number: int | str) -> bool:
    """Whether a double loses no digit of a number.

    A fraction (a text) may have 17 digits, as doubles are printed with so many. A whole number is
    kept up to 2**53, and with 15 digits before its zeros.
    """
    if isinstance(number, int):
        return abs(number) <= _DOUBLE_WHOLE or len(str(abs(number)).rstrip("0")) <= _SURE_DIGITS
    if len(number) <= _DOUBLE_DIGITS:
        return True
    digits = number.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    return len(digits) <= _DOUBLE_DIGITS


def _scalar_type(kinds: set[Kind], zeros_are_whole: bool) -> T.DataType:
    if kinds == {"boolean"}:
        return T.BooleanType()
    if not kinds <= _NUMBERS | {"many_digits"}:
        return T.StringType()
    if "double" in kinds or ("point_zero" in kinds and not zeros_are_whole):
        return T.StringType() if "many_digits" in kinds else T.DoubleType()
    return T.DecimalType(_DECIMAL_DIGITS, 0) if "decimal" in kinds else T.LongType()


def _kind_of(value: object) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, NumberText):
        return _kind_of_number(value)
    if isinstance(value, str):
        return "text"
    if isinstance(value, int):
        if -_BIGINT <= value < _BIGINT:
            return "bigint"
        return "decimal" if -_DECIMAL < value < _DECIMAL else "double"
    return "array" if isinstance(value, list) else "object"


def _kind_of_number(text: NumberText) -> Kind:
    whole, _, fraction = text.partition(".")
    digits = len(whole.lstrip("-"))
    if fraction.strip("0") or not fraction or digits > _DECIMAL_DIGITS:
        return "double"
    return "point_zero" if digits <= _BIGINT_DIGITS else "decimal"


def _add_undeclared(undeclared: set[str], value: object, type: T.DataType, path: str) -> None:
    """Adds the undeclared members in a value, which may be JSON text."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except NotJson:
            return
    if isinstance(value, list) and isinstance(type, T.ArrayType):
        for item in value:
            _add_undeclared(undeclared, item, type.elementType, path)
    elif isinstance(value, dict):
        if isinstance(type, T.StructType):
            _compare_members(undeclared, value, type, path)
        elif isinstance(type, T.MapType):
            for item in value.values():
                _add_undeclared(undeclared, item, type.valueType, path)


def _compare_members(
    undeclared: set[str], members: Mapping[str, object], struct: T.StructType, path: str
) -> None:
    types = {field.name.lower(): field.dataType for field in struct.fields}
    for name, value in members.items():
        type = types.get(name.lower())
        if type is None and value is not None:
            undeclared.add(f"{path}.{name}")
        elif type is not None and _holds_structs(type):
            _add_undeclared(undeclared, value, type, f"{path}.{name}")


def _holds_structs(type: T.DataType) -> bool:
    return "struct<" in type.simpleString()
