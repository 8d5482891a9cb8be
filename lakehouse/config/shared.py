"""What tables share: `conf/defaults.yml`, and the lists of expectations in `conf/rules`.

Functions from documents to documents: a table's YAML is completed before a model is made of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from lakehouse.config.table import Expectation, Strict, Table
from lakehouse.config.table_rules import FORMATS_OF_OPTION, NEEDS_KEYS, NEVER_TOGETHER
from lakehouse.config.unpacking import nearest, unpack
from lakehouse.errors import ConfigurationError

Document: TypeAlias = dict[str, Any]

OF_ONE_TABLE = ("table", "comment", "source", "sources", "keys", "columns", "sequence_groups")
"""Keys that no two tables share."""
_FORMATS = FORMATS_OF_OPTION | {"sequence_by": ("rows", "bigquery")}
_KEYED = (*NEEDS_KEYS, "on_stale_key", "on_delete")
_RIVALS = (*NEVER_TOGETHER, ("max_staleness", "consistency_group"))
_DEBEZIUM_CHANGES = ("widen", "drop_column")


class SharedRules(Strict):
    """The expectations of a file in `conf/rules`."""

    expectations: list[Expectation]


def check_defaults(defaults: object, file: str) -> Document:
    """The defaults of all tables, each a key of a table with a value that it may have.

    Raises:
        ConfigurationError: a key that no two tables share.
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
    unpack(Table, some | defaults, file)
    return dict(defaults)


def merge(own: Mapping[str, Any], defaults: Mapping[str, Any]) -> Document:
    """The own keys over the defaults; of mappings each key by itself."""
    both = {key: own[key] for key in own if key in defaults}
    inner = {
        key: {**defaults[key], **value}
        for key, value in both.items()
        if isinstance(value, dict) and isinstance(defaults[key], dict)
    }
    return {**defaults, **own, **inner}


def with_defaults(document: Document, defaults: Document) -> Document:
    """A table's document with each default that its own keys, format and rivals leave room for."""
    fitting = {key: value for key, value in defaults.items() if _fits(document, defaults, key)}
    if "schema_changes" in fitting and _format(document) != "debezium":
        changes = fitting["schema_changes"]
        kept = {kind: what for kind, what in changes.items() if kind not in _DEBEZIUM_CHANGES}
        fitting["schema_changes"] = kept
    return merge(document, fitting)


def with_rules(document: Document, file: str, rules: Mapping[str, Sequence[Any]]) -> Document:
    """A table's document with the expectations of the lists that it uses behind its own.

    Raises:
        ConfigurationError: it uses a list that is not there.
    """
    used = document.get("use")
    if not isinstance(used, list) or not used:
        return document
    for index, name in enumerate(used):
        if name not in rules:
            meant = nearest(str(name), rules)
            action = f"did you mean {meant}?" if meant else f"write conf/rules/{name}.yml"
            expected = f"one of {', '.join(rules)}" if rules else "the name of a file in conf/rules"
            raise ConfigurationError(file, f"use[{index}]", str(name), expected, action)
    own = document.get("expectations") or []
    return document | {"expectations": [*own, *(rule for name in used for rule in rules[name])]}


def check_rules(document: object, file: str) -> list[Any]:
    """The expectations of a file in `conf/rules`.

    Raises:
        ConfigurationError: the file is no list.
        ManyConfigurationErrors: what is wrong with its expectations.
    """
    if not isinstance(document, list):
        action = "begin each with `- {type: expect_…`"
        raise ConfigurationError(file, "(file)", "no list", "a list of expectations", action)
    unpack(SharedRules, {"expectations": document}, file)
    return document


def _fits(document: Document, defaults: Document, key: str) -> bool:
    """Whether a default can be a key of the table."""
    if key in _KEYED and document.get("keys") == []:
        return False
    history = document.get("stored_as_scd_type", defaults.get("stored_as_scd_type", 1))
    if key.startswith("track_history") and history == 1:
        return False
    formats = _FORMATS.get(key)
    return (not formats or _format(document) in formats) and not any(
        rival in document for rival in _rivals(key)
    )


def _rivals(key: str) -> Iterator[str]:
    for one, other in _RIVALS:
        if key in (one, other):
            yield other if key == one else one


def _format(document: Document) -> str | None:
    sources = document.get("sources")
    first = sources[0] if isinstance(sources, list) and sources else document.get("source")
    return first.get("format") if isinstance(first, dict) else None
