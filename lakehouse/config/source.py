"""What `source` of a table's YAML says: one model per format, with the options that it takes.

Options that several formats take are groups: a new format is a class of the groups that it takes,
with its name, and a member of `AnySource`.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, model_validator

from lakehouse.config.csv_options import Csv
from lakehouse.config.formats import Format
from lakehouse.config.records.envelope import RecordParts
from lakehouse.config.records.presets import PRESETS, Preset
from lakehouse.config.strict import Strict
from lakehouse.errors import Problem

FileFormat = Literal["json", "csv", "parquet"]
ONLY_FOLDERS = ("max_files_per_trigger", "max_bytes_per_trigger", "file_format", "csv")
ONLY_KAFKA = ("max_offsets_per_trigger", "value_format", "schema_registry")
REMOVE = "remove it: it would have no effect"
ENVELOPE = "envelope"
"""Two options: how Debezium's events are written, and where the parts of other records stand."""
_INPUTS = ("path", "kafka", "delta")
_SECRET = ("password", "jaas", "secret", "token", "keystore.key")
_BROKER = re.compile(r"\S+:\d+")
_NO_SECRET = "env:NAME, or secret:SCOPE/KEY on Databricks"


class Kafka(Strict):
    """A Kafka topic (or a comma separated list of topics) to read from."""

    topic: str = Field(description="The topic, or several with commas between them.")
    bootstrap_servers: str = Field(description="The brokers, as `host:port,host:port`.")
    starting_offsets: str = Field(
        default="earliest",
        description="Where the first run begins: `earliest`, `latest`, or Kafka's JSON of offsets.",
    )
    shared: bool = Field(
        default=False,
        description="One bronze table takes the topics of all tables of these brokers that say so."
        " A file of many tables does.",
    )
    security: dict[str, str] = Field(
        default_factory=dict,
        description="Options of Kafka's client. A secret is written `env:NAME`, or"
        " `secret:SCOPE/KEY` on Databricks.",
    )


class SchemaRegistry(Strict):
    """The registry that has the schemas of Avro records."""

    url: str = Field(description="The registry's address, `http://…` or `https://…`.")
    auth: str | None = Field(
        default=None,
        description="`env:NAME`, or `secret:SCOPE/KEY` on Databricks: the name of the secret that"
        " holds `user:password` or a token.",
    )


class KafkaOptions(Strict):
    """Options of formats whose records may come from Kafka."""

    topic: str | None = Field(
        default=None,
        description="Read only the records of this topic, where a folder or a list of Kafka topics"
        " has several.",
    )
    kafka: Kafka | None = Field(default=None, description="Kafka topics in place of `path`.")
    max_offsets_per_trigger: int | None = Field(
        default=None, gt=0, description="Most Kafka records in one ingest batch."
    )


class AvroOptions(Strict):
    """Options of formats whose records Kafka Connect may write in Avro."""

    value_format: Literal["json", "avro"] = Field(
        default="json", description="How keys and values of a Kafka topic are encoded."
    )
    schema_registry: SchemaRegistry | None = Field(
        default=None, description="Required with `value_format: avro`."
    )


class ConnectorOptions(Strict):
    """Options of formats whose values are encoded as Debezium's connectors do."""

    decimal_handling_mode: Literal["precise", "string", "double"] = Field(
        default="precise",
        description="The connector's option, for records without a schema block. Not declared: the"
        " values of the records decide.",
    )
    time_precision_mode: Literal[
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
        "isostring",
        "microseconds",
        "nanoseconds",
        "structured",
    ] = Field(
        default="adaptive",
        description="The connector's option, for records without a schema block.",
    )
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = Field(
        default="bytes", description="The connector's option, for records without a schema block."
    )
    unavailable_value: str = Field(
        default="__debezium_unavailable_value",
        description="The text (or `hex:` and bytes) that stands for a value which the connector"
        " does not have.",
    )


class FlatFileOptions(Strict):
    """Options of formats whose records may be rows of a file."""

    file_format: FileFormat = Field(default="json", description="The format of the dropped files.")
    csv: Csv = Field(default=Csv(), description="How CSV files are written.")


class TimeOptions(Strict):
    """Options of formats whose records are flat rows of changes."""

    time_column: str | None = Field(
        default=None, description="The column with the time of the change at the source."
    )


class DebeziumOptions(Strict):
    """Options of Debezium's events."""

    transaction_topic: str | None = Field(
        default=None,
        description="The topic of the transactions' ENDs. Default: Debezium's own, the topic prefix"
        " and `transaction`.",
    )
    envelope: Literal["auto", "full", "flattened"] = Field(
        default="auto",
        description="`flattened`: the events are what Debezium's ExtractNewRecordState leaves."
        " `auto`: the records decide.",
    )


class YdbOptions(Strict):
    """Options of YDB's changefeeds."""

    feed_mode: (
        Literal["updates", "new_image", "old_image", "new_and_old_images", "keys_only"] | None
    ) = Field(
        default=None, description="The mode of the changefeed. Default: what the records show."
    )
    start_sequence: str | list[int] | None = Field(
        default=None,
        description="Leave out records before this place, `[step, txId]`, that is before an initial"
        " copy.",
    )


class DeltaOptions(Strict):
    """Options of rows that may come from another Delta table."""

    delta: str | None = Field(
        default=None,
        description="With format `rows`, in place of `path`: another Delta table, by its name or"
        " its folder. Its change feed is read, or its appends where it has none.",
    )


class RecordOptions(Strict):
    """Options of rows that lie in other records, or among them."""

    parts: RecordParts | None = Field(
        default=None,
        alias=ENVELOPE,
        description="Where the parts of a change stand in a record. A preset such as `maxwell` in"
        " place of `rows` is an envelope with a name.",
    )

    where: str | None = Field(
        default=None,
        description="A condition in SQL. Records for which it is not true, null included, are left"
        " out and counted as `filtered`.",
    )


class SnapshotOptions(Strict):
    """Options of extracts."""

    mode: Literal["full", "delta"] = Field(
        description="`full`: a key that the file lacks is deleted. `delta`: the file deletes"
        " nothing."
    )


if TYPE_CHECKING:

    class _EveryOption(
        SnapshotOptions, RecordOptions, DeltaOptions, DebeziumOptions, YdbOptions, TimeOptions,
        FlatFileOptions, ConnectorOptions, AvroOptions, KafkaOptions,
    ):  # fmt: skip
        """What code may read of a source of any format."""

    RowsFormat: TypeAlias = Literal["rows"]
else:
    RowsFormat = Literal["rows", Preset]
    _EveryOption = Strict


class Source(_EveryOption):
    """One feed of a table.

    An option that only other formats take has its default here, so that code may read it.
    """

    format: Format = Field(
        description="The protocol of the records. A preset such as `maxwell` is `rows` with an"
        " envelope."
    )
    path: str | None = Field(
        default=None, description="The folder of dropped files, below the target's landing root."
    )
    once: bool = Field(
        default=False,
        description="Read the files that lie there when the first one does, and no later ones.",
    )
    max_files_per_trigger: int | None = Field(
        default=None,
        gt=0,
        description="Most files in one ingest batch. Without any limit: 1000 files.",
    )
    max_bytes_per_trigger: int | None = Field(
        default=None, gt=0, description="About how many bytes of files one ingest batch takes."
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="Whether a run fails when the source no longer has records that were not read.",
    )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """The default of an option that only other formats take."""
            return _DEFAULTS[name] if name in _DEFAULTS else super().__getattr__(name)


class DebeziumSource(Source, DebeziumOptions, ConnectorOptions, AvroOptions, KafkaOptions):
    """Events of Debezium's connectors."""

    format: Literal["debezium"]


class YdbSource(Source, YdbOptions, KafkaOptions):
    """Records of a YDB changefeed."""

    format: Literal["ydb"]


class BigQuerySource(Source, TimeOptions, FlatFileOptions, KafkaOptions):
    """Rows with BigQuery's pseudo-columns."""

    format: Literal["bigquery"]


class RowsSource(
    Source, RecordOptions, DeltaOptions, TimeOptions, FlatFileOptions, ConnectorOptions,
    AvroOptions, KafkaOptions,
):  # fmt: skip
    """Flat rows of changes."""

    format: RowsFormat

    @model_validator(mode="before")
    @classmethod
    def _open_preset(cls, source: object) -> object:
        """The source with the envelope that its format names."""
        if not isinstance(source, dict) or source.get("format") not in PRESETS:
            return source
        written = source.get("envelope")
        parts = PRESETS[source["format"]] | (written if isinstance(written, dict) else {})
        return source | {"format": "rows", "envelope": parts}


class SnapshotSource(Source, SnapshotOptions, FlatFileOptions):
    """Full or delta extracts, one folder a date."""

    format: Literal["snapshot"]


AnySource: TypeAlias = Annotated[
    DebeziumSource | YdbSource | BigQuerySource | RowsSource | SnapshotSource,
    Field(discriminator="format"),
]

GROUPS: tuple[type[Strict], ...] = (
    KafkaOptions, RecordOptions, DeltaOptions, FlatFileOptions, SnapshotOptions,
    DebeziumOptions, AvroOptions, YdbOptions, ConnectorOptions, TimeOptions,
)  # fmt: skip
_DEFAULTS: dict[str, Any] = {
    name: field.get_default(call_default_factory=True)
    for group in GROUPS
    for name, field in group.model_fields.items()
    if not field.is_required()
}


def find_formats(option: str) -> list[str]:
    """The formats that take an option."""
    models = get_args(get_args(AnySource)[0])
    return [
        name
        for model in models
        for name in get_args(model.model_fields["format"].annotation)[:1]
        if option in model.model_fields
    ]


def find_source_problems(key: str, feed: Source, declares_columns: bool) -> Iterator[Problem]:
    """Problems of options that are valid alone; `key` is source, or sources[1]."""
    yield from _check_input(key, feed)
    yield from _check_csv(key, feed, declares_columns)
    yield from _check_avro(key, feed)
    if feed.kafka:
        yield from _check_kafka(f"{key}.kafka", feed.kafka)


def _check_input(key: str, feed: Source) -> Iterator[Problem]:
    """Problems of where the records come from."""
    inputs = [name for name in _INPUTS if getattr(feed, name)]
    if len(inputs) != 1:
        actual = " and ".join(inputs) or "neither path nor kafka nor delta"
        yield Problem(key, actual, "exactly one of path, kafka and delta", "keep one of them")
    if feed.path and (feed.path.startswith("/") or ".." in feed.path.split("/")):
        expected = "a folder below the target's landing root"
        yield Problem(f"{key}.path", feed.path, expected, "write it relative to the landing root")
    if feed.topic and not feed.kafka and isinstance(feed, FlatFileOptions):
        actual = f"topic with {'delta' if feed.delta else f'files of format {feed.format}'}"
        yield Problem(f"{key}.topic", actual, "topic only where records name their topic", REMOVE)
    yield from _check_needs(key, feed, next(iter(inputs), "path"))


def _check_needs(key: str, feed: Source, used: str) -> Iterator[Problem]:
    """Problems of options that have no effect with the input that is used."""
    for option in feed.model_fields_set.intersection(ONLY_FOLDERS + ONLY_KAFKA):
        needed = "path" if option in ONLY_FOLDERS else "kafka"
        if needed != used:
            expected = f"{option} only with {needed}"
            yield Problem(f"{key}.{option}", f"{option} with {used}", expected, REMOVE)


def _check_csv(key: str, feed: Source, declares_columns: bool) -> Iterator[Problem]:
    if "csv" in feed.model_fields_set and feed.file_format != "csv":
        actual = f"csv with file_format {feed.file_format}"
        yield Problem(f"{key}.csv", actual, "csv only with file_format csv", REMOVE)
    if feed.csv.thousands == feed.csv.point:
        actual = f"thousands: '{feed.csv.thousands}' with decimal_comma: {feed.csv.decimal_comma}"
        expected, action = "another character than before the decimals", "correct one of them"
        yield Problem(f"{key}.csv.thousands", actual.lower(), expected, action)
    if not feed.csv.header and not declares_columns:
        actual, expected = "header: false without columns", "columns in the order of a row's fields"
        yield Problem(f"{key}.csv.header", actual, expected, "declare all columns of the files")


def _check_avro(key: str, feed: Source) -> Iterator[Problem]:
    registry = feed.schema_registry
    if (feed.value_format == "avro") != (registry is not None):
        actual = "no schema_registry" if registry is None else "schema_registry with JSON"
        expected = "value_format: avro and schema_registry together"
        yield Problem(f"{key}.schema_registry", actual, expected, "name both, or neither")
    if registry is None:
        return
    if not registry.url.startswith(("http://", "https://")):
        expected = "http:// or https:// and the registry's address"
        yield Problem(f"{key}.schema_registry.url", registry.url, expected, "correct it")
    if registry.auth is not None and not registry.auth.startswith(("env:", "secret:")):
        action = "keep user:password or the token there and name it here"
        yield Problem(f"{key}.schema_registry.auth", "a secret", _NO_SECRET, action)


def _check_kafka(key: str, kafka: Kafka) -> Iterator[Problem]:
    """Problems of brokers, and of secrets in the YAML, which the message does not repeat."""
    if not all(_BROKER.fullmatch(server.strip()) for server in kafka.bootstrap_servers.split(",")):
        actual, expected = kafka.bootstrap_servers or "nothing", "host:port, or several with commas"
        yield Problem(f"{key}.bootstrap_servers", actual, expected, "add the port, often 9092")
    for option, value in kafka.security.items():
        is_secret = any(sign in option for sign in _SECRET)
        if is_secret and not value.startswith(("env:", "secret:")):
            action = "keep the secret there and name it here"
            yield Problem(f"{key}.security.{option}", "a secret", _NO_SECRET, action)
