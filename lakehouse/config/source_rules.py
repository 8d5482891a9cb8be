"""Checks of the sources of a table: options that do not fit the format or kind of a source."""

import re
from collections.abc import Iterator, Mapping

from lakehouse.config.formats import Format
from lakehouse.config.table import Source, Table
from lakehouse.errors import Problem

FORMATS_OF_OPTION: dict[str, tuple[Format, ...]] = {
    "decimal_handling_mode": ("debezium", "rows"),
    "time_precision_mode": ("debezium", "rows"),
    "binary_handling_mode": ("debezium", "rows"),
    "unavailable_value": ("debezium", "rows"),
    "transaction_topic": ("debezium",),
    "envelope": ("debezium",),
    "value_format": ("debezium", "rows"),
    "schema_registry": ("debezium", "rows"),
    "mode": ("snapshot",),
    "feed_mode": ("ydb",),
    "start_sequence": ("ydb",),
    "time_column": ("rows", "bigquery"),
    "file_format": ("rows", "bigquery", "snapshot"),
    "csv": ("rows", "bigquery", "snapshot"),
    "delta": ("rows",),
}
SECRET = ("password", "jaas", "secret", "token", "keystore.key")
ONLY_FOLDERS = ("max_files_per_trigger", "max_bytes_per_trigger", "file_format", "csv")
ONLY_KAFKA = ("max_offsets_per_trigger", "value_format", "schema_registry")
PLACES = ("path", "kafka", "delta")
REMOVE = "remove it: it would have no effect"


def source_contradictions(table: Table) -> Iterator[Problem]:
    """Problems of all sources, each with its dotted key: source… or sources[1]…."""
    if bool(table.source) == bool(table.sources):
        actual = "source and sources" if table.source else "neither source nor sources"
        yield Problem("source", actual, "exactly one of source and sources", "keep one of them")
    yield from _check_together(table)
    for index, feed in enumerate(table.feeds):
        key = "source" if table.source else f"sources[{index}]"
        yield from _check_place(key, feed)
        yield from _check_format(key, feed)
        yield from _check_kind(key, feed)
        if feed.transaction_topic and table.consistency_group is None:
            actual = "transaction_topic without consistency_group"
            yield Problem(f"{key}.transaction_topic", actual, "both, or neither of them", REMOVE)
        yield from _check_secrets(key, feed)
        yield from _check_csv(key, feed, table)
        yield from _check_avro(key, feed)


def _check_together(table: Table) -> Iterator[Problem]:
    """Problems of sources that contradict each other."""
    formats = {feed.format for feed in table.feeds}
    if len(formats) > 1:
        actual, expected = f"formats {' and '.join(sorted(formats))}", "one format in all sources"
        yield Problem("sources", actual, expected, "make a table of each, and join them in a view")
    elif len(table.feeds) > 1 and "snapshot" in formats:
        actual = f"{len(table.feeds)} sources, with format snapshot"
        expected = "snapshot files as the only source: full ones say what is not there"
        yield Problem("sources", actual, expected, "make it a table of its own")
    registries = {feed.schema_registry.url for feed in table.feeds if feed.schema_registry}
    if len(registries) > 1:
        actual, action = " and ".join(sorted(registries)), "make a table of each and join in a view"
        yield Problem("sources", actual, "one registry, whose ids name one schema", action)
    modes = {f"feed_mode {f.feed_mode or 'undeclared'}" for f in table.feeds if f.format == "ydb"}
    if len(modes) > 1:
        actual, expected = " and ".join(sorted(modes)), "the same feed_mode in all sources"
        yield Problem("sources", actual, expected, "declare it in all or in none")


def _check_place(key: str, feed: Source) -> Iterator[Problem]:
    places = [place for place in PLACES if getattr(feed, place)]
    if len(places) != 1:
        actual = " and ".join(places) or "neither path nor kafka nor delta"
        yield Problem(key, actual, "exactly one of path, kafka and delta", "keep one of them")
    if feed.path and (feed.path.startswith("/") or ".." in feed.path.split("/")):
        expected = "a folder below the target's landing root"
        yield Problem(f"{key}.path", feed.path, expected, "write it relative to the landing root")
    servers = feed.kafka.bootstrap_servers.split(",") if feed.kafka else ["none:0"]
    if not all(map(_BROKER.fullmatch, map(str.strip, servers))):
        place, expected = f"{key}.kafka.bootstrap_servers", "host:port, or several with commas"
        yield Problem(place, ",".join(servers) or "nothing", expected, "add the port, often 9092")
    if feed.format == "snapshot":
        yield from _check_snapshot(key, feed)


def _check_snapshot(key: str, feed: Source) -> Iterator[Problem]:
    if feed.mode is None:
        yield Problem(f"{key}.mode", "nothing", "full or delta", "say what a snapshot file holds")
    if feed.kafka:
        yield Problem(f"{key}.kafka", "a topic", "a folder of snapshot files", "name it in path")


def check_options(
    model: Source | Table, formats_of: Mapping[str, tuple[Format, ...]], prefix: str = ""
) -> Iterator[Problem]:
    """Problems of options that are given though the format does not have them."""
    for option, formats in formats_of.items():
        if option in model.model_fields_set and model.format not in formats:
            actual = f"{option} with format {model.format}"
            expected = f"{option} only with {' or '.join(formats)}"
            yield Problem(f"{prefix}{option}", actual, expected, REMOVE)


def _check_format(key: str, feed: Source) -> Iterator[Problem]:
    yield from check_options(feed, FORMATS_OF_OPTION, f"{key}.")
    if feed.topic and not feed.kafka and feed.format not in ("debezium", "ydb"):
        actual = f"topic with {'delta' if feed.delta else f'files of format {feed.format}'}"
        yield Problem(f"{key}.topic", actual, "topic only where records name their topic", REMOVE)


def _check_kind(key: str, feed: Source) -> Iterator[Problem]:
    kind = next((place for place in PLACES if getattr(feed, place)), "path")
    only = {**dict.fromkeys(ONLY_FOLDERS, "path"), **dict.fromkeys(ONLY_KAFKA, "kafka")}
    for option, other in only.items():
        if option in feed.model_fields_set and other != kind:
            actual = f"{option} with {kind}"
            yield Problem(f"{key}.{option}", actual, f"{option} only with {other}", REMOVE)


def _check_csv(key: str, feed: Source, table: Table) -> Iterator[Problem]:
    if "csv" in feed.model_fields_set and feed.file_format != "csv":
        actual = f"csv with file_format {feed.file_format}"
        yield Problem(f"{key}.csv", actual, "csv only with file_format csv", REMOVE)
    if not feed.csv.header and not table.columns:
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
        expected = "env:NAME, or secret:SCOPE/KEY on Databricks"
        action = "keep user:password or the token there and name it here"
        yield Problem(f"{key}.schema_registry.auth", "a secret", expected, action)


def _check_secrets(key: str, feed: Source) -> Iterator[Problem]:
    """Problems of secrets in the YAML; the message does not repeat them."""
    for option, value in (feed.kafka.security if feed.kafka else {}).items():
        secret = any(sign in option for sign in SECRET)
        if secret and not value.startswith(("env:", "secret:")):
            expected = "env:NAME, or secret:SCOPE/KEY on Databricks"
            action = "keep the secret there and name it here"
            yield Problem(f"{key}.kafka.security.{option}", "a secret", expected, action)


_BROKER = re.compile(r"\S+:\d+")
