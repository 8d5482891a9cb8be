"""The Spark session of a target: local, on a Spark Connect server, or on Databricks."""

import functools
import importlib
import importlib.util
import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TextIO
from urllib.parse import urlsplit

import pyarrow as pa
import pyspark
from py4j.java_gateway import JavaClass, JavaMember, JVMView
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.errors import ServerUnreachable, SparkUnavailable
from lakehouse.interrupts import cancel_beside
from lakehouse.places.settings import jars_of_stores
from lakehouse.remedies import install_extra
from lakehouse.spark.cluster import cluster_settings
from lakehouse.spark.failures import describe_failure
from lakehouse.spark.java import archive_options, system_java, use_java
from lakehouse.spark.local_settings import (
    JAVA_OPTIONS,
    SETTINGS_OF_SMALL_LAKES,
    Jar,
    Progress,
    jar_settings,
    local_settings,
    socket_settings,
)
from lakehouse.spark.scratch import make_temporary, scratch_folder, temporary_folder

# The port of a URL without one, and seconds until a server must have answered.
CONNECT_PORT, PATIENCE = 15002, 10.0

LOOK_SECONDS = 0.5
_RESOLVED, _WANTED = ":: resolution report ::", "\tfound "
_JARS = re.compile(r"^The jars for the packages stored in: (.+)$", re.MULTILINE)
_DOWNLOADING = re.compile(r"^downloading (\S+\.jar)", re.MULTILINE)

# PySpark prints an exception with its Java stack on stderr as well as raising it.
ECHOING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def get_spark(
    target: Target,
    packages: Sequence[str] = (),
    jars: Sequence[Jar] = (),
    open_ended: bool = False,
    more: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = str,
) -> SparkSession:
    """The session, created on the first call and the same one afterwards.

    `packages` are Maven coordinates that a local Spark needs besides Delta's; `jars` replace some
    of the modules that these depend on. `open_ended` work may grow beyond the lake's present size.
    `more` are settings of a local Spark. Its output goes to `root`/lake/_logs/spark.log, and this
    process's time zone becomes UTC. `progress` is called for jars that are downloaded.

    Raises:
        SparkUnavailable: something is missing; the message says what to do.
    """
    _prepare_process()
    if target.kind in ("databricks", "connect"):
        is_databricks = target.kind == "databricks"
        spark = _connect_databricks() if is_databricks else connect_to(str(target.remote))
        spark.conf.set("spark.sql.session.timeZone", "UTC")  # serverless accepts this setting
        return spark
    use_java()
    settings = local_settings(target, os.cpu_count() or 1, open_ended) | dict(more)
    return _start_local(target, packages, jars, settings, progress)


def interpreting_session(spark: SparkSession) -> SparkSession:
    """A second session that interprets queries, for short work; it has its own temporary views."""
    beside = spark.newSession()
    for key, value in SETTINGS_OF_SMALL_LAKES.items():
        beside.conf.set(key, value)
    return beside


def has_ended(spark: SparkSession) -> bool:
    """Whether the session cannot be used any more: its Java ended, or its server restarted."""
    return java_has_ended() or bool(getattr(spark, "is_stopped", False))


def java_has_ended() -> bool:
    """Whether the Java that this process started for Spark has ended."""
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    java = getattr(gateway, "proc", None)
    return java is not None and java.poll() is not None


def _start_local(
    target: Target,
    packages: Sequence[str],
    jars: Sequence[Jar],
    settings: dict[str, str],
    progress: Progress,
) -> SparkSession:
    if importlib.util.find_spec("delta") is None:
        raise SparkUnavailable("no delta-spark here", install_extra("local"))
    from delta import configure_spark_with_delta_pip

    remember_functions()
    folder = scratch_folder(target.lake)
    if target.kind == "cluster":
        settings = cluster_settings(target, settings, folder / "_jars")
    else:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))
    needed = [*packages, *jars_of_stores(target)]
    builder = SparkSession.Builder().master(target.master).appName("cdc-lakehouse")
    classes = [version("pyspark"), version("delta-spark"), *needed, *map(str, jars)]
    settings[JAVA_OPTIONS] += f" {archive_options(system_java(), classes)}"
    settings |= socket_settings(target) | jar_settings(jars, folder / "_jars", progress)
    for key in settings.keys() - secrets_among(settings):
        builder = builder.config(key, settings[key])
    log = folder / "_logs" / "spark.log"
    make_temporary(target.lake)
    secret = secrets_in_file(settings, temporary_folder(target.lake))
    try:
        with output_of_java_to(log), _report_downloads(log, progress), secret:
            _start_context(configure_spark_with_delta_pip(builder, needed))
            return builder.getOrCreate()
    except PySparkException as failure:
        raise SparkUnavailable(_last_lines(log) or str(failure), f"read {log}") from failure


def _start_context(builder: SparkSession.Builder) -> None:
    """Starts Java, and replaces Spark's own handler of Ctrl-C by that of the lakehouse."""
    from pyspark import SparkConf, SparkContext

    before, running = signal.getsignal(signal.SIGINT), _list_children()
    try:
        context = SparkContext.getOrCreate(SparkConf().setAll(list(builder._options.items())))
    except KeyboardInterrupt:
        for process in _list_children() - running:
            os.kill(process, signal.SIGKILL)  # a Java that is still starting does not see its end
        raise
    if signal.getsignal(signal.SIGINT) is not before:
        cancel_beside(context.cancelAllJobs)


def _list_children() -> set[int]:
    """The processes that this one has started, as Linux lists them; elsewhere none."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(process) for file in lists for process in file.read_text().split()}


@contextmanager
def _report_downloads(log: Path, progress: Progress) -> Iterator[None]:
    """During the block, reports the jar that is being downloaded by Java's log."""
    ended = threading.Event()

    def look() -> None:
        reported = None
        while not ended.wait(LOOK_SECONDS):
            with suppress(OSError):
                now = find_download(log.read_text(encoding="utf-8", errors="replace"))
                if now != reported:
                    reported = now
                    progress(now or "")

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def find_download(log: str) -> str | None:
    """The download in progress by Ivy's log, with its position; None if there is none.

    Ivy lists the needed jars, and downloads their descriptions on the first start. Then it logs
    each missing jar as its download begins.
    """
    folder, urls, wanted = _JARS.search(log), _DOWNLOADING.findall(log), log.count(_WANTED)
    if folder is None or _RESOLVED in log:
        return None
    if urls:
        return f"downloading {urls[-1].rpartition('/')[2]}, jar {len(urls)} of at most {wanted}"
    is_first = not any(Path(folder[1]).glob("*.jar"))
    return f"downloading what describes the jars, {wanted} so far" if is_first else None


def connect_to(remote: str) -> SparkSession:
    """A session on a server, after a check that it answers: Spark would retry for ten minutes.

    Raises:
        ServerUnreachable: it does not answer.
    """
    _prepare_process()
    place = urlsplit(remote)
    try:
        with socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), PATIENCE):
            return SparkSession.Builder().remote(remote).getOrCreate()
    except (OSError, PySparkException) as failure:
        raise ServerUnreachable(
            f"{remote}: {describe_failure(failure)}",
            "start the server, or correct the target's remote",
        ) from failure


def _connect_databricks() -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return SparkSession.Builder().getOrCreate()
    try:
        connect = importlib.import_module("databricks.connect")
    except ImportError as missing:
        raise SparkUnavailable(
            "a Databricks target, but neither a Databricks runtime nor databricks-connect",
            "run it as a job of the bundle, install databricks-connect, or take --target local",
        ) from missing
    try:
        session: SparkSession = connect.DatabricksSession.builder.getOrCreate()
    except Exception as failure:  # a plain Exception is what it raises where no compute is named
        raise SparkUnavailable(
            f"databricks-connect: {describe_failure(failure)}",
            "name a workspace and its compute: `databricks auth login --configure-serverless`, or "
            "DATABRICKS_CONFIG_PROFILE",
        ) from failure
    return session


def _prepare_process() -> None:
    """Stops PySpark from echoing exceptions, and sets this process's time zone to UTC.

    Times in rows collected into Python are in the process's time zone, without naming it.
    """
    for name in ECHOING_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    os.environ["TZ"] = "UTC"
    time.tzset()


@contextmanager
def secrets_in_file(settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Passes secret settings to Java in a file that only its user can read.

    On the command line every user of the machine would see them.
    """
    secret = secrets_among(settings)
    if not secret:
        yield
        return
    file = folder / "secrets.conf"
    file.touch(mode=0o600)
    file.write_text("".join(f"{key} {settings[key]}\n" for key in sorted(secret)))
    before = os.environ.get(_ARGUMENTS)
    given = ("--properties-file", shlex.quote(str(file)), before or "pyspark-shell")
    os.environ[_ARGUMENTS] = " ".join(given)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.environ.pop(_ARGUMENTS)
        if before is not None:
            os.environ[_ARGUMENTS] = before


def secrets_among(settings: Mapping[str, str]) -> set[str]:
    """The settings whose names say that they are secret."""
    return {key for key in settings if _SECRET.search(key)}


_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SECRET = re.compile(r"(?i)secret|password|token|(access|account)\.key")


@contextmanager
def output_of_java_to(log: Path) -> Iterator[None]:
    """Redirects output and errors of processes started in the block (the JVM) to a file.

    Python's own `sys.stdout` and `sys.stderr` are unchanged: users see progress and heartbeats, and
    Delta's messages are not mixed with a command's answers.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with log.open("ab") as file, ExitStack() as kept:
        out = kept.enter_context(_redirect(1, file.fileno(), sys.stdout, sys.__stdout__))
        err = kept.enter_context(_redirect(2, file.fileno(), sys.stderr, sys.__stderr__))
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def _redirect(number: int, to: int, now: TextIO, standard: TextIO | None) -> Iterator[TextIO]:
    """Redirects a file descriptor of this process; yields the stream for Python's own output.

    That is the previous destination, or an object that replaced Python's own stream.
    """
    if standard is None:
        yield now
        return
    standard.flush()
    terminal = os.dup(number)
    stream = os.fdopen(terminal, "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(to, number)
    try:
        yield stream if getattr(now, "rich_proxied_file", now) is standard else now
    finally:
        stream.flush()
        os.dup2(terminal, number)
        stream.close()


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n            ".join(lines[-5:])


LookUp = Callable[[object, str], object]
_LOOK_UP = "__getattr__"


def remember_functions() -> None:
    """Caches the classes and functions of Java that this process looks up by py4j."""
    for view, kept in ((JVMView, JavaClass), (JavaClass, JavaMember)):
        look_up: LookUp = getattr(view, _LOOK_UP)
        if not hasattr(look_up, "__wrapped__"):
            setattr(view, _LOOK_UP, _cache_results(look_up, kept))


def _cache_results(look_up: LookUp, kept: type[object]) -> LookUp:
    @functools.wraps(look_up)
    def look_up_once(view: object, name: str) -> object:
        value = look_up(view, name)
        if isinstance(value, kept):
            vars(view)[name] = value
        return value

    return look_up_once


def check_server_python(spark: SparkSession) -> None:
    """Checks that a Python function of this process runs on the server, before any work.

    Not in a Databricks job, whose functions run in the job's own environment.

    Raises:
        SparkUnavailable: the server has another minor version of Python, or lacks the wheel.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    try:
        spark.range(1).mapInArrow(same_batches, "id bigint").collect()
    except PySparkException as failure:
        message = str(failure)
        if "PYTHON_VERSION_MISMATCH" in message:
            here = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise SparkUnavailable(
                f"the server's Python differs from Python {here} here; records are decoded and "
                "folded by Python functions, which need the same minor version on both sides",
                "use the server's version of Python here, or run it as a job of the bundle; "
                "`status` and `sql` work with any version",
            ) from failure
        if "ModuleNotFoundError" in message:
            raise SparkUnavailable(
                "the server cannot import the lakehouse's Python functions",
                "install this version of the wheel where the server's Python finds it, or run it "
                "as a job of the bundle; `status` and `sql` work without",
            ) from failure
        raise


def same_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The record batches unchanged."""
    return batches
