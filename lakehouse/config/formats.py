"""The formats of sources by their names in YAML, and the shape of their records."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Format: TypeAlias = Literal["debezium", "ydb", "bigquery", "rows", "snapshot"]

CHANGE_MEMBERS = ("op", "update", "erase", "__op", "__deleted")
"""An object with one of these members is a change itself, not a whole record around one."""

ORIGIN = ("topic", "partition", "offset")
WHOLE_MEMBERS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ORIGIN},
    "timestamp": ("timestamp", "ts"),
    "key": ("key",),
    "headers": ("headers",),
    "value": ("value", "payload"),
}
"""The members of whole records, each with its alternative names.

kcat writes `ts` and `payload`; `rpk`, sinks and most other programs the first names.
"""


def is_whole(record: Mapping[str, object]) -> bool:
    """Whether an object is a whole record: it has a value, or an offset and a topic or key.

    `payload` is the value only with topic, partition and offset: other objects with it are wrapped
    values. `bronze.files.batches` has the same condition in SQL.
    """
    if any(record.get(name) is not None for name in CHANGE_MEMBERS):
        return False
    topic, partition, offset = (record.get(name) for name in ORIGIN)
    if topic is not None and partition is not None and offset is not None:
        return True
    if record.get("payload") is not None:
        return False
    beside = topic is not None or record.get("key") is not None
    return "value" in record or (offset is not None and beside)


def value_of(record: Mapping[str, object]) -> object:
    """The value of a whole record; None without one."""
    return next((record[name] for name in WHOLE_MEMBERS["value"] if name in record), None)


CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIME = "_change_type", "_commit_version", "_commit_timestamp"
"""The columns that Delta's change feed adds: kind, version and time of the change."""

GOING, COMING = ("delete", "update_preimage"), ("insert", "update_postimage")
"""Kinds of changes in Delta's change feed: of rows that a commit takes away, and that it brings."""

FEED_ORDER = [COMMIT_VERSION, f"CASE WHEN {CHANGE_TYPE} IN {COMING} THEN 1 ELSE 0 END"]
"""SQL of the order of Delta's changes: by commit, and in a commit what goes before what comes."""
