"""Configuration that tables share: `conf/defaults.yml`, and lists of expectations in `conf/rules`.

A table's YAML document is completed with both before it becomes a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakehouse.config.records.presets import PRESETS
from lakehouse.config.strict import Strict
from lakehouse.config.table import Expectation, Table
from lakehouse.config.table_rules import FORMATS_OF_OPTION, NEEDS_KEYS, NEVER_TOGETHER
from lakehouse.config.unpacking import find_nearest, unpack_model
from lakehouse.errors import ConfigurationError

Document: TypeAlias = dict[str, Any]

OF_ONE_TABLE = ("table", "comment", "source", "sources", "keys", "columns", "sequence_groups")
"""Keys that cannot be defaults: they differ from table to table."""
_FORMATS = FORMATS_OF_OPTION | {"sequence_by": ("rows", "bigquery")}
_KEYED = (*NEEDS_KEYS, "on_stale_key", "on_delete")
_RIVALS = (*NEVER_TOGETHER, ("max_staleness", "consistency_group"))
_DEBEZIUM_CHANGES = ("widen", "drop_column")


class SharedRules(Strict):
    """The expectations of a file in `conf/rules`."""

    expectations: list[Expectation]


def check_defaults(defaults: object, file: str) -> Document:
    """The defaults of all tables, after a check of their keys and values.

    Raises:
        ConfigurationError: the defaults have one of the keys `OF_ONE_TABLE`.
        ManyConfigurationErrors: unknown keys and wrong values.
    """
    some = {"table": "t", "keys": ["k"], "source": {"format": "rows", "path": "t"}}
    if defaults is None:
        return {}
    if not isinstance(defaults, dict):
        action = "write `key: value`"
        raise ConfigurationError(file, "(file)", "no mapping", "a mapping of keys", action)
    for key in OF_ONE_TABLE:
        if key in defaults:
            expected = "a key that several tables can have"
            raise ConfigurationError(file, key, f"the key {key}", expected, "move it to the tables")
    unpack_model(Table, some | defaults, file)
    return dict(defaults)


def merge(document: Mapping[str, Any], defaults: Mapping[str, Any]) -> Document:
    """The document over the defaults; nested mappings are merged key by key."""
    both = {key: document[key] for key in document if key in defaults}
    inner = {
        key: {**defaults[key], **value}
        for key, value in both.items()
        if isinstance(value, dict) and isinstance(defaults[key], dict)
    }
    return {**defaults, **document, **inner}


def with_defaults(document: Document, defaults: Document) -> Document:
    """A table's document with the defaults that fit its format and other keys."""
    fitting = {k: v for k, v in defaults.items() if _is_applicable(document, defaults, k)}
    if "schema_changes" in fitting and _find_format(document) != "debezium":
        changes = fitting["schema_changes"]
        kept = {kind: what for kind, what in changes.items() if kind not in _DEBEZIUM_CHANGES}
        fitting["schema_changes"] = kept
    return merge(document, fitting)


def with_rules(document: Document, file: str, rules: Mapping[str, Sequence[Any]]) -> Document:
    """A table's document with its own expectations and those of the lists in `use`.

    Raises:
        ConfigurationError: `use` names a list that does not exist.
    """
    used = document.get("use")
    if not isinstance(used, list) or not used:
        return document
    for index, name in enumerate(used):
        if name not in rules:
            meant = find_nearest(str(name), rules)
            action = f"did you mean {meant}?" if meant else f"write conf/rules/{name}.yml"
            expected = f"one of {', '.join(rules)}" if rules else "the name of a file in conf/rules"
            raise ConfigurationError(file, f"use[{index}]", str(name), expected, action)
    shared = [rule for name in used for rule in rules[name]]
    return document | {"expectations": [*(document.get("expectations") or []), *shared]}


def check_rules(document: object, file: str) -> list[Any]:
    """The expectations of a file in `conf/rules`.

    Raises:
        ConfigurationError: the file is no list.
        ManyConfigurationErrors: its expectations have errors.
    """
    if not isinstance(document, list):
        action = "begin each with `- {type: expect_…`"
        raise ConfigurationError(file, "(file)", "no list", "a list of expectations", action)
    unpack_model(SharedRules, {"expectations": document}, file)
    return document


def _is_applicable(document: Document, defaults: Document, key: str) -> bool:
    """Whether a default fits the table's format and other keys."""
    if key in _KEYED and document.get("keys") == []:
        return False
    history = document.get("stored_as_scd_type", defaults.get("stored_as_scd_type", 1))
    if key.startswith("track_history") and history == 1:
        return False
    formats = _FORMATS.get(key)
    rivals = {name for pair in _RIVALS if key in pair for name in pair} - {key}
    return (not formats or _find_format(document) in formats) and rivals.isdisjoint(document)


def _find_format(document: Document) -> str | None:
    sources = document.get("sources")
    first = sources[0] if isinstance(sources, list) and sources else document.get("source")
    named = first.get("format") if isinstance(first, dict) else None
    return "rows" if named in PRESETS else named
