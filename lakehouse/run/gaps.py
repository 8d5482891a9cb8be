"""Records that are gone at the source: a Delta table, silver's `_gaps`, one row per gap.

A gap is open until the missing records have turned up after all, or a full snapshot that began
after it was found has been taken in. Positions that run backwards are a gap too: changes of another
server, which nothing proves, may rank below older ones.
"""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from lakehouse.config.table import Strict, Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.storage import writing
from lakehouse.storage.names import literal, name
from lakehouse.words import read_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TABLE = "_gaps"

COLUMNS = read_columns("""
table | string | the table that lacks the records
feed | string | the bronze table that should have them
topic | string | the topic, where there is one
partition | int | the partition, where there is one
kind | string | offsets: aged out at the source; transaction: some of its changes; positions: run
    backwards; versions: of a Delta table, whose rows were read anew instead
transaction | string | the transaction that lacks changes, or positions before and after
from | bigint | first missing offset, or place among the table's changes of a transaction; where
    positions run backwards the first offset there, or ingest batch
to | bigint | last one; where positions run backwards the first that contradicts
found_at | timestamp | when it was noticed
run_id | string | the run that noticed it
message | string | for a person: what is missing and what to do
resolved_at | timestamp | when the records turned up, or a new snapshot made them needless
""")
_GAPS = writing.DeclaredTable("silver", TABLE, "records that are gone at the source", COLUMNS)
IDENTITY = ("table", "feed", "topic", "partition", "kind", "transaction", "from")
WAY_OUT = "take a new snapshot (`lakehouse rebootstrap {}`), or set on_data_loss: continue"
READ_ANEW = "all rows were read anew, only versions in between are lost: run again"


class Gap(Strict):
    """Missing records of a table: `first` and `last` are the columns `from` and `to`."""

    table: str
    feed: str
    topic: str | None = None
    partition: int | None = None
    kind: Literal["offsets", "transaction", "positions", "versions"] = "offsets"
    transaction: str | None = None
    first: int
    last: int

    @property
    def way_out(self) -> str:
        """What to do about the gap."""
        return READ_ANEW if self.kind == "versions" else WAY_OUT.format(self.table)

    def __str__(self) -> str:
        """What is missing, in a line."""
        place = self.topic or self.feed
        place += "" if self.partition is None else f"/{self.partition}"
        if self.kind == "positions":
            unit = "ingest batch" if self.partition is None else "offset"
            where = f"from {unit} {self.first} of {place} on"
            return f"positions run backwards {where}: {self.transaction}"
        if self.kind == "transaction":
            missing = f"changes {self.first} to {self.last} of transaction {self.transaction}"
        else:
            missing = f"{self.kind} {self.first} to {self.last}"
        return f"{missing} of {place} are gone at the source"


def record(spark: "SparkSession", target: Target, found: Sequence[Gap], run_id: str) -> None:
    """Keep the gaps that are not known yet; none at all writes nothing."""
    if not found:
        return
    _GAPS.ensure(spark, target)
    now = datetime.now(timezone.utc)
    rows = [_row(gap, run_id, now) for gap in found]
    same = " AND ".join(f"t.`{column}` <=> s.`{column}`" for column in IDENTITY)
    with writing.alone(target, "silver", TABLE):
        spark.sql(
            f"MERGE INTO {name(target, 'silver', TABLE)} t USING {{found}} s ON {same} "
            "WHEN NOT MATCHED THEN INSERT *",
            found=_GAPS.rows(spark, rows),
        )


def still_open(spark: "SparkSession", target: Target) -> list[Gap]:
    """The gaps that nothing has closed yet, in the order in which they were found."""
    if not _GAPS.exists(spark, target):
        return []
    left = _GAPS.read(spark, target).where("resolved_at IS NULL")
    rows = left.orderBy("found_at", "from").collect()
    columns = ("table", "feed", "topic", "partition", "kind", "transaction")
    return [
        Gap(first=row["from"], last=row["to"], **{column: row[column] for column in columns})
        for row in rows
    ]


def close(spark: "SparkSession", target: Target, condition: str) -> None:
    """Note of the open gaps of a condition that they are gaps no more."""
    with writing.alone(target, "silver", TABLE):
        spark.sql(
            f"UPDATE {name(target, 'silver', TABLE)} SET resolved_at = current_timestamp() "
            f"WHERE resolved_at IS NULL AND ({condition})"
        )


def is_one(gap: Gap) -> str:
    """SQL condition that holds for this gap alone."""
    values = _identity(gap)
    return " AND ".join(f"`{column}` <=> {_literal(values[column])}" for column in IDENTITY)


def with_loss(entry: Entry, left: Sequence[Gap]) -> Entry:
    """The entry of a table, failed where it has one of the open gaps."""
    gaps = [gap for gap in left if gap.table == entry.table]
    if not gaps:
        return entry
    more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
    lost = f"{gaps[0]}{more}; {gaps[0].way_out}"
    message = f"{entry.message}; {lost}" if entry.message else lost
    return entry.model_copy(update={"status": "failed", "message": message})


def strict(tables: Sequence[Table]) -> set[str]:
    """The tables that fail while they have an open gap."""
    return {t.table for t in tables if any(s.on_data_loss == "fail" for s in t.feeds)}


def _identity(gap: Gap) -> dict[str, object]:
    """The columns of a gap that tell what is missing."""
    return gap.model_dump(exclude={"first", "last"}) | {"from": gap.first, "to": gap.last}


def _literal(value: object) -> str:
    return literal(value) if isinstance(value, str) else "NULL" if value is None else str(value)


def _row(gap: Gap, run_id: str, now: datetime) -> dict[str, object]:
    told = {"found_at": now, "run_id": run_id, "message": f"{gap}; {gap.way_out}"}
    return _identity(gap) | told
