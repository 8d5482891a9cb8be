"""One batch of bronze decoded and written, with the columns that it brings.

A batch is decoded with the columns that are known, in one write. Where that write finds records of
other columns or types, the columns of the whole batch are looked up and it is written again in its
place, before anything of it is applied.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from lakehouse.config.table import Table
from silver.changelog import bronze_rows, schema_changes
from silver.contract import MEMBER_TYPES
from silver.decode.columns import (
    Columns,
    DecodedColumn,
    Shape,
    is_published,
    known_columns,
    shown_by,
    with_shown,
)
from silver.decode.expressions.names import MEMBER, members_read
from silver.decode.spark import (
    FIRST_RECORDS,
    FirstRows,
    Look,
    decode,
    discover,
    waits_for_form,
)
from silver.decode.types import parse_type
from silver.expectations.gate import gate_changes
from silver.run import SilverTable
from silver.state import fingerprint
from silver.state.drift import ColumnDrift
from silver.state.key_ranges import list_bounded_keys
from silver.state.table_state import TableState


class Written(Protocol):
    """What was observed of a batch while it was written."""

    def count_mismatches(self) -> int:
        """How many of its records show columns or types that it was decoded without."""
        ...


WrittenRows = TypeVar("WrittenRows", bound=Written)
Write = Callable[[DataFrame], WrittenRows]
"""Writes a decoded and gated batch."""


@dataclass
class RawBatch:
    """Bronze rows of a table that are decoded together.

    Attributes:
        table: the table.
        state: the table's state before the batch.
        raw: the rows.
        first: the first of the rows, where they are fetched.
        learned: what the batch adds to the table's fingerprint.
        drifts: the changes of the source's columns that the batch shows.
    """

    table: SilverTable
    state: TableState
    raw: DataFrame
    first: FirstRows | None = None
    learned: dict[str, str] = field(default_factory=dict)
    drifts: list[ColumnDrift] = field(default_factory=list)

    def load_columns(self, first: bool = False) -> Columns:
        """The columns that are known without reading the batch.

        `first` says that the change log may hold this batch already, and no other: its columns may
        come from a part of the batch's records, so they do not count.
        """
        config = self.table.config
        held = [] if first else self.table.log.business
        fingerprint.check_types(config, held)
        columns = known_columns(config, {f.name: f.dataType for f in held})
        before = self.state.built
        schemas = bronze_rows.avro_schemas(self.table)
        announced = fingerprint.load_source_columns(before)
        return replace(with_shown(columns, before), announced=announced, schemas=schemas)

    def with_members(self, columns: Columns) -> Columns:
        """The known columns, and members that only expressions use as an earlier batch had them."""
        types = fingerprint.load_member_types(self.state.built)
        wanted = [name for name in members_read(self.table.config) if name in types]
        extra = [
            DecodedColumn(f"{MEMBER}{n}", parse_type(types[n]), provisional=True) for n in wanted
        ]
        return replace(columns, columns=(*columns.columns, *extra))

    def waits_for_form(self) -> bool:
        """Whether a later record must first show the form of the feed's events."""
        config = self.table.config
        columns = with_shown(known_columns(config, {}), self.state.built)
        if columns.envelope is not None or config.format != "debezium":
            return False
        schemas = bronze_rows.avro_schemas(self.table)
        return waits_for_form(self.first, config, replace(columns, schemas=schemas))

    def learn_columns(self, columns: Columns) -> None:
        """Keeps how the source writes, and the types of members that only expressions use."""
        self.learned |= shown_by(columns)
        read = [column for column in columns.columns if column.name.startswith(MEMBER)]
        types = {c.name.removeprefix(MEMBER): c.type.simpleString() for c in read}
        if types:
            self.learned[MEMBER_TYPES] = json.dumps(types)

    def look_through(self, columns: Columns, most: int | None = None) -> Look:
        """The columns that the batch's records show, or `most` of its records."""
        return discover(self.raw, self.table.config, columns, most, self.first)

    def decode_and_gate(self, columns: Columns) -> DataFrame:
        """Decodes the batch with these columns, and adds the verdict of the row rules."""
        config = self.table.config
        bounded = list_bounded_keys(config, columns.schema())
        return gate_changes(decode(self.raw, config, columns, self.first, bounded), config)

    def follow_shapes(self, shapes: Sequence[Shape]) -> None:
        """Keeps what the batch changes about the source's columns.

        Raises:
            SchemaChangeRefused: the table does not allow a change.
        """
        held = {f.name: f.dataType.simpleString() for f in self.table.log.business}
        drifts, learned = schema_changes.find_changes(self.table.config, shapes, held, self.state)
        self.drifts += drifts
        schema_changes.refuse_changes(self.table.config, drifts)
        self.learned |= learned

    def build_state_after(self, run_id: str) -> TableState:
        """The table's state after the batch, without the batch's number in the log."""
        state = self.state.with_fingerprint(self.learned)
        return schema_changes.record_changes(state, self.drifts, run_id)


def write_decoded(
    batch: RawBatch, write: Write[WrittenRows], rewrite: Write[WrittenRows]
) -> tuple[Columns, WrittenRows]:
    """Decodes a batch and writes it; `rewrite` puts it in place of what `write` wrote.

    Returns the columns that it has, and what its write observed.

    Raises:
        SchemaChangeRefused: it changes the source's columns in a way that the table fails.
    """
    columns_before = batch.load_columns()
    look = _first_look(batch, columns_before)
    if look is not None and look.whole:
        batch.follow_shapes(look.shapes)
    columns = batch.with_members(columns_before) if look is None else look.columns
    changes = batch.decode_and_gate(columns)
    schema_changes.refuse_misfits(batch.table.config, changes)
    written = write(changes)
    if written.count_mismatches():
        return write_looked_through(batch, columns_before, rewrite)
    if look is not None and not look.whole:
        batch.follow_shapes(look.shapes)
    if look is not None:
        batch.learn_columns(columns)
    return columns, written


def write_looked_through(
    batch: RawBatch, columns_before: Columns, write: Write[WrittenRows]
) -> tuple[Columns, WrittenRows]:
    """Finds the columns of all records of a batch, decodes it with them and writes it.

    Raises:
        SchemaChangeRefused: as `write_decoded`.
    """
    look = batch.look_through(columns_before)
    batch.follow_shapes(look.shapes)
    batch.learn_columns(look.columns)
    return look.columns, write(batch.decode_and_gate(look.columns))


def _first_look(batch: RawBatch, columns_before: Columns) -> Look | None:
    """Looks at the first batch of a table, or at any batch where some column changes must fail.

    Where the first records have one shape, the others are not looked at.
    """
    policy = batch.table.config.schema_changes
    if "fail" in (policy.add_column, policy.widen, policy.drop_column, policy.incompatible):
        return batch.look_through(columns_before)
    if columns_before.announced is not None and not _is_ahead(batch.table.config, columns_before):
        return None
    look = batch.look_through(columns_before, FIRST_RECORDS)
    if look.whole:
        return look
    if len(look.shapes) != 1:
        return batch.look_through(columns_before)
    columns = replace(look.columns, announced=look.shapes[0].fields)
    return look._replace(columns=columns)


def _is_ahead(table: Table, columns: Columns) -> bool:
    """Whether the log has columns that the source is not known to have.

    A run that was killed wrote them. Debezium's decoder needs no such check.
    """
    if table.format == "debezium" or columns.announced is None:
        return False
    return any(is_published(table, n) and n not in columns.announced for n in columns.names)
