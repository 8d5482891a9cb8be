"""Where a feed's stream remembers what it has read, and what happens when that memory is lost.

The table's properties name its checkpoint. When that folder is gone, or the table is new, the
stream begins again in a new one, and `known` says up to which batch the records are in bronze
already, so that what the stream shows again can be recognised.
"""

import uuid
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from bronze.feeds import Feed
from bronze.storage import properties, set_properties
from lakehouse.config.target import Target

CHECKPOINT, KNOWN = "lakehouse.checkpoint", "lakehouse.known"


class Checkpoint(NamedTuple):
    """A stream's checkpoint: its id, its folder, and the batches that are older than it."""

    id: str
    folder: str
    known: int


def checkpoint(spark: SparkSession, target: Target, feed: Feed, newest: int) -> Checkpoint:
    """The feed's checkpoint; a new one when the table has none or its folder is gone.

    `newest` is the newest batch that the feed's table holds.
    A run that dies before its stream has begun leaves no folder, so the next one starts anew.
    """
    noted = properties(spark, target, feed)
    found = _named(target, feed, noted.get(CHECKPOINT, ""), int(noted.get(KNOWN, "0")))
    if found.id and _has_begun(spark, found):
        _remove_half_written(found)
        return found
    begun = _named(target, feed, uuid.uuid4().hex, newest)
    set_properties(spark, target, feed, {CHECKPOINT: begun.id, KNOWN: str(begun.known)})
    return begun


def _remove_half_written(found: Checkpoint) -> None:
    """Remove what a killed run was writing of offsets: Spark begins no first batch beside it.

    The rest is kept, such as where a topic begins that is read from its end.
    """
    if "://" not in found.folder:
        for file in Path(found.folder, "offsets").glob(".*.tmp"):
            file.unlink(missing_ok=True)


def kept(remembered: tuple[str, str, int] | None) -> Checkpoint | None:
    """The checkpoint that a run remembers, while its folder is seen here."""
    if remembered is None or not Path(remembered[1], "metadata").is_file():
        return None
    return Checkpoint(*remembered)


def caught_up(spark: SparkSession, target: Target, feed: Feed, reached: Checkpoint) -> Checkpoint:
    """Note that a run ended well: the stream has shown all it had to show again."""
    if reached.known:
        set_properties(spark, target, feed, {KNOWN: "0"})
    return reached._replace(known=0)


def may_show_again(place: Checkpoint) -> bool:
    """Whether the stream may begin with a batch that it has shown before.

    Spark notes a batch's offsets before it shows it, and its end afterwards. Of a checkpoint that
    is no folder of this machine nobody knows.
    """
    folder = Path(place.folder)
    return "://" in place.folder or _newest(folder / "offsets") != _newest(folder / "commits")


def _newest(log: Path) -> int:
    files = log.iterdir() if log.is_dir() else ()
    return max((int(file.name) for file in files if file.name.isdigit()), default=-1)


def _named(target: Target, feed: Feed, identity: str, known: int) -> Checkpoint:
    return Checkpoint(identity, f"{target.checkpoints}/bronze/{feed.name}/{identity}", known)


def _has_begun(spark: SparkSession, found: Checkpoint) -> bool:
    """Spark writes the stream's `metadata` first of all; asked of Spark, which sees the folder."""
    try:
        return bool(spark.read.text(f"{found.folder}/metadata").schema.fields)
    except AnalysisException:
        return False
