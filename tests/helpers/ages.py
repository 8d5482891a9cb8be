"""A clock for tests: sets a lake's past back by days, as Delta and the lakehouse see it."""

import json
import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

TIMES = {
    "commitInfo": ("timestamp", "inCommitTimestamp"),
    "remove": ("deletionTimestamp",),
    "add": ("modificationTime",),
}
"""The times in a commit's actions, in milliseconds."""


def age(spark: SparkSession, root: str | Path, days: int) -> None:
    """Makes all files below a folder, and all commits of the Delta tables there, older.

    Checkpoints hold times as well: they are removed while the log goes back to version 0.
    """
    back = timedelta(days=days)
    for log in [path for path in Path(root).rglob("_delta_log") if path.is_dir()]:
        commits = sorted(log.glob("[0-9]*.json"))
        if commits and int(commits[0].stem) == 0:
            for file in [*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")]:
                _remove(file)
        for commit in commits:
            _set_back(commit, back)
    for file in Path(root).rglob("*"):
        if file.is_file() and not file.is_symlink():
            seen, seconds = file.stat(), back.total_seconds()
            os.utime(file, (seen.st_atime - seconds, seen.st_mtime - seconds))
    with suppress(AttributeError):  # a Connect server keeps its cache, and lists the logs anew
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _set_back(commit: Path, back: timedelta) -> None:
    seen = commit.stat()
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in lines:
        for kind, names in TIMES.items():
            _set_members_back(action.get(kind) or {}, names, back)
    _remove(commit.with_name(f"{commit.stem}.crc"))
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    commit.write_text("".join(json.dumps(action) + "\n" for action in lines))
    os.utime(commit, (seen.st_atime, seen.st_mtime))


def _set_members_back(action: dict[str, Any], names: tuple[str, ...], back: timedelta) -> None:
    for name in names:
        if action.get(name) is not None:
            action[name] -= int(back.total_seconds() * 1000)


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
