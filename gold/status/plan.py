"""What a table's YAML, as it is now, would change in the tables that a lake has of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from lakehouse.config.column_types import read_type, to_sql_name
from lakehouse.config.table import Table
from lakehouse.storage.delta_log import NESTED

Effect = Literal["nothing", "new", "cluster", "add", "widen", "rename", "rebuild"]

WORST: tuple[Effect, ...] = ("rebuild", "rename", "widen", "add", "cluster", "new", "nothing")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Integers from the narrowest to the widest, and the digits that a decimal needs to hold them."""


class Held(NamedTuple):
    """What a lake holds of a table: its columns as Delta's log writes them, records and rows.

    `differences` are those of the configuration that the table was built with, a phrase each;
    numbers are None where they are not known. `clustered` are the columns that its rows are
    clustered by. `renamed`: the differences are new names of columns and nothing else.
    """

    columns: Mapping[str, str]
    differences: Sequence[str]
    records: int | None
    rows: int | None
    clustered: Sequence[str] = ()
    renamed: bool = False


class Planned(NamedTuple):
    """The effect on a table, why, and how many records a rebuild would go through again."""

    table: str
    effect: Effect
    why: Sequence[str]
    records: int | None
    rows: int | None


def plan_changes(table: Table, held: Held | None) -> Planned:
    """The effect of the table's YAML on what is held of it; `held` is None before the first run."""
    if held is None:
        return Planned(table.table, "new", ["its first run makes it"], None, None)
    anew: Effect = "rename" if held.renamed else "rebuild"
    changes = [(anew, text) for text in held.differences]
    changes += _list_columns(table, held)
    before, now = (", ".join(names) or "nothing" for names in (held.clustered, table.cluster_by))
    if before != now:
        text = f"cluster_by was {before}, is {now}: no row changes, files are rewritten"
        changes.append(("cluster", text))
    effects = {each for each, _ in changes}
    effect: Effect = next((each for each in WORST if each in effects), "nothing")
    return Planned(table.table, effect, [text for _, text in changes], held.records, held.rows)


def is_wider(before: str, now: str) -> bool:
    """Whether every value of a type is one of another: types as Delta's log writes them."""
    if before in NESTED:
        return False
    old, new = read_type(before), read_type(now)
    if old.name in _DIGITS and new.name in _DIGITS:
        return _DIGITS[old.name] < _DIGITS[new.name]
    if new.name == "decimal" and old.name in ("decimal", *_DIGITS):
        digits, scale = old.digits if old.name == "decimal" else (_DIGITS[old.name], 0)
        return new.digits[0] - new.digits[1] >= digits - scale and new.digits[1] >= scale
    return (before, now) in (("float", "double"), ("date", "timestamp_ntz"))


def _list_columns(table: Table, held: Held) -> Iterator[tuple[Effect, str]]:
    for name, column in table.columns.items():
        before, now = held.columns.get(name), str(read_type(column.type))
        if not held.columns.keys().isdisjoint(column.renamed_from):
            continue  # what it was built with differs, or no record fills the old column any more
        if before is None and table.keeps(name):
            yield "add", f"column {name}: new records fill it; older ones do after a rebuild"
        elif before is not None and before != now:
            effect: Effect = "widen" if is_wider(before, now) else "rebuild"
            yield effect, f"column {name} was {to_sql_name(before)}, is {to_sql_name(now)}"
