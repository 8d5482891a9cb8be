"""How a source's columns changed, by the shapes of its records, and what the policy does.

A shape is compared with the columns that the source had before it and with the types that the table
holds. Types of one kind widen; others are incompatible. A declared column keeps its declared type,
and is never new.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from lakehouse.config.columns import LearnedColumn
from lakehouse.config.table import Table
from silver.decode.columns import Shape, is_published
from silver.decode.types import parse_type, wider_type

Kind = Literal["add_column", "widen", "drop_column", "incompatible"]
Fields = Mapping[str, str | None]

_ACTIONS = {
    "apply": "applied",
    "ignore": "ignored",
    "fail": "failed",
    "dead_letter": "dead_letter",
}


class KnownColumns(NamedTuple):
    """The columns of a source, None when they are not known, and since when it has them.

    `since` is the least commit time of a record that showed them, in microseconds since 1970.
    """

    fields: Fields | None
    since: int | None = None


class ColumnDrift(NamedTuple):
    """One change of one column, what is done about it, and where the first record shows it."""

    kind: Kind
    column: str
    from_type: str | None
    to_type: str | None
    action: str
    position: str | None = None

    @property
    def phrase(self) -> str:
        """The change as a phrase for a person."""
        types = " to ".join(type for type in (self.from_type, self.to_type) if type)
        return f"{self.kind} {self.column} ({types})" if types else f"{self.kind} {self.column}"


def find_drifts(
    shapes: Iterable[Shape], before: KnownColumns, stored: Fields, table: Table
) -> tuple[list[ColumnDrift], KnownColumns]:
    """The changes that shapes in order of arrival show, and the source's columns after them.

    Records that are older than the source's columns come late: what they lack is not gone, and what
    they have beyond these columns is not new, unless the table never had it.

    Args:
        shapes: what the records announce.
        before: the source's columns so far; when they are not known the first shape changes
            nothing.
        stored: columns of the table and their types.
        table: the table with its declared columns, which learned ones are not.
    """
    drifts: list[ColumnDrift] = []
    types = dict(stored)
    source, since = before.fields, before.since
    for shape in shapes:
        shown = {name: t for name, t in shape.fields.items() if _is_relevant(table, name)}
        fields = {name: type and normal_type(type) for name, type in shown.items()}
        if source is None:
            types, source = fields | types, {}
        elif shape.is_before(since):
            never_held = {n: type for n, type in fields.items() if n in source or n not in types}
            late = replace(shape, complete=False)
            drifts += _compare_shape(never_held, late, source, types, table)
            continue
        else:
            drifts += _compare_shape(fields, shape, source, types, table)
        after = _update_source(source, fields, shape)
        if shape.times is not None and after.keys() != source.keys():
            since = max(shape.times[0], since or 0)
        source = after
    return drifts, KnownColumns(source or {}, since)


def _update_source(source: Fields, fields: Fields, shape: Shape) -> dict[str, str | None]:
    """The source's columns after a shape; a type that the shape does not have stays."""
    kept = {} if shape.complete else dict(source)
    return kept | {name: type or source.get(name) for name, type in fields.items()}


def declares_type(table: Table, column: str) -> bool:
    """Whether the YAML gives the column's type."""
    declared = table.columns.get(column)
    return declared is not None and not isinstance(declared, LearnedColumn)


def normal_type(type: str) -> str:
    """A type as Spark prints it: `INTEGER` is int, `Decimal(10, 2)` is decimal(10,2)."""
    return parse_type(type).simpleString()


def _find_wider_type(type: str, other: str) -> str | None:
    wider = wider_type(parse_type(type), parse_type(other))
    return None if wider is None else wider.simpleString()


def _is_relevant(table: Table, column: str) -> bool:
    return not column.startswith("_") and is_published(table, column)


def _compare_shape(
    fields: Fields, shape: Shape, source: Fields, types: dict[str, str | None], table: Table
) -> list[ColumnDrift]:
    drifts, position = [], shape.first_position or None
    for name, type in fields.items():
        kind, to = _classify_change(name, type, source, types)
        if kind is None or (kind == "add_column" and declares_type(table, name)):
            continue
        action = _choose_action(table, kind, name)
        drifts.append(ColumnDrift(kind, name, types.get(name), to, action, position))
        if kind in ("add_column", "widen") and action == "applied":
            types[name] = to
    gone = [name for name in source if name not in fields] if shape.complete else []
    drifts += [build_drop(table, name, types.get(name), position) for name in gone]
    return drifts


def build_drop(table: Table, name: str, type: str | None, position: str | None) -> ColumnDrift:
    """A column that is gone at the source, as the record at the position shows."""
    action = _choose_action(table, "drop_column", None)
    return ColumnDrift("drop_column", name, type, None, action, position)


def build_return(name: str, type: str | None) -> ColumnDrift:
    """A column of the table that was gone at the source and is there again."""
    return ColumnDrift("add_column", name, None, type, "applied")


def _classify_change(
    name: str, type: str | None, source: Fields, types: Fields
) -> tuple[Kind | None, str | None]:
    """The kind of change that a column of a shape is, None without one; and its new type."""
    added: Kind | None = None if name in source else "add_column"
    stored = types.get(name)
    if type is None or stored is None or (name in source and source[name] in (type, None)):
        return added, type
    wider = _find_wider_type(stored, type)
    if wider is None:
        return "incompatible", type
    return ("widen" if wider != stored else added), wider


def _choose_action(table: Table, kind: Kind, column: str | None) -> str:
    action = _ACTIONS[getattr(table.schema_changes, kind)]
    stays = column is not None and kind != "add_column" and declares_type(table, column)
    return "declared" if stays and action != "failed" else action
