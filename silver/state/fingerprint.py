"""The fingerprint of a table: the settings that it was built with. Others are refused later.

Keys, type of history, tracked and kept columns, order, format and encodings of the source, the
meaning of nulls and what counts as a delete, truncate or upsert decide what the rows of a table
mean: rows written before and after a change of them would contradict each other. Deleted rows have
no values from before `on_delete: flag`. A column's type may only widen. Left out are settings that
decide dead letters alone, which a replay takes, and those of reading, writing and showing.
`TableState.built` keeps the fingerprint, with more entries for what the source has shown.
"""

import json
import re
from collections.abc import Iterator, Mapping

from pyspark.sql.types import StructField

from lakehouse.config.column_types import is_nested
from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationDrift
from silver.contract import MEMBER_TYPES
from silver.decode.expressions.names import filter_sql, row_orders, time_columns
from silver.decode.types import parse_type, wider_type
from silver.state.drift import declares_type

SOURCE_COLUMNS, RENAMED = "source columns", "renamed columns"
SOURCE_SINCE = "source columns since"
ON_DELETE, KEPT, UPSERTS = "on_delete", "columns", "apply_as_upserts"
ENCODINGS = (
    "unavailable_value", "decimal_handling_mode", "time_precision_mode", "binary_handling_mode",
)  # fmt: skip
OF_FEEDS = (
    "source.format", "source.time_column", "source.mode", "source.csv",
    *(f"source.{name}" for name in ENCODINGS),
)  # fmt: skip
"""Settings of which each feed of a table has one: another feed may come, and one may go."""

OF_NESTED = "columns."
"""Before the name of a column with a nested type, of which Delta's log read alone tells little."""

_LISTED = re.compile("^(only|all but) ")

_TOLD_APART = ("where", "sequence_by", "time_column", "upserts")
"""Parts of an envelope that have a setting of their own, or decide dead letters alone."""

Fingerprint = Mapping[str, str]


def check_configuration(table: Table, built: Fingerprint) -> None:
    """Refuses a configuration that does not fit what the table was built with.

    Raises:
        ConfigurationDrift: with every difference and the remedies.
    """
    differences = list(list_differences(table, built))
    if differences:
        raise ConfigurationDrift(table.table, differences)


def check_types(table: Table, logged: list[StructField]) -> None:
    """Refuses declared types that do not fit the business columns of the table's change log.

    Raises:
        ConfigurationDrift: a declared type is neither the log's type nor a wider one.
    """
    differences = list(_list_retyped_columns(table, logged))
    if differences:
        raise ConfigurationDrift(table.table, differences)


def build_fingerprint(table: Table) -> dict[str, str]:
    """The settings that a table's rows depend on, by name, as texts for a person."""
    formats = sorted({feed.format for feed in table.feeds})
    keys = table.keys if "ydb" in formats else sorted(table.keys)  # YDB's records list key values
    groups = [f"{', '.join(g.columns)} by {g.sequence_by}" for g in table.sequence_groups]
    modes = sorted({feed.mode for feed in table.feeds if feed.format == "snapshot"})
    renamed = {RENAMED: json.dumps(_map_renames(table))} if table.renamed else {}
    encodings = {
        f"source.{name}": ", ".join(sorted({str(getattr(feed, name)) for feed in table.feeds}))
        for name in ENCODINGS
    }
    return (
        renamed
        | encodings
        | dict(_list_where_set(table))
        | {
            "keys": ", ".join(keys) or "none",
            "source.format": ", ".join(formats),
            "stored_as_scd_type": str(table.stored_as_scd_type),
            "sequence_by": ", ".join(row_orders(table)) or "the format's own",
            "sequence_groups": "; ".join(sorted(groups)) or "none",
            "source.where": filter_sql(table) or "none",
            "source.envelope": _describe_envelope(table),
            "apply_as_deletes": table.apply_as_deletes or "none",
            "apply_as_truncates": table.apply_as_truncates or "none",
            UPSERTS: table.apply_as_upserts or "none",
            "columns_to_update": table.columns_to_update or "none",
            "tracked columns": _describe_tracked(table),
            "ignore_null_updates": _describe_ignored(table),
            "source.time_column": ", ".join(time_columns(table)) or "the format's own",
            "source.mode": ", ".join(modes) or "none",
            "source.csv": _describe_numbers(table),
            KEPT: _describe_kept(table),
            ON_DELETE: table.on_delete,
        }
    )


def _list_where_set(table: Table) -> Iterator[tuple[str, str]]:
    """Settings that are in the fingerprint only where they are set: others contradict no row."""
    if table.on_truncate != "fail":  # a truncate that fails its table has changed no row
        yield "on_truncate", table.on_truncate
    for name, column in table.columns.items():
        if is_nested(column.type):
            yield f"{OF_NESTED}{name}", parse_type(column.type).simpleString()
        if column.infinity is not None:
            yield f"infinity of {name}", column.infinity


def load_source_columns(built: Fingerprint) -> Mapping[str, str | None] | None:
    """The newest columns of the source, with their types; None where they are not known."""
    text = built.get(SOURCE_COLUMNS)
    columns: Mapping[str, str | None] | None = json.loads(text) if text else None
    return columns


def load_source_since(built: Fingerprint) -> int | None:
    """A commit time (µs since 1970) from which on the source has its newest columns, if known."""
    text = built.get(SOURCE_SINCE)
    return int(text) if text else None


def load_member_types(built: Fingerprint) -> Mapping[str, str]:
    """The types of members of records that only expressions use."""
    members: Mapping[str, str] = json.loads(built.get(MEMBER_TYPES) or "{}")
    return members


def _describe_envelope(table: Table) -> str:
    parts = table.feeds[0].parts
    given = {} if parts is None else parts.model_dump(exclude_defaults=True)
    kept = {n: v for n, v in given.items() if n not in _TOLD_APART}
    return json.dumps(kept) if kept else "none"


def _describe_tracked(table: Table) -> str:
    if table.stored_as_scd_type == 1:
        return "no history"
    if table.track_history_column_list is not None:
        return ", ".join(sorted(table.track_history_column_list))
    operational = [name for name, column in table.columns.items() if column.operational]
    left_out = sorted({*(table.track_history_except_column_list or []), *operational})
    return f"all but {', '.join(left_out)}" if left_out else "all"


def _describe_ignored(table: Table) -> str:
    ignored = table.ignore_null_updates
    return ", ".join(sorted(ignored)) if isinstance(ignored, list) else str(ignored).lower()


def _describe_kept(table: Table) -> str:
    """The columns that the table keeps by its lists: `only` some, or `all but` some."""
    if table.column_list is not None:
        return f"only {', '.join(sorted(table.column_list))}"
    return f"all but {', '.join(sorted(table.except_column_list or ['none']))}"


def _keeps_others(table: Table, before: str, now: str) -> bool:
    """Whether other columns are kept now, by two of these descriptions; new names count as old."""
    was_only, is_only = before.startswith("only "), now.startswith("only ")
    names, has = (_LISTED.sub("", text).split(", ") for text in (before, now))
    had = {table.renamed.get(table.fold(name), name) for name in names}
    return was_only != is_only or had != {*has}


def _describe_numbers(table: Table) -> str:
    """How feeds write the number 1234.5."""
    written = {f"1{feed.csv.thousands or ''}234{feed.csv.point}5" for feed in table.feeds}
    return ", ".join(sorted(written))


def list_differences(table: Table, built: Fingerprint) -> Iterator[str]:
    """How a configuration differs from what the table was built with, as phrases for a person."""
    for setting, now in build_fingerprint(table).items():
        before = built.get(setting, now)
        if setting == RENAMED or before == now or (setting, now) == (ON_DELETE, "remove"):
            continue  # what deleted rows had is there, and is not shown any more
        if setting in OF_FEEDS and not {*before.split(", ")}.isdisjoint(now.split(", ")):
            continue
        if setting == UPSERTS and before != "none":
            continue  # any other row was a dead letter
        if setting.startswith(OF_NESTED) and _is_wider(before, now):
            continue
        if setting != KEPT or _keeps_others(table, before, now):
            yield f"{setting} was {before}, is {now}"
    yield from _list_renaming_differences(table, built)


def _is_wider(before: str, now: str) -> bool:
    return wider_type(parse_type(before), parse_type(now)) == parse_type(now)


def list_renames(table: Table, built: Fingerprint) -> list[str]:
    """The columns renamed since the table was built, as phrases; none if more settings differ."""
    differences = list(list_differences(table, built))
    return differences if differences == [*_list_renames_since(table, _load_renames(built))] else []


def _list_renaming_differences(table: Table, built: Fingerprint) -> Iterator[str]:
    """How the renaming of columns differs from when the table was built."""
    if not built:
        return
    before = _load_renames(built)
    yield from _list_renames_since(table, before)
    for old in before.keys() - _map_renames(table).keys():
        yield f"renamed_from of column {before[old]} was {old}, is gone"


def _list_renames_since(table: Table, before: Mapping[str, str]) -> Iterator[str]:
    for old, name in _map_renames(table).items():
        if before.get(old) != name:
            yield f"column {old} is renamed to {name}"


def _map_renames(table: Table) -> dict[str, str]:
    """The columns by each name that they had before."""
    columns = table.columns.items()
    return {old: name for name, column in columns for old in column.renamed_from}


def _load_renames(built: Fingerprint) -> Mapping[str, str]:
    renamed: Mapping[str, str] = json.loads(built.get(RENAMED) or "{}")
    return renamed


def _list_retyped_columns(table: Table, logged: list[StructField]) -> Iterator[str]:
    """Declared columns whose type is neither the one that the log has nor a wider one."""
    for field in logged:
        if declares_type(table, field.name):
            now = parse_type(table.columns[field.name].type)
            before, after = field.dataType.simpleString(), now.simpleString()
            if before != after and wider_type(field.dataType, now) != now:
                yield f"columns.{field.name} was {before}, is {after}"
