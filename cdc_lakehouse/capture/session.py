"""One capture from its start to its end: snapshot, changes, new tables, lost connections."""

import threading
import time
from contextlib import suppress
from typing import Any

from sqlalchemy import URL

from cdc_lakehouse.capture.database import Database, DatabaseNotReady, Lack, OtherDatabase
from cdc_lakehouse.capture.engine import Engine, Java, find_jars, start_java
from cdc_lakehouse.capture.files import (
    CaptureRefused,
    LandingFiles,
    Position,
    State,
    is_in_snapshot,
    reads_rows,
)
from cdc_lakehouse.capture.mariadb import MariaDb
from cdc_lakehouse.capture.postgres import Postgres
from cdc_lakehouse.capture.settings import CapturePlaces, CaptureSettings, load_capture, to_bytes
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import say, warn
from gold.capture_status import CaptureStatus, write_capture
from gold.source_check.database import check_url
from lakehouse.config.loading import load_target
from lakehouse.config.target import Target
from lakehouse.durations import render_duration, to_seconds
from lakehouse.errors import LakehouseError, LakeNotWritable, SourceUnreachable
from lakehouse.remedies import find_remedy
from lakehouse.words import render_count

GLANCE_SECONDS, LOOK_SECONDS, TABLES_SECONDS, SAY_SECONDS = 0.5, 5.0, 30.0, 60.0
MOST_FAILURES, LONGEST_PAUSE = 5, 60.0
QUIET_BYTES = 1 << 20
"""The log that is no lag: what the server itself writes while nobody changes anything."""


class EngineFailed(CaptureRefused):
    """Debezium's engine has ended by itself: it is started again."""


def open_database(settings: CaptureSettings) -> Database:
    """The database of the settings, which is not asked yet.

    Raises:
        ConfigurationError: the URL has no driver here, or its password is missing.
    """
    backend = settings.url.get_backend_name()
    if backend not in ("postgresql", "mysql", "mariadb"):
        return OtherDatabase(settings, settings.url)
    url: URL = check_url(settings.source)
    if backend == "postgresql":
        return Postgres(settings, url)
    return MariaDb(settings, url)


def open_capture(chosen: Chosen) -> "Capture":
    """The capture of a configuration.

    Raises:
        ConfigurationError: there is no conf/capture.yml, or the URL cannot be used.
        ManyConfigurationErrors: all that is wrong in it.
    """
    target = load_target(chosen.conf, chosen.target, chosen.root, chosen.setting)
    settings, places = load_capture(chosen.conf, target, chosen.root)
    return Capture(settings, places, target)


class Capture:
    """The capture of one database into landing files."""

    def __init__(self, settings: CaptureSettings, places: CapturePlaces, target: Target) -> None:
        self.settings, self.target = settings, target
        self.state, self.landing = State(places.state), places.landing
        self.database = open_database(settings)
        self._caught_up, self._said, self._expected = time.time(), 0.0, 0
        self._left_out: list[Lack] = []
        self._told = (0, "")
        self._known: dict[str, Any] = {}
        self.engine: Engine | None = None
        self._wants_snapshot = False

    def check(self) -> None:
        """Asks the database for all that it lacks.

        Raises:
            DatabaseNotReady: it lacks something.
        """
        if lacks := self.database.find_lacks():
            raise DatabaseNotReady(lacks)

    def run(self, once: bool, snapshot: bool, stop: threading.Event) -> None:
        """Captures until `stop`, or `once`: what is there now.

        Raises:
            LakehouseError: it cannot go on; the message says what to do.
        """
        with self.state.held():
            self._choose_tables(self.state.read() or Position(next=0))
            jars = find_jars(self.settings, self.database, say)
            jpype = start_java(jars, self.settings, self.state.folder / "debezium.log")
            try:
                self._wants_snapshot = snapshot
                self._work_until(jpype, once, stop)
            except OSError as full:
                self._note("failed", message=str(full))
                raise self._refuse_disk(full) from full
            except LakehouseError as refused:
                self._note("failed", message=str(refused))
                raise
            self._note("stopped")

    def _work_until(self, jpype: Java, once: bool, stop: threading.Event) -> None:
        """Works until all is done, or `stop`; a lost connection is waited for.

        Raises:
            LakehouseError: it cannot go on.
            OSError: a file cannot be written.
        """
        failures = 0
        while not stop.is_set():
            try:
                if self._work(jpype, once, stop):
                    return
                failures = 0
            except (SourceUnreachable, EngineFailed) as failure:
                failures = 1 if self._has_written else failures + 1
                lost = isinstance(failure, SourceUnreachable)
                if failures > MOST_FAILURES and (once or not lost):
                    raise
                pause = min(2.0**failures, LONGEST_PAUSE)
                self._note("failed", message=str(failure))
                problem = getattr(failure, "found", str(failure).splitlines()[0])
                warn(f"{problem}; again in {pause:.0f} s")
                stop.wait(pause)

    @property
    def _has_written(self) -> bool:
        return bool(self.engine and self.engine.rows + self.engine.changes)

    def _refuse_disk(self, failure: OSError) -> LakehouseError:
        reason = failure.strerror or str(failure)
        action = find_remedy(reason) or "mend that and start again; nothing is lost"
        return LakeNotWritable(str(failure.filename or self.landing), reason, action)

    def _work(self, jpype: Java, once: bool, stop: threading.Event) -> bool:
        """One life of the engine; returns whether the capture is done, and not only this engine.

        Raises:
            EngineFailed: the engine has ended by itself.
            OSError: a file cannot be written.
        """
        position = self.state.read()
        files = LandingFiles(self.target, self.landing, position.next if position else None)
        self.engine = engine = Engine(jpype, self.state, files, self.database)
        for name in self.state.mend(engine.is_offsets):
            warn(f"the file {name} was torn: its copy has taken its place")
        tables, new = self._prepare(position or Position(next=files.next))
        self.files, self._caught_up, self._told = files, time.time(), (0, "")
        self._expected = self.database.estimate_rows(tables)
        of = render_count(len(tables), "table")
        say(f"capturing {of} of {self.settings.name} into {self.landing}")
        if new:
            self.database.ask_for_rows(new)
        noted = self.state.read() or Position(next=files.next)
        self.state.write(noted.model_copy(update={"tables": tables}))
        try:
            engine.start(tables)
            return self._watch(engine, once, stop)
        finally:
            engine.close()

    def _prepare(self, position: Position) -> tuple[list[str], list[str]]:
        """Makes database and state ready; returns the tables, and those whose rows are asked for.

        Raises:
            CaptureRefused: changes would be lost.
        """
        tables = self._choose_tables(position)
        if not self._wants_snapshot:
            self.database.check_state(position, self.state)
        if self._wants_snapshot or is_in_snapshot(self.state.offsets):
            fresh = position.model_copy(update={"lsn": 0, "tables": tables})
            self.state.write(fresh)
            self.state.forget()
            self._wants_snapshot = False
            self.database.begin()
            self.database.add_tables(tables)
            return tables, []
        added = self.database.add_tables(tables)
        return tables, sorted({*added, *tables}.difference(position.tables or ()) | {*added})

    def _watch(self, engine: Engine, once: bool, stop: threading.Event) -> bool:
        """Looks after the engine until it is to end; False if it is to begin again at once."""
        mark, looked, listed = "", 0.0, time.monotonic()
        while not stop.wait(GLANCE_SECONDS):
            if not engine.runs:
                raise self._describe_end(engine)
            now = time.monotonic()
            if once and not mark and self._streams():
                mark = self.database.send_mark()
            if mark in engine.marks and reads_rows(self.state.kept_offsets):
                mark = ""
            elif mark in engine.marks:
                self._tell(engine, "all that was there is captured")
                return True
            if now - looked >= LOOK_SECONDS:
                self._look(engine)
                looked = now
            if now - listed >= TABLES_SECONDS:
                if self._finds_tables():
                    return False
                listed = now
        self._tell(engine, "stopped")
        return True

    def _describe_end(self, engine: Engine) -> Exception:
        failure = engine.failure
        if isinstance(failure, OSError):
            return failure
        log = self.state.folder / "debezium.log"
        return EngineFailed(f"Debezium's engine ended: {failure}", f"read {log}")

    def _streams(self) -> bool:
        """Whether the snapshot is complete and the connector reads the log."""
        complete = not is_in_snapshot(self.state.kept_offsets)
        return complete and self.database.is_streaming()

    def _finds_tables(self) -> bool:
        """Whether tables have come that are to be captured, and lack nothing."""
        position = self.state.read() or Position(next=0)
        with suppress(DatabaseNotReady):
            if new := sorted(set(self._choose_tables(position)).difference(position.tables or ())):
                say(f"new: {', '.join(new)}")
                return True
        return False

    def _choose_tables(self, position: Position) -> list[str]:
        """The tables to capture; a new one that lacks something is named and left out.

        Raises:
            DatabaseNotReady: something else is lacking.
        """
        before, lacks = position.tables or (), self.database.find_lacks()
        new = [lack for lack in lacks if before and lack.table and lack.table not in before]
        if others := [lack for lack in lacks if lack not in new]:
            raise DatabaseNotReady(others)
        for lack in new:
            if lack not in self._left_out:
                warn(f"left out: {lack.problem}; do: {lack.do}")
        self._left_out = new
        left_out = {lack.table for lack in new}
        return [table for table in self.database.captured() if table not in left_out]

    def _look(self, engine: Engine) -> None:
        """Measures how far the capture is behind, notes it and tells it."""
        in_snapshot = is_in_snapshot(self.state.kept_offsets)
        lag, position, now = self.database.measure_lag(self.state), self.state.read(), time.time()
        committed = position.committed if position else None
        self._caught_up = max(self._caught_up, committed or 0.0)
        if lag is None or lag.bytes <= QUIET_BYTES:
            self._caught_up = now
        elif not in_snapshot:
            self.database.advance()
        self._note(
            "snapshot" if in_snapshot else "streaming",
            lag_bytes=lag and lag.bytes,
            kept_bytes=lag and lag.kept,
            lag_seconds=None if in_snapshot else round(now - self._caught_up, 1),
            newest_file=position.newest if position else None,
        )
        if in_snapshot:
            rows, of = f"{engine.rows:,}", f" of about {self._expected:,}"
            say(f"snapshot: {rows}{of if self._expected else ''} rows")
        elif now - self._said >= SAY_SECONDS:
            behind = render_duration(round(now - self._caught_up))
            much = f"{lag.bytes / (1 << 20):,.1f} MB and " if lag else ""
            self._tell(engine, f"streaming, {much}{behind} behind")

    def _tell(self, engine: Engine, what: str) -> None:
        """Tells what this engine has written, where that is more than when it was last told."""
        records, files = engine.rows + engine.changes, self.files.written
        if (records, what) != self._told:
            say(f"{what}: {render_count(records, 'record')} in {render_count(files, 'file')}")
        self._told, self._said = (records, what), time.time()

    def _note(self, state: str, message: str | None = None, **facts: float | None) -> None:
        """Writes what `status` shows of this capture, where the target's folder can be reached."""
        self._known |= facts
        status = CaptureStatus(
            name=self.settings.name,
            state=state,
            at=time.time(),
            max_lag=to_seconds(self.settings.max_lag),
            max_kept=to_bytes(self.settings.max_wal),
            message=message,
            **self._known,
        )
        with suppress(OSError):
            write_capture(self.target, status)
