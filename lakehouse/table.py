"""What `conf/tables/NAME.yml` says: one frozen model per table, exactly the documented keys."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from lakehouse.csv_options import Csv
from lakehouse.durations import seconds
from lakehouse.formats import Format

FileFormat = Literal["json", "csv", "parquet"]

EXPECTATION_TYPE = "^expect_[a-z0-9_]+$"
_OF_SOURCE = "db|schema|table|name|connector|ts_ms|ts_us|ts_ns|file|gtid|server_id"
ORIGIN = f"^(source\\.({_OF_SOURCE})|__dbz__physicalTableIdentifier)$"
IDENTIFIER = "^[A-Za-z][A-Za-z0-9_]*$"


def _duration(text: str | int) -> str | int:
    seconds(text)
    return text


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Kafka(Strict):
    """A Kafka topic (or a comma separated list of topics) to read from."""

    topic: str
    bootstrap_servers: str
    starting_offsets: str = "earliest"
    security: dict[str, str] = Field(default_factory=dict)


class SchemaRegistry(Strict):
    """Where the schemas of Avro records are: a registry's URL, and `user:password` or a token."""

    url: str
    auth: str | None = None


class Source(Strict):
    """One feed of a table."""

    format: Format
    path: str | None = None
    topic: str | None = None
    transaction_topic: str | None = None
    kafka: Kafka | None = None
    file_format: FileFormat = "json"
    csv: Csv = Csv()
    mode: Literal["full", "delta"] | None = None
    envelope: Literal["auto", "full", "flattened"] = "auto"
    value_format: Literal["json", "avro"] = "json"
    schema_registry: SchemaRegistry | None = None
    once: bool = False
    max_files_per_trigger: int | None = Field(default=None, gt=0)
    max_bytes_per_trigger: int | None = Field(default=None, gt=0)
    max_offsets_per_trigger: int | None = Field(default=None, gt=0)
    decimal_handling_mode: Literal["precise", "string", "double"] = "precise"
    time_precision_mode: Literal[
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
        "isostring",
        "microseconds",
        "nanoseconds",
    ] = "adaptive"
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    interval_handling_mode: Literal["numeric", "string"] = "numeric"
    unavailable_value: str = "__debezium_unavailable_value"
    start_sequence: str | list[int] | None = None
    time_column: str | None = None
    on_data_loss: Literal["fail", "continue"] = "fail"


class Column(Strict):
    """A declared column: its Spark SQL type and how it is treated.

    `origin` (`from` in YAML) is the part of a Debezium record that the column is taken from, where
    it is no field of the row: `source.db` or another member of the source block, or
    `__dbz__physicalTableIdentifier`, which a router adds to the record's key. Its type is string,
    unless one is given.
    """

    type: str
    origin: str | None = Field(default=None, alias="from", pattern=ORIGIN)
    sensitive: bool = False
    operational: bool = False
    nullable: bool = True
    comment: str | None = None


class LearnedColumn(Column):
    """A column that silver found in the source: its type grows with the source, and only so.

    Never written in YAML. A declared column's values are converted to its type; a learned one's
    must be of its kind.
    """


def _column(value: object) -> object:
    if isinstance(value, dict) and "from" in value:
        return {"type": "string", **value}
    return {"type": value} if isinstance(value, str) else value


ColumnOrType = Annotated[Column, BeforeValidator(_column, json_schema_input_type=str | Column)]


class SequenceGroup(Strict):
    """Columns that come together and have an order of their own."""

    sequence_by: str
    columns: list[str]


class SchemaChanges(Strict):
    """What happens on each kind of schema change."""

    add_column: Literal["apply", "ignore", "fail"] = "apply"
    widen: Literal["apply", "ignore", "fail"] = "apply"
    drop_column: Literal["apply", "ignore", "fail"] = "apply"
    incompatible: Literal["dead_letter", "fail"] = "dead_letter"


class Expectation(BaseModel):
    """One Great Expectations expectation by its own name, its arguments as extra keys."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field(pattern=EXPECTATION_TYPE)
    severity: Literal["critical", "warning"] = "critical"

    @property
    def arguments(self) -> dict[str, Any]:
        """The expectation's own arguments, as Great Expectations names them."""
        return dict(self.model_extra or {})


class Table(Strict):
    """One table, from its sources to what gold shows of it."""

    table: str = Field(pattern=IDENTIFIER)
    comment: str | None = None
    source: Source | None = None
    sources: list[Source] = Field(default_factory=list)
    keys: list[str]
    columns: dict[str, ColumnOrType] = Field(default_factory=dict)
    column_list: list[str] | None = None
    except_column_list: list[str] | None = None
    sequence_by: str | list[str] | None = None
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    stored_as_scd_type: Literal[1, 2] = 1
    track_history_column_list: list[str] | None = None
    track_history_except_column_list: list[str] | None = None
    ignore_null_updates: bool | list[str] = False
    columns_to_update: str | None = None
    sequence_groups: list[SequenceGroup] = Field(default_factory=list)
    on_delete: Literal["remove", "flag"] = "remove"
    on_truncate: Literal["apply", "ignore", "fail"] = "apply"
    max_dead_letters: int = Field(default=0, ge=0)
    on_stale_key: Literal["show", "hide"] = "show"
    schema_changes: SchemaChanges = Field(default_factory=SchemaChanges)
    max_staleness: Annotated[str | int, AfterValidator(_duration)] | None = None
    tombstone_retention: Annotated[str | int, AfterValidator(_duration)] = "2 days"
    consistency_group: str | None = None
    expectations: list[Expectation] = Field(default_factory=list)

    @property
    def feeds(self) -> list[Source]:
        """The table's sources in the order of the file, whichever way they were written."""
        return [self.source] if self.source else list(self.sources)

    @property
    def format(self) -> Format:
        """The format of the table's sources (all of one table's sources share it)."""
        return self.feeds[0].format

    @property
    def is_declared(self) -> bool:
        """Whether the YAML declares all keys and more: then it names every column, or may."""
        return bool(self.columns) and set(self.keys) < set(self.columns)

    @property
    def nullable_keys(self) -> frozenset[str]:
        """The keys that may be null: null is then a value like any other, and equals null.

        Those with `nullable: true`; of a YDB table, whose key columns may hold NULL, all but those
        with `nullable: false`.
        """
        said = {n: c.nullable for n, c in self.columns.items() if "nullable" in c.model_fields_set}
        return frozenset(key for key in self.keys if said.get(key, self.format == "ydb"))
