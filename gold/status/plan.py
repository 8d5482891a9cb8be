"""What a table's YAML, as it is now, would change of the tables that a lake holds of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from lakehouse.config.table import Table

Effect = Literal["nothing", "new", "add", "widen", "rebuild"]

WORST: tuple[Effect, ...] = ("rebuild", "widen", "add", "new", "nothing")
_INTEGERS = ("byte", "short", "integer", "long")
_LOG_NAMES = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "numeric": "decimal",
    "dec": "decimal",
    "timestamp_ltz": "timestamp",
}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Held(NamedTuple):
    """What a lake holds of a table: its columns as Delta's log writes them, records and rows.

    `differences` are those of the configuration that the table was built with, a phrase each;
    numbers are None where they are not known.
    """

    columns: Mapping[str, str]
    differences: Sequence[str]
    records: int | None
    rows: int | None


class Planned(NamedTuple):
    """The effect on a table, why, and how many records a rebuild would go through again."""

    table: str
    effect: Effect
    why: Sequence[str]
    records: int | None
    rows: int | None


def plan(table: Table, held: Held | None) -> Planned:
    """The effect of the table's YAML on what is held of it; None is held before the first run."""
    if held is None:
        return Planned(table.table, "new", ["its first run makes it"], None, None)
    changes = [*_rebuilds(held), *_columns(table, held)]
    effects = {each for each, _ in changes}
    effect: Effect = next((each for each in WORST if each in effects), "nothing")
    return Planned(table.table, effect, [text for _, text in changes], held.records, held.rows)


def is_wider(before: str, now: str) -> bool:
    """Whether every value of a type is one of another: types as Delta's log writes them."""
    if before in _INTEGERS and now in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(now)
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(now)
    if new is not None:
        digits, scale = int(new[1]), int(new[2])
        if before in _DIGITS:
            return digits - scale >= _DIGITS[before]
        if old is not None:
            whole = int(old[1]) - int(old[2])
            return digits - scale >= whole and scale >= int(old[2])
    return (before, now) in (("float", "double"), ("date", "timestamp_ntz"))


def _rebuilds(held: Held) -> Iterator[tuple[Effect, str]]:
    for difference in held.differences:
        yield "rebuild", difference


def _columns(table: Table, held: Held) -> Iterator[tuple[Effect, str]]:
    left_out = set(table.except_column_list or ())
    for name, column in table.columns.items():
        before, now = held.columns.get(name), _in_log(column.type)
        kept = name not in left_out and (table.column_list is None or name in table.column_list)
        if before is None and kept:
            yield "add", f"column {name}: new records fill it; older ones do after a rebuild"
        elif before is not None and not _same(before, now):
            effect: Effect = "widen" if is_wider(before, now) else "rebuild"
            yield effect, f"column {name} was {before}, is {now}"


def _in_log(written: str) -> str:
    """A type of the YAML as Delta's log writes it."""
    kind = re.sub(r"\s+", "", written.lower())
    name, bracket, rest = kind.partition("(")
    name = _LOG_NAMES.get(name, name)
    if name in ("varchar", "char"):
        return "string"
    if name == "decimal":
        inside = rest.rstrip(")") or "10,0"
        return f"decimal({inside if ',' in inside else inside + ',0'})"
    return name + bracket + rest


def _same(before: str, now: str) -> bool:
    """Whether two types are one; of a nested one the log's reader tells its name alone."""
    return before == now or (before in ("array", "map", "struct") and now.startswith(f"{before}<"))
