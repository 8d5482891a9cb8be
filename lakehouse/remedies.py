"""Troubleshooting: what to do about a failure whose cause is outside of the lakehouse."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from lakehouse.config.target import Target
from lakehouse.errors import LakeNotWritable, SparkUnavailable
from lakehouse.places.place import to_place
from lakehouse.places.settings import is_object_url

LEAST_FREE = 128 << 20

NO_BROKER_ANSWERS = "no Kafka broker can be reached"
NO_BROKER = (
    NO_BROKER_ANSWERS,
    "KafkaException",
    "Timed out waiting for a node",
    "UnknownTopicOrPartition",
)

# Parts of a message, and the remedy; the first match counts.
REMEDIES: Sequence[tuple[tuple[str, ...], str]] = (
    (
        ("No space left on device", "Disk quota exceeded"),
        "the disk is full: free some space and run again; nothing is lost and nothing is doubled",
    ),
    (
        ("the file lies in no folder YYYY-MM-DD",),
        "put it into the folder of its day, such as 2026-11-01, below the table's; nothing is lost",
    ),
    (
        ("The other files are in; replace or remove these",),
        "mend these files or give this user the right to read them; nothing is lost",
    ),
    (
        ("Read-only file system", "Permission denied", "PermissionError"),
        "the lake cannot be written: make it writable and run again; nothing is lost",
    ),
    (
        ("/_checkpoints/", "damaged note"),
        "a note of what was read is damaged: remove the feed's folder below checkpoints and run "
        "again; what bronze holds is recognised and not taken twice",
    ),
    (
        ("is not a Parquet file", "FAILED_READ_FILE", "CANNOT_READ_FILE", "ChecksumException"),
        "a file of the lake is damaged or gone: put it back from a copy and run again; a silver "
        "table can be made anew from bronze with `lakehouse rebuild TABLE`, a bronze table from "
        "its source when its folder is removed, and then `lakehouse rebuild TABLE`",
    ),
    (
        ("BEYOND_DELETED_FILE_RETENTION_DURATION",),
        "Delta reads a replaced version for 7 days: ask a later time, or gold.T_as_of of a table "
        "with `stored_as_scd_type: 2`, which keeps its past in rows",
    ),
    (
        ("DELTA_TRUNCATED_TRANSACTION_LOG", "DELTA_LOG_FILE_NOT_FOUND", "DELTA_STATE_RECOVER"),
        "the table's Delta log is damaged: put it back from a copy, or remove the table's folder "
        "and make it anew with `lakehouse rebuild TABLE`",
    ),
    (
        (
            "OutOfMemoryError",
            "Java heap space",
            "GC overhead limit exceeded",
            "Could not allocate memory",
            "UNABLE_TO_ACQUIRE_MEMORY",
        ),
        "Java ran out of memory: give the target more driver_memory and run again; nothing is lost",
    ),
    (NO_BROKER, "the broker cannot be reached or lacks the topic: run again when it is there"),
)


def with_remedy(message: str | None) -> str:
    """The message, with its remedy if one is known."""
    text = message or "no reason given"
    action = find_remedy(text)
    return f"{text}\n    do: {action}" if action else text


def is_unreachable(message: str | None) -> bool:
    """Whether a failure's message means that the source did not answer."""
    return any(sign in (message or "") for sign in NO_BROKER)


def find_remedy(message: str) -> str | None:
    """The remedy for a failure with this message; None if none is known."""
    return next((out for signs, out in REMEDIES if any(sign in message for sign in signs)), None)


def install_extra(extra: str) -> str:
    """The command that installs an extra, from the wheel of this installation if there is one."""
    wheel = ""
    with suppress(PackageNotFoundError, ValueError, KeyError):
        origin = json.loads(distribution("cdc-lakehouse").read_text("direct_url.json") or "{}")
        wheel = f" @ {origin['url']}" if origin["url"].endswith(".whl") else ""
    return f"pip install 'cdc-lakehouse[{extra}]{wheel}'"


def java_ended() -> SparkUnavailable:
    """The error for a local Spark whose Java has ended during the work."""
    problem = "its Java has ended; the last of lake/_logs/spark.log below the lake's root says why"
    action = (
        "where it ran out of memory, give the target more driver_memory; run again, nothing is lost"
    )
    return SparkUnavailable(problem, action)


def session_ended(target: Target) -> SparkUnavailable:
    """The error for a session that has ended during the work."""
    if target.kind in ("local", "cluster"):
        return java_ended()
    problem = "the server let go of its session; it may have been started anew"
    return SparkUnavailable(problem, "run again, nothing is lost")


def check_writable(target: Target) -> None:
    """Checks that a lake without a catalog can be written, before Spark starts.

    Raises:
        LakeNotWritable: it cannot, or its disk is full.
    """
    if target.catalog:
        return
    if is_object_url(target.lake):
        _check_store(target)
        return
    lake = Path(target.lake)
    try:
        lake.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=lake) as probe:
            probe.write(b"x")
    except OSError as refused:
        reason = refused.strerror or str(refused)
        action = find_remedy(reason) or "mend that and run again"
        raise LakeNotWritable(str(lake), reason, action) from refused
    if shutil.disk_usage(lake).free < LEAST_FREE:
        raise LakeNotWritable(
            str(lake),
            "less than 128 MiB free",
            "free some space and run again; nothing is lost",
        )


def _check_store(target: Target) -> None:
    """The same for a lake in an object store, by writing a small file."""
    try:
        to_place(target, target.lake, "_probe").write_bytes(b"x")
    except OSError as refused:
        action = "correct root, and endpoint, region and keys in `settings` or the environment"
        raise LakeNotWritable(target.lake, str(refused), action) from refused
