"""Which columns a table's changes have: declared, learned from the source before, or found now."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

from pyspark.sql import types as T

from lakehouse.config.columns import LearnedColumn
from lakehouse.config.table import Table
from silver.contract import KEY_PARTS, LACKED_KEYS, LEFT_OUT, ORDER
from silver.decode.change import Record
from silver.decode.debezium.events.source_log import Reached
from silver.decode.types import parse_type

MOST_COLUMNS = 2000
"""Of a table, beyond which nothing undeclared becomes a column; BigQuery's limit too."""

UNFIT = (
    "a column without a name, one whose name differs from another's in case only, or one more than "
    f"a table has room for: {MOST_COLUMNS:,}, unless it declares more"
)

ENVELOPE, DECIMAL_TEXTS, SOURCE_TABLE = "envelope", "decimal texts", "source table"
FEED_MODE, UPDATES = "feed mode", "UPDATES"
OLD_ROWS, WHOLE = "old rows", "whole"
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
_Discovery = TypeVar("_Discovery", bound="Discovery")


@dataclass(frozen=True)
class DecodedColumn:
    """One column of a table.

    Attributes:
        name: its name in the table; fields of this name in any case are the column (not of YDB).
        type: its type.
        declared: whether the YAML gives the type. Values are then converted to it (a misfit is
            `bad_value`); a learned column's must be of its kind (`incompatible_schema`).
        provisional: whether the type was found in this very batch and may still change: a misfit
            makes the record `mismatched`.
    """

    name: str
    type: T.DataType
    declared: bool = False
    provisional: bool = False


@dataclass(frozen=True)
class Columns:
    """All that a decoder knows of a table's columns: keys first, then known ones, then new ones.

    Attributes:
        columns: the columns in the order of `Change.values`.
        settled: whether they were found in all of the batch that is to be decoded. No record of
            it is `mismatched` then; a field without a column cannot have one.
        announced: the source's columns with their types (None where unknown), as its
            newest records showed them; None when they are not to be compared with. A record that
            shows others is `mismatched`, so that a dropped column is noticed too.
        envelope: the form of Debezium's events, as the module `opening` of
            `silver.decode.debezium.events` names it; None where nothing has shown it.
        decimal_texts: how texts in decimal columns of Debezium records without a schema block are
            written: `base64` or `plain`; None where no text has shown it, or texts showed both.
        order: what Debezium's records are ordered by: positions of the `source`, of PostgreSQL's
            `change` alone where no record has its commit, or `arrival` where no record has one;
            None where no record has shown it.
        feed_mode: `UPDATES` where the table has one feed of YDB and some update in it has the
            columns that it wrote, so that one without any wrote none; the YAML does not declare it.
        key_parts: parts of the keys of Debezium's records that are no keys of the table: rows that
            the source distinguishes may be one row of the table. Also members of the source block
            that distinguish source tables.
        source_table: database, schema and table of the first of Debezium's records that showed any.
        left_out: fields with a value that are in no column: their names, which begin with an
            underscore, belong to the layers; or their column is a struct that has them not, as
            `column.field`.
        whole_old_rows: whether an update has shown that Debezium's old rows are whole. Only asked
            where the records' keys lack a key of the table.
        lacked_keys: keys of the table that the records' keys lack, and whose old values are not
            known: rows may stay that are gone at the source.
        schemas: the Avro schemas that bronze keeps for the table's feeds, by their ids.
        reached: the log position of earlier records, by the name of its segments (see
            `silver.decode.debezium.events.source_log`); empty where that is not asked.
    """

    columns: tuple[DecodedColumn, ...]
    settled: bool = False
    announced: Mapping[str, str | None] | None = None
    envelope: str | None = None
    decimal_texts: str | None = None
    order: str | None = None
    feed_mode: str | None = None
    key_parts: tuple[str, ...] = ()
    source_table: tuple[object, ...] | None = None
    left_out: tuple[str, ...] = ()
    whole_old_rows: bool = False
    lacked_keys: tuple[str, ...] = ()
    schemas: Mapping[str, str] = field(default_factory=dict)
    reached: Mapping[str, Reached] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The columns' names in order."""
        return [column.name for column in self.columns]

    def schema(self) -> T.StructType:
        """The columns as a Spark schema."""
        return T.StructType([T.StructField(c.name, c.type) for c in self.columns])


@dataclass(frozen=True)
class Shape:
    """Columns that records of a source announce, which is how a change of its schema shows.

    Attributes:
        fields: the columns and their Spark SQL types (None where unknown).
        complete: whether a column that is not there is gone at the source; else a record may
            leave columns out.
        first_position: the position of the first record that shows the shape.
        times: the least and the greatest commit time of these records, in microseconds since 1970.
    """

    fields: Mapping[str, str | None] = field(default_factory=dict)
    complete: bool = True
    first_position: str = ""
    times: tuple[int, int] | None = None

    def is_before(self, time: int | None) -> bool:
        """Whether all records that show the shape are known to be older than a commit time."""
        return time is not None and self.times is not None and self.times[1] < time


class Discovery(Protocol):
    """Finds columns, types and shapes in records. Built from a table and the columns known so far.

    Picklable and small: it keeps names, kinds of values and shapes, never rows.
    """

    def look(self, record: Record, position: str) -> None:
        """Takes in what a record shows; `position` is where it lies, for a person."""
        ...

    def merge(self: _Discovery, other: _Discovery) -> None:
        """Takes in what another discovery of the same table has seen."""
        ...

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns, and the shapes in order of arrival.

        `whole` says that all records of the batch were looked at: the columns are settled then.
        """
        ...


def known_columns(table: Table, learned: Mapping[str, T.DataType]) -> Columns:
    """The columns that are known before a batch is looked at.

    `learned` are the business columns of the table's change log, in its order. A declared type
    counts more than a learned one. A key without a type is a string until records show another.
    """
    declared = declared_types(table)
    types = dict(learned) | declared
    names = [n for n in dict.fromkeys([*table.keys, *types]) if not n.startswith("_")]
    columns = [
        DecodedColumn(name, types.get(name, T.StringType()), name in declared, name not in types)
        for name in names
    ]
    return Columns(tuple(columns))


class _Fact(NamedTuple):
    """What records show of how a source writes, as a text by name and as a field of `Columns`."""

    name: str
    field: str
    write: Callable[[Columns], str | None]
    read: Callable[[str | None], object]


def _fact_of_text(name: str, field: str) -> _Fact:
    return _Fact(name, field, attrgetter(field), lambda text: text)


def _fact_of_names(
    name: str,
    field: str,
    counts: Callable[[Columns], object] | None = None,
    nothing: tuple[object, ...] | None = (),
) -> _Fact:
    """A fact that is a list, written where it `counts`: where it has names, unless said."""
    values, is_written = attrgetter(field), counts or attrgetter(field)
    return _Fact(
        name,
        field,
        lambda columns: json.dumps(values(columns)) if is_written(columns) else None,
        lambda text: tuple(json.loads(text or "[]")) or nothing,
    )


_FACTS = (
    _fact_of_text(ENVELOPE, "envelope"),
    _fact_of_text(DECIMAL_TEXTS, "decimal_texts"),
    _fact_of_text(ORDER, "order"),
    _fact_of_text(FEED_MODE, "feed_mode"),
    _Fact(
        OLD_ROWS,
        "whole_old_rows",
        lambda columns: WHOLE if columns.whole_old_rows else None,
        lambda text: text is not None,
    ),
    _fact_of_names(KEY_PARTS, "key_parts"),
    _fact_of_names(SOURCE_TABLE, "source_table", nothing=None),
    _fact_of_names(LEFT_OUT, "left_out"),
    # Where old rows are whole, also an empty list: some keys may have been lacked before.
    _fact_of_names(LACKED_KEYS, "lacked_keys", lambda c: c.lacked_keys or c.whole_old_rows),
)


def with_shown(columns: Columns, shown: Mapping[str, str]) -> Columns:
    """The columns with what earlier records showed of how the source writes, see `shown_by`."""
    facts: dict[str, Any] = {fact.field: fact.read(shown.get(fact.name)) for fact in _FACTS}
    return replace(columns, **facts)


def shown_by(columns: Columns) -> dict[str, str]:
    """What records showed of how the source writes, as texts by name; no text where nothing did."""
    texts = ((fact.name, fact.write(columns)) for fact in _FACTS)
    return {name: text for name, text in texts if text is not None}


def declared_types(table: Table) -> dict[str, T.DataType]:
    """The columns that the YAML declares and their types."""
    return {
        name: parse_type(column.type)
        for name, column in table.columns.items()
        if not isinstance(column, LearnedColumn)
    }


def is_published(table: Table, name: str) -> bool:
    """Whether the table keeps a column, by its keys, column lists and renamed columns."""
    if name in table.keys:
        return True
    if table.renamed and table.fold(name) in table.renamed:
        return False
    if table.column_list is not None:
        return name in table.column_list
    return name not in (table.except_column_list or []) and not table.leaves_out(name)


def is_wanted(table: Table, name: str) -> bool:
    """Whether a field of the source can be a column: not of one left out or of the layer's names.

    A column that is left out is read where a sequence group names it.
    """
    if name.startswith("_"):
        return False
    return is_published(table, name) or any(
        name in re.findall(r"\w+", group.sequence_by) for group in table.sequence_groups
    )


def adds_columns(table: Table) -> bool:
    """Whether a column that is new at the source may become one of the table's."""
    return table.schema_changes.add_column != "ignore"


def required_columns(table: Table) -> set[str]:
    """Kept columns declared `nullable: false`: an upsert with a null for one is a `bad_value`.

    Keys need no rule, as a null key is `no_key`; columns of a sequence group are judged once it is
    known whether the change carries them.
    """
    grouped = {n for group in table.sequence_groups for n in [*group.columns, group.sequence_by]}
    needed = {name for name, column in table.columns.items() if not column.nullable}
    return {
        name for name in needed - grouped if name not in table.keys and is_published(table, name)
    }


def settle_names(names: Iterable[str], columns: Collection[str]) -> tuple[list[str], list[str]]:
    """Splits new names into those that can become columns and those that cannot.

    A name cannot where the table is full, where another column's name differs in case only (Delta
    takes both for one), and where it has half a surrogate pair, which no table can store.
    """
    taken = {name.lower() for name in columns} | {""}
    most = column_limit(columns)
    usable: list[str] = []
    unfit: list[str] = []
    for name in names:
        is_new = name.lower() not in taken and not _HALF_PAIR.search(name)
        (usable if is_new and len(columns) + len(usable) < most else unfit).append(name)
        taken.add(name.lower())
    return usable, unfit


def column_limit(columns: Collection[str]) -> int:
    """How many columns a table that has these can have at most."""
    return max(MOST_COLUMNS, len(columns))
