"""OpenLineage events of runs: which tables were made of which feeds, and with what result.

The client is `openlineage-python`, an extra, configured by its own variables and files, such as
OPENLINEAGE_URL or `openlineage.yml`; without any no events are sent.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from lakehouse.config.source import Source
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.remedies import install_extra
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import TABLE_FAILURES
from lakehouse.storage import names

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

PRODUCER = "https://github.com/cdc-lakehouse/cdc-lakehouse"
FILE = "openlineage.yml"
MISSING = f"OpenLineage is configured, but not installed: {install_extra('openlineage')}"
Dataset = tuple[str, str]
End = Literal["COMPLETE", "FAIL", "ABORT"]


def is_configured() -> bool:
    """Whether the client's variables or files say where events go."""
    files = [Path(FILE), Path.home() / ".openlineage" / FILE]
    return any(name.startswith("OPENLINEAGE_") for name in os.environ) or any(
        file.is_file() for file in files
    )


class Lineage:
    """The events of one command; `problems` are lines about events that could not be sent."""

    def __init__(self, target: Target, tables: Sequence[Table]) -> None:
        self._target = target
        self._tables = {table.table: table for table in tables}
        self._begun: dict[str, str] = {}
        self.problems: list[str] = []
        self._client = self._make_client() if is_configured() else None

    def add(self, tables: Sequence[Table]) -> None:
        """Adds tables that were found meanwhile."""
        self._tables |= {table.table: table for table in tables}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Begins a run of each table; those without a result at the end are aborted."""
        now = datetime.now(timezone.utc)
        for table in self._tables if self._client else ():
            self._begin(table, now)
        try:
            yield
        finally:
            for table in list(self._begun):
                self._end(table, "ABORT", datetime.now(timezone.utc), None)

    def report(self, entries: Sequence[Entry]) -> None:
        """Ends the run of each table in these entries; begins one first where there is none."""
        if self._client is None:
            return
        for table in dict.fromkeys(entry.table for entry in entries if entry.table in self._tables):
            of_table = [entry for entry in entries if entry.table == table]
            if table not in self._begun:
                self._begin(table, min(entry.started_at for entry in of_table))
            failures = [entry for entry in of_table if entry.status == "failed"]
            message = "; ".join(f"{each.layer}: {each.message}" for each in failures)
            last = max(entry.ended_at for entry in of_table)
            self._end(table, "FAIL" if failures else "COMPLETE", last, message or None)

    def _make_client(self) -> "OpenLineageClient | None":
        try:
            from openlineage.client import OpenLineageClient
        except ModuleNotFoundError:
            self.problems.append(MISSING)
            return None
        try:
            return OpenLineageClient()
        except TABLE_FAILURES as failure:
            self.problems.append(f"OpenLineage's configuration cannot be used: {failure}")
            return None

    def _begin(self, table: str, at: datetime) -> None:
        self._begun[table] = str(uuid4())
        self._emit(table, "START", at, None)

    def _end(self, table: str, how: End, at: datetime, message: str | None) -> None:
        self._emit(table, how, at, message)
        del self._begun[table]

    def _emit(self, table: str, how: str, at: datetime, message: str | None) -> None:
        """Sends an event; if that fails the run continues, with one line in `problems`."""
        from openlineage.client import event_v2 as events
        from openlineage.client.facet_v2 import RunFacet, error_message_run

        facets: dict[str, RunFacet] = {}
        if message is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "Python")
        definition = self._tables[table]
        event = events.RunEvent(
            eventTime=at.isoformat(),
            eventType=events.RunState(how),
            producer=PRODUCER,
            run=events.Run(self._begun[table], facets),
            job=events.Job(f"lakehouse.{self._target.name}", table),
            inputs=[events.InputDataset(*each) for each in inputs_of(self._target, definition)],
            outputs=[events.OutputDataset(*each) for each in outputs_of(self._target, definition)],
        )
        try:
            if self._client is not None:
                self._client.emit(event)
        except TABLE_FAILURES as failure:
            problem = f"OpenLineage events cannot be sent: {type(failure).__name__}: {failure}"
            if problem not in self.problems:
                self.problems.append(problem)


def inputs_of(target: Target, table: Table) -> list[Dataset]:
    """Namespace and name of each feed of a table."""
    return [_feed_dataset(target, source) for source in table.feeds]


def outputs_of(target: Target, table: Table) -> list[Dataset]:
    """Namespace and name of the stored table, and of gold's view."""
    stored = f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table
    if target.catalog:
        schemas = target.schemas
        tables = (f"{schemas.silver}.{stored}", f"{schemas.gold}.{table.table}")
        return [("unitycatalog", f"{target.catalog}.{name}") for name in tables]
    silver = names.table_folder(target, "silver", stored)
    return [_path_dataset(str(silver)), _path_dataset(f"{target.lake}/gold/{table.table}")]


def _feed_dataset(target: Target, source: Source) -> Dataset:
    if source.kafka is not None:
        first = source.kafka.bootstrap_servers.partition(",")[0]
        return f"kafka://{first.strip()}", source.topic or source.kafka.topic
    return _path_dataset(f"{target.landing}/{source.path}")


def _path_dataset(path: str) -> Dataset:
    """A folder as OpenLineage names it: `file` and a path, or a bucket and a path in it."""
    parts = urlsplit(path)
    if parts.scheme and parts.netloc:
        return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")
    return "file", path
