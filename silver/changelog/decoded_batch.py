"""One batch of bronze decoded and written, with the columns that it brings.

A batch is decoded by the columns that are known, in one write. Where that write met records of
other columns or types, the whole batch is looked through and written once more in its place, before
anything of it is applied.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from lakehouse.config.table import Table
from silver.changelog import bronze_rows, schema_changes
from silver.changelog.schema_changes import Noticed
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
from silver.state.table_state import TableState


class Written(Protocol):
    """What was seen of a batch while it was written."""

    def unlike(self) -> int:
        """How many of its records show columns or types that it was decoded without."""
        ...


Told = TypeVar("Told", bound=Written)
Write = Callable[[DataFrame], Told]
"""Writes a decoded and gated batch."""


@dataclass
class RawBatch:
    """Bronze rows of a table that are decoded together.

    Attributes:
        table: the table.
        state: what is known of the table before the batch.
        raw: the rows.
        first: the first of the rows, where they are fetched.
        learned: what the table's state learns from the batch, by aspect.
        noticed: the changes of the source's columns that the batch shows.
    """

    table: SilverTable
    state: TableState
    raw: DataFrame
    first: FirstRows | None = None
    learned: dict[str, str] = field(default_factory=dict)
    noticed: list[Noticed] = field(default_factory=list)

    def known(self, first: bool = False) -> Columns:
        """The columns that are known without a look at the batch.

        `first` says that the change log may hold this batch already, and no other: its columns may
        have been taken from some of the batch's records, so they do not count.
        """
        config = self.table.config
        held = [] if first else self.table.log.business
        fingerprint.check_types(config, held)
        columns = known_columns(config, {f.name: f.dataType for f in held})
        before = self.state.built
        schemas = bronze_rows.avro_schemas(self.table)
        announced = fingerprint.source_columns(before)
        return replace(with_shown(columns, before), announced=announced, schemas=schemas)

    def with_members(self, columns: Columns) -> Columns:
        """The known columns, and members that only expressions use as an earlier batch had them."""
        types = fingerprint.read_members(self.state.built)
        wanted = [name for name in members_read(self.table.config) if name in types]
        extra = [
            DecodedColumn(f"{MEMBER}{n}", parse_type(types[n]), provisional=True) for n in wanted
        ]
        return replace(columns, columns=(*columns.columns, *extra))

    def waits_for_form(self) -> bool:
        """Whether it means nothing before a later record shows the form of the feed's events."""
        config = self.table.config
        columns = with_shown(known_columns(config, {}), self.state.built)
        if columns.envelope is not None or config.format != "debezium":
            return False
        schemas = bronze_rows.avro_schemas(self.table)
        return waits_for_form(self.first, config, replace(columns, schemas=schemas))

    def learn(self, columns: Columns) -> None:
        """Keeps how the source writes, and the types of members that only expressions use."""
        self.learned |= shown_by(columns)
        read = [column for column in columns.columns if column.name.startswith(MEMBER)]
        types = {c.name.removeprefix(MEMBER): c.type.simpleString() for c in read}
        if types:
            self.learned[fingerprint.READ_MEMBERS] = json.dumps(types)

    def look(self, columns: Columns, most: int | None = None) -> Look:
        """What a look through the batch finds, or through `most` records of it."""
        return discover(self.raw, self.table.config, columns, most, self.first)

    def gated(self, columns: Columns) -> DataFrame:
        """The batch decoded by these columns, with the verdict of the row rules."""
        config = self.table.config
        return gate_changes(decode(self.raw, config, columns, self.first), config)

    def follow(self, shapes: Sequence[Shape]) -> None:
        """Keeps what the batch changes about the source's columns.

        Raises:
            SchemaChangeRefused: the table does not allow a change.
        """
        held = {f.name: f.dataType.simpleString() for f in self.table.log.business}
        noticed, learned = schema_changes.find_changes(self.table.config, shapes, held, self.state)
        self.noticed += noticed
        schema_changes.refuse_changes(self.table.config, noticed)
        self.learned |= learned

    def after(self, run_id: str) -> TableState:
        """What is known of the table after the batch, but for its place in the log."""
        return schema_changes.record_changes(self.state.learned(self.learned), self.noticed, run_id)


def write_decoded(
    batch: RawBatch, write: Write[Told], rewrite: Write[Told]
) -> tuple[Columns, Told]:
    """Decodes a batch and writes it; `rewrite` puts it in place of what `write` wrote.

    Returns the columns that it has, and what its write has seen.

    Raises:
        SchemaChangeRefused: it changes the source's columns in a way that the table fails.
    """
    columns_before = batch.known()
    look = _first_look(batch, columns_before)
    if look is not None and look.whole:
        batch.follow(look.shapes)
    columns = batch.with_members(columns_before) if look is None else look.columns
    changes = batch.gated(columns)
    schema_changes.refuse_misfits(batch.table.config, changes)
    written = write(changes)
    if written.unlike():
        return write_looked_through(batch, columns_before, rewrite)
    if look is not None and not look.whole:
        batch.follow(look.shapes)
    if look is not None:
        batch.learn(columns)
    return columns, written


def write_looked_through(
    batch: RawBatch, columns_before: Columns, write: Write[Told]
) -> tuple[Columns, Told]:
    """Looks through all of a batch for its columns, decodes it by them and writes it.

    Raises:
        SchemaChangeRefused: as `write_decoded`.
    """
    look = batch.look(columns_before)
    batch.follow(look.shapes)
    batch.learn(look.columns)
    return look.columns, write(batch.gated(look.columns))


def _first_look(batch: RawBatch, columns_before: Columns) -> Look | None:
    """A look at the first batch of a table, or at any of one that fails some changes.

    Of a batch whose first records have one shape no more is looked at.
    """
    policy = batch.table.config.schema_changes
    if "fail" in (policy.add_column, policy.widen, policy.drop_column, policy.incompatible):
        return batch.look(columns_before)
    if columns_before.announced is not None and not _is_ahead(batch.table.config, columns_before):
        return None
    look = batch.look(columns_before, FIRST_RECORDS)
    if look.whole:
        return look
    if len(look.shapes) != 1:
        return batch.look(columns_before)
    columns = replace(look.columns, announced=look.shapes[0].fields)
    return look._replace(columns=columns)


def _is_ahead(table: Table, columns: Columns) -> bool:
    """Whether the log has columns which the source's are not known to be.

    A run that was killed wrote them. Debezium's decoder tells by itself.
    """
    if table.format == "debezium" or columns.announced is None:
        return False
    return any(is_published(table, n) and n not in columns.announced for n in columns.names)
