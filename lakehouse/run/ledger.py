"""What every run did to every table: an append-only Delta table, silver's `_runs`."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakehouse.config.strict import Strict
from lakehouse.config.target import Layer, Target
from lakehouse.errors import ConfigurationError
from lakehouse.places.place import Place, list_folder, to_place
from lakehouse.run.memory import Memory
from lakehouse.spark.failures import FailureText
from lakehouse.storage.delta_log import read_added, read_table_log, read_values
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, render_properties
from lakehouse.storage.writing import DeclaredTable
from lakehouse.words import parse_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE, STATE = "_runs", "state"
PROJECT = "lakehouse.project"
"""The property of the ledger that names the project of the lake."""

COLUMNS = parse_columns("""
run_id | string | one run of the command, over all its tables and layers
layer | string | bronze, silver or gold
table | string | the table
batch | bigint | newest batch that the layer has done; silver counts its own from 1
positions | map<string,bigint> | newest ingest batch of each bronze table that was applied, or
    (bronze) looked through
started_at | timestamp | when work on the table began
ended_at | timestamp | when it ended
status | string | ok or failed; begun: the run noted something of the table first
counts | map<string,bigint> | what became of the records, by name
message | string | for a person: why it failed, else null
duration_ms | bigint | how long it took, in milliseconds
state | string | all that the lakehouse knows of the table after the run, as JSON; the newest counts
""")
_LEDGER = DeclaredTable("silver", TABLE, "what every run did to every table", COLUMNS)


_INFO = '"commitInfo"'
_FIELDS = tuple(name for name, _, _ in COLUMNS)


class Entry(Strict):
    """One table in one layer of one run. Times have a zone.

    `conflict` is true if Delta transactions collided, so that a retry may succeed; not stored.
    """

    run_id: str
    layer: Layer
    table: str
    batch: int | None = None
    positions: dict[str, int] = Field(default_factory=dict)
    started_at: datetime
    ended_at: datetime
    status: Literal["begun", "ok", "failed"] = "ok"
    counts: dict[str, int] = Field(default_factory=dict)
    message: str | None = None
    duration_ms: int = 0
    state: str | None = None
    conflict: bool = Field(default=False, exclude=True)

    def with_counts(
        self,
        counts: Mapping[str, int],
        batch: int | None = None,
        positions: Mapping[str, int] | None = None,
    ) -> "Entry":
        """The entry with counts, batch and positions."""
        done = {"counts": dict(counts), "batch": batch, "positions": dict(positions or {})}
        return self.model_copy(update=done)


def make_entry(
    run_id: str,
    layer: Layer,
    table: str,
    started: datetime,
    message: str | None = None,
    ended: datetime | None = None,
) -> Entry:
    """The entry of work that ended at `ended`, default now; failed if it has a `message`."""
    ended = ended or datetime.now(timezone.utc)
    return Entry(
        run_id=run_id,
        layer=layer,
        table=table,
        started_at=started,
        ended_at=ended,
        status="ok" if message is None else "failed",
        message=message,
        duration_ms=int((ended - started).total_seconds() * 1000),
        conflict=isinstance(message, FailureText) and message.is_conflict,
    )


def append_entries(lake: Lake, entries: Sequence[Entry]) -> None:
    """Writes the entries in one commit; nothing without entries."""
    _of_project(lake.target).append(lake, [entry.model_dump() for entry in entries])


def check_project(target: Target, lake: Lake | None = None) -> None:
    """Checks that the lake is the target's project's own; with a `lake` also marks it.

    Raises:
        ConfigurationError: the lake is marked as another project's.
    """
    if lake is None:
        log = read_table_log(target, "silver", TABLE) if target.project else None
        marks = log.properties if log is not None else {}
    else:
        _of_project(target).ensure(lake)
        ledger = lake.name("silver", TABLE)
        marks = {row["key"]: row["value"] for row in lake.ask(f"SHOW TBLPROPERTIES {ledger}")}
        if target.project and PROJECT not in marks:
            marks = {PROJECT: target.project}
            lake.spark.sql(f"ALTER TABLE {ledger} SET TBLPROPERTIES {render_properties(marks)}")
    owner = marks.get(PROJECT, target.project)
    if owner != target.project:
        where = f"catalog {target.catalog}" if target.catalog else target.lake
        expected = f"{owner}, whose tables are in {where}"
        action = f"name another place; if the project was renamed, write project: {owner}"
        problem = target.project or "no name"
        raise ConfigurationError(f"target {target.name}", "project", problem, expected, action)


def _of_project(target: Target) -> DeclaredTable:
    marks = {PROJECT: target.project} if target.project else {}
    return _LEDGER._replace(properties=marks)


def append_with_waiting(lake: Lake, entries: Sequence[Entry], memory: Memory) -> None:
    """Writes the deferred and these entries in one commit; if it fails, the former stay queued."""
    waited = memory.pop_deferred()
    try:
        append_entries(lake, [*waited, *entries])
    except BaseException:
        memory.waiting.extendleft(reversed(waited))
        raise


def read_entries(lake: Lake) -> "DataFrame":
    """All entries, unsorted; empty before the first run."""
    return _LEDGER.read(lake)


def read_states(lake: Lake) -> dict[str, str]:
    """The newest state of every table, by table."""
    from pyspark.sql import functions as F

    kept = read_entries(lake).where(f"layer = 'silver' AND {STATE} IS NOT NULL")
    newest = kept.groupBy("table").agg(F.max_by(STATE, "ended_at").alias(STATE))
    return {row["table"]: row[STATE] for row in newest.collect()}


def read_local_states(target: Target) -> dict[str, str] | None:
    """The newest state of every table, read without Spark; None if that is not possible."""
    log = read_table_log(target, "silver", TABLE)
    rows = read_values(log, ["ended_at", "layer", "table", STATE]) if log else None
    if rows is None:
        return None
    states = [row for row in rows if row[1] == "silver" and row[3] is not None]
    return {table: state for _, _, table, state in sorted(states, key=lambda row: row[0])}


def find_newest_commit(target: Target) -> int:
    """The number of the ledger's newest commit in a lake without a catalog; -1 before one."""
    log = _locate_ledger(target) / "_delta_log"
    names = [file.name.removesuffix(".json") for file in list_folder(log)]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def identify_commit(target: Target, number: int) -> str | None:
    """Delta's id of a commit of the ledger, which no other ledger has; None if it is not there."""
    try:
        lines = (_locate_ledger(target) / "_delta_log" / f"{number:020}.json").read_text()
    except OSError:
        return None
    infos = [json.loads(line)["commitInfo"] for line in lines.splitlines() if _INFO in line[:20]]
    return str(infos[0].get("txnId", "")) if infos else ""


def read_added_entries(target: Target, after: int) -> tuple[int, list[Entry]] | None:
    """The newest commit, and the entries since a commit; None where these cannot be told."""
    added = read_added(_locate_ledger(target), after, _FIELDS)
    return None if added is None else (added[0], [_parse_entry(row) for row in added[1]])


def read_all_entries(target: Target) -> tuple[int, list[Entry]]:
    """The newest commit, and all entries of a lake without a catalog.

    Raises:
        OSError: the ledger cannot be read.
    """
    log = read_table_log(target, "silver", TABLE)
    if log is None:
        return find_newest_commit(target), []
    rows = read_values(log, _FIELDS, len(log.files))
    if rows is None:
        raise OSError("the ledger cannot be read")
    return log.version, [_parse_entry(row) for row in rows]


def ask_entries(lake: Lake, since: datetime | None) -> list[Entry]:
    """The entries of work that ended since then, or all of them, asked of Spark."""
    from pyspark.sql import functions as F

    rows = read_entries(lake).select(*_FIELDS)
    chosen = rows if since is None else rows.where(F.col("ended_at") >= F.lit(since))
    return [_parse_entry(row) for row in chosen.collect()]


def _parse_entry(row: Sequence[Any]) -> Entry:
    """An entry by its values; Spark's times come without a zone and are UTC."""
    given = dict(zip(_FIELDS, row, strict=True))
    given |= {name: dict(given[name] or {}) for name in ("positions", "counts")}
    for name in ("started_at", "ended_at"):
        given[name] = (
            given[name] if given[name].tzinfo else given[name].replace(tzinfo=timezone.utc)
        )
    return Entry.model_validate(given)


def _locate_ledger(target: Target) -> Place:
    return to_place(target, target.lake, "silver", TABLE)


def newest_state_sql(ledger: str, table: str) -> str:
    """SELECT of the newest state of a table, one row with the column `state`."""
    return (
        f"SELECT max_by({STATE}, ended_at) AS {STATE} FROM {ledger}"
        f" WHERE layer = 'silver' AND `table` = {literal(table)} AND {STATE} IS NOT NULL"
    )


def find_failing(lake: Lake) -> set[tuple[str, str]]:
    """The layers and tables whose newest entry is a failure."""
    from pyspark.sql import functions as F

    newest = read_entries(lake).groupBy("layer", "table")
    rows = newest.agg(F.max_by("status", "ended_at").alias("status")).where("status = 'failed'")
    return {(row["layer"], row["table"]) for row in rows.collect()}
