"""Records that are lost at the source: a Delta table, silver's `_gaps`, one row per gap.

A gap is open until the missing records arrive after all, or a full snapshot that began after the
gap was found is applied. Positions that run backwards are a gap too: they may be those of another
server, whose changes may be ordered before older ones.
"""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Literal

from lakehouse.config.strict import Strict
from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.storage import writing
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal
from lakehouse.words import parse_columns

TABLE = "_gaps"

COLUMNS = parse_columns("""
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
REMEDY = (
    "take a new snapshot (`lakehouse rebootstrap {} --source URL`), or accept the loss by "
    "source.on_data_loss: continue"
)
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
    def remedy(self) -> str:
        """What to do about the gap, in a line."""
        return READ_ANEW if self.kind == "versions" else REMEDY.format(self.table)

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


def add_gaps(lake: Lake, gaps: Sequence[Gap], run_id: str) -> None:
    """Adds the gaps that are not recorded yet; writes nothing without gaps."""
    if not gaps:
        return
    _GAPS.ensure(lake)
    now = datetime.now(timezone.utc)
    rows = [_build_row(gap, run_id, now) for gap in gaps]
    same = " AND ".join(f"t.`{column}` <=> s.`{column}`" for column in IDENTITY)
    with writing.hold_table_lock(lake.target, "silver", TABLE):
        lake.spark.sql(
            f"MERGE INTO {lake.name('silver', TABLE)} t USING {{rows}} s ON {same} "
            "WHEN NOT MATCHED THEN INSERT *",
            rows=_GAPS.rows(lake.spark, rows),
        )


def open_gaps(lake: Lake) -> list[Gap]:
    """The open gaps, in the order in which they were found."""
    if not _GAPS.exists(lake):
        return []
    left = _GAPS.read(lake).where("resolved_at IS NULL")
    rows = left.orderBy("found_at", "from").collect()
    columns = ("table", "feed", "topic", "partition", "kind", "transaction")
    return [
        Gap(first=row["from"], last=row["to"], **{column: row[column] for column in columns})
        for row in rows
    ]


def close_gaps(lake: Lake, condition: str) -> None:
    """Closes the open gaps that meet a condition."""
    with writing.hold_table_lock(lake.target, "silver", TABLE):
        lake.spark.sql(
            f"UPDATE {lake.name('silver', TABLE)} SET resolved_at = current_timestamp() "
            f"WHERE resolved_at IS NULL AND ({condition})"
        )


def gap_sql(gap: Gap) -> str:
    """The SQL condition that identifies a gap."""
    values = _identify_gap(gap)
    return " AND ".join(f"`{column}` <=> {_to_literal(values[column])}" for column in IDENTITY)


def with_loss(entry: Entry, left: Sequence[Gap]) -> Entry:
    """The entry of a table, failed if the table has one of the open gaps."""
    gaps = [gap for gap in left if gap.table == entry.table]
    if not gaps:
        return entry
    more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
    lost = f"{gaps[0]}{more}; what came is applied; {gaps[0].remedy}"
    message = f"{entry.message}; {lost}" if entry.message else lost
    return entry.model_copy(update={"status": "failed", "message": message})


def list_strict(tables: Sequence[Table]) -> set[str]:
    """The tables whose runs fail while they have an open gap."""
    return {t.table for t in tables if any(s.on_data_loss == "fail" for s in t.feeds)}


def _identify_gap(gap: Gap) -> dict[str, object]:
    """The columns that identify a gap."""
    return gap.model_dump(exclude={"first", "last"}) | {"from": gap.first, "to": gap.last}


def _to_literal(value: object) -> str:
    return literal(value) if isinstance(value, str) else "NULL" if value is None else str(value)


def _build_row(gap: Gap, run_id: str, now: datetime) -> dict[str, object]:
    details = {"found_at": now, "run_id": run_id, "message": f"{gap}; {gap.remedy}"}
    return _identify_gap(gap) | details
