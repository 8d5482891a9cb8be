"""What `conf/tables/NAME.yml` says: one frozen model per table, exactly the documented keys."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakehouse.config.columns import ColumnOrType
from lakehouse.config.formats import Format
from lakehouse.config.source import AnySource, Source
from lakehouse.config.strict import Strict
from lakehouse.durations import to_seconds

EXPECTATION_TYPE = "^expect_[a-z0-9_]+$"
IDENTIFIER = "^[A-Za-z][A-Za-z0-9_]*$"


def _check_duration(text: str | int) -> str | int:
    to_seconds(text)
    return text


Duration = Annotated[str | int, AfterValidator(_check_duration)]


class SequenceGroup(Strict):
    """Columns that come together and have an order of their own."""

    sequence_by: str = Field(description="The column or expression that orders the group.")
    columns: list[str] = Field(description="The columns of the group.")


class SchemaChanges(Strict):
    """What happens on each kind of schema change. `fail` stops the table before it is written."""

    add_column: Literal["apply", "ignore", "fail"] = Field(
        default="apply", description="The source has a new column. `ignore` leaves it out."
    )
    widen: Literal["apply", "ignore", "fail"] = Field(
        default="apply",
        description="A column's type grew to a wider one of its kind. `ignore` keeps the old type.",
    )
    drop_column: Literal["apply", "ignore", "fail"] = Field(
        default="apply", description="The source dropped a column, which is null from then on."
    )
    incompatible: Literal["dead_letter", "fail"] = Field(
        default="dead_letter", description="A value does not fit the type learned from the source."
    )


class Expectation(BaseModel):
    """One Great Expectations expectation by its own name, its arguments as extra keys."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field(pattern=EXPECTATION_TYPE, description="Great Expectations' name of the rule.")
    severity: Literal["critical", "warning"] = Field(
        default="critical",
        description="`critical`: a row that breaks the rule becomes a dead letter. `warning`: the"
        " row is counted and passes.",
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The expectation's own arguments, as Great Expectations names them."""
        return dict(self.model_extra or {})


class Table(Strict):
    """One table, from its sources to what gold shows of it."""

    table: str = Field(
        pattern=IDENTIFIER, description="The table's name in bronze, silver and gold."
    )
    comment: str | None = Field(default=None, description="The comment of `gold.T`.")
    source: AnySource | None = Field(
        default=None, description="Where the table's records come from."
    )
    sources: list[AnySource] = Field(
        default_factory=list, description="Several feeds into one table, in place of `source`."
    )
    keys: list[str] = Field(
        description="The columns that identify a row; `[]` for a Debezium table without a key."
    )
    columns: dict[str, ColumnOrType] = Field(
        default_factory=dict,
        description="Declared columns, `name: type` or `name: {type: …}`. Other columns are taken"
        " from the data.",
    )
    column_list: list[str] | None = Field(default=None, description="Keep only these columns.")
    except_column_list: list[str] | None = Field(
        default=None, description="Keep all columns but these."
    )
    sequence_by: str | list[str] | None = Field(
        default=None,
        description="A column, a list of columns or an expression that orders the changes of a key."
        " Required with `rows`; `bigquery` has `_CHANGE_SEQUENCE_NUMBER` without it.",
    )
    apply_as_deletes: str | None = Field(
        default=None, description="A condition in SQL: the record deletes its key."
    )
    apply_as_truncates: str | None = Field(
        default=None, description="A condition in SQL: the record deletes every row."
    )
    apply_as_upserts: str | None = Field(
        default=None,
        description="A condition in SQL: a record that meets neither it nor the two above is a"
        " dead letter. Without it every such record is an upsert.",
    )
    stored_as_scd_type: Literal[1, 2] = Field(
        default=1, description="1: current rows. 2: history as well, in `gold.T_history`."
    )
    track_history_column_list: list[str] | None = Field(
        default=None, description="Only changes of these columns open a version."
    )
    track_history_except_column_list: list[str] | None = Field(
        default=None, description="Changes of these columns alone open no version."
    )
    ignore_null_updates: bool | list[str] = Field(
        default=False,
        description="Null means that the change does not carry the column: in all columns, or in"
        " those listed.",
    )
    columns_to_update: str | None = Field(
        default=None,
        description="The column with the names of the columns that the record changes.",
    )
    sequence_groups: list[SequenceGroup] = Field(
        default_factory=list, description="Groups of columns with an order of their own."
    )
    on_delete: Literal["remove", "flag"] = Field(
        default="remove", description="`flag`: a deleted row stays in gold, with `is_deleted`."
    )
    on_truncate: Literal["apply", "ignore", "fail"] = Field(
        default="apply", description="What happens when the source truncates the table."
    )
    max_dead_letters: int = Field(
        default=0, ge=0, description="More unresolved dead letters than these raise the alarm."
    )
    on_stale_key: Literal["show", "hide"] = Field(
        default="show", description="Whether gold shows a key whose newest change is a dead letter."
    )
    schema_changes: SchemaChanges = Field(
        default_factory=SchemaChanges,
        description="What happens when the columns of the source change.",
    )
    max_staleness: Duration | None = Field(
        default=None,
        description="How long gold may lag behind the change log, such as `10 minutes` or `0`.",
    )
    tombstone_retention: Duration = Field(
        default="2 days",
        description="How long a delete is remembered, in the source's time, to stop older changes.",
    )
    consistency_group: str | None = Field(
        default=None, description="Gold shows all tables of the group as of one source transaction."
    )
    publish: Literal["view", "table"] = Field(
        default="view",
        description="`table`: gold.T, and its history, also as plain Delta tables that other"
        " engines read.",
    )
    change_data_feed: bool = Field(
        default=False,
        description="With `publish: table`: Delta's change data feed of the published tables.",
    )
    cluster_by: list[str] = Field(
        default_factory=list,
        max_length=4,
        description="At most four declared columns, by which `maintain` orders the table's files.",
    )
    expectations: list[Expectation] = Field(
        default_factory=list, description="Rules for rows and tables, by Great Expectations."
    )
    use: list[str] = Field(
        default_factory=list,
        description="More expectations: those of `conf/rules/NAME.yml`, for each NAME.",
    )

    @property
    def feeds(self) -> list[Source]:
        """The table's sources in the order of the file, whichever way they were written."""
        return [self.source] if self.source else list(self.sources)

    @property
    def format(self) -> Format:
        """The format of the table's sources (all of one table's sources share it)."""
        return self.feeds[0].format

    @property
    def reads_delta(self) -> bool:
        """Whether every record is a change of another Delta table."""
        return bool(self.feeds) and all(feed.delta for feed in self.feeds)

    @property
    def orders(self) -> list[str]:
        """The columns and expressions of `sequence_by`, else those of the sources' envelope."""
        if self.sequence_by is not None:
            return [self.sequence_by] if isinstance(self.sequence_by, str) else self.sequence_by
        parts = self.feeds[0].parts if self.feeds else None
        return [] if parts is None else parts.sequence_by

    @property
    def reads_versions(self) -> bool:
        """Whether the versions of another Delta table order the changes."""
        return self.reads_delta and not self.orders

    def leaves_out(self, name: str) -> bool:
        """Whether a member is one of the envelope's own, and no column that the YAML declares."""
        parts = self.feeds[0].parts if self.feeds else None
        patterns = parts.leave_out if parts is not None else ()
        return any(fnmatchcase(name, one) for one in patterns) and name not in self.columns

    @property
    def is_shared(self) -> bool:
        """Whether a key comes from the envelope, for rows of several source tables."""
        return any(self.columns[key].origin for key in self.keys if key in self.columns)

    @property
    def is_declared(self) -> bool:
        """Whether the YAML declares all keys and more columns, perhaps all of them."""
        return bool(self.columns) and set(self.keys) < set(self.columns)

    @property
    def nullable_keys(self) -> frozenset[str]:
        """The keys that may be null; null is then a value that equals null.

        Keys with `nullable: true`, and with YDB, whose key columns may be NULL, all keys without
        `nullable: false`.
        """
        said = {n: c.nullable for n, c in self.columns.items() if "nullable" in c.model_fields_set}
        return frozenset(key for key in self.keys if said.get(key, self.format == "ydb"))

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """The columns by their old names in the source, as `fold` returns them."""
        columns = self.columns.items()
        return {self.fold(old): name for name, column in columns for old in column.renamed_from}

    @cached_property
    def key_names(self) -> frozenset[str]:
        """The names of the keys in lower case."""
        return frozenset(key.lower() for key in self.keys)

    def fold(self, name: str) -> str:
        """The name by which fields are compared: in lower case, except for YDB."""
        return name if any(feed.format == "ydb" for feed in self.feeds) else name.lower()

    def keeps(self, name: str) -> bool:
        """Whether `column_list` and `except_column_list` leave a column in the table."""
        left_out = name in (self.except_column_list or []) or self.leaves_out(name)
        return not left_out and (self.column_list is None or name in self.column_list)

    def is_sensitive(self, name: str) -> bool:
        """Whether the column of this name, current or old, is declared sensitive."""
        column = self.columns.get(self.renamed.get(self.fold(name), name))
        return column is not None and column.sensitive
