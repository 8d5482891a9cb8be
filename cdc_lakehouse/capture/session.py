"""One capture from its start to its end: snapshot, changes, new tables, lost connections."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import msgspec

from cdc_lakehouse.capture.database import DatabaseNotReady, Found, open_database
from cdc_lakehouse.capture.engine import LOG, Engine, start_java
from cdc_lakehouse.capture.files import CaptureRefused, LandingFiles, State
from cdc_lakehouse.capture.settings import load_capture
from cdc_lakehouse.cli.options import Chosen, options_of
from cdc_lakehouse.drafts.topic_notes import describe_new
from cdc_lakehouse.terminal.console import say, warn
from gold.capture_status import CaptureStatus, write_capture
from lakehouse.config.loading import load_target
from lakehouse.durations import render_duration, to_seconds
from lakehouse.errors import (
    ConfigurationError,
    LakehouseError,
    LakeNotWritable,
    SourceUnreachable,
)
from lakehouse.remedies import find_remedy
from lakehouse.words import render_count

GLANCE_SECONDS, LOOK, LIST, SAY = 0.5, 10, 60, 120
"""Between two glances; how many of them between two measurements, lists of tables, and lines."""
MOST_FAILURES, LONGEST_PAUSE, PATIENCE = 5, 60.0, 30.0
QUIET_BYTES = 1 << 20
"""The log that is no lag: what the server itself writes while nobody changes anything."""
BESIDE = "LAKEHOUSE_BESIDE"
"""The variable with the process of the run beside which this one captures: both end together."""


class EngineFailed(CaptureRefused):
    """Debezium's engine has ended by itself: it is started again."""


def is_orphan() -> bool:
    """Whether this process captures beside a run that has ended."""
    return os.environ.get(BESIDE, str(os.getppid())) != str(os.getppid())


class Capture:
    """The capture of one database into landing files."""

    def __init__(self, chosen: Chosen) -> None:
        """Read the configuration.

        Raises:
            ConfigurationError: there is no conf/capture.yml, or its URL cannot be used.
            ManyConfigurationErrors: all that is wrong in it.
        """
        self.target = load_target(chosen.conf, chosen.target, chosen.root, chosen.setting)
        self.settings = settings = load_capture(chosen.conf, self.target, chosen.root)
        self.state, self.database = State(settings.state), open_database(settings)
        self._caught_up = 0.0
        self._left_out: list[Found] = []
        self._gone = set[str]()
        self._told, self._wants_snapshot, self._failures = (0, ""), False, 0
        lag, kept = to_seconds(settings.max_lag), int(settings.max_wal)
        self._status = CaptureStatus(settings.name, "stopped", 0.0, lag, kept)

    def check(self) -> None:
        """Asks the database for all that it lacks.

        Raises:
            DatabaseNotReady: it lacks something.
        """
        if lacks := self.database.find_lacks():
            raise DatabaseNotReady(lacks)

    def drop(self) -> list[str]:
        """Removes what capture made in the database, and its place in the log; returns the names.

        Raises:
            CaptureRefused: the capture is at work.
        """
        with self.state.held():
            gone = [*self.database.execute("places"), *self.database.execute("made")]
            self.state.forget(tables=None)
        return gone

    def run(self, once: bool, snapshot: bool, stop: threading.Event) -> None:
        """Captures until `stop`, or `once`: what is there now.

        Raises:
            LakehouseError: it cannot go on; the message says what to do.
        """
        self._wants_snapshot = snapshot
        with self.state.held():
            try:
                while not (stop.is_set() or is_orphan() or self._try_work(once, stop)):
                    pass
                if self._status.state != "complete":
                    self._note("stopped")
            except (OSError, LakehouseError) as failure:
                self._note("failed", message=str(failure))
                if isinstance(failure, LakehouseError):
                    raise
                reason = failure.strerror or str(failure)
                action = find_remedy(reason) or "mend that and start again; nothing is lost"
                where = str(failure.filename or self.settings.landing)
                raise LakeNotWritable(where, reason, action) from failure

    def _try_work(self, once: bool, stop: threading.Event) -> bool:
        """As `_work`; waits after a lost connection, or an engine that has ended.

        Raises:
            LakehouseError: it cannot go on.
            OSError: a file cannot be written.
        """
        before = self.state.position.offset
        try:
            return self._work(once, stop)
        except (SourceUnreachable, EngineFailed) as failure:
            position = self.state.position
            has_moved = position.offset != before and not position.is_in_snapshot
            self._failures = 1 if has_moved else self._failures + 1
            lost = isinstance(failure, SourceUnreachable)
            if self._failures > MOST_FAILURES and (once or not lost):
                raise
            pause = min(2.0**self._failures, LONGEST_PAUSE)
            self._note("failed", message=str(failure))
            problem = getattr(failure, "found", str(failure).splitlines()[0])
            warn(f"{problem}; again in {pause:.0f} s")
            stop.wait(pause)
            return False

    def _work(self, once: bool, stop: threading.Event) -> bool:
        """One life of the engine; returns whether the capture is done, and not only this engine.

        Raises:
            CaptureRefused: changes would be lost.
            EngineFailed: the engine has ended by itself.
            OSError: a file cannot be written.
        """
        tables = self._choose_tables()
        java = start_java(self.settings, self.database)
        new = self._prepare(tables)
        files = LandingFiles(self.target, self.settings.landing, self.state.position.next)
        engine = Engine(java, self.state, files, self.database)
        self._caught_up, self._told = time.time(), (0, "")
        of = render_count(len(tables), "table")
        say(f"capturing {of} of {self.settings.name} into {self.settings.landing}", whole=True)
        if new:
            self.database.ask_for_rows(new)
        self.state.note(next=files.next, tables=tables)
        try:
            engine.start(tables)
            return self._watch(engine, once, stop)
        finally:
            engine.close()

    def _prepare(self, tables: list[str]) -> list[str]:
        """Makes database and state ready; returns the tables whose rows are to be asked for.

        Raises:
            CaptureRefused: changes would be lost.
        """
        position = self.state.position
        if not self._wants_snapshot:
            self.database.check_position(position)
        if self.state.mend_history():
            warn("the history of the tables' columns was torn: its copy has taken its place")
        if is_first := self._wants_snapshot or position.is_in_snapshot:
            self.state.forget(tables=tables)
            self._wants_snapshot = False
            self.database.execute("places")
        added = self.database.publish(tables)
        return [] if is_first else sorted({*tables}.difference(position.tables or ()) | {*added})

    def _choose_tables(self) -> list[str]:
        """The tables to capture; names those that have gone, and new ones that lack something.

        Raises:
            DatabaseNotReady: something else is lacking.
        """
        before, lacks = self.state.position.tables or [], self.database.find_lacks()
        new = [lack for lack in lacks if before and lack.row.get("table", before[0]) not in before]
        if others := [lack for lack in lacks if lack not in new]:
            raise DatabaseNotReady(others)
        for lack in new:
            if lack not in self._left_out:
                warn(f"left out: {lack.problem}; do: {lack.do}")
        for table in sorted({*before}.difference(self.database.captured, self._gone)):
            warn(f"{table} is gone from the database, or is left out now; gold keeps its rows")
            self._gone.add(table)
        self._left_out, left_out = new, {lack.row["table"] for lack in new}
        return [table for table in self.database.captured if table not in left_out]

    def _watch(self, engine: Engine, once: bool, stop: threading.Event) -> bool:
        """Looks after the engine until it is to end; False if it is to begin again at once.

        Raises:
            EngineFailed: it has ended by itself.
            OSError: a file cannot be written.
        """
        mark, marked = "", 0.0
        for glance in count(1):
            if stop.wait(GLANCE_SECONDS) or is_orphan():
                break
            position = self.state.position
            if not engine.runs:
                if isinstance(engine.failure, OSError):
                    raise engine.failure
                problem = f"Debezium's engine ended: {engine.failure}"
                action = f"read {self.settings.state}/{LOG}; `except` leaves a table out"
                raise EngineFailed(problem, action)
            if once and not mark and not position.is_in_snapshot:
                mark, marked = self.database.send_mark(), time.time()
            if mark in engine.marks and not position.reads_rows:
                self._tell(engine, "all that was there is captured")
                log = self.database.measure_lag(position) or {}
                late, kept = round(time.time() - marked, 1), log.get("kept")
                facts = {"lag_bytes": log.get("behind"), "newest_file": position.newest}
                self._note("complete", None, lag_seconds=late, kept_bytes=kept, **facts)
                return True
            if glance % LOOK == 0:
                self._look(engine, glance % SAY == 0)
            if glance % LIST == 0 and self._finds_tables():
                return False
        self._tell(engine, "stopped")
        return True

    def _finds_tables(self) -> bool:
        """Whether tables have come that are to be captured, and lack nothing."""
        with suppress(DatabaseNotReady):
            before = self.state.position.tables or ()
            if new := sorted(set(self._choose_tables()).difference(before)):
                say(describe_new(new), whole=True)
                return True
        return False

    def _look(self, engine: Engine, says: bool) -> None:
        """Measures how far the capture is behind, notes it and, if it `says` so, tells it."""
        position, now = self.state.position, time.time()
        lag, in_snapshot = self.database.measure_lag(position), position.is_in_snapshot
        self._caught_up = max(self._caught_up, position.committed or 0.0)
        if lag is None or lag["behind"] <= QUIET_BYTES:
            self._caught_up = now
        elif not in_snapshot:  # what is acknowledged behind it lets the server forget its log
            self.database.send_mark()
        late = round(now - self._caught_up, 1)
        before, state = self._status.state, "snapshot" if in_snapshot else "streaming"
        self._note(
            state,
            lag_bytes=lag["behind"] if lag else None,
            kept_bytes=lag["kept"] if lag else None,
            lag_seconds=None if in_snapshot else late,
            newest_file=position.newest,
        )
        if in_snapshot:
            expected = sum(self.database.sizes.get(table, 0) for table in position.tables or ())
            say(f"snapshot: {engine.written:,}{f' of about {expected:,}' if expected else ''} rows")
        elif says or before != state:
            much = f"{lag['behind'] / (1 << 20):,.1f} MB and " if lag else ""
            self._tell(engine, f"streaming, {much}{render_duration(round(late))} behind")

    def _tell(self, engine: Engine, what: str) -> None:
        """Tells what this engine has written, where that is more than when it was last told."""
        records, files = engine.written, engine.files.written
        if (records, what) != self._told:
            say(f"{what}: {render_count(records, 'record')} in {render_count(files, 'file')}")
        self._told = records, what

    def _note(self, state: str, message: str | None = None, **facts: float | None) -> None:
        """Writes what `status` shows of this capture, where the target's folder can be reached."""
        wrong = self.state.position.model_dump(include={"unconverted", "column"})
        changed = {"state": state, "at": time.time(), "message": message, **wrong, **facts}
        self._status = msgspec.structs.replace(self._status, **changed)
        with suppress(OSError):
            write_capture(self.target, self._status)


@contextmanager
def capture_beside(chosen: Chosen, continuous: bool) -> Iterator[None]:
    """Within, `lakehouse capture` works on the same target; at the end it is stopped.

    It has a process of its own, so that neither can take memory or Java from the other. Its
    configuration and the database are checked before.

    Raises:
        LakehouseError: the database cannot be captured as it is, or --continuous is missing.
    """
    if not continuous:
        action = "add --continuous, or call `lakehouse capture --once` before"
        raise ConfigurationError("command line", "--capture", "one round", "--continuous", action)
    Capture(chosen).check()
    command = [sys.executable, "-m", "cdc_lakehouse", "capture", *options_of(chosen)]
    environment, ended = os.environ | {BESIDE: str(os.getpid())}, threading.Event()

    def keep_up() -> None:
        pause = 1.0
        while not ended.wait(0):
            child = subprocess.Popen(command, env=environment)
            while child.poll() is None and not ended.wait(GLANCE_SECONDS):
                pass
            if ended.is_set() or child.returncode == 0:
                child.terminate()
                try:
                    child.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    child.kill()
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            warn(f"capture has ended with {child.returncode}; it is started again in {pause:.0f} s")
            ended.wait(pause)

    working = threading.Thread(target=keep_up, daemon=True)
    working.start()
    try:
        yield
    finally:
        ended.set()
        working.join()
