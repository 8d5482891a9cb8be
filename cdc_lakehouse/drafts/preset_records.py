"""What records in a vendor's format show of their table."""

from collections.abc import Sequence
from typing import NamedTuple

from cdc_lakehouse.drafts.flat_rows import GUESSED_KEYS, find_keys, infer_types
from cdc_lakehouse.drafts.sample_files import Object, Sample, SampleFile
from lakehouse.config.records.envelope import RecordParts
from lakehouse.config.records.presets import SIGNS, TABLE_MEMBERS
from lakehouse.config.table import Table
from lakehouse.storage.names import literal, quote
from silver.decode.protocols.envelopes import (
    EnvelopeOpener,
    EnvelopeRow,
    find_member,
    name_keys,
)


class Owner(NamedTuple):
    """The table that a record names: its names from outside to inside, and SQL that is true of it.

    The condition is empty where no table can have one, as with Debezium's events.
    """

    names: tuple[str, ...]
    where: str


def find_owner(change: Object) -> Owner | None:
    """The table that a change names; None where it names none."""
    preset = find_preset(change)
    if preset is None and change.keys().isdisjoint(("op", "__table")):
        return None  # a row's own column `source`
    members = TABLE_MEMBERS.get(preset or "debezium", ())
    named = {name: str(value) for name in members if (value := find_member(change, name))}
    if not named:
        return None
    paths = {path: ".".join(map(quote, path.split("."))) for path in named}
    terms = [f"{paths[path]} = {literal(name)}" for path, name in named.items()]
    return Owner(tuple(named.values()), " AND ".join(terms) if preset else "")


def find_preset(change: Object) -> str | None:
    """The preset whose members a change has; None if it has those of no preset."""
    presets = (
        preset
        for preset, names in SIGNS
        if all(find_member(change, name) is not None for name in names)
    )
    return next(presets, None)


def sample_preset(changes: Sequence[Object], file: SampleFile, topic: str | None) -> Sample | None:
    """What records in a vendor's format show; None for any other records."""
    signs = ((preset, change) for change in changes if (preset := find_preset(change)))
    preset, first = next(signs, (None, {}))
    if preset is None:
        return None
    source = {"format": preset, "path": "t"}
    table = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    parts = table.feeds[0].parts or RecordParts()
    opener = EnvelopeOpener(table, parts, lambda row: row)
    opened = [row for change in changes for row in opener.open(change)]
    rows = [
        {n: v for n, v in row.members.items() if not (n.startswith("_") or table.leaves_out(n))}
        for row in opened
        if isinstance(row, EnvelopeRow)
    ]
    written = {n: kind for n, kind in file.types.items() if any(n in row for row in rows)}
    columns = infer_types(rows) | written
    named = [*name_keys(first, parts)]
    keys, notes = (
        named or find_keys([*filter(None, rows)][:1], columns),
        {} if named else GUESSED_KEYS,
    )
    declared = {name: kind for name, kind in columns.items() if name in file.types}
    guessed = {name: kind for name, kind in columns.items() if name not in declared}
    return Sample(preset, file.format, topic, keys, declared, guessed, notes=notes, csv=file.csv)
