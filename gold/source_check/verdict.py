"""`verify --source`: which differences from a source database are real, and which in flight.

Gold is read first and the source after it, so the source is never the older one. A difference is in
flight when the source's row was written by a transaction that the table had not applied when gold
was read (PostgreSQL names it: `xmin`). A row that only gold has was deleted at the source, by an
unknown transaction. It is real once the table has applied a change from beyond the log position at
which the row was found missing; until then it is in flight. So open differences are compared again
after a pause. No record names the transaction of a subtransaction or of a rewritten table: a
difference that the comparison before had in flight too is real, if nothing was written at the
source since, or if the table or the readers of all slots have passed that state; while landing
files of the table are not read, only if the table has. Other databases do not name transactions:
what still differs then is real. Of a source at rest, all of whose changes are applied, every
difference is real.

The keys are compared in parts. Equal parts are recorded, and an interrupted comparison goes on
after them. A table without a real difference is equal up to the position that the source had when
its comparison began; while something is in flight, up to the last change that was applied.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import ModuleType
from typing import NamedTuple

from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlalchemy import Connection

from gold.source_check.database import connect_to_source, find_table, without_password
from gold.source_check.digests import (
    Difference,
    bucket_parts,
    compare_buckets,
    digest_gold,
    find_differences,
)
from gold.source_check.plan import ComparisonPlan, name_at_source, plan_comparison
from gold.source_check.verified import (
    InFlight,
    Unfinished,
    Verified,
    read_verified,
    show_proof,
    utc_now,
    write_verified,
)
from gold.views import catalog
from lakehouse.config.table import Table
from lakehouse.errors import TableFailed
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake

PAUSE = 5.0
Tell = Callable[[str], None]


class Verdict(NamedTuple):
    """The result of a comparison: rows on both sides, and the differences of both sorts.

    `through` is the position up to which the table is equal, None where it is not. `resumed` counts
    the parts of the keys that an interrupted comparison had found equal.
    """

    source: str
    gold_rows: int
    source_rows: int
    compared: tuple[str, ...]
    left_out: tuple[str, ...]
    real: list[Difference]
    in_flight: list[Difference]
    through: str | None = None
    resumed: int = 0


class Applied(NamedTuple):
    """A change log, and the newest batch of it that a reading of gold can show."""

    log: DataFrame | None
    batch: int


class SourceDatabase(NamedTuple):
    """The database to compare with; the table's name there, where the topics do not name it.

    `at_rest` says that nothing is written there, and that everything is applied; `unread` how many
    landing files of the table no run has read.
    """

    url: str
    named: str | None = None
    at_rest: bool = False
    unread: int = 0


@dataclass(frozen=True)
class SourceComparison:
    """A table of a lake and its database, how the database is read, and what is compared."""

    lake: Lake
    table: Table
    given: SourceDatabase
    reader: ModuleType
    plan: ComparisonPlan

    def digest_plan(self) -> str:
        """A digest of what is compared; another one after a table's rows were replaced."""
        states = ledger.read_states(self.lake)
        replaced = json.loads(states.get(self.table.table, "{}")).get("replaced_at")
        place = without_password(self.given.url)
        return sha256(f"{place} {self.plan} {replaced}".encode()).hexdigest()

    def compare_parts(
        self, rows: DataFrame, kept: Verified, unfinished: Unfinished, tell: Tell
    ) -> "PartsCompared":
        """Compares the parts of the keys that are left; records each that is equal."""
        parts = bucket_parts(self.reader.PARTS)
        left = [number for number in range(len(parts)) if number not in unfinished.parts]
        gold = digest_gold(rows, self.plan, [parts[number] for number in left])
        equal = every = unfinished
        place: int | None = None
        differences: list[Difference] = []
        for number in left:
            tell(f"part {number + 1} of {len(parts)}")
            with connect_to_source(self.given.url, self.table.table) as connection:
                compared = compare_buckets(gold, connection, self.reader, self.plan, parts[number])
                place = self.reader.read_position(connection)
                unequal = list(
                    find_differences(rows, connection, self.reader, self.plan, compared.ids)
                )
            counted = (number, compared.gold, compared.source)
            every, differences = every.with_part(*counted), [*differences, *unequal]
            equal = equal if unequal else equal.with_part(*counted)
            write_verified(self.lake.target, self.table.table, kept.with_unfinished(equal))
        return PartsCompared(every, place, differences)

    def settle(
        self, done: "PartsCompared", before: Applied, earlier: InFlight | None, pause: float
    ) -> "Settled":
        """Separates real differences from those in flight; compares open ones again.

        `earlier` is what the comparison before left in flight.
        """
        place, look = done.place, None
        real, open_ = judge_differences(done.differences, before, self.given.at_rest, place)
        if open_:
            time.sleep(pause)
            before = read_applied(self.lake, self.table)
            rows = read_published(self.lake, self.table)
            with connect_to_source(self.given.url, self.table.table) as connection:
                ids = sorted({each.id for each in open_})
                again = list(find_differences(rows, connection, self.reader, self.plan, ids))
                newly, open_ = judge_differences(again, before, self.given.at_rest, place)
                if place is not None and open_:
                    look = self.look_at(open_, before, connection, earlier)
            real = [*real, *newly]
        if place is None:
            return Settled([*real, *open_], [], before)
        if look is not None:
            marked = list(zip(open_, look.rows, strict=True))
            real += [row for row, digest in marked if digest in look.lasting]
            open_ = [row for row, digest in marked if digest not in look.lasting]
        return Settled(real, open_, before, look)

    def look_at(
        self,
        open_: Sequence[Difference],
        before: Applied,
        connection: Connection,
        earlier: InFlight | None,
    ) -> InFlight:
        """What is in flight, and which of it has lasted since the look before."""
        newest, captured = self.reader.read_progress(connection)
        reached = 0 if before.log is None else _read_log_knowledge(before.log, []).reached
        what = self.digest_plan()
        rows = tuple(sha256(f"{what} {row}".encode()).hexdigest() for row in open_)
        look = InFlight(self.reader.read_position(connection), newest, rows)
        behind = self.given.unread > 0
        return look.after(earlier, reached if behind else max(captured, reached), behind)

    def find_equal_position(self, unfinished: Unfinished, settled: "Settled") -> str:
        """The position up to which a table without a real difference is equal, as text."""
        place = unfinished.place
        if place is not None and settled.in_flight and settled.before.log is not None:
            place = min(place, _read_log_knowledge(settled.before.log, []).reached)
        return self.reader.position_text(place) if place else f"batch {unfinished.batch}"


class PartsCompared(NamedTuple):
    """All parts of a comparison, and what differs in them.

    `place` is where the source's log was after the last one was read.
    """

    all: Unfinished
    place: int | None
    differences: list[Difference]


class Settled(NamedTuple):
    """Differences that are real, those in flight, and what was applied when they were read."""

    real: list[Difference]
    in_flight: list[Difference]
    before: Applied
    look: InFlight | None = None


def compare_with_source(
    lake: Lake,
    table: Table,
    given: SourceDatabase,
    pause: float = PAUSE,
    tell: Tell = lambda _: None,
) -> Verdict:
    """Compares gold's rows of a table with its source database, and keeps the result.

    Open differences are compared again after `pause` seconds. `tell` is called with the part of the
    keys that is compared next.
    """
    before = read_applied(lake, table)
    rows = read_published(lake, table)
    with connect_to_source(given.url, table.table) as connection:
        source = find_table(connection, table, given.named)
        _check_keys(table, source.types)
        place = source.reader.read_position(connection)
    plan = plan_comparison(table, source.name, source.types, rows.columns)
    work = SourceComparison(lake, table, given, source.reader, plan)
    kept = read_verified(lake.target, table.table)
    unfinished = kept.resume(Unfinished(work.digest_plan(), before.batch, place))
    done = work.compare_parts(rows, kept, unfinished, tell)
    settled = work.settle(done, before, kept.look, pause)
    through = None if settled.real else work.find_equal_position(unfinished, settled)
    ended = Verified(through, utc_now(), plan.source) if through else kept.with_unfinished(None)
    write_verified(lake.target, table.table, replace(ended, look=settled.look))
    show_proof(lake.target, table.table)
    return Verdict(
        plan.source,
        done.all.gold,
        done.all.source,
        tuple(column.name for column in plan.columns),
        plan.left_out,
        settled.real,
        settled.in_flight,
        through,
        len(unfinished.parts),
    )


def _check_keys(table: Table, types: Mapping[str, str]) -> None:
    """Raises TableFailed where the keys of gold and of the source cannot be matched."""
    for key in table.keys:
        if name_at_source(table, key, types) not in types:
            raise TableFailed(table.table, f"its key {key} is no column of the source's table")
        if table.is_sensitive(key):
            raise TableFailed(table.table, f"gold does not show its key {key}, which is sensitive")


def read_published(lake: Lake, table: Table) -> DataFrame:
    """Gold's rows of a table as of now.

    Raises:
        TableFailed: gold does not show it.
    """
    rows = catalog.read_view(lake, table.table)
    if rows is None:
        raise TableFailed(table.table, "gold does not show it yet; `lakehouse run` publishes it")
    return rows


def read_applied(lake: Lake, table: Table) -> Applied:
    """The change log that gold shows now."""
    runs = ledger.read_entries(lake).where("layer = 'silver' AND status = 'ok'")
    newest = runs.where(F.col("table") == table.table).agg(F.max("batch")).collect()[0][0]
    log = f"{table.table}_changes"
    exists = lake.exists("silver", log)
    rows = lake.spark.table(lake.name("silver", log)) if exists else None
    return Applied(rows, int(newest or 0))


def judge_differences(
    differences: Sequence[Difference], before: Applied, at_rest: bool, place: int | None
) -> tuple[list[Difference], list[Difference]]:
    """Differences that are real, and those that are still open."""
    if at_rest or not differences or before.log is None:
        return list(differences), []
    if place is None:
        return [], list(differences)
    writers = sorted({each.written_by for each in differences if each.written_by is not None})
    log = _read_log_knowledge(before.log.where(F.col("_batch") <= before.batch), writers)
    return split_by_log(differences, log, place)


def split_by_log(
    differences: Sequence[Difference], log: "LogKnowledge", place: int
) -> tuple[list[Difference], list[Difference]]:
    """Real differences, and those in flight, by the change log; `place` is the end of the WAL."""
    if log.reached >= place:
        return list(differences), []
    real = [d for d in differences if d.written_by is not None and log.has_changes_of(d.written_by)]
    return real, [each for each in differences if each not in real]


class LogKnowledge(NamedTuple):
    """What a change log knows of its source: how far it reached, and whose changes it holds."""

    reached: int
    writers: frozenset[str]
    snapshot: int

    def has_changes_of(self, writer: str) -> bool:
        """Whether a transaction's changes are in there, itself or in a snapshot taken later."""
        return writer in self.writers or int(writer) < self.snapshot


def _read_log_knowledge(log: DataFrame, writers: Sequence[str]) -> LogKnowledge:
    number = F.col("_transaction").try_cast("bigint")
    row = log.agg(
        F.max(F.substring("_sequence", 1, 16)).alias("reached"),
        F.max(F.when(F.col("_snapshot").isNotNull(), number)).alias("snapshot"),
        F.collect_set(
            F.when(F.col("_transaction").isin(list(writers)), F.col("_transaction"))
        ).alias("writers"),
    ).collect()[0]
    return LogKnowledge(
        int(row["reached"] or "0", 16), frozenset(row["writers"]), row["snapshot"] or 0
    )
